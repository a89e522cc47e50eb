"""What the README shows of a notebook and of the command is true: the notebook's lines run as they stand there."""

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
from tests.conftest import ROOT
from webapp.command_line import SHORT, _Commands

README = (ROOT / "README.md").read_text(encoding="utf-8")
BOTS = ("eliza", "retrieval", "parrot")


def block(after: str) -> list[str]:
    """Return the lines of code that come first after a text of the README, without blank ones."""
    _, _, rest = README.partition(after)
    (code,) = re.findall(r"\n\n((?:    .*\n|\n)+)", rest)[:1]
    return [line.removeprefix("    ") for line in code.splitlines() if line]


def test_the_notebook_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = block("In a notebook nothing of the web")
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


def test_the_commands_of_the_readme_exist_and_are_ten_lines() -> None:
    lines = block("### As a package")
    assert 5 < len(lines) <= 10
    for line in lines:
        name, *given = line.partition("#")[0].split()[1:]
        if name == "--help":
            continue
        command = _Commands(["confab", name]).fetch_command(name)
        # Exits, and so fails, for an argument that the command does not take.
        command.create_parser("confab", name).parse_args([*SHORT.get(name, ())[1:], *given])
