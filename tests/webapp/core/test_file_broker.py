"""Queues as files: a message that is being written is not there yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection
from kombu.exceptions import ChannelError

from webapp.core import file_broker


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
