"""`.env.example`, the settings and the compose file name the same variables, with the same defaults."""

import re
from typing import Any

import pytest
import yaml

from tests.architecture.settings_reads import COMPUTED, REQUIRED, example_compose_only, example_entries, settings_reads
from tests.architecture.source import ROOT

# What compose hands to programs that are not Confab's own.
FOREIGN = {"POSTGRES_USER", "POSTGRES_DB"}


@pytest.fixture
def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))


def compose_variables() -> set[str]:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    return set(re.findall(r"(?<!\$)\$\{([A-Z][A-Z0-9_]*)", text))


def test_every_variable_read_is_documented() -> None:
    assert {read.name for read in settings_reads()} - set(example_entries()) == set()


def test_every_documented_variable_is_read() -> None:
    read = {read.name for read in settings_reads()}
    assert set(example_entries()) - read - example_compose_only() == set()
    assert example_compose_only() - compose_variables() == set()


def test_documented_defaults_are_the_real_ones() -> None:
    shown = example_entries()
    differing = {
        read.name: (shown[read.name], read.default)
        for read in settings_reads()
        if read.default not in (REQUIRED, COMPUTED, [], {}) and shown[read.name] != str(read.default)
    }
    assert differing == {}
    for read in settings_reads():
        if read.default in (REQUIRED, [], {}):
            assert shown[read.name] == "", f"{read.name} has no default"


def test_compose_hands_over_only_what_somebody_reads(compose: dict[str, Any]) -> None:
    known = set(example_entries()) | FOREIGN
    handed = {name for service in compose["services"].values() for name in service.get("environment", {})}
    assert handed - known == set()
    assert compose_variables() - known == set()


def test_compose_hands_over_what_production_needs(compose: dict[str, Any]) -> None:
    required = {read.name for read in settings_reads() if read.default is REQUIRED}
    for name, service in compose["services"].items():
        if service.get("image", "").startswith("confab"):
            assert required <= set(service["environment"]), name


def test_compose_holds_no_secret(compose: dict[str, Any]) -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    for name in ("CONFAB_SECRET_KEY", "CONFAB_HOSTS", "POSTGRES_PASSWORD", "COMPOSE_PROFILES"):
        uses = re.findall(r"\$\{" + name + r"([^}]*)\}", text)
        assert uses, name
        assert all(use.startswith(":?") for use in uses), f"{name} must have no default"


def test_compose_migrates_once_before_anything_serves(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["migrate"]["restart"] == "no"
    for name, service in services.items():
        if service.get("image", "").startswith("confab") and name != "migrate":
            waits = service["depends_on"]["migrate"]["condition"]
            assert waits == "service_completed_successfully", name
            assert name == "web" or "healthcheck" in service, name


def test_compose_reserves_the_gpu_for_bots_and_their_queue_only(compose: dict[str, Any]) -> None:
    reserving = {name: service for name, service in compose["services"].items() if "deploy" in service}
    assert set(reserving) == {"bot-host-gpu", "worker-gpu-cuda"}
    for service in reserving.values():
        assert service["profiles"] == ["gpu"]
        assert service["environment"]["CONFAB_DEVICE"] == "cuda"


def test_compose_serves_every_queue_once_in_either_profile(compose: dict[str, Any]) -> None:
    for profile in ("cpu", "gpu"):
        queues = [
            service["command"][service["command"].index("--queues") + 1]
            for service in compose["services"].values()
            if profile in service.get("profiles", [profile]) and "worker" in service.get("command", [])
        ]
        assert sorted(queues) == ["analysis", "default", "gpu"]
