"""Production refuses to start without its secrets, and passes Django's deployment checks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

SECRETS = {"CONFAB_SECRET_KEY": "kJ2vXq8-" * 9 + "zw!", "CONFAB_HOSTS": "confab.example,www.confab.example"}


def manage(data_dir: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    base = {k: v for k, v in os.environ.items() if not k.startswith("CONFAB_")}
    return subprocess.run(
        [sys.executable, "manage.py", *args],
        cwd=ROOT,
        env={
            **base,
            "DJANGO_SETTINGS_MODULE": "webapp.settings.production",
            "CONFAB_DATA_DIR": str(data_dir),
            "DATABASE_URL": "postgres://confab:secret@127.0.0.1:1/confab",
            "REDIS_URL": "redis://127.0.0.1:1/0",
            **env,
        },
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_the_deployment_check_has_nothing_to_say(tmp_path: Path) -> None:
    done = manage(tmp_path, "check", "--deploy", "--fail-level", "DEBUG", **SECRETS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no issues" in done.stdout


@pytest.mark.parametrize("missing", sorted(SECRETS))
def test_production_refuses_to_start_without_a_secret(missing: str, tmp_path: Path) -> None:
    env = {name: value for name, value in SECRETS.items() if name != missing}
    done = manage(tmp_path, "check", **env)
    assert done.returncode != 0
    assert missing in done.stderr
