"""Paced display of a reply: words fall due at a drawn pace.

The bot's own pieces are gathered as they come, and the words shown run behind them: the first when its drawn time has
come, and where two chatbots answer side by side when both have something to show; then so many a second. Nothing here
knows the database or the channel layer, and nothing holds a thread: what waits is a timer of the event loop.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import ceil

from webapp.studies.protocol_settings import ReplyPace

FRAME_EVERY_S = 0.12
"""Words that fall due closer together are shown together: a few frames a second are enough."""
_WORD = re.compile(r"\s*\S+\s*")

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]
Tell = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ReplyTimes:
    """When a reply came and was shown, in seconds after the message that it answers; None where it was not.

    Attributes:
        late_s: by how much the last of it came later than its pace wanted, by the bot's own doing.
    """

    first_s: float | None = None
    whole_s: float | None = None
    shown_first_s: float | None = None
    shown_s: float | None = None
    late_s: float | None = None

    def in_ms(self) -> dict[str, int | None]:
        """Return them as a turn's columns have them, in milliseconds."""
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
    """Shows one reply at its pace.

    Args:
        pace: of this reply.
        tell: shows more: what was shown so far, and what is shown now, as whole texts.
        clock: seconds since the message was stored.
        sleep: waits for so many seconds.
        longest_s: after so many seconds all that is there is shown at once.
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
        """Take the reply as far as it is there, or the whole of it."""
        self._text, self._is_whole = text, is_whole
        self._news.set()

    async def run(self, both_ready: Callable[[], Awaitable[None]] | None = None) -> None:
        """Show the reply to its end.

        Args:
            both_ready: waits until the reply beside this one can begin too.
        """
        await self._until_there(1)
        ready_at = self._clock()
        if both_ready is not None:
            await both_ready()
        at_once = ceil(FRAME_EVERY_S * self.pace.words_per_s)
        step_s = at_once / self.pace.words_per_s
        next_at = min(self.pace.first_s, self.longest_s)
        # What is waited for the reply beside this one is not this bot's doing.
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
            # What a bot is late by is not caught up with: words never come faster than the pace.
            next_at = (next_at if now - next_at < step_s else now) + step_s
        self.shown_s = self._clock()

    async def _until_there(self, n_words: int) -> bool:
        """Wait until so many whole words are there; False once the reply has fewer."""
        while len(self._words()) < n_words:
            if self._is_whole:
                return False
            self._news.clear()
            await self._news.wait()
        return True

    def _words(self) -> list[str]:
        """Return the words that are there, with their blanks; the last one only if nothing can be added to it."""
        words = _WORD.findall(self._text)
        if words and not self._is_whole and not words[-1][-1].isspace():
            words.pop()
        return words

    async def _wait_until(self, at_s: float) -> None:
        wait_s = at_s - self._clock()
        if wait_s > 0:
            await self._sleep(wait_s)
