"""Commands, servers and workers of one installation, each a fork of a process in which Django is set up already.

A command of `manage.py` takes longer to import than to do what a test asks of it. A `Console` sets Django up once; what
a command then does, prints and returns is its own, as from a process begun anew. The consoles are forks too: of one
process, `python -m tests.console`, that has imported the libraries whose import takes seconds, and no module of Confab.

What begins with the start itself is tested by `python manage.py` (`tests/architecture/test_light_start.py`,
`tests/journeys/test_make_run.py`), and how a server stops by one that `python` started
(`tests/journeys/test_stopping.py`).
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = (
    *("celery.__main__", "pandas", "pyarrow.parquet", "scipy.stats", "sentence_transformers"),
    *("statsmodels.api", "torch", "uvicorn"),
)
"""What servers and workers import when they need it, of which torch and sentence_transformers take most."""
READ_ON_IMPORT = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
"""Variables that these libraries read when they are imported; the environment of every console has the same."""


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


class Imported:
    """The process that has imported the libraries; forks a console whenever it is asked.

    Forks of the process that creates this object share it: the first one that needs a console starts it.
    """

    def __init__(self) -> None:
        self._asking, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking.settimeout(600)  # our copy of their end hides that it has ended
        # Not empty: the process is started. Its lock admits one of our forks at a time.
        self._is_started = tempfile.TemporaryFile()  # noqa: SIM115
        self._one_at_a_time = threading.Lock()
        atexit.register(self._asking.close)  # which ends it

    def console(self, env: dict[str, str], asking: int, answering: int) -> Forked:
        """Return a new console with an environment, which reads one end of a pipe and writes to another's."""
        with self._one_at_a_time:
            fcntl.lockf(self._is_started, fcntl.LOCK_EX)
            try:
                if not os.fstat(self._is_started.fileno()).st_size:
                    self._start()
                    os.write(self._is_started.fileno(), b"1")
                socket.send_fds(self._asking, [json.dumps(env).encode()], [asking, answering])
                return Forked(int(self._asking.recv(100)))
            finally:
                fcntl.lockf(self._is_started, fcntl.LOCK_UN)

    def _start(self) -> None:
        subprocess.Popen(
            [sys.executable, "-m", "tests.console", str(self._theirs.fileno())],
            cwd=ROOT,
            env={**os.environ, **READ_ON_IMPORT},
            stdin=subprocess.DEVNULL,
            pass_fds=[self._theirs.fileno()],
            start_new_session=True,
        )


_CODES: list[int] = []
"""The exit code of this process, once its program has ended."""
imported = functools.cache(Imported)
"""The one of this process and of its forks, started when it is first wanted."""


class Console:
    """A process that runs commands with one environment, one after another, and starts what goes on beside them."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = dict(env)
        self._one_at_a_time = threading.Lock()
        their_asking, asking = os.pipe()
        answering, their_answering = os.pipe()
        try:
            self._process = imported().console(self.env, their_asking, their_answering)
        finally:
            os.close(their_asking)
            os.close(their_answering)
        self._asking = os.fdopen(asking, "w", encoding="utf-8")
        self._answering = os.fdopen(answering, encoding="utf-8")

    def run(self, args: tuple[str, ...], *, check: bool, timeout_s: float) -> subprocess.CompletedProcess[str]:
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
            return Forked(self._answer(words, [str(log)] * 2, timeout_s=600, waits=False))

    def close(self) -> None:
        """End the process."""
        self._kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):  # words that it has not read
            self._asking.close()
        self._answering.close()

    def _answer(self, words: list[str], files: list[str], *, timeout_s: float, waits: bool) -> int:
        """Return the exit code of a program that is waited for, and the number of the process of another."""
        late = threading.Timer(timeout_s, self._kill)
        late.start()
        try:
            self._asking.write(json.dumps([words, files, waits]) + "\n")
            self._asking.flush()
            answer = self._answering.readline()
        finally:
            late.cancel()
        if not answer:
            raise AssertionError(f"no answer to {words} within {timeout_s:g} s")
        return int(answer)

    def _kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)


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


def next_console(asked: socket.socket) -> None:
    """Fork for every console that is asked for; return in the child, with its environment and its pipes."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a console that has ended
    while True:
        env, pipes, _flags, _address = socket.recv_fds(asked, 1_000_000, 2)
        if not env:
            sys.exit()
        if not (child := os.fork()):
            break
        asked.send(str(child).encode())
        for pipe in pipes:
            os.close(pipe)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    asked.close()
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    os.environ.clear()
    os.environ.update(json.loads(env))


def _code_of(program: Callable[[], object]) -> int:
    """Run a program; return its exit code, and have this process end with it once all else has ended."""
    try:
        program()
        code: object = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    if not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    _CODES.append(code)
    return code


def _end_at_once() -> None:
    """End without taking the libraries down, which copies most of their memory: a second for every command."""
    if _CODES:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_CODES[0])


if __name__ == "__main__":
    atexit.register(_end_at_once)  # the first to be registered is the last to be called
    gc.disable()
    for library in LIBRARIES:
        importlib.import_module(library)
    # What lies here is garbage in no process: none looks through it, for looking copies it.
    gc.collect()
    gc.freeze()
    next_console(socket.socket(fileno=int(sys.argv[1])))

    import django

    from webapp.command_line import main

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
    django.setup()
    importlib.import_module("webapp.urls")  # for every web process, and for the checks before most commands
    assert threading.active_count() == 1, "a fork has no threads but the one that forks"
    # Django itself never becomes garbage: the first collection took ten times what a short command does.
    gc.collect()
    gc.freeze()
    sys.argv = next_program()
    gc.enable()
    celery_main = sys.modules["celery.__main__"].main
    sys.exit(_code_of({"manage.py": main, "celery": celery_main}[sys.argv[0]]))
