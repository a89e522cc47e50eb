"""Self-play runs, alone and of different bots with each other; and what is known of bots beside ratings."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from chatbots import Conversation as Dialogue
from chatbots.registry import UnknownName, bot_get
from evaluation.metrics.registry import metric_get
from tests.builders import make_conversation, make_study
from tests.fakes import FakeStepBot, says
from tests.hostile import HOSTILE_ERRORS, HOSTILE_REPLIES
from webapp.conversations.models import Conversation, ReplyMark, Turn
from webapp.core.errors import Refused
from webapp.jobs.engine import run_job, run_job_for
from webapp.jobs.kinds import selfplay
from webapp.jobs.models import MetricResult, MetricRun, SelfPlayConversation, SelfPlayRun
from webapp.jobs.selectors.analysis_tables import bot_groups, bot_versions, factors_of, measured_of, metric_frame
from webapp.jobs.selectors.metrics import measurable
from webapp.jobs.selectors.selfplay import (
    BotPair,
    get_stored_ordinals,
    plan_pairs,
    selfplay_by_pair,
    selfplay_failed_counts,
    selfplay_failures,
    selfplay_summary,
)
from webapp.jobs.services.fits import metric_run_create
from webapp.jobs.services.jobs import job_cancel, job_restart
from webapp.jobs.services.selfplay import conversation_seed, run_create, selfplay_store
from webapp.studies.bot_columns import BotColumns, bot_columns_read
from webapp.studies.models import Study
from webapp.studies.services import bot_columns_store
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


MakeBot = Callable[..., FakeStepBot]


def create(*bots: str, n: int = 5, turns: int = 4, **more: Any) -> SelfPlayRun:
    return run_create(bots=bots, n_conversations=n, n_turns=turns, seed=7, enqueue=False, **more)


def test_a_run_plays_its_plan() -> None:
    run = create("eliza", "parrot", openers=["Hello there", "What a day"])
    assert not run_job_for(run).has_more
    run.refresh_from_db()
    assert (run.state, run.n_done, run.n_total) == ("done", 10, 10)
    summary = selfplay_summary(run)
    assert {bot: (s.conversations, s.turns) for bot, s in summary.items()} == {"eliza": (5, 20), "parrot": (5, 20)}
    conversation = Conversation.objects.filter(selfplay__run=run).first()
    assert conversation.source == "selfplay"
    assert conversation.study is None
    assert {speaker for _, speaker in conversation.turns.values_list("index", "speaker")} == {"human", "bot"}


def test_conditions_of_the_study_are_played_in_turn(fake_bot: MakeBot) -> None:
    heard = []

    def tell(context: Dialogue) -> str:
        heard.append(context.bot_prompt)
        return "Yes."

    fake_bot("listens", reply=tell)
    opened = {"key": "shop", "opening": "Welcome to the shop.", "bot_prompt": "You sell tea.", "bots": ["listens"]}
    factors = [{"key": "place", "levels": [opened, {"key": "street", "topic": "Tea"}]}]
    study = make_study(bots=["listens", "eliza"], factors=factors)
    run = create("listens", "eliza", n=4, turns=3, study=study)
    assert not run_job_for(run).has_more
    played = Conversation.objects.filter(selfplay__run=run, bot__bot_id="listens").order_by("selfplay__ordinal")
    assert [row.condition["place"] for row in played] == ["shop", "street"] * 2
    assert [row.turns.get(index=0).text for row in played] == ["Welcome to the shop.", "Yes."] * 2
    assert {row.turns.count() for row in played} == {3}
    assert sorted(heard) == [""] * 6 + ["You sell tea."] * 4
    others = Conversation.objects.filter(selfplay__run=run, bot__bot_id="eliza")
    assert [row.condition for row in others] == [{"place": "street"}] * 4


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
    assert get_stored_ordinals(run) == {BotPair("mortal"): {0, 1, 2, 3}}
    assert not run_job_for(run).has_more
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
    from evaluation.simulation.selfplay import play
    from webapp.bots.services import bot_version_record

    fake_bot("twice")
    run = create("twice", n=2)
    bot = bot_load("twice")
    played = play(bot, seeds=[conversation_seed(run, BotPair("twice"), n) for n in range(2)], n_turns=2)
    values: dict[str, Any] = {"run": run, "version": bot_version_record(bot=bot), "ordinals": [0, 1]}
    assert selfplay_store(**values, played=played) == 2
    assert selfplay_store(**values, played=played) == 0
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
    assert not run_job_for(run).has_more
    run.refresh_from_db()
    assert run.state == "failed"
    assert "every conversation of broken failed: " in run.error
    bot.fails = lambda context: False
    job_cancel(job=run)  # somebody leaves it alone first, which does not change what going on means
    assert (run.state, run.error[:18]) == ("cancelled", "every conversation")
    job_restart(job=run)
    assert (run.state, run.error) == ("queued", "")
    assert get_stored_ordinals(run) == {}
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
        result = store(**given)
        job_cancel(job=SelfPlayRun.objects.get(pk=run.pk))
        return result

    monkeypatch.setattr(selfplay, "selfplay_store", then_cancel)
    assert not run_job_for(run).has_more
    run.refresh_from_db()
    assert run.state == "cancelled"
    assert SelfPlayConversation.objects.filter(run=run).count() == 2
    assert not run_job_for(run).has_more  # a task that arrives late does nothing
    assert SelfPlayConversation.objects.filter(run=run).count() == 2


def test_a_waiting_run_is_stopped_at_once() -> None:
    run = create("eliza")
    assert job_cancel(job=run).state == "cancelled"
    assert not run_job_for(run).has_more
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
    with pytest.raises(Refused, match="name at least one bot"):
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
    assert not run_job_for(run).has_more
    run.refresh_from_db()
    assert (run.state, run.error, run.n_done) == ("done", "", 60)
    summary = selfplay_summary(run)
    assert (summary["eliza"].conversations, summary["eliza"].failed) == (30, 0)
    assert (summary["bad"].conversations, summary["bad"].failed) == (0, 30)
    # A bot that never answers, and may cost money, is not asked for every conversation.
    assert len(bad.batches) == 3
    failures = selfplay_failures(run)
    assert [(failure.pair, failure.n) for failure in failures] == [(BotPair("bad"), 18), (BotPair("bad"), 12)]
    assert failures[0].error.startswith("not tried: all 12 before it failed; the last error was: ")
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
    assert not run_job_for(run).has_more
    run.refresh_from_db()
    assert run.state == "done"
    hostile = selfplay_summary(run)["hostile"]
    assert (hostile.conversations, hostile.failed) == ((2, 0) if hostile.turns else (0, 2))
    assert bool(hostile.error) == (hostile.failed > 0)
    assert trouble in ("nul", "surrogate", "huge") or hostile.failed
    metric_run = MetricRun.objects.get(run=run)
    assert not run_job_for(metric_run).has_more
    assert metric_run.n_total == 2 + hostile.conversations


def test_a_bot_that_hangs_does_not_hold_up_the_worker(fake_bot: MakeBot, settings: Any) -> None:
    settings.CONFAB_REPLY_TIMEOUT_S = 0.1
    bot = fake_bot("stuck", hangs=says("stuck"), capacity=1)
    run = create("stuck", n=3, openers=["stuck", "fine"], turns=2)
    try:
        assert not run_job_for(run).has_more
    finally:
        bot.release()
    run.refresh_from_db()
    stuck = selfplay_summary(run)["stuck"]
    assert run.state == "done"
    assert stuck.failed > 0
    assert stuck.conversations > 0
    assert stuck.error == "took longer than 0.1 s"


def test_an_error_of_any_text_ends_a_job(fake_bot: MakeBot) -> None:
    fake_bot("unloadable", load_error="half \ud83d of a pair, a \x00 and " + "x" * 3_000)
    run = create("unloadable")
    assert not run_job_for(run).has_more
    run.refresh_from_db()
    assert run.state == "failed"
    assert run.error.startswith("half \ufffd of a pair, a and xxx")


def create_pairs(*bots: str, n: int = 2, turns: int = 4, **more: Any) -> SelfPlayRun:
    return run_create(bots=bots, pairs="all", n_conversations=n, n_turns=turns, seed=7, enqueue=False, **more)


@pytest.fixture
def two(fake_bot: MakeBot) -> tuple[FakeStepBot, FakeStepBot]:
    """Make two bots whose words tell who spoke, and by which seed."""

    def speaks(name: str) -> Callable[[Any], str]:
        return lambda context: f"{name}{context.reply_seed}?"

    return fake_bot("ann", reply=speaks("ann")), fake_bot("bob", reply=speaks("bob"))


def speakers(run: SelfPlayRun) -> dict[BotPair, list[set[str]]]:
    """Return per pair who was heard on the two sides, "human" and "bot"."""
    results: dict[BotPair, list[set[str]]] = {}
    for bot, partner, speaker, text in Turn.objects.filter(conversation__selfplay__run=run).values_list(
        "conversation__selfplay__bot_id", "conversation__selfplay__partner_bot_id", "speaker", "text"
    ):
        sides = results.setdefault(BotPair(bot, partner), [set(), set()])
        sides[speaker == "bot"].add(text[:3])
    return results


def test_a_run_of_all_pairs_has_the_whole_matrix(two: Any) -> None:
    run = create_pairs("ann", "bob")
    assert run.n_total == 8
    assert not run_job_for(run).has_more
    run.refresh_from_db()
    assert (run.state, run.n_done) == ("done", 8)
    assert speakers(run) == {
        BotPair("ann"): [{"ann"}, {"ann"}],
        BotPair("bob"): [{"bob"}, {"bob"}],
        BotPair("bob", "ann"): [{"ann"}, {"bob"}],
        BotPair("ann", "bob"): [{"bob"}, {"ann"}],
    }
    for link in SelfPlayConversation.objects.filter(run=run).select_related("partner"):
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
        create_pairs("ann", "bob"),
        create_pairs("ann", "bob"),
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
        assert not run_job_for(run).has_more
    assert said(whole) == said(cut)
    assert len({text for *_, text in said(whole)}) == len(said(whole))
    assert said(alone) == [row for row in said(whole) if row[:2] == ("ann", "")]


def test_a_pair_that_always_fails_is_named(two: Any) -> None:
    _, bob = two
    bob.fails = lambda context: "ann" in "".join(context.texts)
    run = create_pairs("ann", "bob")
    run_job(run)
    run.refresh_from_db()
    assert (run.state, run.error) == ("done", "")
    failures = selfplay_failures(run)
    assert [(str(failure.pair), failure.n) for failure in failures] == [("bob with ann", 2), ("ann with bob", 2)]
    assert "scripted failure" in failures[0].error
    assert selfplay_by_pair(run)[BotPair("bob")].conversations == 2


def test_one_bot_is_no_matrix(two: Any) -> None:
    with pytest.raises(Refused, match="ann alone is not a pair"):
        create_pairs("ann")
    with pytest.raises(Refused, match="pairs is 'some'; it must be self or all"):
        run_create(bots=["ann", "bob"], pairs="some", enqueue=False)
    assert [str(pair) for pair in plan_pairs({"bots": ["a"]})] == ["a"]  # a plan of earlier days


def test_metrics_measure_the_one_who_answers_and_the_hybrid_metric_leaves_them_out(two: Any) -> None:
    ann, bob = two
    ann._reply, bob._reply = (lambda context: "two words"), (lambda context: "one? yes really")
    run = create_pairs("ann", "bob", n=1, turns=6)
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

    result = selfplay("--pairs", "all")
    each = {"conversations": 2, "turns": 8}
    assert result["bots"] == {name: {"conversations": 4, "turns": 16} for name in ("ann", "bob")}
    assert result["pairs"] == [
        {"first": "ann", "bot": "ann", **each},
        {"first": "bob", "bot": "bob", **each},
        {"first": "ann", "bot": "bob", **each},
        {"first": "bob", "bot": "ann", **each},
    ]
    assert set(selfplay()) == {"run", "bots"}


def test_shipped_checkpoints_tell_how_they_were_made() -> None:
    study = make_study(bots=["hred-demo", "vhcr-ei-demo", "eliza"])
    for _ in range(12):  # every bot is drawn
        make_conversation(study)
    versions = bot_versions(study)
    assert {v.bot_id for v in versions} == {"hred-demo", "vhcr-ei-demo", "eliza"}
    factors = factors_of(versions, BotColumns())
    assert factors["EI"] == {"hred-demo": "plain", "vhcr-ei-demo": "EI"}
    assert factors["architecture"] == {"hred-demo": "hred", "vhcr-ei-demo": "vhcr"}
    measured = measured_of(versions, BotColumns())
    figures = bot_get("hred-demo").identity.params["metrics"]
    assert measured["perplexity"]["hred-demo"] == figures["perplexity"] > 1
    assert set(measured["greedy"]) == {"hred-demo", "vhcr-ei-demo"}


def test_the_researchers_table_wins(rated_study: Callable[..., Study]) -> None:
    study = rated_study("k")
    assert bot_groups(study) == {}
    table = "bot,corpus,architecture,perplexity\nbot0,a,x,3\nbot1,a,x,4\nbot2,b,x,5\nbot3,b,x,6\n"
    bot_columns_store(study=study, columns=read(table, study))
    assert bot_groups(study) == {"bot0": "a", "bot1": "a", "bot2": "b", "bot3": "b"}
    assert measured_of([], BotColumns.from_json(study.bot_columns))["perplexity"]["bot3"] == 6
    named = table.replace("perplexity", "group").replace(",3", ",p").replace(",4", ",q")
    named = named.replace(",5", ",p").replace(",6", ",q")
    bot_columns_store(study=study, columns=read(named, study))
    assert bot_groups(study) == {"bot0": "p", "bot1": "q", "bot2": "p", "bot3": "q"}
    alone = "bot,group\nbot0,a\nbot1,b\nbot2,c\nbot3,d\n"  # groups of one say what the bots say
    bot_columns_store(study=study, columns=read(alone, study))
    assert bot_groups(study) == {}


def test_a_fit_is_held_against_the_groups(rated_study: Callable[..., Study]) -> None:
    study = rated_study("k", n_bots=6)
    job = metric_run_create(study=study, metrics=["words", "length", "question"], enqueue=False)
    run_job(job)
    table = "bot,group\nbot0,weak\nbot1,weak\nbot2,weak\nbot3,good\nbot4,good\n"
    bot_columns_store(study=study, columns=read(table, study))
    out = StringIO()
    call_command(
        "fit_hybrid", "--study", "k", "--features", "question_bot,words_user", "--json",
        stdout=out, stderr=StringIO(),
    )  # fmt: skip
    document = json.loads(out.getvalue())
    assert "group" in document["baselines"]
    assert document["within_group"]["r"] is not None
    codes = {finding["code"]: finding for finding in document["verdict"]["findings"]}
    assert codes["within_groups"]["r"] == document["within_group"]["r"]


def read(table: str, study: Study) -> BotColumns:
    return bot_columns_read(table.encode(), study.bots, Path("bots.csv").name)
