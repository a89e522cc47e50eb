"""Jobs compute on the device of the settings, and are sent where it is."""

from collections.abc import Callable
from typing import Any

import pytest

from webapp.jobs import queue
from webapp.jobs.engine import run_job
from webapp.jobs.services.fits import fit_create, metric_run_create
from webapp.studies.models import Study

ELSEWHERE = "cuda:1"


@pytest.fixture(autouse=True)
def _elsewhere(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.CONFAB_DEVICE = ELSEWHERE


@pytest.mark.django_db
def test_metrics_and_strong_encode_there(rated_study: Callable[..., Study], encoder_devices: list[str]) -> None:
    study = rated_study(n_bots=3, n_each=4)
    run = metric_run_create(study=study, metrics=["sentiment"], enqueue=False)
    run_job(run)
    names = ["words", "length"]
    run_job(metric_run_create(study=study, metrics=names, enqueue=False))
    fit = fit_create(study=study, preset="strong@2", enqueue=False)
    run_job(fit)
    fit.refresh_from_db()
    assert (fit.state, fit.error) == ("done", "")
    assert encoder_devices == [ELSEWHERE]


@pytest.mark.django_db
def test_a_fit_that_encodes_texts_is_sent_to_the_workers_of_the_device(
    rated_study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(queue.app, "send_task", lambda name, args, **how: sent.append(how["queue"]))
    study = rated_study(n_bots=3, n_each=2)
    embedding = {"features": ["n_turns", "embedding_user_000"]}
    for asked in (
        {"preset": "paper"},
        {"preset": "strong@2"},
        {"kept": {"features": ["n_turns"]}},
        {"kept": embedding},
        {"kept": {"features": None}},
    ):
        queue.send(fit_create(study=study, enqueue=False, **asked))
    assert sent == ["default", "gpu", "default", "gpu", "default"]
