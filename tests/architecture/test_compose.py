"""All that the compose file and the Dockerfile start, copy and require exists: the tests cannot build images."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from django.core.management import get_commands

from tests.architecture.source import ROOT, modules
from webapp.jobs.kinds.base import Queue

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
PROFILES = ("cpu", "gpu")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    result: dict[str, Any] = yaml.safe_load(COMPOSE)["services"]
    return result


def words(command: Any) -> list[str]:
    return command.split() if isinstance(command, str) else [str(word) for word in command]


def started(services: dict[str, Any]) -> list[list[str]]:
    """Return the commands of Confab's own services, their health checks and the image's."""
    ours = [s for s in services.values() if str(s.get("image", "")).startswith("confab")]
    results = [words(s["command"]) for s in ours if "command" in s]
    results += [words(s["healthcheck"]["test"])[1:] for s in ours if "test" in s.get("healthcheck", {})]
    results += [json.loads(line) for line in re.findall(r"CMD (\[.*?\])", DOCKERFILE.replace("\\\n", ""))]
    return [words(" ".join(command)) for command in results]


def test_every_command_exists_and_every_file_is_there(services: dict[str, Any]) -> None:
    commands = started(services)
    assert len(commands) > 8
    for program, *rest in commands:
        if program == "python":
            assert (ROOT / rest[0]).is_file(), rest
            if rest[0] == "manage.py":
                assert rest[1] in get_commands(), rest
        elif program == "celery":
            importlib.import_module(rest[rest.index("--app") + 1])
        else:
            assert program == "uvicorn", program
            module, _, name = rest[0].partition(":")
            assert f"{name} =" in (ROOT / module.replace(".", "/")).with_suffix(".py").read_text()


@pytest.mark.parametrize("profile", PROFILES)
def test_every_queue_has_a_worker_and_every_worker_a_queue(services: dict[str, Any], profile: str) -> None:
    served = set()
    for service in services.values():
        command = words(service.get("command", ""))
        if command[:1] == ["celery"] and service.get("profiles", [profile]) == [profile]:
            served |= set(command[command.index("--queues") + 1].split(","))
    assert served == set(get_args(Queue))


def test_a_service_waits_only_for_services_of_its_profile(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for other in service.get("depends_on", {}):
            assert set(services[other].get("profiles", PROFILES)) >= set(service.get("profiles", PROFILES)), (
                f"{name} waits for {other}"
            )


SET_BY_THE_IMAGE = {
    *("HOST", "PORT", "CONFAB_DATA_DIR", "CONFAB_STATIC_DIR", "CONFAB_DEVICE"),
    *("CONFAB_BOT_HOST_IN_PROCESS", "CONFAB_DEBUG", "CONFAB_BEAT_FILE"),
}
"""Variables that image and commands decide, or that production ignores."""


@pytest.mark.parametrize("service", ["web", "bot-host", "bot-host-gpu", "worker-default", "migrate"])
def test_every_setting_of_an_env_file_reaches_the_containers(services: dict[str, Any], service: str) -> None:
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    known = set(re.findall(r"^#?([A-Z_]+)=", example, re.MULTILINE))
    read_by_compose = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE))
    passed_on = set(services[service]["environment"])
    assert known - passed_on - read_by_compose - SET_BY_THE_IMAGE == set()


def test_bot_host_and_worker_name_their_gpus_and_everything_has_limits(services: dict[str, Any]) -> None:
    def device(name: str) -> Any:
        return services[name]["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]

    assert device("bot-host-gpu") != device("worker-gpu-cuda")
    for name, service in services.items():
        assert service["logging"]["options"]["max-size"], name
        assert service["mem_limit"], name
        assert re.search(r":(\d+\.\d+|\$\{CONFAB_VERSION:-latest\})$", service["image"]), name


@pytest.mark.parametrize("name", ["bot-host", "bot-host-gpu"])
def test_a_bot_host_is_judged_by_its_own_heartbeat(services: dict[str, Any], name: str, tmp_path: Path) -> None:
    service = services[name]
    program, script, option, file, limit_s = words(service["healthcheck"]["test"])[1:]
    assert (program, option, file) == ("python", "--beat", service["environment"]["CONFAB_BEAT_FILE"])
    beat = tmp_path / "beat"

    def check() -> int:
        command = [sys.executable, str(ROOT / script), option, str(beat), limit_s]
        return subprocess.run(command, capture_output=True).returncode

    assert check() == 1
    beat.touch()
    assert check() == 0
    os.utime(beat, (1, 1))
    assert check() == 1


def test_what_the_dockerfile_copies_and_reads_is_there() -> None:
    ignored = {line.strip() for line in (ROOT / ".dockerignore").read_text().splitlines() if line.strip()}
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, flags=re.MULTILINE)
        for name in line.split()[:-1]
        if not name.startswith("--")
    ]
    assert set(copied) >= {"requirements.txt", "requirements-demo.txt", "."}
    for name in copied:
        assert (ROOT / name).exists()
        assert name not in ignored
    pinned = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    assert len(re.findall(r"^torch==", pinned, flags=re.MULTILINE)) == 1
    assert {m.name.partition(".")[0] for m in modules()}.isdisjoint(ignored)
    assert {"confab.py", "manage.py", "docker", "README.md"}.isdisjoint(ignored)
    assert ".env" in ignored, "secrets must not get into the image"
    assert (ROOT / "chatbots" / "installation.py").is_file()  # beside it the commit is written


def test_keys_of_bots_reach_the_processes_that_ask_them_and_no_image(services: dict[str, Any]) -> None:
    with_keys = {
        name
        for name, service in services.items()
        if {"path": "keys.env", "required": False} in service.get("env_file", [])
    }
    ours = {name for name, service in services.items() if "confab" in service.get("image", "")}
    assert with_keys == ours - {"migrate"}
    assert "bot-host" in with_keys
    for ignored in (".dockerignore", ".gitignore"):
        lines = (ROOT / ignored).read_text(encoding="utf-8").splitlines()
        assert {"keys.env", "/keys.env"} & set(lines), ignored


def test_a_plugin_beside_manage_py_gets_into_the_image(services: dict[str, Any]) -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert not [line for line in ignored if line in ("*", "*.py", "**")]
    assert "COPY --chown=confab . ." in DOCKERFILE
    copied_to = re.findall(r"^WORKDIR (.+)$", DOCKERFILE, re.MULTILINE)[-1]
    assert copied_to == "/app", "the folder that every process starts in, and so on its path"
    assert "CONFAB_PLUGINS" in services["bot-host"]["environment"]
