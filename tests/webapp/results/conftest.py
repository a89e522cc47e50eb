"""A study whose every result is made by a job, however small it is."""

from __future__ import annotations

import pytest

from tests.webapp.dashboard.analysis.conftest import data, study
from tests.webapp.dashboard.conftest import staff
from webapp.results import stored

__all__ = ["data", "staff", "study"]


@pytest.fixture(autouse=True)
def _by_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no result be computed while a page waits."""
    monkeypatch.setattr(stored, "DIRECT_RATINGS", 0)
