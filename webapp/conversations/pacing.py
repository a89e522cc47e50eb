"""Paced display of replies, at a random typing speed.

The bot's pieces are collected as they arrive, and words are shown later: the first at its random time (with two
chatbots side by side, when both are ready), the rest at a fixed rate. This module does not use the database or the
channel layer, and waits with event loop timers rather than threads.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import ceil

from webapp.studies.protocol_settings import ReplyPace

FRAME_EVERY_S = 0.12
"""Words due within this time are shown together: a few frames a second are enough."""
_WORD = re.compile(r"\s*\S+\s*")

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]
Tell = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ReplyTimes:
    """Times of a reply, in seconds after the message it answers.

    None for steps that did not happen.

    Attributes:
        late_s: delay of the reply's end behind its pace, caused by the bot.
    """

    first_s: float | None = None
    whole_s: float | None = None
    shown_first_s: float | None = None
    shown_s: float | None = None
    late_s: float | None = None

    def in_ms(self) -> dict[str, int | None]:
        """Return the times as a turn's columns, in milliseconds."""
        seconds_by_column = {
            "first_ms": self.first_s,
            "latency_ms": self.whole_s,
            "shown_first_ms": self.shown_first_s,
            "shown_ms": self.shown_s,
            "late_ms": self.late_s,
        }
        return {
            name: None if seconds is None else max(0, round(1000 * seconds))
            for name, seconds in seconds_by_column.items()
        }


class PacedReply:
    """Reply shown at its pace.

    Args:
        pace: pace of this reply.
        tell: called with the text shown before and the text shown now.
        clock: seconds since the message was stored.
        sleep: coroutine that waits for the given seconds.
        longest_s: after this many seconds the rest is shown at once.
    """

    def __init__(self, pace: ReplyPace, *, tell: Tell, clock: Clock, sleep: Sleep, longest_s: float) -> None:
        self.pace, self.longest_s = pace, longest_s
        self._tell, self._clock, self._sleep = tell, clock, sleep
        self._text = ""
        self._is_whole = False
        self._news = asyncio.Event()
        self.shown_first_s: float | None = None
        self.shown_s: float | None = None
        self.late_s: float | None = None

    def add(self, text: str, *, is_whole: bool = False) -> None:
        """Set the text received so far, or the whole reply."""
        self._text, self._is_whole = text, is_whole
        self._news.set()

    async def run(self, both_ready: Callable[[], Awaitable[None]] | None = None) -> None:
        """Show the reply until its end.

        Args:
            both_ready: coroutine that waits until the other chatbot's reply can start.
        """
        await self._until_there(1)
        ready_at = self._clock()
        if both_ready is not None:
            await both_ready()
        at_once = ceil(FRAME_EVERY_S * self.pace.words_per_s)
        step_s = at_once / self.pace.words_per_s
        next_at = min(self.pace.first_s, self.longest_s)
        # Waiting for the other chatbot's reply does not count as this bot's delay.
        due_at = next_at + max(0.0, self._clock() - max(ready_at, next_at))
        sent, n_shown = "", 0
        while await self._until_there(n_shown + 1):
            await self._wait_until(next_at)
            now, words = self._clock(), self._words()
            n_shown = len(words) if now >= self.longest_s else n_shown + at_once
            gathered = "".join(words[:n_shown])
            n_shown = min(n_shown, len(words))
            await self._tell(sent, gathered)
            sent = gathered
            if self.shown_first_s is None:
                self.shown_first_s = now
            self.late_s = max(0.0, now - due_at)
            due_at += step_s
            # Delays are not caught up: words are never faster than the pace.
            next_at = (next_at if now - next_at < step_s else now) + step_s
        self.shown_s = self._clock()

    async def _until_there(self, n_words: int) -> bool:
        """Wait for this many whole words; False if the reply has fewer."""
        while len(self._words()) < n_words:
            if self._is_whole:
                return False
            self._news.clear()
            await self._news.wait()
        return True

    def _words(self) -> list[str]:
        """Return the received words with their spaces.

        The last word is included only if it is complete.
        """
        words = _WORD.findall(self._text)
        if words and not self._is_whole and not words[-1][-1].isspace():
            words.pop()
        return words

    async def _wait_until(self, at_s: float) -> None:
        wait_s = at_s - self._clock()
        if wait_s > 0:
            await self._sleep(wait_s)
