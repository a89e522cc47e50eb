"""The notebook of the documentation runs, line by line, as it stands there."""

import contextlib
import gzip
import io
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import confab
from chatbots.corpora.dialogues import EVERYDAY, corpus_read
from chatbots.endpoints.metering import MemoryMeter, meter_get, meter_set
from chatbots.registry import bots
from tests.documents import blocks_tested

BOTS = ("eliza", "retrieval", "parrot")


HERE = "tests/evaluation/test_documented_notebook.py::test_the_notebook_of_the_documentation_runs"
PLAYS = "tests/evaluation/test_documented_notebook.py::test_the_notebook_plays_the_bots_of_a_file"


@pytest.mark.slow
def test_the_notebook_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [block] = blocks_tested(HERE)
    lines = [line for line in block.text.splitlines() if line]
    assert 5 < len(lines) <= 10
    dialogues = [d for d in corpus_read(EVERYDAY).dialogues if len(d.turns) >= 6][:18]
    talks = [
        {
            "dialogue_id": str(number),
            "bot": BOTS[number % 3],
            "turns": [
                {"speaker": "bot" if turn % 2 else "human", "text": text} for turn, text in enumerate(dialogue.turns)
            ],
            "ratings": [{"rater": f"r{number}", "quality": 1 + number % 3 + number % 4}],
        }
        for number, dialogue in enumerate(dialogues)
    ]
    with gzip.open(tmp_path / "ratings.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, talks)))
    judged = ["first,second,preferred,rater"]
    judged += [
        f"{first},{second},{first if (number + place) % 3 else second},r{number}"
        for number in range(12)
        for place, (first, second) in enumerate(combinations(BOTS, 2))
    ]
    (tmp_path / "pairs.csv").write_text("\n".join(judged))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONFAB_DATA_DIR", str(tmp_path / "data"))
    said, values = io.StringIO(), {}
    with contextlib.redirect_stdout(said):
        for line in lines:
            line = line.replace("conversations=20", "conversations=2").replace("turns=10", "turns=4")
            try:
                values[line] = eval(line, values)  # what a notebook shows of a cell
            except SyntaxError:
                exec(line, values)
    assert "Study ratings.jsonl.gz: 18 conversations with 3 bots" in said.getvalue()
    assert "Bots compared by quality" in said.getvalue()
    drawn = [value for line, value in values.items() if ".plot()" in line.partition("#")[0]]
    assert len(drawn) >= 2
    assert all(value._repr_svg_().startswith("<svg") for value in drawn)
    assert set(confab.__all__) >= set(re.findall(r"confab\.(\w+)\(", "\n".join(lines)))


class _Completions(BaseHTTPRequestHandler):
    """Answers every chat completion with the same text."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        choice = {"message": {"content": "Hello there."}, "finish_reason": "stop"}
        body = json.dumps({"choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Completions) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def test_the_notebook_plays_the_bots_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    [block] = blocks_tested(PLAYS)
    (tmp_path / "bots.yaml").write_text(
        f"- {{id: far, kind: endpoint, params: {{model: m, base_url: '{endpoint}'}}}}\n"
        "- {id: near, kind: retrieval, params: {}}\n"
        "- {id: broken, kind: endpoint, params: {modle: m}}\n"
    )
    monkeypatch.chdir(tmp_path)
    values: dict[str, Any] = {"confab": confab}
    text = block.text.replace("conversations=20", "conversations=2").replace("turns=10", "turns=4")
    before, meter = set(bots.names()), meter_get()
    meter_set(MemoryMeter())  # a notebook's own; the tests' Django counts in its database
    try:
        with contextlib.redirect_stdout(io.StringIO()), pytest.warns(UserWarning, match="broken"):
            exec(compile(text, PLAYS, "exec"), values)
    finally:
        meter_set(meter)
        for name in set(bots.names()) - before:
            bots.discard(name)
    assert values["names"] == ["far", "near"]
    played = values["played"]
    assert played.skipped == ()
    assert [dialogue.bot for dialogue in played.dialogues] == ["far", "far", "near", "near"]
    assert {turn.text for turn in played.dialogues[0].conversation.turns} == {"Hello there."}
