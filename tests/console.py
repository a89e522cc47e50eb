"""Commands of one installation, each a fork of a process in which Django is set up already.

A command of `manage.py` takes longer to import than to do what a test asks of it. A `Console` imports once; what a
command then does, prints and returns is its own, as from a process begun anew. What begins with the start itself is
tested by `python manage.py` (`tests/architecture/test_light_start.py`, `tests/journeys/test_make_run.py`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Console:
    """A process that runs commands with one environment, one after another."""

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
        asking, answering = self._process.stdin, self._process.stdout
        assert asking
        assert answering
        with self._one_at_a_time, tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, name) for name in ("out", "err")]
            late = threading.Timer(timeout_s, self._kill)
            late.start()
            try:
                asking.write(json.dumps([args, *files]) + "\n")
                asking.flush()
                code = answering.readline()
            finally:
                late.cancel()
            if not code:
                raise AssertionError(f"no answer to {args} within {timeout_s:g} s")
            printed = [Path(file).read_text(encoding="utf-8") for file in files]
        done = subprocess.CompletedProcess(args, int(code), *printed)
        if check:
            done.check_returncode()
        return done

    def close(self) -> None:
        """End the process."""
        self._kill()
        self._process.communicate()

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)


def next_command() -> list[str]:
    """Fork for every command that is asked for; return its words in the child."""
    answering = os.dup(1)
    for line in sys.stdin:
        args, *files = json.loads(line)
        if not (child := os.fork()):
            os.close(answering)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, file in enumerate(files, start=1):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
            return ["manage.py", *args]
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(answering, f"{code}\n".encode())
    sys.exit()


if __name__ == "__main__":
    import django

    from webapp.command_line import main

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
    django.setup()
    assert threading.active_count() == 1, "a fork has no threads but the one that forks"
    sys.argv = next_command()
    main()
