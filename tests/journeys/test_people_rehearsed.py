"""Rehearsals of studies with people as partners end, with a reason where nobody can continue."""

import http.server
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.conftest import ConfabServer, start_confab

BOTS = [
    {"id": "partner", "kind": "person", "params": {"by": "participant"}},
    {"id": "wizard", "kind": "person", "params": {"by": "staff"}},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, vector_cache: Path) -> Iterator[ConfabServer]:
    """Run Confab with people as bots."""
    folder = tmp_path_factory.mktemp("people")
    (folder / "bots.yaml").write_text(json.dumps(BOTS))
    yield from start_confab(folder, vector_cache, with_demo=False)


def test_scripted_people_are_partners_of_each_other(server: ConfabServer) -> None:
    server.add_study("pairs", ["partner", "eliza"], disclosure="before", min_exchanges=2, wait_seconds=5)
    played = json.loads(
        server.manage("rehearse", "--study", "pairs", "--people", "4", "--url", server.url, "--json").stdout
    )
    assert (played["people"], played["done"], played["failed"]) == (4, 4, [])


def test_a_rehearsal_with_staff_alone_ends(server: ConfabServer) -> None:
    fields = {"disclosure": "before", "wait_seconds": 5}
    server.add_study("staff", ["wizard"], without_partner="pay", **fields)
    played = json.loads(
        server.manage("rehearse", "--study", "staff", "--people", "1", "--url", server.url, "--json").stdout
    )
    assert played["done"] == 1
    # A study that was opened before the check of who can continue.
    server.shell(
        "from webapp.studies.validation import sections; sections.staff_among = lambda names: []; "
        "from webapp.studies.services import study_create; study_create(key='old', name='old', bots=['wizard'], "
        f"state='collecting', **{fields!r})"
    )
    played = server.manage("rehearse", "--study", "old", "--people", "1", "--url", server.url, "--json", check=False)
    is_ended = played.returncode == 0 and json.loads(played.stdout)["done"] == 1
    assert is_ended or "no bot could continue it" in played.stderr


def test_a_server_behind_tls_is_named(command_env: ConfabServer) -> None:
    class Redirect(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(301)
            self.send_header("Location", "https://confab.example.org/healthz")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirect)
    Thread(target=proxy.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{proxy.server_port}"
    refused = command_env.manage("rehearse", "--study", "demo", "--people", "1", "--url", url, check=False)
    proxy.shutdown()
    assert refused.returncode == 1
    assert "expects a TLS proxy" in refused.stderr
    assert "--url https://" in refused.stderr
