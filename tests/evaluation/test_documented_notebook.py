"""The notebook of the documentation runs, line by line, as it stands there."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
from itertools import combinations
from pathlib import Path

import pytest

import confab
from chatbots.corpora.reader import EVERYDAY, corpus_read
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
