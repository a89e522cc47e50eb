"""Judges and bots of `bots.yaml` exist in every fresh process: commands, a worker, a notebook."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.conftest import ConfabServer, start_confab

CASE = json.loads((Path(__file__).parents[1] / "cases/judge_by_command.json").read_text())


class _Judge(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = "B" if "Reply A" in body["messages"][-1]["content"] else "4"
        chunk = {"choices": [{"delta": {"content": answer}, "finish_reason": "stop"}]}
        data = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, vector_cache: Path) -> Iterator[ConfabServer]:
    """Make an installation with the documented files, a broken bot among them, and no process running."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Judge)
    Thread(target=server.serve_forever, daemon=True).start()
    folder = tmp_path_factory.mktemp("judges")
    bots = json.dumps(CASE["bots.yaml"]).replace("PORT", str(server.server_port))
    (folder / "bots.yaml").write_text(json.dumps([*json.loads(bots), {"id": "broken", "kind": "no-such-kind"}]))
    (folder / "metrics.yaml").write_text(json.dumps(CASE["metrics.yaml"]))
    items = [
        {
            "id": str(k),
            "context": [f"question {k}"],
            "response": f"answer {k}",
            "model": "m",
            "scale": [1, 5],
            "ratings": [{"rater": f"r{j}", "overall": 1 + (k + j) % 5} for j in range(3)],
        }
        for k in range(30)
    ]
    pairs = [
        {**item, "second_response": f"other answer {item['id']}", "second_model": "n", "ratings": []} for item in items
    ]
    chats = [
        {
            "dialogue_id": str(k),
            "bot": "m",
            "turns": [{"speaker": "human", "text": f"question {k}"}, {"speaker": "bot", "text": f"answer {k}"}],
            "ratings": [{"rater": "r", "quality": 3}],
        }
        for k in range(2)
    ]
    for name, rows in (("items", items), ("pairs", pairs[:2]), ("chats", chats)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for installed in start_confab(folder, vector_cache, with_demo=False, with_processes=False):
        installed.manage("import_conversations", str(folder / "chats.jsonl"), "--study", "judged")
        yield installed
    server.shutdown()


def run(server: ConfabServer, *args: str) -> Any:
    """Run a command in a process of its own and return its JSON document."""
    folder = Path(server.env["CONFAB_DATA_DIR"])
    return json.loads(server.manage(*(word.replace("DIR", str(folder)) for word in args), "--json").stdout)


def test_a_judge_scores_by_every_command_in_a_fresh_process(installation: ConfabServer) -> None:
    agreement = run(installation, "evaluate_metrics", "--data", "DIR/items.jsonl", "--metrics", "judge")
    assert agreement["judge"]["n"] == 30
    pairs = run(installation, "judge_pairs", "--data", "DIR/pairs.jsonl", "--judge", "judge", "--max-requests", "10")
    assert (pairs["n"], pairs["unanswered"]) == (2, 0)
    judges = run(installation, "compare_judges", "--judges", "judge", "--data", "DIR/items.jsonl")
    assert judges["judges"][0]["judge"] == "judge"
    drift = run(installation, "judge_drift")
    assert len(drift) == 1
    computed = run(installation, "compute_metrics", "--study", "judged", "--metrics", "judge", "--inline")
    assert (computed["conversations"], computed["metrics"]) == (2, ["judge"])


def test_a_worker_that_has_played_no_self_play_knows_the_judge(installation: ConfabServer) -> None:
    folder = Path(installation.env["CONFAB_DATA_DIR"])
    installation.manage("import_conversations", str(folder / "chats.jsonl"), "--study", "worker")
    installation.start_worker()
    try:
        assert run(installation, "compute_metrics", "--study", "worker", "--metrics", "judge")["conversations"] == 2
    finally:
        installation.kill("worker")


def test_any_code_of_a_fresh_process_finds_a_bot_by_its_id(installation: ConfabServer) -> None:
    code = "from chatbots.registry import bot_get; print(bot_get('my_endpoint').name)"
    assert installation.shell(code).strip() == "my_endpoint"


def test_a_broken_entry_is_named_where_its_bot_is_needed_and_in_no_other_command(installation: ConfabServer) -> None:
    assert "no-such-kind" not in installation.manage("list_studies").stderr
    listed = installation.manage("list_bots", "--json")
    [broken] = [row for row in json.loads(listed.stdout) if row["id"] == "broken"]
    assert "no-such-kind" in broken["reason"]
    assert "left out" not in listed.stderr
    refused = installation.manage("chat", "broken", "--message", "hi", check=False)
    assert refused.returncode == 1
    assert "no-such-kind" in refused.stderr


def test_a_notebook_finds_the_judge_of_the_data_folder(installation: ConfabServer) -> None:
    folder = installation.env["CONFAB_DATA_DIR"]
    code = f"import confab; print(confab.judge({folder + '/items.jsonl'!r}, ['judge'])['judge'].to_json())"
    env = {**os.environ, "CONFAB_DATA_DIR": folder}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=installation.root(), check=True
    )
    assert "judge_overall_bot" in done.stdout
    assert "unavailable" not in done.stdout
