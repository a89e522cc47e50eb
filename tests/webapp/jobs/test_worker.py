"""A real Celery worker: over files, or over Redis where `REDIS_URL` names one."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ConfabServer
from tests.databases import own_database

pytestmark = pytest.mark.slow
WAIT_S = 500  # a command is given 600


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ConfabServer]:
    """Make data and settings of a Confab without its web process."""
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("CONFAB_")},
        "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded",
        "CONFAB_DATA_DIR": str(tmp_path),
        "CONFAB_CHANNEL_PREFIX": f"test-{tmp_path.name}-{os.getpid()}",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(ConfabServer.root()),
        "CONFAB_PLUGINS": "tests.plugin_bots",
        "CONFAB_REPLY_TIMEOUT_S": "600",  # a busy machine, or a bot that is held, is no slow bot
    }
    own = own_database(env, migrated=True)
    next(own)
    server = ConfabServer(data_dir=tmp_path, env=env, port=0)
    try:
        yield server
    finally:
        server.stop()
        with contextlib.suppress(StopIteration):
            next(own)


def children_of(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def libraries_of(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def wait_for(server: ConfabServer, look: str, wanted: object) -> None:
    """Wait until the expression over the models has this value; one process asks all the time."""
    code = f"""
import time
from webapp.conversations.models import *
from webapp.jobs.models import *
deadline = time.monotonic() + {WAIT_S}
while (found := {look}) != {wanted!r} and time.monotonic() < deadline:
    time.sleep(.05)
print(repr(found))
"""
    text = server.shell(code).strip()
    if text != repr(wanted):
        log = (server.data_dir / "worker.log").read_text()[-3000:]
        raise AssertionError(f"{text} instead of {wanted!r}\n{log}")


KILLED_IN_THE_MIDDLE = """
import os, signal, time
from webapp.jobs.models import SelfPlayConversation, SelfPlayRun
from webapp.jobs.services.jobs import jobs_settle
deadline = time.monotonic() + {wait_s}
while not SelfPlayConversation.objects.exists() and time.monotonic() < deadline:
    time.sleep(0.02)
os.{kill}
print(SelfPlayRun.objects.get().state)
"""
"""Kill a process of `test-held` that has stored conversations and waits amid the next ones."""


def test_a_worker_does_a_run_and_its_parent_loads_no_torch(server: ConfabServer) -> None:
    # Asked for while no worker runs: the one that starts picks it up.
    queued = server.manage(
        "selfplay", "--bots", "parrot", "--conversations", "2", "--turns", "4", "--no-wait", "--json"
    )
    assert json.loads(queued.stdout)["bots"]["parrot"]["conversations"] == 0
    server.start_worker(anew=True)
    done = server.manage(
        "selfplay", "--bots", "eliza", "--conversations", "3", "--turns", "4",
        "--metrics", "semantic_similarity,words", "--json",
    )  # fmt: skip
    assert json.loads(done.stdout)["bots"] == {"eliza": {"conversations": 3, "turns": 12}}
    states = "[(j.state, j.n_done) for m in (SelfPlayRun, MetricRun) for j in m.objects.order_by('pk')]"
    wait_for(server, states, [("done", 2), ("done", 3), ("done", 3)])
    parent = server.processes["worker"].pid
    (child,) = children_of(parent)
    assert "libtorch" in libraries_of(child)  # the check below can fail
    assert "libtorch" not in libraries_of(parent)
    assert "statsmodels" not in libraries_of(parent)


def test_a_killed_workers_run_is_finished_by_two_others_as_one_process_would(server: ConfabServer) -> None:
    plan = ["selfplay", "--bots", "test-held", "--conversations", "160", "--turns", "8", "--json"]
    held = server.data_dir / "held"
    held.touch()
    server.start_worker()
    server.manage(*plan, "--no-wait")
    worker = server.processes.pop("worker").pid
    killed = KILLED_IN_THE_MIDDLE.format(wait_s=WAIT_S, kill=f"killpg({worker}, signal.SIGKILL)")
    assert server.shell(killed).split() == ["running"]
    held.unlink()
    server.start_worker()
    server.start_worker("second")
    wait_for(server, "SelfPlayRun.objects.get().state", "done")
    counts = "[m.objects.count() for m in (SelfPlayConversation, Conversation, Turn)]"
    wait_for(server, counts, [160, 160, 1280])
    server.manage(*plan, "--inline")
    same = """
from webapp.conversations.models import *
from webapp.jobs.models import *
texts = [
    list(Turn.objects.filter(conversation__selfplay__run=run)
        .order_by("conversation__selfplay__ordinal", "index").values_list("text", flat=True))
    for run in SelfPlayRun.objects.all()
]
print(len(texts), texts[0] == texts[1])
"""
    assert server.shell(same).split() == ["2", "True"]


def test_a_killed_commands_run_is_interrupted_for_whoever_looks_and_goes_on(server: ConfabServer) -> None:
    plan = ["--bots", "test-held", "--conversations", "160", "--turns", "8", "--inline"]
    held = server.data_dir / "held"
    held.touch()
    command = server.start("command", "manage.py", "selfplay", *plan)
    killed = KILLED_IN_THE_MIDDLE.format(wait_s=WAIT_S, kill=f"kill({command.pid}, signal.SIGKILL)")
    settled = f"""
deadline = time.monotonic() + {WAIT_S}
while SelfPlayRun.objects.get().state == "running" and time.monotonic() < deadline:
    time.sleep(0.1)
    jobs_settle()
print(SelfPlayRun.objects.get().state)
"""
    assert server.shell(killed + settled).split() == ["running", "interrupted"]
    held.unlink()
    done = server.manage("selfplay", "--run", "1", "--inline", "--json")
    assert json.loads(done.stdout)["bots"] == {"test-held": {"conversations": 160, "turns": 1280}}
