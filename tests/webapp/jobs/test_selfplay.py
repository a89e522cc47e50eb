"""Self-play runs: a frozen plan, slices that may die, be repeated or stopped, and the same result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chatbots.registry import UnknownName
from tests.builders import make_study
from tests.fakes import FakeStepBot, says
from tests.hostile import HOSTILE_ERRORS, HOSTILE_REPLIES
from webapp.conversations.models import Conversation, ReplyMark, Turn
from webapp.core.errors import Refused
from webapp.jobs.engine import run_job, run_job_for
from webapp.jobs.kinds import selfplay
from webapp.jobs.models import MetricRun, SelfPlayConversation, SelfPlayRun
from webapp.jobs.selectors.metrics import measurable
from webapp.jobs.selectors.selfplay import (
    BotPair,
    selfplay_failed_counts,
    selfplay_failures,
    selfplay_summary,
    selfplay_there,
)
from webapp.jobs.services.jobs import job_cancel, job_restart
from webapp.jobs.services.selfplay import conversation_seed, run_create, selfplay_store
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
MakeBot = Callable[..., FakeStepBot]


def create(*bots: str, n: int = 5, turns: int = 4, **more: Any) -> SelfPlayRun:
    return run_create(bots=bots, n_conversations=n, n_turns=turns, seed=7, enqueue=False, **more)


def test_a_run_plays_its_plan() -> None:
    run = create("eliza", "parrot", openers=["Hello there", "What a day"])
    assert not run_job_for(run).more
    run.refresh_from_db()
    assert (run.state, run.n_done, run.n_total) == ("done", 10, 10)
    summary = selfplay_summary(run)
    assert {bot: (s.conversations, s.turns) for bot, s in summary.items()} == {"eliza": (5, 20), "parrot": (5, 20)}
    conversation = Conversation.objects.filter(selfplay__run=run).first()
    assert conversation is not None
    assert conversation.source == "selfplay"
    assert conversation.study is None
    assert {speaker for _, speaker in conversation.turns.values_list("index", "speaker")} == {"human", "bot"}


def test_a_slice_that_dies_is_gone_on_with(fake_bot: MakeBot, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = fake_bot("mortal", capacity=2)
    run = create("mortal", n=6)
    store, calls = selfplay.selfplay_store, []

    def dies(**given: Any) -> int:
        calls.append(given["ordinals"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return store(**given)

    monkeypatch.setattr(selfplay, "selfplay_store", dies)
    with pytest.raises(KeyboardInterrupt):
        run_job(run)
    run.refresh_from_db()
    assert (run.state, run.holder) == ("running", "")
    assert selfplay_there(run) == {BotPair("mortal"): {0, 1, 2, 3}}
    assert not run_job_for(run).more
    run.refresh_from_db()
    assert run.state == "done"
    assert calls == [[0, 1], [2, 3], [4, 5], [4, 5]]
    assert SelfPlayConversation.objects.filter(run=run).count() == 6
    assert bot.loads == 1


def test_replies_are_marked_by_the_filters_of_the_study_as_it_was(fake_bot: MakeBot) -> None:
    """Of a run for no study by those that a new study has: they know names of models and no phrases."""
    bot = fake_bot("talker", reply=lambda _context: "I am a language model, you know.")
    study = make_study(bots=["eliza"], reply_filters={"phrases": "withhold"}, filter_phrases=["you know"])
    of_study, usual = create(bot.name, n=1, study=study), create(bot.name, n=1)
    study_edit(study=study, filter_phrases=["something else"])
    for run in (of_study, usual):
        run_job_for(run)
    marks = ReplyMark.objects.filter(turn__conversation__selfplay__run=of_study)
    assert set(marks.values_list("filter", "is_withheld")) == {("phrases", False)}
    assert of_study.plan["study"] == study.key
    others = ReplyMark.objects.filter(turn__conversation__selfplay__run=usual)
    assert "phrases" not in set(others.values_list("filter", flat=True))


def test_storing_twice_stores_once(fake_bot: MakeBot) -> None:
    from chatbots.registry import bot_load
    from evaluation.selfplay import play
    from webapp.bots.services import bot_version_record

    fake_bot("twice")
    run = create("twice", n=2)
    bot = bot_load("twice")
    played = play(bot, seeds=[conversation_seed(run, BotPair("twice"), n) for n in range(2)], n_turns=2)
    given: dict[str, Any] = {"run": run, "version": bot_version_record(bot=bot), "ordinals": [0, 1]}
    assert selfplay_store(**given, played=played) == 2
    assert selfplay_store(**given, played=played) == 0
    assert Conversation.objects.count() == 2
    assert Turn.objects.count() == 4


def test_a_reply_that_fails_ends_its_conversation_alone(fake_bot: MakeBot) -> None:
    fake_bot("moody", fails=says("bad"))
    run = create("moody", n=12, openers=["bad", "fine"])
    run_job(run)
    run.refresh_from_db()
    summary = selfplay_summary(run)["moody"]
    assert run.state == "done"
    assert summary.failed > 0
    assert summary.conversations > 0
    assert summary.failed + summary.conversations == 12
    assert summary.error
    assert Conversation.objects.filter(state="failed").count() == summary.failed


def test_a_bot_that_always_fails_fails_the_run_and_can_be_tried_again(fake_bot: MakeBot) -> None:
    bot = fake_bot("broken", fails=lambda context: True)
    run = create("broken", n=3)
    assert not run_job_for(run).more
    run.refresh_from_db()
    assert run.state == "failed"
    assert "every conversation of broken failed: " in run.error
    bot.fails = lambda context: False
    job_cancel(job=run)  # somebody leaves it alone first, which does not change what going on means
    assert (run.state, run.error[:18]) == ("cancelled", "every conversation")
    job_restart(job=run)
    assert (run.state, run.error) == ("queued", "")
    assert selfplay_there(run) == {}
    run_job(run)
    run.refresh_from_db()
    assert (run.state, run.n_done) == ("done", 3)
    with pytest.raises(Refused, match="is done"):
        job_restart(job=run)


def test_a_run_is_stopped_between_batches(fake_bot: MakeBot, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_bot("slow", capacity=2)
    run = create("slow", n=6)
    store = selfplay.selfplay_store

    def then_cancel(**given: Any) -> int:
        found = store(**given)
        job_cancel(job=SelfPlayRun.objects.get(pk=run.pk))
        return found

    monkeypatch.setattr(selfplay, "selfplay_store", then_cancel)
    assert not run_job_for(run).more
    run.refresh_from_db()
    assert run.state == "cancelled"
    assert SelfPlayConversation.objects.filter(run=run).count() == 2
    assert not run_job_for(run).more  # a task that arrives late does nothing
    assert SelfPlayConversation.objects.filter(run=run).count() == 2


def test_a_waiting_run_is_stopped_at_once() -> None:
    run = create("eliza")
    assert job_cancel(job=run).state == "cancelled"
    assert not run_job_for(run).more
    assert not Conversation.objects.exists()


def test_a_bot_that_changed_is_not_the_bot_of_the_plan(fake_bot: MakeBot) -> None:
    bot = fake_bot("changing")
    run = create("changing", n=1)
    bot.version = "2"
    run_job(run)
    run.refresh_from_db()
    assert run.state == "failed"
    assert "changing has changed since the run was planned" in run.error


def test_a_plan_that_cannot_be_is_refused(fake_bot: MakeBot) -> None:
    fake_bot("away", unavailable="its weights are not here")
    with pytest.raises(Refused, match="away is not available: its weights are not here"):
        create("away")
    with pytest.raises(UnknownName, match="did you mean eliza"):
        create("elisa")
    with pytest.raises(Refused, match="the number of turns is 0"):
        create("eliza", turns=0)
    with pytest.raises(Refused, match="no bot is named"):
        create()
    with pytest.raises(UnknownName):
        create("eliza", metrics=["no_such_metric"])
    assert not SelfPlayRun.objects.exists()


def test_metrics_follow_when_the_run_is_done(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr("webapp.jobs.queue.send", lambda job: sent.append(job))
    with django_capture_on_commit_callbacks(execute=True):
        run = run_create(bots=["eliza"], n_conversations=2, n_turns=4, metrics=["words"])
    assert sent == [run]
    with django_capture_on_commit_callbacks(execute=True):
        run_job(run)
    metric_run = MetricRun.objects.get(run=run)
    assert sent[1:] == [metric_run]
    assert (metric_run.metrics, metric_run.n_total) == (["words"], 2)


def test_one_bot_that_always_fails_does_not_fail_the_run(fake_bot: MakeBot) -> None:
    bad = fake_bot("bad", fails=lambda context: True, capacity=4)
    run = create("eliza", "bad", n=30)
    assert not run_job_for(run).more
    run.refresh_from_db()
    assert (run.state, run.error, run.n_done) == ("done", "", 60)
    summary = selfplay_summary(run)
    assert (summary["eliza"].conversations, summary["eliza"].failed) == (30, 0)
    assert (summary["bad"].conversations, summary["bad"].failed) == (0, 30)
    # A bot that never answers, and may cost money, is not asked for every conversation.
    assert len(bad.batches) == 3
    failures = selfplay_failures(run)
    assert [(found.pair, found.n) for found in failures] == [(BotPair("bad"), 18), (BotPair("bad"), 12)]
    assert failures[0].error.startswith("not tried: all 12 before it failed, the last one so: ")
    assert "scripted failure" in failures[1].error
    assert selfplay_failed_counts([run]) == {run.pk: 30}
    assert measurable(study=None, run=run).count() == 30


def test_going_on_with_a_stopped_run_leaves_its_failed_conversations(fake_bot: MakeBot) -> None:
    bot = fake_bot("moody", fails=says("bad"), capacity=12)
    run = create("moody", n=12, openers=["bad", "fine"])
    run_job(run)
    n_asked = len(bot.batches)
    SelfPlayRun.objects.filter(pk=run.pk).update(state="cancelled")
    for _ in range(3):
        run.refresh_from_db()
        job_restart(job=run)
        run_job(run)
        SelfPlayRun.objects.filter(pk=run.pk).update(state="cancelled")
    assert len(bot.batches) == n_asked


@pytest.mark.parametrize("trouble", [*HOSTILE_REPLIES, *HOSTILE_ERRORS])
def test_whatever_a_bot_says_or_raises_the_run_ends(fake_bot: MakeBot, trouble: str) -> None:
    def reply(context: Any) -> str:
        if trouble in HOSTILE_ERRORS:
            raise HOSTILE_ERRORS[trouble]
        return HOSTILE_REPLIES[trouble]

    fake_bot("hostile", reply=reply)
    run = create("eliza", "hostile", n=2, turns=3, metrics=["words"])
    assert not run_job_for(run).more
    run.refresh_from_db()
    assert run.state == "done"
    found = selfplay_summary(run)["hostile"]
    assert (found.conversations, found.failed) == ((2, 0) if found.turns else (0, 2))
    assert bool(found.error) == (found.failed > 0)
    assert trouble in ("nul", "surrogate", "huge") or found.failed
    metric_run = MetricRun.objects.get(run=run)
    assert not run_job_for(metric_run).more
    assert metric_run.n_total == 2 + found.conversations


def test_a_bot_that_hangs_does_not_hold_up_the_worker(fake_bot: MakeBot, settings: Any) -> None:
    settings.CONFAB_REPLY_TIMEOUT_S = 0.1
    bot = fake_bot("stuck", hangs=says("stuck"), capacity=1)
    run = create("stuck", n=3, openers=["stuck", "fine"], turns=2)
    try:
        assert not run_job_for(run).more
    finally:
        bot.release()
    run.refresh_from_db()
    found = selfplay_summary(run)["stuck"]
    assert run.state == "done"
    assert found.failed > 0
    assert found.conversations > 0
    assert found.error == "took longer than 0.1 s"


def test_an_error_of_any_text_ends_a_job(fake_bot: MakeBot) -> None:
    fake_bot("unloadable", load_error="half \ud83d of a pair, a \x00 and " + "x" * 3_000)
    run = create("unloadable")
    assert not run_job_for(run).more
    run.refresh_from_db()
    assert run.state == "failed"
    assert run.error.startswith("half \ufffd of a pair, a and xxx")
