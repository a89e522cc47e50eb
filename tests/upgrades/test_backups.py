"""A backup that an earlier version made is restored by this one, and its study goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.upgrades.conftest import told_by

ARCHIVES = sorted((Path(__file__).parent / "backups").glob("*.zip"))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_a_backup_of_an_earlier_version_is_restored_and_goes_on(archive: Path, tmp_path: Path) -> None:
    env = {
        **{name: value for name, value in os.environ.items() if name != "CONFAB_SECRET_KEY"},
        # The archive is of SQLite, whatever the other tests use.
        "DATABASE_URL": "",
        "REDIS_URL": "",
        "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded",
        "CONFAB_DATA_DIR": str(tmp_path),
        "CONFAB_HOSTS": "testserver",
    }

    def command(*args: str) -> dict[str, object]:
        done = subprocess.run(
            [sys.executable, "manage.py", *args, "--json"], cwd=ROOT, env=env, text=True, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        result: dict[str, object] = json.loads(done.stdout)
        return result

    restored = command("restore", str(archive))
    assert restored["same_key"] is True
    assert restored["kept_before"] is None
    upgraded = command("upgrade")
    assert upgraded["problems"] == []
    assert upgraded["migrations"] == restored["migrations_missing"]

    before = json.loads(archive.with_suffix(".json").read_text())
    result = told_by("tests.upgrades.backup", "read", archive.with_suffix(".json"), env=env)
    for name, fact in result["facts"].items():
        assert fact == before[name], name
    assert len(before["pay"]) > 10
    assert {outcome for _, _, outcome, *_ in before["pay"]} >= {"rated", "bot_failed", "withdrawn"}
    assert result["opened"] == dict.fromkeys(before["links"], 200)

    goes_on = result["goes_on"]
    assert goes_on["texts"][-4:] == ["Are you there?", "I am.", "Good.", "So it is."]
    assert goes_on["draft"] == [["rated", goes_on["code"]]]
