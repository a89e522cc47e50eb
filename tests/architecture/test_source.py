"""House rules that a parser can see: no grab bags, no long files, the environment read in one place."""

import ast
import re

from tests.architecture.source import Module, modules

MAX_LINES = 480
GRAB_BAGS = {"utils", "util", "helpers", "misc", "common"}
# What a process may tell libraries that it loads later.
SETTABLE = {"DJANGO_SETTINGS_MODULE", "MKL_CBWR", "OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS"}
# Modules that may look at the environment outside `webapp/settings`, and what for.
READERS = {
    "chatbots.bots.endpoint": "API keys, named in bots.yaml, never stored",
    "webapp.core.backups": "handed to PostgreSQL's programs as it is",
}


def test_modules_are_named_after_what_they_do() -> None:
    assert [m.where for m in modules() if m.name.rpartition(".")[2] in GRAB_BAGS] == []


def test_modules_stay_short() -> None:
    lengths = {m.where: len(m.text.splitlines()) for m in modules()}
    too_long = {where: n for where, n in lengths.items() if n > MAX_LINES}
    assert too_long == {}, f"split these: more than {MAX_LINES} lines"


def test_modules_say_what_they_are_for() -> None:
    silent = [
        m.where for m in modules() if not m.text.startswith('"""') and m.tree.body and ast.get_docstring(m.tree) is None
    ]
    assert silent == []


def test_the_environment_is_read_in_the_settings_only() -> None:
    found = [
        f"{module.where}:{line}"
        for module in modules()
        if not module.name.startswith("webapp.settings") and module.name not in READERS
        for line in _environment_reads(module)
    ]
    assert found == [], "read it in webapp/settings and pass it on"


def _environment_reads(module: Module) -> list[int]:
    """Return the lines that touch the environment, except to set one of `SETTABLE`."""
    if not re.search("environ|getenv|putenv", module.text):
        return []
    lines = []
    allowed: set[ast.AST] = set()
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "os.environ.setdefault"
            and ast.literal_eval(node.args[0]) in SETTABLE
        ):
            assert isinstance(node.func, ast.Attribute)
            allowed.add(node.func.value)
        if (
            isinstance(node, ast.Attribute)
            and node.attr in {"environ", "environb", "getenv", "putenv"}
            and ast.unparse(node.value) == "os"
            and node not in allowed
        ):
            lines.append(node.lineno)
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            lines += [node.lineno for alias in node.names if alias.name in {"environ", "getenv"}]
    return lines
