"""Commands, servers and workers of one installation, each a fork of a process in which Django is set up already.

A command of `manage.py` takes longer to import than to do what a test asks of it. A `Console` imports once; what a
command then does, prints and returns is its own, as from a process begun anew. What begins with the start itself is
tested by `python manage.py` (`tests/architecture/test_light_start.py`, `tests/journeys/test_make_run.py`), and how a
server stops by one that `python` started (`tests/journeys/test_stopping.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Forked:
    """A process that a `Console` started: no child of ours, so that its exit code is not known here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # Names the process even where its number is given to another later.
        self._ends = os.pidfd_open(pid)

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._ends, number)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the process has ended.

        Args:
            timeout: in seconds.

        Raises:
            subprocess.TimeoutExpired: it still runs then.
        """
        if not select.select([self._ends], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)

    def __del__(self) -> None:
        os.close(self._ends)


class Console:
    """A process that runs commands with one environment, one after another, and starts what goes on beside them."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = dict(env)
        self._one_at_a_time = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.console"],
            cwd=ROOT,
            env=self.env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def run(
        self, args: tuple[str, ...], *, check: bool, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of `manage.py`; what `subprocess.run` with captured texts returns comes back."""
        with self._one_at_a_time, tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, name) for name in ("out", "err")]
            code = self._answer(["manage.py", *args], files, timeout_s=timeout_s, waits=True)
            printed = [Path(file).read_text(encoding="utf-8") for file in files]
        done = subprocess.CompletedProcess(args, code, *printed)
        if check:
            done.check_returncode()
        return done

    def start(self, words: list[str], log: Path) -> Forked:
        """Start a program in a session of its own, which goes on when this console ends.

        Args:
            words: "manage.py" or "celery", and its arguments.
            log: a file to which all it prints is added.
        """
        log.touch()  # at once, for whoever looks into it
        with self._one_at_a_time:
            return Forked(self._answer(words, [str(log)] * 2, timeout_s=180, waits=False))

    def close(self) -> None:
        """End the process."""
        self._kill()
        self._process.communicate()

    def _answer(self, words: list[str], files: list[str], *, timeout_s: float, waits: bool) -> int:
        """Return the exit code of a program that is waited for, and the number of the process of another."""
        asking, answering = self._process.stdin, self._process.stdout
        assert asking
        assert answering
        late = threading.Timer(timeout_s, self._kill)
        late.start()
        try:
            asking.write(json.dumps([words, files, waits]) + "\n")
            asking.flush()
            answer = answering.readline()
        finally:
            late.cancel()
        if not answer:
            raise AssertionError(f"no answer to {words} within {timeout_s:g} s")
        return int(answer)

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)


def next_program() -> list[str]:
    """Fork for every program that is asked for; return its words in the child."""
    answering = os.dup(1)
    started: list[int] = []
    for line in sys.stdin:
        # Those that have ended are let go: the product asks the system whether a process lives.
        started = [pid for pid in started if not os.waitpid(pid, os.WNOHANG)[0]]
        words, files, waits = json.loads(line)
        if not (child := os.fork()):
            if not waits:
                os.setsid()
            os.close(answering)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, file in enumerate(files, start=1):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
            return words
        if waits:
            answer = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        else:
            started.append(answer := child)
        os.write(answering, f"{answer}\n".encode())
    sys.exit()


if __name__ == "__main__":
    import celery.__main__
    import django

    from webapp.command_line import main

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
    django.setup()
    assert threading.active_count() == 1, "a fork has no threads but the one that forks"
    sys.argv = next_program()
    {"manage.py": main, "celery": celery.__main__.main}[sys.argv[0]]()
