"""Pages of jobs: every kind says its result in sentences, and none ends in JSON alone."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.builders import make_study
from webapp.core.project_scope import USUAL_PROJECT
from webapp.dashboard.views.jobs import result_table
from webapp.jobs.kinds.base import JobKind, kinds
from webapp.jobs.models import HybridFit, Job, MetricRun, SelfPlayRun, State
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db

_REHEARSED: dict[str, Any] = {
    "people": 12,
    "done": 10,
    "failed": ["the chat responded with bot_failed: no reply"] * 2,
    "steps": ["chat", "chat"],
    "median_s": 100.2,
    "slowest": {"bot": "eliza", "seconds": 4.2},
}
_SWEPT = {
    "name": "a-seed-1",
    "label": "a",
    "settings": {},
    "share": 1,
    "seed": 1,
    "best": {},
    "agreement": [],
    "error": "gone",
}
_JOBS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "alert": ({}, {"sent": 1, "not_sent": 2}, "1 alert was sent; 2 could not be sent."),
    "items": ({"study": "s"}, {"items": 3, "alike": 1}, "3 items were added.|Skipped: 1 equal to another item."),
    "training": (
        {"config": {"name": "hred"}},
        {"checkpoint": "/x", "epochs": 3, "best": {"loss": 2.5}},
        "3 epochs.*loss 2.5",
    ),
    "metric_training": (
        {"config": {"name": "a"}},
        {"checkpoint": "/x", "epochs": 1, "best": {"loss": None}},
        "after 1 epoch.",
    ),
    "metric_sweep": ({"cells": [_SWEPT]}, {"cells": [_SWEPT]}, "0 of 1 trainings are complete.|Failed: a-seed-1: gone"),
    "bot_sweep": ({"cells": [_SWEPT]}, {"cells": [{**_SWEPT, "error": ""}]}, "1 of 1 trainings are complete."),
    "explanation": ({}, [{"metric": "grade_lite"}], "1 metric explains its score of this reply."),
    "rehearsal": (
        {"people": 12},
        _REHEARSED,
        r"10 of 12 scripted participants finished.|about 1:40 minutes|reply took 4.2 s|2 got stuck in the chat.",
    ),
    "pay_compare": ({}, {"submissions": 6, "never_came": 1}, "6 submissions|1 further submission never reached"),
    "pay_send": ({}, {"sent": 2, "failed": 1}, "2 decisions were sent|1 could not be sent"),
    "pay_message": ({}, {"people": []}, "sent to 0 of 0 participants"),
    "judges": ({}, {"sentences": ["May replace a rater."]}, "May replace a rater."),
    "judge_version": ({}, {"sentence": "Agreement .61 on 40 items."}, "Agreement .61"),
    "judge_drift": ({}, [{"sentence": "The judge has not changed."}], "has not changed"),
    "criteria": (
        {},
        {"judge": "J", "ticks": {"a": [0]}, "problems": {"a refusal": 2}},
        "J checked the criteria of 1 item.|2 without an answer: a refusal.",
    ),
    "realism": ({}, {"verdict": {"sentence": "Told apart.", "change": ""}}, "Told apart."),
    "benchmark": ({"title": "FED"}, {"n_items": 9, "metrics": [{"metric": "bleu"}]}, "1 metric was compared.*9 items"),
    "results": ({"part": "answers"}, {"any": [1]}, "part “answers” of the results is computed"),
    "redaction": ({}, {"texts": 2}, "2 texts were searched."),
    "flags": ({}, {"n_tasks": 7}, "flags of 7 tasks"),
    "order": ({}, {"n_ratings": 8}, "The ranking uses 8 ratings."),
    "report": ({}, {"n_ratings": 1, "past": {}}, "The report covers 1 rating."),
    "export": ({"what": "ratings", "format": "csv"}, {"rows": 4, "bytes": 2048}, "4 rows and 2.0.KB"),
    "import": ({"study": "s"}, {"conversations": 2, "ratings": 1, "skipped": []}, "2 new conversations"),
}
"""For every kind with rows in `Job`: payload, result, and what its page says."""


@pytest.fixture
def study() -> Study:
    return make_study("s", bots=["eliza"], state="draft")


def _page_of(staff: Client, kind: str, pk: int) -> str:
    page = staff.get(reverse("dashboard:job", args=[kind, pk]))
    assert page.status_code == 200
    return page.content.decode()


def _says(html: str, patterns: str) -> None:
    """Check that the page has the sentences, and no JSON outside a fold."""
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html)).replace("&nbsp;", " ")
    for pattern in patterns.split("|"):
        assert re.search(pattern, text), f"{pattern!r} is not in the page"
    assert "<pre" not in re.sub(r"<details class=\"job-raw\">.*?</details>", "", html, flags=re.DOTALL)


def _own_kinds() -> Iterator[JobKind[Any, Any]]:
    return (kind for kind in kinds if type(kind).__module__.startswith("webapp."))


def test_every_kind_describes_its_result() -> None:
    silent = [kind.name for kind in _own_kinds() if type(kind).describe_result is JobKind.describe_result]
    assert not silent
    assert {kind.name for kind in _own_kinds() if kind.model is Job} == set(_JOBS) | {"bot_test"} & set(kinds.names())


@pytest.mark.parametrize("kind", _JOBS)
def test_a_finished_job_says_its_result(staff: Client, study: Study, kind: str) -> None:
    payload, result, patterns = _JOBS[kind]
    job = Job.objects.create(
        kind=kind, payload=payload, result=result, study=study, state=State.DONE, project_id=USUAL_PROJECT
    )
    _says(_page_of(staff, kind, job.pk), patterns)


def test_jobs_with_their_own_tables_say_their_result(staff: Client, study: Study) -> None:
    done = {"state": State.DONE, "n_done": 5, "n_total": 5, "project_id": USUAL_PROJECT}
    run = SelfPlayRun.objects.create(plan={"bots": ["eliza"], "n_conversations": 5}, **done)
    _says(_page_of(staff, "selfplay", run.pk), "5 conversations are complete.")
    metrics = MetricRun.objects.create(study=study, metrics=["question"], **done)
    _says(_page_of(staff, "metrics", metrics.pk), "The metrics question were computed for 5 conversations.")
    fit = HybridFit.objects.create(study=study, request={}, result={"n_conversations": 40, "n_bots": 5}, **done)
    _says(_page_of(staff, "hybrid", fit.pk), "The fit uses 40 conversations of 5 bots.")


def test_a_rehearsal_leads_on(staff: Client, study: Study) -> None:
    job = Job.objects.create(kind="rehearsal", payload={}, result=_REHEARSED, study=study, state=State.DONE)
    html = _page_of(staff, "rehearsal", job.pk)
    assert "Read the chats" in html
    assert f"{reverse('dashboard:study_conversations', args=['s'])}?synthetic=1" in html
    assert "See what is missing" in html  # nobody has been through this draft


def test_a_plugins_result_is_a_table() -> None:
    assert result_table({"n_rows": 1, "is_new": True, "parts": [1, {"a": None}]}) == [
        ("N rows", "1"),
        ("Is new", "yes"),
        ("Parts", "1, a: none"),
    ]
    assert result_table(4) == [("Result", "4")]
