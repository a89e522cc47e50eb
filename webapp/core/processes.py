"""Signs of life of every process: who it is, how busy it is, whether it hangs, and what it has counted.

A process stores its sign in one row, every few seconds. So whichever web process is asked tells of all of them, on any
number of machines, and nobody needs to reach a bot host or a worker.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psutil
from django.conf import settings
from django.db import DatabaseError, connections
from django.utils import timezone

from chatbots.release import release
from webapp.core.instruments import samples_now
from webapp.core.models import Process

logger = logging.getLogger(__name__)

SILENT_AFTER = timedelta(seconds=60)
"""Who has given no sign for so long is not there any more."""
FORGOTTEN_AFTER = timedelta(days=1)
HANGS_AFTER_S = 60.0
"""What has stood still for so long hangs. The sign says so, for the thread that gives signs still moves."""
LOOP, THREADS = "loop", "threads"
"""What may hang: the event loop, and all threads for pages at once."""
_BEAT_EVERY_S = 1.0

Role = str
WEB, BOT_HOST, WORKER = "web", "bot_host", "worker"


class Signs:
    """Heartbeat of this process: its id, roles and load."""

    def __init__(self) -> None:
        self.id = uuid.uuid4()
        self.roles: dict[Role, dict[str, Any]] = {}
        self.after: list[Callable[[], object]] = []
        """What is done after each sign, in the same thread."""
        self.stands_s: dict[str, Callable[[], float]] = {}
        """Of what may hang, how long it has stood still, in seconds."""
        self._began_at = timezone.now()
        self._used: tuple[float, float] | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, role: Role, *, in_thread: bool = True, **details: Any) -> None:
        """Say from now on that this process lives, in a thread of its own or whenever `give` is called.

        Args:
            details: what else to tell of this role: the queues of a worker, the pool of a bot host.
        """
        if settings.CONFAB_SIGN_EVERY_S <= 0:
            return
        self.roles[role] = details
        if in_thread and self._thread is None:
            self._over.clear()
            self._thread = threading.Thread(target=self._give_on, name="signs", daemon=True)
            self._thread.start()

    async def beat(self) -> None:
        """Watch from now on whether the event loop that runs this moves; until cancelled."""
        beat_at = time.monotonic()
        self.stands_s[LOOP] = lambda: time.monotonic() - beat_at
        while True:
            beat_at = time.monotonic()
            await asyncio.sleep(_BEAT_EVERY_S)

    def give(self) -> None:
        """Store a sign; while the database is away there is none."""
        now = timezone.now()
        mine = {
            "roles": sorted(self.roles),
            "host": socket.gethostname()[:200],
            "pid": os.getpid(),
            "version": release()[:100],
            "began_at": self._began_at,
            "heard_at": now,
            "details": {key: value for one in self.roles.values() for key, value in one.items()},
            "load": {**self._load(), "hangs": self._hangs()},
            "samples": samples_now(),
        }
        try:
            Process.objects.update_or_create(id=self.id, defaults=mine)
            Process.objects.filter(heard_at__lt=now - FORGOTTEN_AFTER).delete()
        except DatabaseError as error:
            logger.warning("no sign of life could be stored: %s", type(error).__name__)

    def end(self) -> None:
        """Report that this process ends in order, so that it does not count as silent."""
        if not self.roles:
            return
        self.roles = {}
        self._over.set()
        if self._thread is not None:
            self._thread.join(
                timeout=2
            )  # or the sign that it is just giving would come after the end
        try:
            Process.objects.filter(id=self.id).delete()
        except DatabaseError as error:
            logger.warning("the end could not be stored: %s", type(error).__name__)

    def _give_on(self) -> None:
        while not self._over.is_set():
            try:
                self.give()
                for also in self.after:
                    also()
            except Exception:  # the next sign may work, and without one the process looks dead
                logger.exception("a sign of life failed")
            finally:
                connections.close_all()  # none is kept between signs: connections are counted
            self._over.wait(settings.CONFAB_SIGN_EVERY_S)
        self._thread = None

    def _hangs(self) -> dict[str, float]:
        """Return the parts that hang, and for how many seconds."""
        stands = {name: look() for name, look in self.stands_s.items()}
        return {name: round(s, 1) for name, s in stands.items() if s >= HANGS_AFTER_S}

    def _load(self) -> dict[str, float]:
        """Return the share of a core used since the last sign and the memory; a worker's children count with it."""
        own = psutil.Process()
        everyone = [own, *(own.children(recursive=True) if WORKER in self.roles else ())]
        used_s, memory = 0.0, 0
        for one in everyone:
            try:
                times = one.cpu_times()
                used_s += times.user + times.system
                memory += one.memory_info().rss
            except psutil.Error:  # it ended meanwhile
                continue
        now_s = timezone.now().timestamp()
        load = {"memory_mb": round(memory / 1_000_000, 1)}
        if self._used is not None and now_s > self._used[1]:
            share = max(0.0, used_s - self._used[0]) / (now_s - self._used[1])
            load["cpu"] = round(share, 3)
        self._used = (used_s, now_s)
        return load


signs = Signs()
"""Those of this process."""


def is_silent(process: Process) -> bool:
    """Return True if a process has sent no heartbeat for too long."""
    return timezone.now() - process.heard_at > SILENT_AFTER


def hangs_since(process: Process) -> dict[str, datetime]:
    """Return the parts of a process that hung at its last heartbeat, and since when."""
    hangs = process.load.get("hangs", {})
    return {name: process.heard_at - timedelta(seconds=s) for name, s in hangs.items()}


def processes_known() -> list[Process]:
    """Return processes that neither ended in order nor have a successor, by task; those silent for a day too."""
    everyone = sorted(Process.objects.all(), key=lambda one: (one.roles, one.host, one.began_at))
    living = [one for one in everyone if not is_silent(one)]
    return [
        one
        for one in everyone
        if not (is_silent(one) and any(_replaces(other, one) for other in living))
    ]


def _replaces(other: Process, gone: Process) -> bool:
    """Return True if a process began after another fell silent and has all its roles and details."""
    does_all = set(gone.roles) <= set(other.roles)
    same = all(other.details.get(key) == value for key, value in gone.details.items())
    return other.began_at > gone.heard_at and does_all and same


def processes_living(role: Role | None = None) -> list[Process]:
    """Return the processes that are heard of, those with a role alone if one is named."""
    living = Process.objects.filter(heard_at__gte=timezone.now() - SILENT_AFTER)
    return [one for one in living.order_by("began_at") if role is None or role in one.roles]
