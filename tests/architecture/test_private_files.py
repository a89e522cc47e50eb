"""The embedded database and key are their owner's alone, made new or found open."""

import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.source import ROOT

NAMES = ("confab.sqlite3", "confab.sqlite3-wal", "confab.sqlite3-shm", "secret_key")


def modes(folder: Path) -> dict[str, int]:
    return {name: (folder / name).stat().st_mode & 0o777 for name in NAMES}


def test_the_data_folder_s_secrets_are_their_owner_s_alone(tmp_path: Path) -> None:
    # A few tables do. A connection that is open keeps the files that SQLite puts beside the database.
    code = (
        "import os\nos.umask(0o000)\nimport django\ndjango.setup()\n"
        "from django.core.management import call_command\ncall_command('migrate', 'contenttypes', verbosity=0)\n"
        "from django.db import connection\nconnection.cursor().execute('SELECT 1')\n"
        "os._exit(0)\n"
    )
    env = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "REDIS_URL")}
    env |= {
        "CONFAB_DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded",
        "PYTHONPATH": str(ROOT),
    }
    for name in ("CONFAB_SECRET_KEY", "CONFAB_TEST_DIR"):
        env.pop(name, None)
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=600, cwd=ROOT)
    assert modes(tmp_path) == dict.fromkeys(NAMES, 0o600)
    for name in NAMES:
        (tmp_path / name).chmod(0o644)
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=600, cwd=ROOT)
    assert modes(tmp_path) == dict.fromkeys(NAMES, 0o600)
