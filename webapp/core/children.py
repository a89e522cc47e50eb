"""Child processes that `serve` starts, watches, and stops with itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from webapp.core.stopping import WORKER_S

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Child:
    name: str
    without_it: str
    process: subprocess.Popen[bytes]


class Children:
    """The children of this process, each in a session of its own, so that Ctrl-C reaches it through us."""

    def __init__(self) -> None:
        self._children: list[_Child] = []

    def begin(self, name: str, *module: str, without_it: str) -> None:
        """Start a Python module as a child.

        Args:
            name: what it is, in the messages.
            module: the module and its arguments.
            without_it: what no longer happens once it has ended.
        """
        process = subprocess.Popen([sys.executable, "-m", *module], start_new_session=True)
        self._children.append(_Child(name, without_it, process))

    async def watch(self) -> None:
        """Say it when a child ends, now or later; until cancelled."""
        running = list(self._children)
        while True:
            for child in list(running):
                if (code := child.process.poll()) is not None:
                    running.remove(child)
                    logger.error(
                        "The %s has ended (%s). Until Confab is started again, %s.",
                        child.name,
                        _how(code),
                        child.without_it,
                    )
            await asyncio.sleep(LOOK_EVERY_S)

    def end(self) -> None:
        """Ask all children to end, and kill those that have not after a while."""
        for child in self._children:
            child.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + WORKER_S
        with contextlib.suppress(subprocess.TimeoutExpired):
            for child in self._children:
                child.process.wait(timeout=max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """Kill the children that still run."""
        for child in self._children:
            child.process.kill()


def _how(code: int) -> str:
    """Describe the end of a process by its exit code: that of Python, negative after a signal."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
