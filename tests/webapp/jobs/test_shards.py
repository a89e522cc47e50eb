"""Shards give the same bytes whoever does them, in whatever order, and after any kill."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes import FakeStepBot
from tests.webapp.jobs.conftest import WORDS
from webapp.conversations.models import Turn
from webapp.jobs import engine
from webapp.jobs.engine import run_job, run_job_for
from webapp.jobs.kinds import metrics as metrics_kind
from webapp.jobs.kinds import selfplay
from webapp.jobs.models import JobBase, MetricResult, SelfPlayRun, Shard
from webapp.jobs.services.fits import metric_run_create
from webapp.jobs.services.jobs import job_restart, shard_claim, shard_release
from webapp.jobs.services.selfplay import run_create
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db


def by_one(job: JobBase) -> None:
    """Do the job in one go."""
    run_job(job)


def by_two(job: JobBase) -> None:
    """Do the job while another worker holds two shards of it, and then those, the last of them first."""
    assert run_job_for(job).has_more  # one shard
    held = [shard_claim(job=job), shard_claim(job=job)]
    while run_job_for(job).has_more:
        pass
    job.refresh_from_db()
    assert job.state == "running"
    for shard in reversed(held):
        assert shard
        shard_release(shard=shard)
        run_job_for(job)
    run_job(job)


def by_one_killed(job: JobBase) -> None:
    """Do the job in a process that dies in the middle of its second shard, and in another after it."""
    module, name = (
        (selfplay, "selfplay_store") if isinstance(job, SelfPlayRun) else (metrics_kind, "metric_results_store")
    )
    store, calls = getattr(module, name), []

    def dies(**given: Any) -> int:
        calls.append(1)
        if len(calls) == 4:
            raise SystemExit
        return store(**given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, dies)
        with pytest.raises(SystemExit):
            run_job(job)
    assert Shard.objects.filter(state="done").count() == 1
    run_job(job)


WAYS = [by_two, by_one_killed]


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SLICE_S", 0.0)
    monkeypatch.setattr(metrics_kind, "BATCH", 4)
    monkeypatch.setattr(metrics_kind, "SHARD", 8)
    monkeypatch.setattr(selfplay, "SHARD", 8)


def measured(study: Study, way: Callable[[JobBase], None]) -> str:
    """Return every number of every conversation, as JSON with all digits."""
    MetricResult.objects.all().delete()
    # Vectors of sentences, whose last digits tell with what a text was encoded.
    job = metric_run_create(study=study, metrics=["semantic_similarity"], enqueue=False)
    way(job)
    job.refresh_from_db()
    assert (job.state, job.n_done, job.n_total) == ("done", 40, 40)
    result = MetricResult.objects.order_by("conversation_id", "metric_id")
    return json.dumps([[str(one.conversation_id), one.values, one.turns] for one in result])


def test_metrics_are_the_same_bytes_by_one_by_two_and_after_a_kill(rated_study: Callable[..., Study]) -> None:
    study = rated_study(n_bots=2, n_each=20)
    # Texts of every length that come again in other shards: whatever a process kept of them would show.
    turns = list(Turn.objects.order_by("conversation_id", "index"))
    for i, turn in enumerate(turns):
        n = i * i % 97
        turn.text = " ".join((WORDS * 2)[n % 5 :][: 1 + n % 16])
    Turn.objects.bulk_update(turns, ["text"])
    expected = measured(study, by_one)
    for way in WAYS:
        assert measured(study, way) == expected, way.__name__


def played(bot: FakeStepBot, way: Callable[[JobBase], None]) -> tuple[list[Any], set[Any]]:
    """Return what was said, and which conversations were ever in one batch."""
    bot.batches.clear()
    run = run_create(bots=[bot.name], n_conversations=40, n_turns=3, seed=3, enqueue=False)
    way(run)
    run.refresh_from_db()
    assert (run.state, run.n_done, run.n_total) == ("done", 40, 40)
    said = Turn.objects.filter(conversation__selfplay__run=run).order_by("conversation__selfplay__ordinal", "index")
    batches = {tuple(batch) for batch in bot.batches}
    return list(said.values_list("conversation__selfplay__ordinal", "text")), batches


def test_self_play_has_the_same_batches_by_one_by_two_and_after_a_kill(fake_bot: Callable[..., FakeStepBot]) -> None:
    bot = fake_bot("seeded", reply=lambda context: f"{context.reply_seed % 9973}", capacity=4)
    expected = played(bot, by_one)
    assert len(expected[1]) == 10
    for way in WAYS:
        assert played(bot, way) == expected, way.__name__


def test_conversations_that_failed_are_played_again_in_their_batch(fake_bot: Callable[..., FakeStepBot]) -> None:
    bot = fake_bot("seeded", reply=lambda context: f"{context.reply_seed % 9973}", capacity=4)
    expected = played(bot, by_one)

    def first_fails(job: JobBase) -> None:
        bot.fails = lambda context: context.seed % 3 == 0
        run_job(job)
        type(job)._default_manager.filter(pk=job.pk).update(state="failed")
        bot.fails = lambda context: False
        job.refresh_from_db()
        run_job(job_restart(job=job))

    assert played(bot, first_fails)[0] == expected[0]
