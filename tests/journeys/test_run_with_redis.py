"""With Redis bots live in a process of their own: `make run` starts it too, and `serve` alone says that it does not."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import ConfabServer, start_confab
from tests.journeys.test_make_run import living
from webapp.participant.simulated import StudyClient, frames_until, say

pytestmark = [pytest.mark.slow, pytest.mark.redis]


@pytest.fixture
def server(tmp_path: Path, vector_cache: Path) -> Iterator[ConfabServer]:
    """Have a Confab with a demo whose only bot is there at once, and no process running."""
    for server in start_confab(tmp_path, vector_cache, with_demo=False, with_processes=False):
        server.add_study("demo", ["eliza"])
        server.add_study("demo-paper", ["eliza"], state="ended")
        yield server
        for process in living(tmp_path):
            with contextlib.suppress(psutil.Error):
                process.kill()


async def test_the_demo_answers_and_nothing_is_left_over(server: ConfabServer) -> None:
    log = server.data_dir / "web.log"

    def bot_hosts() -> list[psutil.Process]:
        return [one for one in living(server.data_dir) if "bot_host" in one.cmdline()]

    await asyncio.to_thread(server.start_web)
    assert "run `manage.py bot_host` as well" in log.read_text()
    assert not bot_hosts()
    server.kill("web")
    log.unlink()

    server.start_forked("web", "manage.py", "serve", "--port", str(server.port), "--demo")
    await asyncio.to_thread(server.wait_until_healthy)
    assert "bot_host` as well" not in log.read_text()
    doors = StudyClient(server.url, "demo")
    try:
        await doors.start()
        async with doors.socket() as socket:
            await frames_until(socket, "history")
            assert (await say(socket, "hello"))[-1]["type"] == "reply"
    finally:
        await doors.close()

    web = server.processes.pop("web")
    web.send_signal(signal.SIGTERM)
    await asyncio.to_thread(web.wait, 60)
    assert not bot_hosts()
    assert "The bot host has stopped" not in log.read_text()
