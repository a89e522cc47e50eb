"""The notebook of the documentation runs, line by line, as it stands there."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import confab
from chatbots.corpora.reader import EVERYDAY, corpus_read
from chatbots.registry import bots
from tests.documents import blocks_tested

BOTS = ("eliza", "retrieval", "parrot")


HERE = "tests/evaluation/test_documented_notebook.py::test_the_notebook_of_the_documentation_runs"


def test_the_notebook_of_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [block] = blocks_tested(HERE)
    lines = [line for line in block.text.splitlines() if line]
    assert 5 < len(lines) <= 10
    dialogues = [d for d in corpus_read(EVERYDAY).dialogues if len(d.turns) >= 6][:18]
    talks = [
        {
            "dialogue_id": str(number),
            "bot": BOTS[number % 3],
            "turns": [
                {"speaker": "bot" if turn % 2 else "human", "text": text}
                for turn, text in enumerate(dialogue.turns)
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
            line = line.replace("conversations=20", "conversations=2").replace(
                "turns=10", "turns=4"
            )
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


def test_the_notebook_plays_the_bots_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = HERE.partition("::")[0] + "::test_the_notebook_plays_the_bots_of_a_file"
    [block] = blocks_tested(here)
    (tmp_path / "bots.yaml").write_text(
        "- {id: far, kind: endpoint, params: {model: m, base_url: 'http://127.0.0.1:1/v1', retries: 0}}\n"
        "- {id: near, kind: retrieval, params: {}}\n"
        "- {id: broken, kind: endpoint, params: {modle: m}}\n"
    )
    monkeypatch.chdir(tmp_path)
    values: dict[str, Any] = {"confab": confab}
    text = block.text.replace("conversations=20", "conversations=2").replace("turns=10", "turns=4")
    before = set(bots.names())
    try:
        with contextlib.redirect_stdout(io.StringIO()), pytest.warns(UserWarning, match="broken"):
            exec(compile(text, here, "exec"), values)
    finally:
        for name in set(bots.names()) - before:
            bots.discard(name)
    assert values["names"] == ["far", "near"]
    played = values["played"]
    assert {dialogue.bot for dialogue in played.dialogues} == {"near"}
    assert len(played.dialogues) == 2
    assert all("127.0.0.1:1/v1 was asked once" in skipped.reason for skipped in played.skipped)
    assert len(played.skipped) == 2
