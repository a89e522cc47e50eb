"""Leases of jobs and shards, and checks that their holder is alive."""

from __future__ import annotations

import os
import socket
import uuid
from datetime import datetime, timedelta
from pathlib import Path

from django.db.models import Q
from django.utils import timezone

STALE_AFTER = timedelta(seconds=60)
"""Who has given no sign of life for so long holds a job no more."""


_mine: set[str] = set()


def holder_new() -> str:
    """Return a token of this process, host:pid:random, with which it holds one row until `holder_end`."""
    holder = f"{socket.gethostname()[:80]}:{os.getpid()}:{uuid.uuid4().hex}"
    _mine.add(holder)
    return holder


def holder_end(holder: str) -> None:
    """Be at work with this token no longer, even where a busy database did not let the row go."""
    _mine.discard(holder)


def free_rows(current: str | None) -> Q:
    """Return the condition on a row that it may be claimed.

    Args:
        current: its holder as read before, who is looked up where that was a process of this machine.
    """
    free = Q(holder="") | Q(heartbeat_at=None) | Q(heartbeat_at__lt=timezone.now() - STALE_AFTER)
    return free | Q(holder=current) if current and holder_is_dead(current) else free


def is_alive(holder: str, heartbeat_at: datetime | None) -> bool:
    """Return True if a process holds the row and has not died or long been silent."""
    if not holder or heartbeat_at is None or timezone.now() - heartbeat_at > STALE_AFTER:
        return False
    return not holder_is_dead(holder)


def holder_is_dead(holder: str) -> bool:
    """Return True if the holder was a process of this machine that no longer exists, or this one, long done with it."""
    host, _, rest = holder.partition(":")
    pid = rest.partition(":")[0]
    if host != socket.gethostname()[:80] or not pid.isdigit():
        return False
    if int(pid) == os.getpid():
        return holder not in _mine
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _is_zombie(int(pid))


def _is_zombie(pid: int) -> bool:
    """Return True if a process has ended and only its parent has not noticed, as in containers without an init."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # gone meanwhile, or not Linux
        return False
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")
