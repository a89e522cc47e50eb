"""Queues as files, where a message that is being written is not there yet; and children of `serve` end together."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import psutil
import pytest
from kombu import Connection
from kombu.exceptions import ChannelError

from webapp.core import file_broker
from webapp.core import processes as module
from webapp.core.processes import ChildProcesses


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Any]:
    file_broker.register()
    folders = ("data_folder_in", "data_folder_out", "control_folder")
    options = dict.fromkeys(folders, str(tmp_path))
    with Connection(f"{file_broker.SCHEME}://", transport_options=options) as connection:
        yield connection.channel()


def test_messages_come_whole_each_to_its_queue(channel: Any) -> None:
    for number in range(20):
        channel._put("default", {"number": number, "text": "é\n"})
        channel._put("gpu", {"number": -number})
    assert channel._size("default") == 20
    got = [channel._get("default") for _ in range(20)]
    assert sorted(got, key=lambda message: message["number"]) == [
        {"number": number, "text": "é\n"} for number in range(20)
    ]
    with pytest.raises(Empty):
        channel._get("default")
    assert channel._size("gpu") == 20


def test_who_looks_while_a_message_is_written_finds_none(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    write = Path.write_bytes

    def half_written(path: Path, data: bytes) -> int:
        write(path, data[:5])
        with pytest.raises(Empty):
            channel._get("default")
        looked.append(path.name)
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", half_written)
    channel._put("default", {"number": 1})
    assert len(looked) == 1
    assert channel._get("default") == {"number": 1}


def test_a_folder_that_is_gone_is_named(channel: Any, tmp_path: Path) -> None:
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    with pytest.raises(ChannelError, match=str(tmp_path)):
        channel._put("default", {})


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
        "The wrong one has stopped (exit code 1). Until Confab is restarted, nothing is right.",
        "The killed one has stopped (killed by SIGKILL). Until Confab is restarted, nobody listens.",
    ]
    assert third.is_running()
    children.end()
    assert not third.is_running()
