"""What an upgrade starts from: the releases that were kept, and a process with an empty database to itself."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.databases import own_database

RELEASES = sorted(path.parent for path in Path(__file__).parent.glob("*/facts.json"))


@pytest.fixture
def empty_database(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Make an empty database and give the environment of a process that has it to itself."""
    env = {**os.environ, "CONFAB_TEST_DIR": str(tmp_path)}
    for _ in own_database(env):
        yield env


def told_by(module: str, *args: Path | str, env: dict[str, str]) -> dict[str, Any]:
    """Run a module in a process of its own and return the JSON that it prints."""
    command = [sys.executable, "-m", module, *map(str, args)]
    done = subprocess.run(command, cwd=ROOT, env=env, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document
