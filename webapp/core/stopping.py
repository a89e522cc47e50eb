"""Ending a process in bounded time, whatever its threads and connections still do."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)

# Open requests and sockets have this long to come to their end, then they are cut off.
GRACE_S = 5
# A worker has this long to leave its slice.
WORKER_S = 15
# Then the process ends, even if a thread hangs in a call that never returns.
LIMIT_S = GRACE_S + WORKER_S + 5


def end_within(limit_s: float = LIMIT_S, *, first: Callable[[], None] = lambda: None) -> None:
    """End this process when `limit_s` is over, unless it has ended by itself before.

    Args:
        first: what to do just before.
    """

    def end() -> None:
        hanging = sorted(t.name for t in threading.enumerate() if not t.daemon)
        logger.error("not stopped within %g s; ended by force. Threads: %s", limit_s, hanging)
        first()
        sys.stderr.flush()
        os._exit(1)

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()
