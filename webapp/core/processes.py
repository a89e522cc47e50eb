"""Processes: heartbeats, children of `serve`, shutdown, and the server's address.

Every few seconds a process stores a heartbeat in its row: its identity, its load, whether it hangs, and its counters.
So any web process can report on all processes on any number of machines, without reaching a bot host or a worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from django.conf import settings
from django.db import DatabaseError, connections

from chatbots.installation import release
from chatbots.threads import thread_start
from webapp.core.child import WORKER_GRACE_S
from webapp.core.clock import OFF_AFTER_S, database_clock, database_now
from webapp.core.data_folder import FOLDER_DIFFERS, is_database_folder, read_folder_id
from webapp.core.health import samples_now
from webapp.core.models import Process

logger = logging.getLogger(__name__)

_ANY_HOST = ("0.0.0.0", "::")  # noqa: S104


def address_of(host: str, port: int) -> str:
    """Build the address at which this machine reaches a server.

    It includes the path prefix.
    """
    reachable_host = "127.0.0.1" if host in _ANY_HOST else host
    reachable_host = f"[{reachable_host}]" if ":" in reachable_host else reachable_host
    return f"http://{reachable_host}:{port}{settings.CONFAB_PATH_PREFIX}"


def server_address() -> str:
    """Return the running server's address.

    HOST and PORT take precedence if they are set.

    Without a running server it is the address at which `serve` would listen.
    """
    try:
        running = urlsplit(_file().read_text(encoding="utf-8"))
        host, port = running.hostname or settings.HOST, running.port or settings.PORT
    except (FileNotFoundError, ValueError):
        return address_of(settings.HOST, settings.PORT)
    return address_of(
        settings.HOST if "HOST" in settings.ADDRESS_SET else host,
        settings.PORT if "PORT" in settings.ADDRESS_SET else port,
    )


def address_write(address: str) -> None:
    """Store the address of this server while it runs."""
    _file().write_text(address, encoding="utf-8")


def address_forget(address: str) -> None:
    """Delete the stored address, unless another server has replaced it."""
    with contextlib.suppress(FileNotFoundError):
        if _file().read_text(encoding="utf-8") == address:
            _file().unlink()


def _file() -> Path:
    return Path(settings.DATA_DIR) / "server-address.txt"


# Open requests and sockets get this long to finish before they are cut off.
CONNECTIONS_GRACE_S = 5
# Then the process ends, even if a thread hangs in a call that never returns.
SHUTDOWN_LIMIT_S = CONNECTIONS_GRACE_S + WORKER_GRACE_S + 5


def end_process_within(limit_s: float = SHUTDOWN_LIMIT_S, *, first: Callable[[], None] = lambda: None) -> None:
    """End this process after `limit_s`, unless it ends by itself.

    Args:
        first: called just before.
    """

    def end() -> None:
        hanging = sorted(t.name for t in threading.enumerate() if not t.daemon)
        logger.error("not stopped within %g s; terminated by force. Threads: %s", limit_s, hanging)
        first()
        sys.stderr.flush()
        os._exit(1)

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()


CHILD_POLL_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class _Child:
    name: str
    without_it: str
    process: subprocess.Popen[bytes]


class ChildProcesses:
    """Children of this process, each in its own session.

    So Ctrl-C reaches them only through this process.

    They end by themselves when this process is killed (`webapp.core.child`).
    """

    def __init__(self) -> None:
        self._children: list[_Child] = []

    def begin(self, name: str, *module: str, without_it: str = "its work is not done") -> None:
        """Start a Python module as a child.

        Args:
            name: its name in messages.
            module: the module and its arguments.
            without_it: what stops working once it has ended.
        """
        watched = (sys.executable, "-m", "webapp.core.child", str(os.getpid()), *module)
        process = subprocess.Popen(watched, start_new_session=True)
        self._children.append(_Child(name, without_it, process))

    async def watch(self) -> None:
        """Report when a child ends, until cancelled."""
        ended: list[_Child] = []
        while True:
            for child in self._children:
                if child not in ended and (code := child.process.poll()) is not None:
                    ended.append(child)
                    logger.error(
                        "The %s has stopped (%s). Until Confab is restarted, %s.",
                        child.name,
                        _exit_reason(code),
                        child.without_it,
                    )
            await asyncio.sleep(CHILD_POLL_INTERVAL_S)

    def end(self) -> None:
        """Ask all children to end, and later kill those that have not."""
        for child in self._children:
            child.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + WORKER_GRACE_S
        with contextlib.suppress(subprocess.TimeoutExpired):
            for child in self._children:
                child.process.wait(timeout=max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """Kill the children that are still running."""
        for child in self._children:
            child.process.kill()


def _exit_reason(code: int) -> str:
    """Describe the end of a process by its exit code.

    It is Python's: negative after a signal.
    """
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


SILENT_AFTER = timedelta(seconds=60)
"""A process without a heartbeat for this long is considered gone."""
FORGOTTEN_AFTER = timedelta(days=1)
HANGS_AFTER_S = 60.0
"""A part that has stood still for this long hangs. Heartbeats report it, because their thread still runs."""
LOOP, THREADS = "loop", "threads"
"""Parts that can hang: the event loop, and all threads for pages at once."""
_BEAT_EVERY_S = 1.0

Role = str
WEB, BOT_HOST, WORKER = "web", "bot_host", "worker"


class Signs:
    """Heartbeat of this process: its id, roles and load."""

    def __init__(self) -> None:
        self.id = uuid.uuid4()
        self.roles: dict[Role, dict[str, Any]] = {}
        self.after: list[Callable[[], object]] = []
        """Called after each heartbeat, in the same thread."""
        self.stands_s: dict[str, Callable[[], float]] = {}
        """Functions that return how long each part has stood still, in seconds."""
        self._began_at: datetime | None = None
        self._is_clock_logged = self._is_folder_logged = False
        self._used: tuple[float, float] | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, role: Role, *, in_thread: bool = True, **details: Any) -> None:
        """Start sending heartbeats.

        They are sent from a separate thread, or whenever `give` is called.

        Args:
            details: further facts about this role: the queues of a worker, the pool of a bot host.
        """
        if settings.CONFAB_SIGN_EVERY_S <= 0:
            return
        self.roles[role] = details
        if in_thread and self._thread is None:
            self._over.clear()
            self._thread = thread_start(self._give_on, name="signs", lasting=True)

    async def beat(self) -> None:
        """Watch whether this event loop is running, until cancelled."""
        beat_at = time.monotonic()
        self.stands_s[LOOP] = lambda: time.monotonic() - beat_at
        while True:
            beat_at = time.monotonic()
            await asyncio.sleep(_BEAT_EVERY_S)

    def give(self) -> None:
        """Store a heartbeat, unless the database is unavailable."""
        try:
            self._store()
        except DatabaseError as error:
            logger.warning("no heartbeat could be stored: %s", type(error).__name__)

    def _store(self) -> None:
        now = database_now()
        self._began_at = self._began_at or now
        values = {
            "roles": sorted(self.roles),
            "host": socket.gethostname()[:200],
            "pid": os.getpid(),
            "version": release()[:100],
            "began_at": self._began_at,
            "heard_at": now,
            "details": {key: value for details in self.roles.values() for key, value in details.items()},
            "load": {**self._load(), "hangs": self._hangs(), **self._surroundings()},
            "samples": samples_now(),
        }
        Process.objects.update_or_create(id=self.id, defaults=values)
        Process.objects.filter(heard_at__lt=now - FORGOTTEN_AFTER).delete()

    def _surroundings(self) -> dict[str, Any]:
        """Return the clock's offset and the id of the data folder.

        A problem with either is logged once.
        """
        off_s = round(database_clock.seconds_off(), 1)
        folder_id = read_folder_id()
        if abs(off_s) > OFF_AFTER_S and not self._is_clock_logged:
            logger.error("the clock of this machine is %+g s off the database's; set it (NTP)", off_s)
        self._is_clock_logged = abs(off_s) > OFF_AFTER_S
        if not is_database_folder(folder_id) and not self._is_folder_logged:
            logger.error("%s", FOLDER_DIFFERS.format(folder=settings.DATA_DIR))
            self._is_folder_logged = True
        return {"clock_off_s": off_s, "data_folder": folder_id}

    def end(self) -> None:
        """Report that this process ends normally, so that it does not count as silent."""
        if not self.roles:
            return
        self.roles = {}
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=2)  # otherwise a heartbeat in progress would be stored after the end
        try:
            Process.objects.filter(id=self.id).delete()
        except DatabaseError as error:
            logger.warning("the end of the process could not be stored: %s", type(error).__name__)

    def _give_on(self) -> None:
        while not self._over.is_set():
            try:
                self.give()
                for also in self.after:
                    also()
            except Exception:  # the next heartbeat may succeed, and without any the process looks dead
                logger.exception("a heartbeat failed")
            finally:
                connections.close_all()  # keep no connection between heartbeats: connections are limited
            self._over.wait(settings.CONFAB_SIGN_EVERY_S)
        self._thread = None

    def _hangs(self) -> dict[str, float]:
        """Return the parts that hang, with the number of seconds."""
        stands = {name: look() for name, look in self.stands_s.items()}
        return {name: round(s, 1) for name, s in stands.items() if s >= HANGS_AFTER_S}

    def _load(self) -> dict[str, float]:
        """Return the CPU use since the last heartbeat, and the memory.

        CPU use is a share of a core; a worker's children are included.
        """
        own_process = psutil.Process()
        processes = [own_process, *(own_process.children(recursive=True) if WORKER in self.roles else ())]
        used_s, memory = 0.0, 0
        for process in processes:
            try:
                times = process.cpu_times()
                used_s += times.user + times.system
                memory += process.memory_info().rss
            except psutil.Error:  # the process ended meanwhile
                continue
        now_s = time.monotonic()
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
    return database_now() - process.heard_at > SILENT_AFTER


def is_clock_off(process: Process) -> bool:
    """Return True if the process's clock differs from the database's."""
    return abs(process.load.get("clock_off_s", 0.0)) > OFF_AFTER_S


def hangs_since(process: Process) -> dict[str, datetime]:
    """Return the hanging parts at the last heartbeat, and since when."""
    hangs = process.load.get("hangs", {})
    return {name: process.heard_at - timedelta(seconds=s) for name, s in hangs.items()}


def processes_known() -> list[Process]:
    """Return known processes by task.

    Those that ended normally or were replaced are left out; silent ones are kept for a day.
    """
    processes = sorted(Process.objects.all(), key=lambda process: (process.roles, process.host, process.began_at))
    living = [process for process in processes if not is_silent(process)]
    return [
        process
        for process in processes
        if not (is_silent(process) and any(_replaces(successor, process) for successor in living))
    ]


def _replaces(successor: Process, silent: Process) -> bool:
    """Return True if a process replaces a silent one.

    It began later and has all its roles and details.
    """
    does_all = set(silent.roles) <= set(successor.roles)
    same = all(successor.details.get(key) == value for key, value in silent.details.items())
    return successor.began_at > silent.heard_at and does_all and same


def processes_living(role: Role | None = None) -> list[Process]:
    """Return the processes with recent heartbeats.

    If a role is given, only those with it.
    """
    living = Process.objects.filter(heard_at__gte=database_now() - SILENT_AFTER)
    return [process for process in living.order_by("began_at") if role is None or role in process.roles]


LAST_HEARTBEAT_LIMIT_S = 3.0
"""Maximum duration of the last heartbeat: do not wait for an unavailable database."""


async def lifespan(_scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Start and end the heartbeats of this process."""
    beating: asyncio.Task[None] | None = None
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            signs.begin(WEB)
            beating = asyncio.ensure_future(signs.beat())
            await send({"type": "lifespan.startup.complete"})
        else:
            if beating is not None:
                beating.cancel()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(signs.end), LAST_HEARTBEAT_LIMIT_S)
            await send({"type": "lifespan.shutdown.complete"})
            return
