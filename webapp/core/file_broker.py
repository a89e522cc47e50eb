"""Celery's queues as files, without Redis, with atomic messages.

kombu creates a message's file before it writes to it. A worker that reads it in between gets an empty file and crashes
(https://github.com/celery/kombu/issues/1551). Here the message is written under a name that no queue uses, and then
renamed.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from kombu.exceptions import ChannelError
from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps

SCHEME = "files"
"""Scheme of the broker's URL: `files://`."""


class Channel(filesystem.Channel):
    # kombu names this argument `message` in one base class and `payload` in the other.
    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Add a message to the queue.

        Raises:
            ChannelError: if the message cannot be written.
        """
        folder = Path(self.data_folder_out)
        name = f"{round(monotonic() * 1000)}_{uuid4()}.{queue}.msg"
        unfinished = folder / f"{name}.begun"
        try:
            unfinished.write_bytes(dumps(payload).encode())
            unfinished.rename(folder / name)
        except OSError as error:
            raise ChannelError(f"cannot write the message {name} to {folder}: {error}") from error


class Transport(filesystem.Transport):
    Channel = Channel


def register() -> None:
    """Register the transport with Celery by its scheme."""
    TRANSPORT_ALIASES[SCHEME] = f"{__name__}:{Transport.__name__}"
