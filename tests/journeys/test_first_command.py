"""The first command in a new data folder: it makes the database by itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def test_the_first_command_creates_the_embedded_database(tmp_path: Path) -> None:
    kept = (name for name in os.environ if not name.startswith("CONFAB_"))
    env = {name: os.environ[name] for name in kept}
    env |= {
        "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded",
        "CONFAB_DATA_DIR": str(tmp_path),
        "DATABASE_URL": "",
        "REDIS_URL": "",
    }
    command = [sys.executable, "manage.py", "list_bots", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "eliza" in {bot["id"] for bot in json.loads(done.stdout)}
    assert "Creating the database" in done.stderr
    assert (tmp_path / "confab.sqlite3").stat().st_size > 100_000
