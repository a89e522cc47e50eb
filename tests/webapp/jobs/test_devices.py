"""Jobs compute on the device of the settings, and are sent where it is."""

from collections.abc import Callable
from typing import Any

import pytest

from webapp.jobs.engine import run_job
from webapp.jobs.services.fits import metric_run_create
from webapp.studies.models import Study

ELSEWHERE = "cuda:1"


@pytest.fixture(autouse=True)
def _elsewhere(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.CONFAB_DEVICE = ELSEWHERE


@pytest.mark.django_db
def test_metrics_encode_there(rated_study: Callable[..., Study], encoder_devices: list[str]) -> None:
    study = rated_study(n_bots=3, n_each=4)
    run_job(metric_run_create(study=study, metrics=["sentiment"], enqueue=False))
    assert encoder_devices == [ELSEWHERE]
