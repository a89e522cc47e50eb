"""Runs of different bots with each other: both orders, both identities, metrics, the hybrid metric."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from chatbots.registry import bot_get
from evaluation.metrics.registry import metric_get
from tests.fakes import FakeStepBot
from webapp.conversations.models import Conversation, Turn
from webapp.core.errors import Refused
from webapp.jobs.engine import run_job, run_job_for
from webapp.jobs.kinds import selfplay
from webapp.jobs.models import MetricResult, SelfPlayConversation, SelfPlayRun
from webapp.jobs.selectors.analysis_tables import metric_frame
from webapp.jobs.selectors.selfplay import BotPair, plan_pairs, selfplay_by_pair, selfplay_failures
from webapp.jobs.services.fits import metric_run_create
from webapp.jobs.services.selfplay import run_create

pytestmark = pytest.mark.django_db
MakeBot = Callable[..., FakeStepBot]


def create(*bots: str, n: int = 2, turns: int = 4, **more: Any) -> SelfPlayRun:
    return run_create(bots=bots, pairs="all", n_conversations=n, n_turns=turns, seed=7, enqueue=False, **more)


@pytest.fixture
def two(fake_bot: MakeBot) -> tuple[FakeStepBot, FakeStepBot]:
    """Make two bots whose words tell who spoke, and by which seed."""

    def speaks(name: str) -> Callable[[Any], str]:
        return lambda context: f"{name}{context.reply_seed}?"

    return fake_bot("ann", reply=speaks("ann")), fake_bot("bob", reply=speaks("bob"))


def speakers(run: SelfPlayRun) -> dict[BotPair, list[set[str]]]:
    """Return per pair who was heard on the two sides, "human" and "bot"."""
    found: dict[BotPair, list[set[str]]] = {}
    for bot, partner, speaker, text in Turn.objects.filter(conversation__selfplay__run=run).values_list(
        "conversation__selfplay__bot_id", "conversation__selfplay__partner_bot_id", "speaker", "text"
    ):
        sides = found.setdefault(BotPair(bot, partner), [set(), set()])
        sides[speaker == "bot"].add(text[:3])
    return found


def test_a_run_of_all_pairs_has_the_whole_matrix(two: Any) -> None:
    run = create("ann", "bob")
    assert run.n_total == 8
    assert not run_job_for(run).more
    run.refresh_from_db()
    assert (run.state, run.n_done) == ("done", 8)
    assert speakers(run) == {
        BotPair("ann"): [{"ann"}, {"ann"}],
        BotPair("bob"): [{"bob"}, {"bob"}],
        BotPair("bob", "ann"): [{"ann"}, {"bob"}],
        BotPair("ann", "bob"): [{"bob"}, {"ann"}],
    }
    for link in SelfPlayConversation.objects.filter(run=run).select_related("partner"):
        assert link.conversation is not None
        assert link.conversation.bot.key == bot_get(link.bot_id).identity.key
        expected = bot_get(link.partner_bot_id).identity.key if link.partner_bot_id else None
        assert (link.partner.key if link.partner else None) == expected


def test_the_seed_and_the_slices_decide_nothing_else(two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(run: SelfPlayRun) -> list[Any]:
        rows = Turn.objects.filter(conversation__selfplay__run=run).values_list(
            "conversation__selfplay__bot_id",
            "conversation__selfplay__partner_bot_id",
            "conversation__selfplay__ordinal",
            "index",
            "text",
        )
        return sorted(rows)

    whole, cut, alone = (
        create("ann", "bob"),
        create("ann", "bob"),
        run_create(bots=["ann"], n_conversations=2, n_turns=4, seed=7, enqueue=False),
    )
    run_job(whole)
    store = selfplay.selfplay_store

    def dies(**given: Any) -> int:
        store(**given)
        raise KeyboardInterrupt

    monkeypatch.setattr(selfplay, "selfplay_store", dies)
    for _ in range(4):  # after each pair
        with pytest.raises(KeyboardInterrupt):
            run_job(cut)
    monkeypatch.setattr(selfplay, "selfplay_store", store)
    for run in (cut, alone):
        assert not run_job_for(run).more
    assert said(whole) == said(cut)
    assert len({text for *_, text in said(whole)}) == len(said(whole))
    assert said(alone) == [row for row in said(whole) if row[:2] == ("ann", "")]


def test_a_pair_that_always_fails_is_named(two: Any) -> None:
    _, bob = two
    bob.fails = lambda context: "ann" in "".join(context.texts)
    run = create("ann", "bob")
    run_job(run)
    run.refresh_from_db()
    assert (run.state, run.error) == ("done", "")
    failures = selfplay_failures(run)
    assert [(str(found.pair), found.n) for found in failures] == [("bob with ann", 2), ("ann with bob", 2)]
    assert "scripted failure" in failures[0].error
    assert selfplay_by_pair(run)[BotPair("bob")].conversations == 2


def test_one_bot_is_no_matrix(two: Any) -> None:
    with pytest.raises(Refused, match="ann alone makes no pair"):
        create("ann")
    with pytest.raises(Refused, match="pairs is 'some'; it must be self or all"):
        run_create(bots=["ann", "bob"], pairs="some", enqueue=False)
    assert [str(pair) for pair in plan_pairs({"bots": ["a"]})] == ["a"]  # a plan of earlier days


def test_metrics_measure_the_one_who_answers_and_the_hybrid_metric_leaves_them_out(two: Any) -> None:
    ann, bob = two
    ann._reply, bob._reply = (lambda context: "two words"), (lambda context: "one? yes really")
    run = create("ann", "bob", n=1, turns=6)
    run_job(run)
    run_job(metric_run_create(run=run, metrics=["words"], enqueue=False))
    words = {
        (result.conversation.selfplay.partner_bot_id, result.conversation.bot.bot_id): (
            result.values["words_user"],
            result.values["words_bot"],
        )
        for result in MetricResult.objects.all()
    }
    assert words["ann", "bob"] == (2.0, 3.0)
    assert words["bob", "ann"] == (3.0, 2.0)
    assert words["", "ann"] == (2.0, 2.0)
    frame = metric_frame(run=run, metrics=[metric_get("words")])
    assert sorted(frame["bot"]) == ["ann", "bob"]
    assert set(frame["conversation"]) == {
        str(pk) for pk in Conversation.objects.filter(selfplay__partner_bot_id="").values_list("pk", flat=True)
    }


def test_the_command_prints_the_pairs_beside_the_bots(two: Any) -> None:
    def selfplay(*more: str) -> dict[str, Any]:
        out = StringIO()
        call_command(
            "selfplay", "--bots", "ann,bob", "--conversations", "2", "--turns", "4", "--inline",
            "--json", *more, stdout=out,
        )  # fmt: skip
        return json.loads(out.getvalue())

    found = selfplay("--pairs", "all")
    each = {"conversations": 2, "turns": 8}
    assert found["bots"] == {name: {"conversations": 4, "turns": 16} for name in ("ann", "bob")}
    assert found["pairs"] == [
        {"first": "ann", "bot": "ann", **each},
        {"first": "bob", "bot": "bob", **each},
        {"first": "ann", "bot": "bob", **each},
        {"first": "bob", "bot": "ann", **each},
    ]
    assert set(selfplay()) == {"run", "bots"}
