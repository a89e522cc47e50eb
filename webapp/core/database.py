"""Database work from the event loop: one thread a process, whose connection stays open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, connections

P = ParamSpec("P")
R = TypeVar("R")


def in_database(work: Callable[P, R]) -> Callable[P, Awaitable[R]]:
    """Run `work` on the process's database thread.

    Like `channels.db.database_sync_to_async`, which opens a connection for every call, since nothing
    may be kept open between requests (see `settings/database.py`). This thread outlives them all, so
    its connection is kept, and thrown away after an error of the connection itself.
    """

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return work(*args, **kwargs)
        except (OperationalError, InterfaceError):
            connections.close_all()
            raise

    return sync_to_async(run, thread_sensitive=True)
