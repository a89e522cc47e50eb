"""Short names, the list of commands, and the version, by `manage.py` as by `confab`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command, get_commands

from chatbots.installation import VERSION
from tests.builders import make_conversation, make_rating, make_study
from tests.conftest import ROOT
from webapp import command_line
from webapp.command_line import SHORT, commands_described

COMMAND = "import sys; from webapp.command_line import main; sys.argv[0] = 'confab'; main()"
"""What the script `confab` does that pip installs."""


def run(*args: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *args],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "is_exact"), [("metrics", True), ("serve", False), ("run", False)])
def test_what_measures_has_exact_batches_and_what_answers_people_has_fast_ones(
    name: str, is_exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MKL_CBWR")
    monkeypatch.setattr(command_line._Commands, "execute", lambda self: None)
    command_line.main(["confab", name])
    assert ("MKL_CBWR" in os.environ) == is_exact
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    command_line.main(["confab", name])
    assert os.environ["MKL_CBWR"] == "AVX2", "what somebody chose stays"


def test_every_short_name_is_a_command_and_no_other_command_s_name() -> None:
    known = set(get_commands())
    assert {command for command, *_args in SHORT.values()} <= known
    assert set(SHORT) & known == set()


def test_the_list_has_a_line_for_every_command_of_confab_s_own() -> None:
    described = commands_described()
    promised = "run study selfplay metrics fit export import report backup restore upgrade move erase"
    assert set(promised.split()) <= set(described)
    own = {name for name, app in get_commands().items() if app.startswith("webapp.")}
    full = {SHORT[name][0] if name in SHORT else name for name in described}
    assert own - full == {"docs"}
    assert all(line.endswith(".") and "\n" not in line for line in described.values())


def test_help_and_version_need_no_data_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "not-there"
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded", "CONFAB_DATA_DIR": str(missing)}
    result = run("--help", env=env)
    assert result.returncode == 0
    assert "usage: confab COMMAND" in result.stdout
    assert "leave-bot-out hybrid metric" in result.stdout
    for asked in ("help", "-h"):
        command_line._Commands(["confab", asked]).execute()
        assert capsys.readouterr().out == result.stdout
    assert run("--version", env=env).stdout.startswith(f"Confab {VERSION}")
    assert not missing.exists()


@pytest.mark.django_db
def test_a_short_name_does_what_the_long_one_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("django.setup", lambda: None)  # a second time would close pytest's streams
    said = []
    for name in ("bots", "list_bots"):
        command_line._Commands(["confab", name, "--json"]).execute()
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]
    for name, code, text in (("fit", 2, "usage: confab fit"), ("fitt", 1, "Unknown command: 'fitt'")):
        with pytest.raises(SystemExit) as ended:
            command_line._Commands(["confab", name]).execute()
        assert ended.value.code == code
        assert text in capsys.readouterr().err


@pytest.mark.django_db
def test_studies_are_listed_with_what_they_have(capsys: pytest.CaptureFixture[str]) -> None:
    make_rating(make_conversation(make_study("shop"), n_exchanges=3))
    call_command("list_studies", "--json")
    (result,) = json.loads(capsys.readouterr().out)
    assert (result["key"], result["state"], result["conversations"]) == ("shop", "collecting", 1)
    call_command("list_studies")
    assert "shop  collecting" in capsys.readouterr().out
