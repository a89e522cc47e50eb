"""The runtime in one process: claims, pacing, publishing; whole servers are in tests/journeys."""

import asyncio
import json
import uuid
from collections.abc import Callable
from typing import ClassVar

import pytest
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import OperationalError

from chatbots.bots.base import REPLY_MAX_CHARS, BotError
from chatbots.registry import bots
from chatbots.text import sanitise
from tests.builders import make_conversation, make_participant, make_study
from tests.webapp.conversations.frames import frames_to_the_end, listened
from webapp.bots.models import BotHealth
from webapp.conversations import events, reply_pipeline, selectors, services
from webapp.conversations.bot_host import BotHostRuntime
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.task_start import task_start
from webapp.core.database import in_database
from webapp.core.health import registry

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def _test_bots():
    bots.search()
    import tests.plugin_bots as plugin

    classes = [
        plugin.Quick,
        plugin.Failing,
        plugin.Hanging,
        plugin.HangingThread,
        plugin.HostileSplit,
        plugin.HostileEndless,
        *plugin.HOSTILE_BOTS,
    ]
    for cls in classes:
        if cls.name not in bots:
            bots.add(cls())
    yield
    for cls in classes:
        bots.discard(cls.name)


async def published(runtime: BotHostRuntime, conversation, n_frames: int) -> list[dict]:
    layer, channel = get_channel_layer(events.FRAMES), await listened(conversation)
    runtime.request(conversation.pk)
    return [(await asyncio.wait_for(layer.receive(channel), 10))["frame"] for _ in range(n_frames)]


def due(bot_id: str, **fields):
    conversation = make_conversation(make_study(bots=[bot_id], **fields))
    services.turn_add_human(conversation_id=conversation.pk, client_id=uuid.uuid4(), text="hello you")
    return conversation


@pytest.mark.usefixtures("_test_bots")
async def test_whole_replies_are_typed_word_by_word() -> None:
    conversation = await in_database(due)("test-quick", typing_chars_per_s=200)
    first = ("confab_reply_first_token_seconds_count", {"bot": "test-quick"})
    n_before = registry.get_sample_value(*first) or 0
    runtime = BotHostRuntime()
    try:
        frames = await published(runtime, conversation, 6)
    finally:
        await runtime.close()
    assert [f["type"] for f in frames] == ["token"] * 5 + ["reply"]
    assert "".join(f["text"] for f in frames[:5]) == frames[5]["text"] == "Reply 1 to: hello you"
    assert [f["offset"] for f in frames[:5]] == [0, 6, 8, 12, 18]
    assert registry.get_sample_value(*first) == n_before + 1


@pytest.mark.usefixtures("_test_bots")
async def test_a_reply_is_made_once_however_often_it_is_asked_for() -> None:
    conversation = await in_database(due)("test-quick")
    first, second = BotHostRuntime(), BotHostRuntime()
    try:
        for runtime in (first, second, first):
            runtime.request(conversation.pk)
        await published(second, conversation, 1)
        history = await in_database(selectors.history)(conversation.pk)
    finally:
        await first.close()
        await second.close()
    assert [t["text"] for t in history.turns] == ["hello you", "Reply 1 to: hello you"]
    assert history.pending is None


@pytest.mark.usefixtures("_test_bots")
async def test_a_bot_with_a_full_queue_is_told_to_be_busy() -> None:
    conversation = await in_database(due)("test-quick")
    runtime = BotHostRuntime()
    runtime.host.queue_limit = 0  # nobody may wait
    try:
        frames = await published(runtime, conversation, 1)
        history = await in_database(selectors.history)(conversation.pk)
    finally:
        await runtime.close()
    assert (frames[0]["code"], frames[0]["busy"]) == ("bot_failed", True)
    assert "Try again in a minute" in frames[0]["message"]
    assert history.failure.error.startswith("busy: test-quick is busy")


@pytest.mark.usefixtures("_test_bots")
async def test_a_failure_is_stored_and_told(json_lines: Callable[[], list[str]]) -> None:
    conversation = await in_database(due)("test-failing")
    runtime = BotHostRuntime()
    try:
        frames = await published(runtime, conversation, 1)
        history = await in_database(selectors.history)(conversation.pk)
    finally:
        await runtime.close()
    assert (frames[0]["code"], frames[0]["busy"]) == ("bot_failed", False)
    assert "on purpose" in history.failure.error
    assert history.pending == {"turn": 1}
    (line,) = [line for line in map(json.loads, json_lines()) if "on purpose" in line["event"]]
    assert line["conversation_id"] == str(conversation.pk)


@pytest.mark.usefixtures("_test_bots")
async def test_a_database_that_is_away_for_a_moment_is_no_failure_of_the_bot(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = await in_database(due)("test-quick")
    stores, tried = services.turn_add_bot, 0

    def away_at_first(**reply):
        nonlocal tried
        tried += 1
        if tried < 3:
            raise OperationalError("server closed the connection unexpectedly")
        return stores(**reply)

    monkeypatch.setattr(services, "turn_add_bot", away_at_first)
    monkeypatch.setattr(reply_pipeline, "STORE_AGAIN_S", 0.01)
    runtime = BotHostRuntime()
    try:
        frames = await published(runtime, conversation, 1)
        assert [frame["type"] for frame in frames] == ["reply"]
        # Away for longer: the reply is given back, and due as it was.
        monkeypatch.setattr(settings, "CONFAB_REPLY_TIMEOUT_S", -1)
        other, tried = await in_database(due)("test-quick", key="other"), -99
        await runtime._answer(other.pk)
        row = await in_database(Conversation.objects.get)(pk=other.pk)
    finally:
        await runtime.close()
    assert (row.due_turn, row.due_lease, row.due_error) == (1, None, "")
    assert not await in_database(BotHealth.objects.exclude(n_failed=0).exists)()


@pytest.mark.usefixtures("_test_bots")
async def test_a_host_that_stops_gives_its_leases_back() -> None:
    conversation = await in_database(due)("test-quick")
    runtime = BotHostRuntime()
    runtime.host.stream = _never  # type: ignore[method-assign]
    runtime.request(conversation.pk)
    for _ in range(100):
        await asyncio.sleep(0.02)
        row = await in_database(Conversation.objects.get)(pk=conversation.pk)
        if row.due_lease:
            break
    assert row.due_lease
    await runtime.close()
    row = await in_database(Conversation.objects.get)(pk=conversation.pk)
    assert (row.due_turn, row.due_lease, row.due_error) == (1, None, "")


async def tryout_asked() -> dict:
    """Return the next request of the dashboard; what other tests asked for and nobody heard is passed over."""
    layer = get_channel_layer()
    while True:
        message = await layer.receive(events.bot_host_channel("default"))
        if message["type"] == "tryout.request":
            return message


WELL = {
    "test-hostile-nul": "Before and after",
    "test-hostile-surrogate": "Half \ufffd of a pair",
    "test-hostile-split": "A face: 😀, a half: \ufffdx\ufffd",
    "test-hostile-huge": sanitise("Ten million characters. " * 1000, REPLY_MAX_CHARS),
    "test-hostile-endless": sanitise("and another thing, " * 2000, REPLY_MAX_CHARS),
}
ILL = {
    "test-hostile-empty": "returned an empty reply",
    "test-hostile-whitespace": "returned an empty reply",
    "test-hostile-invisible": "returned an empty reply",
    "test-hostile-raising-nul": "no reply",
    "test-hostile-raising-surrogate": "ValueError: half \ufffd of a pair and a second line",
    "test-hostile-raising-huge": "no reply, and why no reply, and why",
    "test-hostile-raising-nothing": "failed: RuntimeError",
    "test-hostile-raising-unspeakable": "failed: _Unspeakable",
    "test-hostile-raising-exit": "failed: SystemExit: 3",
    "test-hanging": "took longer than 0.2 s",
    "test-hanging-thread": "took longer than 0.2 s",
}


async def ended(runtime: BotHostRuntime, conversation) -> list[dict]:
    """Ask for the reply; return the frames up to it, or to the news that it failed."""
    channel = await listened(conversation)
    runtime.request(conversation.pk)
    return await frames_to_the_end(channel)


@pytest.mark.usefixtures("_test_bots")
@pytest.mark.parametrize("bot_id", WELL)
async def test_what_is_streamed_is_what_is_stored_and_can_be_stored(bot_id: str) -> None:
    conversation = await in_database(due)(bot_id)
    runtime = BotHostRuntime()
    try:
        frames = await ended(runtime, conversation)
        history = await in_database(selectors.history)(conversation.pk)
    finally:
        await runtime.close()
    assert frames[-1]["text"] == history.turns[1]["text"] == WELL[bot_id]
    assert "".join(f["text"] for f in frames[:-1]) in ("", WELL[bot_id])  # what is known at once needs no pieces
    assert [f["offset"] for f in frames[:-1]] == [
        sum(len(g["text"]) for g in frames[:i]) for i in range(len(frames) - 1)
    ]


@pytest.mark.usefixtures("_test_bots")
@pytest.mark.parametrize("bot_id", ILL)
async def test_however_a_bot_fails_its_participant_can_go_on(bot_id: str) -> None:
    conversation = await in_database(due)(bot_id)
    runtime = BotHostRuntime()
    if "hanging" in bot_id:
        runtime.host.reply_timeout_s = 0.2
    try:
        frames = await ended(runtime, conversation)
        history = await in_database(selectors.history)(conversation.pk)
    finally:
        await runtime.close()
    assert frames[-1]["code"] == "bot_failed"
    assert frames[-1]["can"] == ["retry", "swap", "finish"]
    assert ILL[bot_id] in history.failure.error
    assert len(history.failure.error) <= 500
    finished = await in_database(services.conversation_finish_failed)(conversation=conversation)
    assert finished.completion_code


@pytest.mark.usefixtures("_test_bots")
async def test_a_try_out_of_any_bot_is_answered() -> None:
    runtime = BotHostRuntime()
    turns = [{"speaker": "human", "text": "hi"}]
    hostile = [bot_id for bot_id in (*WELL, *ILL) if "hostile" in bot_id]

    async def host() -> None:
        for _ in hostile:
            runtime.tryout(await tryout_asked())

    try:
        listening = asyncio.ensure_future(host())
        for bot_id in hostile:
            if bot_id in WELL:
                assert await events.tryout_reply(bot_id, turns) == WELL[bot_id]
            else:
                with pytest.raises(BotError) as failed:
                    await events.tryout_reply(bot_id, turns)
                assert ILL[bot_id] in str(failed.value)
        await listening
    finally:
        await runtime.close()


@pytest.mark.usefixtures("_test_bots")
async def test_a_reply_that_ended_its_hosts_is_given_up_and_told() -> None:
    conversation = await in_database(due)("test-quick")
    runtime = BotHostRuntime()

    def killed_each_time() -> None:
        for _ in range(Conversation.MAX_ATTEMPTS):
            assert services.reply_claim(conversation_id=conversation.pk, lease=uuid.uuid4(), lease_s=-1)

    await in_database(killed_each_time)()
    try:
        frames = await ended(runtime, conversation)
        history = await in_database(selectors.history)(conversation.pk)
    finally:
        await runtime.close()
    assert [f["type"] for f in frames] == ["error"]
    assert history.failure.error.startswith("given up: 3 attempts")


async def _never(bot_id, context):
    await asyncio.sleep(3600)
    yield ""


@pytest.mark.usefixtures("_test_bots")
async def test_try_out_is_answered_and_stored_nowhere() -> None:
    from webapp.conversations.models import Turn

    runtime = BotHostRuntime()

    async def host() -> None:
        runtime.tryout(await tryout_asked())

    try:
        listening = asyncio.ensure_future(host())
        turns = [{"speaker": "human", "text": "hi"}]
        assert await events.tryout_reply("test-quick", turns) == "Reply 1 to: hi"
        await listening
    finally:
        await runtime.close()
    assert not await in_database(Turn.objects.exists)()


async def reply_of(bot_id: str, **settings) -> tuple[list[dict], Turn]:
    """Return the frames of a reply, and the reply as it is stored."""
    conversation = await in_database(due)(bot_id, **settings)
    runtime = BotHostRuntime()
    try:
        frames = await ended(runtime, conversation)
    finally:
        await runtime.close()
    turns = Turn.objects.prefetch_related("marks")
    return frames, await in_database(turns.get)(conversation=conversation, index=1)


@pytest.mark.usefixtures("_test_bots")
async def test_a_withheld_reply_is_never_shown_and_kept_for_staff() -> None:
    phrases = {"filter_phrases": ["hello you"]}
    frames, turn = await reply_of("test-quick", reply_filters={"phrases": "withhold"}, **phrases)
    assert "hello" not in str(frames)
    assert turn.text == frames[-1]["text"] == "This reply was blocked."
    assert turn.withheld_text == "Reply 1 to: hello you"
    [mark] = turn.marks.all()
    assert (mark.filter, mark.found, mark.is_withheld) == ("phrases", ["hello you"], True)
    assert mark.identity["params"]["phrases"]


@pytest.mark.usefixtures("_test_bots")
async def test_a_marked_reply_is_shown_and_what_was_found_is_stored() -> None:
    filters = {"phrases": "mark", "names_model": "withhold"}
    frames, turn = await reply_of("test-quick", reply_filters=filters, filter_phrases=["reply", "HELLO"])
    assert frames[-1]["text"] == turn.text == "Reply 1 to: hello you"
    [mark] = turn.marks.all()
    assert (mark.found, mark.is_withheld, turn.withheld_text) == (["Reply", "hello"], False, "")


@pytest.mark.usefixtures("_test_bots")
async def test_a_filter_that_cannot_look_holds_the_reply_back_or_says_so() -> None:
    from webapp.studies.reply_filters.base import reply_filters

    class Broken(reply_filters.get("phrases").__class__):  # type: ignore[misc]
        name = "broken"

        def find(self, text, asked):
            raise OSError("no disk")

    reply_filters.add(Broken())
    try:
        phrases = {"filter_phrases": ["x"]}
        _frames, turn = await reply_of("test-quick", reply_filters={"broken": "mark"}, **phrases)
        assert "no disk" in turn.marks.all()[0].reason
        held = await in_database(due)("test-quick", key="two", reply_filters={"broken": "withhold"}, **phrases)
        runtime = BotHostRuntime()
        try:
            frames = await ended(runtime, held)
        finally:
            await runtime.close()
        row = await in_database(Conversation.objects.get)(pk=held.pk)
        health = await in_database(BotHealth.objects.get)(bot_id="test-quick")
    finally:
        reply_filters.discard("broken")
    assert [frame["type"] for frame in frames] == ["error"]
    assert "no disk" in row.due_error
    assert health.n_failed == 0  # the bot did answer


async def test_filters_of_running_studies_are_loaded_once_before_a_reply_waits_for_them() -> None:
    from webapp.studies.reply_filters.base import reply_filters

    class Slow(reply_filters.get("phrases").__class__):  # type: ignore[misc]
        name = "slow"
        asked: ClassVar[list[str]] = []

        def find(self, text, asked):
            self.asked.append(text)

    reply_filters.add(Slow())
    try:
        phrases = {"filter_phrases": ["x"], "reply_filters": {"slow": "mark"}}
        await in_database(make_study)("slow", **phrases)
        await in_database(make_study)("over", state="ended", **{**phrases, "filter_phrases": ["y"]})
        runtime = BotHostRuntime()
        try:
            for _ in range(2):  # sweeps
                await runtime._load_filters()
                await asyncio.gather(*runtime._tasks)
        finally:
            await runtime.close()
    finally:
        reply_filters.discard("slow")
    assert len(Slow.asked) == 1


@pytest.mark.usefixtures("_test_bots")
async def test_a_paced_reply_keeps_both_its_times() -> None:
    # The bot answers at once; on a busy machine that may be half a second.
    pace = {"paces_alike": True, "first_words_s": 2, "first_words_spread": 1, "words_per_s": 50}
    frames, turn = await reply_of("test-quick", **pace)
    assert "".join(f["text"] for f in frames[:-1]) == frames[-1]["text"] == turn.text
    assert turn.first_ms <= turn.latency_ms < 2000 <= turn.shown_first_ms <= turn.shown_ms


@pytest.mark.usefixtures("_test_bots")
async def test_a_host_that_stops_keeps_a_paced_reply_that_the_bot_has_given() -> None:
    slow = {"paces_alike": True, "first_words_s": 20, "first_words_spread": 1}
    conversation = await in_database(due)("test-quick", **slow)
    runtime = BotHostRuntime()
    event = asyncio.Event()
    take = runtime.host.stand_in_take
    runtime.host.stand_in_take = lambda context: (event.set(), take(context))[1]  # type: ignore[method-assign]
    runtime.request(conversation.pk)
    await asyncio.wait_for(event.wait(), 10)
    await asyncio.sleep(0.1)
    await runtime.close()
    history = await in_database(selectors.history)(conversation.pk)
    assert [turn["text"] for turn in history.turns] == ["hello you", "Reply 1 to: hello you"]
    assert history.pending is None


@pytest.mark.usefixtures("_test_bots")
async def test_two_paced_chatbots_side_by_side_begin_together() -> None:
    def both_due() -> list[Conversation]:
        study = make_study(
            protocol="arena",
            bots=["test-quick", "parrot"],
            n_comparisons=1,
            paces_alike=True,
            first_words_s=0.2,
            words_per_s=100,
        )
        task = task_start(participant=make_participant(study), version=study.version)
        conversations = list(Conversation.objects.filter(slot__task=task).order_by("slot__order"))
        for conversation in conversations:
            services.turn_add_human(conversation_id=conversation.pk, client_id=uuid.uuid4(), text="hello you")
        return conversations

    first, second = await in_database(both_due)()
    runtime = BotHostRuntime()
    try:
        channel = await listened(first)
        runtime.request(first.pk)
        await asyncio.sleep(0.6)  # the other one has not even been asked
        early = await in_database(Conversation.objects.get)(pk=first.pk)
        await ended(runtime, second)
        await frames_to_the_end(channel)
    finally:
        await runtime.close()
    assert early.due_ready_at
    assert early.n_exchanges == 0
    shown = [
        turn.shown_first_ms
        for turn in await in_database(list)(Turn.objects.filter(conversation__in=[first, second], speaker="bot"))
    ]
    assert abs(shown[0] - shown[1]) < 2000
    assert min(shown) >= 200
