"""The commands and notebooks of README and the documentation, run one after another in one installation."""

import gzip
import io
import json
import sys
from pathlib import Path

import django
import pytest
from django.contrib.auth import get_user_model

import confab
from evaluation.metrics.registry import metrics
from tests.documents import ROOT, Block, blocks_tested, words_of
from tests.journeys.test_research import rated_conversations
from webapp.command_line import _Commands

ORDER = ("README", "start", "publishing", "numbers", "studies", "entailment", "grade", "api", "audit")
"""Of the pages with commands: each begins with what those before it have made."""
NEEDS_WORKER = {"compute_metrics", "selfplay"}
"""Commands that hand their work to a worker, which there is none of here, unless told to do it themselves."""
SMALLER = {"100": "3"}
"""In the place of conversations, so that playing takes seconds."""
FILES = (".csv", ".gz", ".html", ".json", ".yaml", ".zip")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a reader, with the files that they bring."""
    folder = tmp_path / "reader"
    folder.mkdir()
    rated_conversations(folder / "ratings.jsonl.gz")
    bring_votes(folder / "ratings.jsonl.gz")
    with gzip.open(folder / "judged_replies.jsonl.gz", "wt", encoding="utf-8") as file:
        for number in range(12):
            reply = {
                "id": number,
                "context": ["What is good in winter?", "I like to cook."],
                "response": " ".join(["soup", "with", "bread", "and", "tea"][: 1 + number % 5]),
                "reference": "soup with bread",
                "ratings": [{"quality": 1 + number % 5}],
            }
            file.write(json.dumps(reply) + "\n")
    return folder


def bring_votes(path: Path) -> None:
    """Give a bot's reply of each conversation of a file a vote."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        talks = [json.loads(line) for line in file.readlines()[:-1]]
    for number, talk in enumerate(talks):
        talk["turns"][1]["vote"] = 1 if number % 3 else -1
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(talk) + "\n" for talk in talks)


def placed(word: str, folder: Path) -> str:
    """Return an argument as it stands, or in the reader's folder where it names a file of theirs."""
    if word.endswith(FILES) and not (ROOT / word).exists():
        return str(folder / word)
    return SMALLER.get(word, word)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True, reset_sequences=True)
def test_the_commands_and_notebooks_shown_do_what_they_say(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    get_user_model().objects.create_superuser("ann", password="a-long-password")
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello there\n"))
    # Django is set up already. Another time would close the handlers of the log, of which absl's closes its stream:
    # pytest's.
    monkeypatch.setattr(django, "setup", lambda: None)
    blocks = [*blocks_tested("commands"), *blocks_tested("notebook")]
    assert {page(block) for block in blocks} == set(ORDER), "each page has its place in the order"
    for block in sorted(blocks, key=lambda block: (ORDER.index(page(block)), block.line)):
        if block.how == "notebook":
            with monkeypatch.context() as here:
                here.chdir(folder)
                exec(compile(block.text, block.place, "exec"), {})
            continue
        for command in block.commands:
            words = words_of(command)
            assert words, f"{block.place}: {command} is no command of Confab's"
            name, *given = words
            if name in NEEDS_WORKER and "--inline" not in given:
                given.append("--inline")
            # In this process, so that encoders are loaded once.
            _Commands(["confab", name, *(placed(word, folder) for word in given)]).execute()
            assert capsys.readouterr().out.strip(), f"{block.place}: {command} says nothing"
            if "--output" in given:
                assert Path(placed(given[given.index("--output") + 1], folder)).stat().st_size


def page(block: Block) -> str:
    return Path(block.document).stem


def test_the_metric_of_single_replies_scores(folder: Path) -> None:
    [code] = [
        block.text
        for block in blocks_tested("tests/journeys/test_documents.py::test_the_metric_of_single_replies_scores")
    ]
    try:
        exec(compile(code, "docs/reference/metrics.md", "exec"), {"__name__": "documented_metric"})
        result = confab.judge(folder / "judged_replies.jsonl.gz", ["overlap"])
    finally:
        metrics.discard("overlap")
    # One, two and three of three words, then three of four and of five.
    assert result["overlap"].scores["overlap"][:5] == pytest.approx([1 / 3, 2 / 3, 1, 3 / 4, 3 / 5])
