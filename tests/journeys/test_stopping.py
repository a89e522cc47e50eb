"""On SIGTERM a web process is gone within its time-outs and its port is free, whatever clients do."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT, TEST_BOTS, ConfabServer, start_confab
from webapp.core.processes import SHUTDOWN_LIMIT_S
from webapp.participant.simulated import StudyClient, frames_until

pytestmark = pytest.mark.slow

GRACE_S = 2
# Nothing is timed: this is when a process counts as one that would never have ended.
NEVER_S = 600


def production_command(port: int) -> list[str]:
    """Return the Dockerfile's command on this machine, with less grace."""
    match = re.search(r"^CMD (\[.*?\])", (ROOT / "Dockerfile").read_text(), re.M | re.S)
    assert match
    command = json.loads(match[1].replace("\\\n", ""))
    for option, value in (
        ("--host", "127.0.0.1"),
        ("--port", str(port)),
        ("--timeout-graceful-shutdown", str(GRACE_S)),
    ):
        command[command.index(option) + 1] = value
    return [sys.executable, "-m", *command]


def start(server: ConfabServer, kind: str) -> subprocess.Popen[bytes]:
    command = production_command(server.port)
    if kind == "two workers":
        command += ["--workers", "2"]
    if kind == "serve":
        command = [sys.executable, "manage.py", "serve", "--port", str(server.port)]
    elif not server.is_distributed:
        # Only `serve` is a bot host too; without one /healthz would wait for it.
        server.env["CONFAB_BOT_HOST_IN_PROCESS"] = "False"
    return server.start("web", *command[1:])


def raw(server: ConfabServer, text: str) -> socket.socket:
    """Open a connection that sends this and does nothing more."""
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(text.replace("\n", "\r\n").encode())
    return connection


def raw_socket(server: ConfabServer, doors: StudyClient) -> socket.socket:
    """Open a chat's WebSocket whose client neither reads nor answers any more."""
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in doors.http.cookies.jar)
    return raw(
        server,
        f"GET /ws/chat/{doors.conversation_id}/ HTTP/1.1\nHost: 127.0.0.1:{server.port}\n"
        "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nCookie: {cookies}\n\n",
    )


def abort(connection: socket.socket) -> None:
    """End a connection by a reset, without a goodbye."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.fixture
def server(tmp_path: Path, vector_cache: Path) -> Iterator[ConfabServer]:
    """Have a Confab whose web process is yet to be started."""
    for server in start_confab(tmp_path, vector_cache, TEST_BOTS, with_demo=False, with_processes=False):
        server.add_study("slow", ["test-slow"])
        server.start_bot_host()
        yield server


@pytest.mark.parametrize("kind", ["one process", "two workers", "serve"])
async def test_a_stopped_web_process_is_gone_and_its_port_free(server: ConfabServer, kind: str) -> None:
    process = start(server, kind)
    await asyncio.to_thread(server.wait_until_healthy)
    async with contextlib.AsyncExitStack() as stack:
        doors = [StudyClient(server.url, "slow") for _ in range(4)]
        live = []
        for person in doors:
            stack.push_async_callback(person.close)
            await person.start()
            live.append(await person.socket().__aenter__())
            await frames_until(live[-1], "history")
        await live[0].send(json.dumps({"type": "message", "client_id": doors[0].conversation_id, "text": "hello"}))
        await frames_until(live[0], "turn")
        # Those that will never say another word, and those that go in the middle of one.
        silent = [raw_socket(server, person) for person in doors]
        silent.append(raw(server, ""))
        silent.append(raw(server, "GET /s/slow/ HT"))
        silent.append(raw(server, "POST /s/slow/start/ HTTP/1.1\nHost: localhost\nContent-Length: 9\n\nab"))
        aborted = [raw_socket(server, person) for person in doors]
        request = "GET /s/slow/ HTTP/1.1\nHost: localhost\n\n"
        aborted += [raw(server, request) for _ in range(8)]
        for connection in aborted:
            abort(connection)
        live[1].transport.abort()

        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, NEVER_S)
        assert not (server.data_dir / "server-address.txt").exists()
        for connection in silent:
            connection.close()
        # As a server does it, which does not mind connections that linger in TIME_WAIT.
        with socket.create_server(("127.0.0.1", server.port)):
            pass
        for connection in live:
            await connection.close()
    server.kill("web")


def test_a_killed_server_leaves_no_worker_behind(server: ConfabServer) -> None:
    process = server.start("web", "manage.py", "serve", "--port", str(server.port), "--worker")
    server.wait_until_healthy()
    [worker, *_others] = psutil.Process(process.pid).children()
    assert "celery" in worker.cmdline()

    process.send_signal(signal.SIGKILL)
    process.wait(NEVER_S)

    never = time.monotonic() + NEVER_S
    with contextlib.suppress(psutil.NoSuchProcess):  # it has ended, and nothing is left of it
        while worker.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < never, "it goes on without its server"
            time.sleep(0.2)


def test_a_thread_that_hangs_does_not_keep_the_process() -> None:
    code = (
        "import django, threading; django.setup()\n"
        "from webapp.core.processes import end_process_within\n"
        "threading.Thread(target=threading.Event().wait, name='hangs for ever').start()\n"
        "end_process_within(0.2, first=lambda: print('first', flush=True))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded"},
        capture_output=True,
        text=True,
        timeout=NEVER_S,
    )
    assert (done.returncode, done.stdout) == (1, "first\n")
    assert "hangs for ever" in done.stderr


def test_compose_waits_longer_than_the_processes_take() -> None:
    import yaml

    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    command = re.findall(r'"([^"]*)"', (ROOT / "Dockerfile").read_text().rpartition("\nCMD ")[2])
    grace_s = int(command[command.index("--timeout-graceful-shutdown") + 1])

    def period_s(service: str) -> int:
        return int(services[service]["stop_grace_period"].removesuffix("s"))

    assert period_s("web") > grace_s
    assert period_s("bot-host") > SHUTDOWN_LIMIT_S
    assert period_s("bot-host-gpu") > SHUTDOWN_LIMIT_S
