"""What the second pass of `make test` leaves out, on PostgreSQL and Redis, knows neither."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT


def left_out() -> list[Path]:
    """Return the paths of `WITHOUT_DATABASE` in the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.search(r"^WITHOUT_DATABASE := \$\(addprefix --ignore=tests/,([^)]*)\)", text, re.M)
    assert found
    return [ROOT / "tests" / name for name in found[1].split()]


@pytest.mark.parametrize("path", left_out(), ids=lambda path: path.name)
def test_what_is_left_out_is_there_and_asks_no_database(path: Path) -> None:
    assert path.exists(), f"{path} is gone: its tests run twice, or nobody noticed that it moved"
    if path.name in ("architecture", "browser", "test_rights.py"):
        return  # commands of their own, pages whose views are tested on both, and what is asked before any row is read
    files = [path] if path.is_file() else [*path.rglob("*.py")]
    for file in files:
        assert "django_db" not in file.read_text(encoding="utf-8"), file
