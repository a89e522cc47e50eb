"""Frames of the socket, and pacing by a clock that the test turns: fast and slow bots are shown alike."""

import asyncio
import heapq
import json
import statistics
import uuid
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from webapp.conversations.frames import FRAME_MAX_CHARS, MessageFrame, RetryFrame, VoteFrame, frame_parse
from webapp.conversations.pacing import FRAME_EVERY_S, PacedReply, ReplyTimes
from webapp.core.errors import Refused
from webapp.studies.protocol_settings import Pacing, ReplyPace


class FakeTime:
    """Seconds that pass only when everybody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self.now + seconds, id(woken), woken))
        await woken

    async def run(self, *work: Awaitable[Any]) -> None:
        """Let all of it come to its end."""
        tasks = [asyncio.ensure_future(one) for one in work]
        while not all(task.done() for task in tasks):
            for _turn in range(6):  # until nobody has anything left to do now
                await asyncio.sleep(0)
            if self._waiting and not all(task.done() for task in tasks):
                self.now, _id, woken = heapq.heappop(self._waiting)
                woken.set_result(None)
        for task in tasks:
            task.result()


TEXT = " ".join(f"word{n}" for n in range(24))


def shown(
    pace: ReplyPace,
    *,
    first_s: float,
    words_per_s: float,
    text: str = TEXT,
    longest_s: float = 45,
    both_ready: Callable[[FakeTime], Awaitable[None]] | None = None,
) -> tuple[PacedReply, list[tuple[float, str]]]:
    """Return what is shown when of a bot whose own words come at such times."""
    time, told = FakeTime(), []

    async def tell(sent: str, gathered: str) -> None:
        assert gathered.startswith(sent)
        told.append((time.now, gathered))

    async def reply(showing: PacedReply) -> None:
        await time.sleep(first_s)
        words = text.split(" ")
        for n in range(len(words)):
            showing.add(" ".join(words[: n + 1]))
            await time.sleep(1 / words_per_s)
        showing.add(text, is_whole=True)

    async def both() -> PacedReply:
        showing = PacedReply(pace, tell=tell, clock=time.clock, sleep=time.sleep, longest_s=longest_s)
        beside = (lambda: both_ready(time)) if both_ready else None
        await time.run(showing.run(beside), reply(showing))
        return showing

    return asyncio.run(both()), told


def times_of(pacing: Pacing, seeds: Sequence[int], **bot: float) -> tuple[list[float], list[float]]:
    """Return when the first words of many replies were shown, and how long the rest of each took."""
    first, rest = [], []
    for seed in seeds:
        showing, _told = shown(pacing.draw(seed, 1), **bot)
        first.append(showing.shown_first_s)
        rest.append(showing.shown_s - showing.shown_first_s)
    return first, rest


def test_a_fast_and_a_slow_bot_are_shown_alike() -> None:
    pacing = Pacing(paces_alike=True, first_words_s=2.0, first_words_spread=1.4, words_per_s=6)
    fast = times_of(pacing, range(150), first_s=0.05, words_per_s=400)
    slow = times_of(pacing, range(1000, 1150), first_s=0.6, words_per_s=9)
    assert stats.ks_2samp(fast[0], slow[0]).pvalue > 0.01
    assert statistics.median(fast[0]) == pytest.approx(2.0, rel=0.1)
    within = [2 / 1.4 <= one <= 2 * 1.4 for one in (*fast[0], *slow[0])]
    assert statistics.mean(within) == pytest.approx(0.68, abs=0.08)
    # Of 24 words the last follows 23 of a sixth of a second after the first, whoever wrote them.
    assert {round(one, 3) for one in (*fast[1], *slow[1])} == {round(23 / 6, 3)}
    # The bots by themselves are far apart.
    assert stats.ks_2samp([0.05] * 150, [0.6] * 150).pvalue < 1e-6


def test_the_same_reply_has_the_same_pace_when_it_is_made_again() -> None:
    pacing = Pacing(paces_alike=True)
    assert pacing.draw(7, 3) == pacing.draw(7, 3)
    assert pacing.draw(7, 3) != pacing.draw(7, 5)
    assert Pacing(first_words_spread=1).draw(1, 1).first_s == pytest.approx(2.0)


def test_a_bot_that_is_slower_stays_slower_and_is_never_caught_up_with() -> None:
    showing, told = shown(ReplyPace(0.5, 5), first_s=3.0, words_per_s=1.0)
    assert showing.shown_first_s == pytest.approx(4.0)  # its first word is whole with the second
    # Of 24 words at one a second the last is whole 24 s after the bot began, at 3 s.
    assert showing.late_s == pytest.approx(3 + 24 - (0.5 + 23 / 5), abs=0.1)
    in_time, _told = shown(ReplyPace(0.5, 5), first_s=0.1, words_per_s=50.0)
    assert in_time.late_s == pytest.approx(0, abs=1e-6)
    gaps = [after[0] - before[0] for before, after in pairwise(told)]
    assert min(gaps) >= 1 / 5 - 1e-9
    assert told[-1][1] == TEXT


def test_fast_paces_come_in_few_frames_and_a_long_reply_has_an_end() -> None:
    _showing, told = shown(ReplyPace(0.1, 100), first_s=0.0, words_per_s=1e4)
    gaps = [after[0] - before[0] for before, after in pairwise(told)]
    assert min(gaps) >= FRAME_EVERY_S - 1e-9
    long = " ".join(["word"] * 400)
    showing, told = shown(ReplyPace(2, 4), first_s=0.1, words_per_s=1e3, text=long, longest_s=10)
    assert showing.shown_s == pytest.approx(10, abs=0.3)
    assert told[-1][1] == long


def test_both_of_a_pair_begin_when_both_can() -> None:
    async def other(time: FakeTime) -> None:
        await time.sleep(5)

    showing, _told = shown(ReplyPace(1, 6), first_s=0.1, words_per_s=100, both_ready=other)
    assert showing.shown_first_s == pytest.approx(5.1, abs=0.05)
    assert showing.late_s == pytest.approx(0, abs=1e-6), "it waited for the other one"


def test_times_are_stored_in_milliseconds_and_what_is_unknown_stays_unknown() -> None:
    assert ReplyTimes(0.25, 1.5, None, 4.0004).in_ms() == {
        "first_ms": 250,
        "latency_ms": 1500,
        "shown_first_ms": None,
        "shown_ms": 4000,
        "late_ms": None,
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.text())
def test_any_text_is_a_frame_or_refused(text: str) -> None:
    try:
        frame_parse(text)
    except Refused as refused:
        assert refused.code == "bad_frame"


@given(
    st.dictionaries(
        st.sampled_from(["type", "text", "client_id", "turn", "value"]),
        json_values | st.sampled_from(["message", "vote", "retry", str(uuid.UUID(int=1))]),
    )
)
def test_any_object_is_a_frame_or_refused(data: dict) -> None:
    try:
        frame = frame_parse(json.dumps(data))
    except Refused as refused:
        assert refused.code == "bad_frame"
        assert refused.message
    else:
        assert isinstance(frame, MessageFrame | VoteFrame | RetryFrame)


@given(st.uuids(), st.text())
def test_messages_survive_the_way(client_id: uuid.UUID, text: str) -> None:
    frame = frame_parse(json.dumps({"type": "message", "client_id": str(client_id), "text": text}))
    assert frame == MessageFrame(client_id=client_id, text=text)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"type": "vote", "turn": 1, "value": 2}, "value is 2"),
        ({"type": "vote", "turn": True, "value": 1}, "turn is True"),
        ({"type": "vote", "turn": -1, "value": 1}, "turn is -1"),
        ({"type": "message", "text": "x", "client_id": "7"}, "must be a UUID"),
        ({"type": "message", "text": 3, "client_id": str(uuid.uuid4())}, "text is 3"),
        ({"type": "shout"}, "type is 'shout'"),
        ([], "not a JSON object"),
    ],
)
def test_refusals_name_the_value_and_what_is_right(data: object, says: str) -> None:
    with pytest.raises(Refused, match=says):
        frame_parse(json.dumps(data))


def test_all_mistakes_are_told_at_once_and_by_whose_frame() -> None:
    data = {"type": "vote", "turn": -1, "value": True, "client_id": "mine"}
    with pytest.raises(Refused) as caught:
        frame_parse(json.dumps(data))
    assert caught.value.message == (
        "Invalid frame: 2 mistakes: (1) turn is -1; it must be a whole number at least 0 and below "
        "1000000; (2) value is True; it must be a whole number from -1 to 1."
    )
    assert caught.value.details == {"client_id": "mine"}


def test_keys_that_are_not_known_are_let_pass_and_half_an_emoji_is_text() -> None:
    assert frame_parse('{"type": "retry", "sent_at": 5}') == RetryFrame()
    id_ = uuid.uuid4()
    text = f'{{"type": "message", "client_id": "{id_}", "text": "\\ud83d"}}'
    assert frame_parse(text) == MessageFrame(client_id=id_, text="\ud83d")


def test_huge_frames_are_refused() -> None:
    with pytest.raises(Refused, match="at most"):
        frame_parse("x" * (FRAME_MAX_CHARS + 1))
    with pytest.raises(Refused):
        frame_parse("[" * 60_000)
