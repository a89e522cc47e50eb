"""Stored results: the same as computed ones, of one state of the data, and gone with the people in them."""

import json
import threading
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from tests.evaluation.data.test_ratings import assert_same
from webapp.conversations.models import Turn
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, Shard, State
from webapp.jobs.services.jobs import job_cancel, job_claim, job_done
from webapp.ratings.models import Rating
from webapp.results import cache
from webapp.results.cache import AnalysisKey, compute_part, data_of, get_result
from webapp.results.compute import PARTS
from webapp.results.study_data import read_once, study_read
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import participants_erase

SECRET = "only the participant and the bot know this"


def done(study: Study, part: str = "comparisons") -> Job:
    """Ask for a part and do its job."""
    job = get_result(AnalysisKey(study, part)).job
    run_job(job)
    job.refresh_from_db()
    assert (job.state, job.error) == (State.DONE, "")
    return job


def change(study: Study) -> None:
    """Change the answers of a rating."""
    rating = Rating.objects.filter(conversation__study=study)[0]
    rating.answers = {**rating.answers, "quality": 8 - rating.answers["quality"]}
    rating.save()


def test_a_study_read_once_gives_all_results_until_its_data_change(study: Study) -> None:
    with read_once():
        first = study_read(study)
        assert first is not None
        for part in PARTS:
            assert study_read(study) is first
            assert_same(compute_part(part, first), compute_part(part, data_of(AnalysisKey(study, part))))  # type: ignore[arg-type]
        change(study)
        again = study_read(study)
        assert again is not first
    assert study_read(study) is not again, "kept no longer than it was asked for"


@pytest.mark.parametrize("part", PARTS)
def test_what_a_job_stores_is_what_is_computed(study: Study, part: str) -> None:
    done(study, part)
    question = AnalysisKey(Study.objects.get(), part)
    answer, data = get_result(question), data_of(question)
    assert answer.is_current
    assert answer.computed_result is not None
    assert data is not None
    assert_same(compute_part(part, data), answer.computed_result)


def test_a_small_study_waits_for_no_job(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "DIRECT_RATINGS", 64)
    answer = get_result(AnalysisKey(study, "models"))
    assert answer.is_current
    assert answer.computed_result is not None
    assert not Job.objects.exists()
    monkeypatch.setattr(cache, "DIRECT_BOTS", 3)
    assert get_result(AnalysisKey(study, "models")).job is not None


def test_another_rating_is_another_state_of_the_data(study: Study) -> None:
    first = done(study)
    change(study)
    answer = get_result(AnalysisKey(study, "comparisons"))
    assert answer.job.pk != first.pk
    assert (answer.made_at, answer.n_since) == (first.ended_at, 0)
    assert answer.computed_result is not None  # the older one, until the new one is there
    rating = Rating.objects.filter(conversation__study=study)[1]
    Rating.objects.create(
        conversation=rating.conversation,
        rubric=rating.rubric,
        external_id="again",
        answers={"quality": 3, "fluency": 3},
        submitted_at=timezone.now(),
    )
    answer = get_result(AnalysisKey(study, "comparisons"))
    assert answer.n_since == 1
    assert (
        Job.objects.filter(payload__part="comparisons").count() == 2
    )  # one is at work on the question, and a third would only be in its way


def test_parts_made_of_the_same_data_look_at_them_once(study: Study, django_assert_num_queries: Any) -> None:
    key = AnalysisKey(study, "comparisons", include_failed=True)
    digest = key.state.digest
    beside = key.with_part("dimensions")
    with django_assert_num_queries(0):
        assert beside.state.digest == digest
    assert digest == AnalysisKey(study, "dimensions", include_failed=True).state.digest
    other = key.with_part("correlations")
    assert (other.part, other.include_failed) == ("correlations", True)
    assert other.state == AnalysisKey(study, "correlations", include_failed=True).state
    assert other.state.digest != digest


@pytest.mark.parametrize(("part", "depends"), [("raters", False), ("correlations", True)])
def test_a_run_of_self_play_concerns_what_reads_it(study: Study, part: str, depends: bool) -> None:
    from webapp.jobs.models import SelfPlayRun

    done(study, part)
    SelfPlayRun.objects.create(plan={}, state=State.DONE, ended_at=timezone.now())
    assert get_result(AnalysisKey(study, part)).is_current != depends


def test_the_newest_two_of_a_question_are_kept(study: Study) -> None:
    other = done(study, "answers")
    jobs = []
    for _ in range(4):
        change(study)
        jobs.append(done(study))
    kept = set(Job.objects.filter(state=State.DONE).values_list("pk", flat=True))
    assert kept == {other.pk, jobs[-1].pk, jobs[-2].pk}


def test_nothing_that_was_said_stands_in_a_result(study: Study) -> None:
    Turn.objects.filter(conversation__study=study).update(text=SECRET)
    Rating.objects.filter(conversation__study=study).update(comment=SECRET)
    for part in PARTS:
        assert SECRET not in json.dumps(done(study, part).result)


def test_results_go_with_a_person_and_with_the_study(study: Study, django_capture_on_commit_callbacks: Any) -> None:
    for part in PARTS:
        done(study, part)
    one = Participant.objects.filter(study=study)[:1]
    with django_capture_on_commit_callbacks(execute=True):
        participants_erase(participants=Participant.objects.filter(pk__in=one.values("pk")))
    assert not Job.objects.exists()
    done(study)
    Shard.objects.create(
        kind="results", job_id=Job.objects.get(payload__part="comparisons").pk, number=7, result={"n": 1}
    )
    study.delete()
    assert not Job.objects.exists()
    assert not Shard.objects.exists()


def test_what_is_made_of_an_erased_person_is_not_stored(study: Study, django_capture_on_commit_callbacks: Any) -> None:
    job = get_result(AnalysisKey(study, "comparisons")).job
    assert job is not None
    holder = job_claim(job=job)
    assert holder is not None
    with django_capture_on_commit_callbacks(execute=True):
        participants_erase(participants=Participant.objects.filter(study=study)[:1])
    job_done(job=job, holder=holder, result={"made": "of the erased"})  # in its last moment
    assert not Job.objects.filter(state=State.DONE).exists()
    assert not Job.objects.filter(result__isnull=False).exists()


def test_what_failed_says_why_and_is_not_asked_again(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> None:
        raise ArithmeticError("no such number")

    monkeypatch.setitem(PARTS, "comparisons", cache.AnalysisPart(PARTS["comparisons"].type, breaks))
    job = get_result(AnalysisKey(study, "comparisons")).job
    run_job(job)
    answer = get_result(AnalysisKey(study, "comparisons"))
    assert (answer.job.pk, answer.job.state) == (job.pk, State.FAILED)
    assert "no such number" in answer.job.error


def test_a_result_of_another_shape_is_made_anew(study: Study) -> None:
    job = done(study)
    Job.objects.filter(pk=job.pk).update(result={"facts": {}, "result": {}})
    answer = get_result(AnalysisKey(study, "comparisons"))
    assert answer.computed_result is None
    assert answer.job.state == State.QUEUED


def test_a_stopped_job_is_shown_as_stopped(study: Study) -> None:
    job = get_result(AnalysisKey(study, "comparisons")).job
    job_cancel(job=job)
    answer = get_result(AnalysisKey(study, "comparisons"))
    assert (answer.job.pk, answer.job.state) == (job.pk, State.CANCELLED)


@pytest.mark.django_db(transaction=True)
def test_two_requests_at_one_moment_make_one_job(study: Study) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("a database in memory has one connection; PostgreSQL shows it")
    barrier, results = threading.Barrier(4), []

    def ask() -> None:
        try:
            question = AnalysisKey(Study.objects.get(pk=study.pk), "comparisons")
            barrier.wait(10)
            job = get_result(question).job
            results.append(job.pk)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(results) == 4
    assert len(set(results)) == Job.objects.count() == 1
