"""Whether the process that holds a job is still alive."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from pathlib import Path

STALE_AFTER = timedelta(seconds=60)
"""Who has given no sign of life for so long holds a job no more."""


def holder_is_dead(holder: str) -> bool:
    """Whether the holder was a process of this machine that no longer exists."""
    host, _, rest = holder.partition(":")
    pid = rest.partition(":")[0]
    if host != socket.gethostname()[:80] or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _is_zombie(int(pid))


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended and only its parent has not noticed, as in containers without an init."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # gone meanwhile, or not Linux
        return False
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")
