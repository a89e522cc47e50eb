"""A study whose every result is made by a job, however small it is."""

from pathlib import Path
from typing import Any

import pytest

from tests.webapp.dashboard.analysis.conftest import data, study_make
from tests.webapp.dashboard.conftest import staff
from webapp.jobs.models import Job
from webapp.results import cache
from webapp.studies.models import Study

__all__ = ["data", "staff"]


@pytest.fixture
def study(db: Any, tmp_path: Path) -> Study:
    """Make the study of the analysis for one test, which may change it."""
    study = study_make(tmp_path)
    Job.objects.all().delete()  # the import requested its analysis
    return study


@pytest.fixture(autouse=True)
def _by_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no result be computed while a page waits."""
    monkeypatch.setattr(cache, "DIRECT_RATINGS", 0)
