"""pytest plugin `--forks N`: collect once, then run the files in N forked workers.

Imports and collection take 20 seconds of CPU, and pytest-xdist repeats both in every worker. As with its `loadfile`,
the tests of a file run in one worker, and files start in the order of collection.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import shutil
import tempfile
import traceback
import uuid
import warnings
from collections import deque
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.console import imported

MANY_FILES = 200
"""In a run of more files every worker needs sentence_transformers, whose import takes 8 seconds of CPU."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="number of forked workers; 0 runs the tests in this process")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in workers; leave one process, a collection alone and its errors to pytest."""
    n_workers = session.config.getoption("--forks")
    if not n_workers or session.config.option.collectonly or session.testsfailed:
        return None
    _Controller(session).run(n_workers)
    return True


class _Controller:
    """Forks the workers, gives each the next file and reports what they send."""

    def __init__(self, session: pytest.Session) -> None:
        self.session, self.hook = session, session.config.hook
        by_file: dict[Path, list[int]] = {}
        for index, item in enumerate(session.items):
            by_file.setdefault(item.path, []).append(index)
        self.files = deque(by_file.values())
        self.workers: dict[Connection, _WorkerState] = {}
        # Before the forks, which share these.
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        imported()
        if len(self.files) > MANY_FILES:
            importlib.import_module("sentence_transformers")
            gc.freeze()  # a collection in a worker would copy what it looks at

    def run(self, n_workers: int) -> None:
        try:
            for number in range(min(n_workers, len(self.files))):
                self._start(number, self.files.popleft())
            while self.workers:
                for connection in wait(list(self.workers)):
                    self._receive(connection)  # type: ignore[arg-type]
                if self.session.shouldfail or self.session.shouldstop:
                    self._stop()
        finally:
            self._stop()
            for state in self.workers.values():
                os.waitpid(state.pid, 0)
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)
        if self.session.shouldstop:
            raise self.session.Interrupted(self.session.shouldstop)

    def _start(self, number: int, indices: list[int]) -> None:
        ours, theirs = Pipe()
        if not (pid := os.fork()):
            for connection in (ours, *self.workers):  # a worker must notice when the controller ends
                connection.close()
            _run_worker(self.session, theirs, number, indices)
        theirs.close()
        self.workers[ours] = _WorkerState(pid, number, deque(indices))

    def _receive(self, connection: Connection) -> None:
        state = self.workers[connection]
        try:
            kind, value = connection.recv()
        except (EOFError, ConnectionResetError):
            self._end(connection)
            return
        if kind == "next":
            indices = self.files.popleft() if self.files else []
            state.indices.extend(indices)
            with contextlib.suppress(BrokenPipeError):  # a worker that was killed; its end is received next
                connection.send(indices)
        elif kind == "report":
            report = self.hook.pytest_report_from_serializable(config=self.session.config, data=value)
            self.hook.pytest_runtest_logreport(report=report)
        elif kind == "finished":
            item = self.session.items[state.indices.popleft()]
            self.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        elif kind == "warning":
            category = type(value.pop("category"), (Warning,), {})
            message = warnings.WarningMessage(value.pop("text"), category, value.pop("filename"), value.pop("lineno"))
            self.hook.pytest_warning_recorded.call_historic(kwargs={"warning_message": message, **value})
        else:
            raise RuntimeError(f"worker {state.number}: {value}")

    def _end(self, connection: Connection) -> None:
        """Report the test during which a worker died; a new worker runs the rest of its tests."""
        state = self.workers.pop(connection)
        code = os.waitstatus_to_exitcode(os.waitpid(state.pid, 0)[1])
        if not code or not state.indices:
            return
        item = self.session.items[state.indices.popleft()]
        reason = f"worker {state.number} ended with code {code} during this test"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", reason, "call")
        self.hook.pytest_runtest_logreport(report=report)
        if state.indices:
            self._start(state.number, list(state.indices))

    def _stop(self) -> None:
        for connection in self.workers:
            with contextlib.suppress(OSError):
                connection.send(None)


class _WorkerState:
    """The process of a worker, and its tests in order: the first is running."""

    def __init__(self, pid: int, number: int, indices: deque[int]) -> None:
        self.pid, self.number, self.indices = pid, number, indices


class _Sender:
    """Sends reports and warnings of a worker to the controller, instead of printing them."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self.config, self.connection = config, connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.connection.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        value = {
            "text": str(warning_message.message),
            "category": warning_message.category.__name__,
            "filename": warning_message.filename,
            "lineno": warning_message.lineno,
        }
        self.connection.send(("warning", {**value, "when": when, "nodeid": nodeid, "location": location}))


def _run_worker(session: pytest.Session, connection: Connection, number: int, indices: list[int]) -> None:
    """Run tests until the controller has no more, and end the process."""
    code = 1
    try:
        atexit._clear()  # the controller's: they remove what all workers share
        _separate(session.config, f"gw{number}")
        session.config.pluginmanager.unregister(name="terminalreporter")
        session.config.pluginmanager.register(_Sender(session.config, connection))
        _run_tests(session, connection, deque(indices))
        code = 0
    except BaseException:
        with contextlib.suppress(OSError):
            connection.send(("error", traceback.format_exc()))
        code = 0
    finally:
        with contextlib.suppress(BaseException):
            session._setupstate.teardown_exact(None)  # servers, after a stop or an error
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        os._exit(code)


def _run_tests(session: pytest.Session, connection: Connection, queue: deque[int]) -> None:
    while queue:
        index = queue.popleft()
        if not queue:  # the next test decides which fixtures stay
            connection.send(("next", None))
            indices = connection.recv()
            if indices is None:
                return
            queue.extend(indices)
        if connection.poll():  # only a stop comes unasked
            return
        item, nextitem = session.items[index], session.items[queue[0]] if queue else None
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        connection.send(("finished", None))
        if session.shouldfail or session.shouldstop:
            return


def _separate(config: pytest.Config, name: str) -> None:
    """Give a worker its own temporary folder, captured output, data folder and channels."""
    config.workerinput = {"workerid": name}  # type: ignore[attr-defined]  # pytest-django names the database by it
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=factory.getbasetemp()))
    # A shared file would have one position for all workers. Loggers keep the object, so that only its file changes.
    captures = config.pluginmanager.getplugin("capturemanager")._global_capturing
    for capture in (captures.out, captures.err) if captures else ():
        if file := getattr(capture, "tmpfile", None):
            with tempfile.TemporaryFile(buffering=0) as own:
                os.dup2(own.fileno(), file.fileno())
    if settings.configured and "CONFAB_DATA_DIR" in os.environ:
        _separate_settings()


def _separate_settings() -> None:
    """Replace the data folder and channel prefix of the controller in every setting and in the environment."""
    own = {
        "CONFAB_DATA_DIR": os.path.join(os.environ["CONFAB_TEST_DIR"], str(os.getpid())),
        "CONFAB_CHANNEL_PREFIX": f"confab-test-{uuid.uuid4().hex[:12]}",
    }
    texts = {os.environ[name]: value for name, value in own.items()}
    shutil.copytree(os.environ["CONFAB_DATA_DIR"], own["CONFAB_DATA_DIR"])
    os.environ.update(own)
    for name in filter(str.isupper, dir(settings)):
        value = getattr(settings, name)
        if (replaced := _replace_texts(value, texts)) is not value:
            setattr(settings, name, replaced)


def _replace_texts(value: Any, texts: dict[str, str]) -> Any:
    """Return a value with texts replaced; dicts and lists are changed in place, for Django keeps references to them."""
    if isinstance(value, dict):
        value.update({key: _replace_texts(item, texts) for key, item in value.items()})
    elif isinstance(value, list):
        value[:] = [_replace_texts(item, texts) for item in value]
    elif type(value) is tuple:
        items = [_replace_texts(item, texts) for item in value]
        return value if all(map(lambda new, old: new is old, items, value)) else tuple(items)
    elif isinstance(value, str | Path):
        for text, replacement in texts.items():
            if text in str(value):
                value = type(value)(str(value).replace(text, replacement))
    return value
