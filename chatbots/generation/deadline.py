"""Deadline until which the reply under way is of use.

The caller of a bot sets it in the context of the bot's task; a bot that may wait (for an endpoint that is busy, say)
reads it and does not wait in vain.
"""

from __future__ import annotations

import math
import time
from contextvars import ContextVar

_deadline: ContextVar[float | None] = ContextVar("reply_deadline", default=None)


def deadline_set(at: float | None) -> None:
    """Note when the reply of this task has to be complete, by `time.monotonic`; None: whenever."""
    _deadline.set(at)


def seconds_left() -> float:
    """Return the seconds until the deadline; infinity where none is set."""
    at = _deadline.get()
    return math.inf if at is None else at - time.monotonic()
