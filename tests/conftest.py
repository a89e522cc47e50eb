"""Fixtures: a study, and a whole Confab in processes of its own."""

import contextlib
import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from asgiref.sync import SyncToAsync
from django.conf import settings as django_settings
from django.db import connection, connections, transaction
from django.template.base import Template
from django.template.context import Context
from django.test.signals import template_rendered
from hypothesis import HealthCheck, settings
from pytest_django import DjangoDbBlocker

from chatbots.devices import batches_made_exact
from chatbots.encoders.cache import cache_folder_set
from tests.console import Console, Forked
from tests.databases import (
    migrated_template_drop,
    own_database,
    sqlite_emptied_without_triggers,
    tables_emptied_by_deleting,
    worker_database_fill,
)
from tests.devices import elsewhere, encoder_devices  # noqa: F401
from tests.pages import statuses_looked_at
from webapp.core.project_scope import leave_project

ROOT = Path(__file__).resolve().parents[1]
TEST_PROCESS_ONLY = {"MKL_CBWR"}
"""Variables that commands set for themselves, so that a server under test must not inherit them."""

batches_made_exact()
# A busy machine makes no test fail.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage meanwhile: nothing that is imported is any, and looking took a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a server that the environment does not name; a second try where a browser is driven."""
    for item in items:
        # A browser on a busy machine can be late for anything. What fails twice fails; a second try is reported.
        if item.path.is_relative_to(ROOT / "tests" / "browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))
        for marker, variable in (("postgres", "DATABASE_URL"), ("redis", "REDIS_URL")):
            if item.get_closest_marker(marker) and not os.environ.get(variable):
                item.add_marker(pytest.mark.skip(reason=f"{variable} is not set"))
        if item.get_closest_marker("gpu") and not _has_gpu():
            item.add_marker(pytest.mark.skip(reason="there is no CUDA device"))


def pytest_collection_finish() -> None:
    """Look for garbage seldom, and never in what was there before the first test: Django, PyTorch and all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    # What a test does in a transaction is seen by its own thread alone; servers that tests start keep the default.
    django_settings.CONFAB_SOCKET_THREADS = 1


LOOK_AT_STATUSES = ("participant", "dashboard")
"""Below `tests/webapp`: who counts queries or searches for words knows that the page was there."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Have tests of pages look at the statuses that they get."""
    webapp = ROOT / "tests" / "webapp"
    if any(item.path.is_relative_to(webapp / folder) for folder in LOOK_AT_STATUSES):
        with statuses_looked_at():
            yield
    else:
        yield


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker ends before the others
        migrated_template_drop()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    request: pytest.FixtureRequest, django_db_modify_db_settings_parallel_suffix: None
) -> Iterator[None]:
    """Copy a migrated database into ours: SQLite's is kept between runs, PostgreSQL's is there for several workers."""
    if connection.vendor == "postgresql":
        tables_emptied_by_deleting()
    else:
        sqlite_emptied_without_triggers()
    is_worth_it = connection.vendor == "sqlite" or hasattr(request.config, "workerinput")
    kept = worker_database_fill() if is_worth_it else None
    yield
    if kept is not None:
        kept.close()


@pytest.fixture(scope="module")
def rows_of_file(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Keep rows that fixtures of a file make, for all its tests; what a test does to them goes with the test.

    For files all of whose tests want these rows, in this thread and without `transaction=True`: they are never
    committed.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture(scope="session")
def vector_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where encoded corpora and distilled word vectors are kept from one run of pytest to the next.

    With pytest's cache switched off (`-p no:cacheprovider`) they last for one run.
    """
    cache = getattr(request.config, "cache", None)
    return Path(cache.mkdir("confab")) if cache else tmp_path_factory.mktemp("vectors")


@pytest.fixture(autouse=True)
def _vector_cache_used(vector_cache: Path) -> None:
    cache_folder_set(vector_cache)


@pytest.fixture(autouse=True)
def _all_projects_visible() -> Iterator[None]:
    """Leave the active project after each test: a response that was never closed keeps its own."""
    yield
    leave_project()


@pytest.fixture(scope="session", autouse=True)
def _whole_pages_are_told(django_test_environment: None) -> None:
    """Have a test's client keep the context of each page, and of nothing within it.

    Django keeps a copy for each part that a page includes and for each field of its forms: a tenth of what pages cost.
    """

    def rendered(self: Template, context: Context) -> str:
        if context.template is self and not str(self.name).startswith("django/forms/"):
            template_rendered.send(sender=self, template=self, context=context)
        return self.nodelist.render(context)

    Template._render = rendered


@pytest.fixture(scope="session", autouse=True)
def _database_thread_closed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close the connection of the event loop's database thread before the test database goes."""
    request.getfixturevalue("django_db_setup")
    yield
    SyncToAsync.single_thread_executor.submit(connections.close_all).result()


def free_port() -> int:
    """Return a port nobody listens on, below those that the system lends to connections: none takes it meanwhile."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port of a hundred is free")


@dataclass
class ConfabServer:
    """Confab in processes of its own: one in embedded mode; web, bot host and Redis otherwise.

    With `DATABASE_URL` and `REDIS_URL` in the environment every server has a database and a channel
    prefix of its own there.
    """

    data_dir: Path
    env: dict[str, str]
    port: int
    processes: dict[str, subprocess.Popen[bytes] | Forked] = field(default_factory=dict)
    console: Console | None = None

    @staticmethod
    def root() -> Path:
        """Return the project's folder."""
        return ROOT

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def is_distributed(self) -> bool:
        return bool(self.env.get("REDIS_URL"))

    def manage(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a `manage.py` command on this server's data."""
        return self._own_console().run(args, check=check, timeout_s=600)

    def shell(self, code: str) -> str:
        """Run Python with Django set up on this server's data; what it prints comes back."""
        return self.manage("shell", "--no-imports", "-c", code).stdout

    def add_study(self, key: str, bots: list[str], **fields: object) -> None:
        """Make a collecting study that needs one exchange, without pacing, unless told otherwise."""
        defaults: dict[str, object] = {
            "state": "collecting",
            "min_exchanges": 1,
            "max_exchanges": 20,
            "typing_chars_per_s": 0,
        }
        self.shell(
            "from webapp.studies.services import study_create; "
            f"study_create(key={key!r}, name={key!r}, bots={bots!r}, **{ {**defaults, **fields}!r})"
        )

    def start(self, name: str, *args: str) -> subprocess.Popen[bytes]:
        """Start one of the server's processes by Python, in a session of its own."""
        log = (self.data_dir / f"{name}.log").open("ab")
        process = subprocess.Popen(
            [sys.executable, *args], cwd=ROOT, env=self.env, stdout=log, stderr=log, start_new_session=True
        )
        self.processes[name] = process
        return process

    def start_forked(self, name: str, *words: str) -> None:
        """Start one of the server's processes without the time its imports take."""
        self.processes[name] = self._own_console().start(list(words), self.data_dir / f"{name}.log")

    def start_web(self) -> None:
        """Start the web process; embedded, it is the bot host too."""
        self.start_forked("web", "manage.py", "serve", "--port", str(self.port))
        self.wait_until_healthy()

    def start_bot_host(self) -> None:
        """Start the bot host; embedded, it has no process of its own."""
        if self.is_distributed:
            self.start_forked("bot_host", "manage.py", "bot_host")

    def start_worker(self, name: str = "worker", *, anew: bool = False) -> None:
        """Start a Celery worker for all queues; a second one beside it needs another name.

        Args:
            anew: begin it by Python, with no library imported yet.
        """
        words = (
            "celery",
            "--app",
            "webapp.celery",
            "worker",
            "--queues",
            "gpu,default",
            "--concurrency",
            "1",
            "--hostname",
            f"{name}@%h",
            "--loglevel",
            "INFO",
            "--without-gossip",
            "--without-mingle",
        )
        if anew:
            self.start(name, "-m", *words)
        else:
            self.start_forked(name, *words)

    def kill(self, name: str, with_signal: int = signal.SIGKILL) -> None:
        """End one process at once, with all its children."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, with_signal)
        process.wait(timeout=600)

    def kill_bot_host(self) -> None:
        """Kill whichever process keeps the bots."""
        self.kill("bot_host" if self.is_distributed else "web")

    def restart_bot_host(self) -> None:
        """Start again what `kill_bot_host` killed."""
        if self.is_distributed:
            self.start_bot_host()
        else:
            self.start_web()

    def wait_until_healthy(self, timeout_s: float = 600) -> None:
        """Wait until `/healthz` answers 200 and the bots of running studies are loaded."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if json.load(urllib.request.urlopen(f"{self.url}/healthz", timeout=5))["bots"]["ok"]:
                    return
            time.sleep(0.2)
        log = (self.data_dir / "web.log").read_text()[-3000:]
        raise AssertionError(f"the server did not become healthy:\n{log}")

    def stop(self) -> None:
        """Kill everything at once: what a process does when it is asked to end, its own tests show."""
        for name in list(self.processes):
            self.kill(name)
        self._console_close()

    def _own_console(self) -> Console:
        """Return the console of the environment as it is now."""
        if self.console is None or self.console.env != self.env:
            self._console_close()
            self.console = Console(self.env)
        return self.console

    def _console_close(self) -> None:
        if self.console is not None:
            self.console.close()
            self.console = None


@pytest.fixture
def confab_server(tmp_path: Path, vector_cache: Path) -> Iterator[ConfabServer]:
    """Run Confab with the demo study, reachable at `.url`."""
    yield from start_confab(tmp_path, vector_cache)


@pytest.fixture(scope="module")
def bare_server(tmp_path_factory: pytest.TempPathFactory, vector_cache: Path) -> Iterator[ConfabServer]:
    """Run Confab without a study for the tests of a file, each of which makes a study with a key of its own.

    It is there at once, for no bot has to be loaded.
    """
    yield from start_confab(tmp_path_factory.mktemp("bare"), vector_cache, with_demo=False)


TEST_BOTS = {"CONFAB_PLUGINS": "tests.plugin_bots", "CONFAB_REPLY_TIMEOUT_S": "6"}


@pytest.fixture(scope="module")
def test_bots_server(tmp_path_factory: pytest.TempPathFactory, vector_cache: Path) -> Iterator[ConfabServer]:
    """Run Confab with the bots of `tests/plugin_bots.py` and short time-outs, for the tests of a file.

    Each test makes a study with a key of its own; one that kills a process takes `own_bots_server`.
    """
    yield from start_confab(tmp_path_factory.mktemp("bots"), vector_cache, TEST_BOTS, with_demo=False)


@pytest.fixture
def own_bots_server(tmp_path: Path, vector_cache: Path) -> Iterator[ConfabServer]:
    """Run a Confab like `test_bots_server` for one test alone, which may kill its processes."""
    yield from start_confab(tmp_path, vector_cache, TEST_BOTS, with_demo=False)


@pytest.fixture(scope="module")
def command_env(tmp_path_factory: pytest.TempPathFactory, vector_cache: Path) -> Iterator[ConfabServer]:
    """Make a migrated installation with the demo study and no process running, for commands."""
    yield from start_confab(tmp_path_factory.mktemp("commands"), vector_cache, with_processes=False)


def start_confab(
    tmp_path: Path,
    vector_cache: Path,
    extra_env: dict[str, str] | None = None,
    *,
    with_demo: bool = True,
    with_processes: bool = True,
) -> Iterator[ConfabServer]:
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("CONFAB_") and k not in TEST_PROCESS_ONLY},
        "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded",
        "CONFAB_DATA_DIR": str(tmp_path),
        "CONFAB_CHANNEL_PREFIX": f"test-{uuid.uuid4().hex[:8]}",
        "CONFAB_REPLY_LEASE_S": "3",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(ROOT),
        **(extra_env or {}),
    }
    (tmp_path / "cache").symlink_to(vector_cache)
    own = own_database(env, migrated=True)
    next(own)
    server = ConfabServer(data_dir=tmp_path, env=env, port=free_port())
    try:
        if with_demo:
            server.shell("from webapp.studies.lifecycle import demo_study_ensure; demo_study_ensure()")
        if with_processes:
            server.start_bot_host()
            server.start_web()
        yield server
    finally:
        server.stop()
        with contextlib.suppress(StopIteration):
            next(own)
