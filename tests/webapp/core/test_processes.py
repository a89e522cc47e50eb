"""Children of `serve` end together."""

from __future__ import annotations

import asyncio
import signal

import psutil
import pytest

from webapp.core import processes as module
from webapp.core.processes import ChildProcesses


def begun(children: ChildProcesses, name: str, *module: str, without_it: str) -> psutil.Process:
    """Begin a child and return its process: the one that was not there before."""
    before = psutil.Process().children()
    children.begin(name, *module, without_it=without_it)
    [child] = set(psutil.Process().children()) - set(before)
    return child


async def test_a_child_that_ends_is_told_and_the_others_end_with_us(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHILD_POLL_INTERVAL_S", 0.01)
    children = ChildProcesses()
    listens = ("http.server", "0", "--bind")
    children.begin("wrong one", "no_such_module", without_it="nothing is right")
    killed = begun(children, "killed one", *listens, "127.0.0.1", without_it="nobody listens")
    third = begun(children, "third", *listens, "127.0.0.2", without_it="all is quiet")
    watching = asyncio.ensure_future(children.watch())
    async with asyncio.timeout(60):
        while not caplog.messages:
            await asyncio.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
        while len(caplog.messages) < 2:
            await asyncio.sleep(0.01)
    watching.cancel()
    assert caplog.messages == [
        "The wrong one has ended (exit code 1). Until Confab is started again, nothing is right.",
        "The killed one has ended (killed by SIGKILL). Until Confab is started again, nobody listens.",
    ]
    assert third.is_running()
    children.end()
    assert not third.is_running()
