"""Studies with hardly anything in them: every page, part and report is there, and tells no number that is none."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils.html import strip_tags

from tests.webapp.dashboard.test_pages import addresses
from tests.webapp.dashboard.test_plots import part_pages, read, statistics_pages
from webapp.studies.models import Study

NO_NUMBER = re.compile(r"(?<![\w.'’-])(?:nan|NaN|inf|NoneType|None(?! [a-z]))(?![\w'’-])")
"""As Python and JavaScript write it; a sentence may begin with "None is"."""


def records(n: int, bots: list[str], *, turns: int = 4) -> list[dict[str, Any]]:
    """Make n conversations of the bots in turn, nobody's opinion on any."""
    return [
        {
            "dialogue_id": f"d{number}",
            "bot": bots[number % len(bots)],
            "turns": [
                {"speaker": "bot" if i % 2 else "human", "text": f"What is {number}, and why {i}?"}
                for i in range(turns)
            ],
            "ratings": [],
        }
        for number in range(n)
    ]


def rated(conversations: list[dict[str, Any]], raters: list[str], *scores: dict[str, Any]) -> list[dict[str, Any]]:
    """Have the raters take the conversations in turn and give the scores in turn."""
    for number, conversation in enumerate(conversations):
        score = scores[number % len(scores)]
        conversation["ratings"] = [{"rater": raters[number % len(raters)], **score}]
    return conversations


ALIKE = {"quality": 4, "fluency": 4}
THIN = {
    "no ratings": lambda: records(4, ["a", "b"]),
    "one rating": lambda: rated(records(1, ["a"]), ["r"], ALIKE),
    "one rating of several conversations": lambda: [
        *rated(records(1, ["a"]), ["r"], ALIKE),
        *records(5, ["b", "a"])[1:],
    ],
    "one bot": lambda: rated(records(6, ["a"]), ["r", "s"], {"quality": 2}, {"quality": 5}),
    "one rater": lambda: rated(records(6, ["a", "b"]), ["r"], {"quality": 2}, {"quality": 5}),
    "all alike": lambda: rated(records(8, ["a", "b"]), ["r", "s", "t"], ALIKE),
    "values missing": lambda: rated(records(8, ["a", "b"]), ["r", "s"], {"quality": 3}, {"fluency": 6}, ALIKE),
    "one utterance each": lambda: rated(records(4, ["a", "b"], turns=1), ["r", "s"], {"quality": 1}, {"quality": 7}),
}


def thin(tmp_path: Path, what: str) -> Study:
    """Import the study."""
    file = tmp_path / "thin.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in THIN[what]()))
    call_command("import_conversations", str(file), "--study", "thin", "--scale", "1:7", "--json")
    return Study.objects.get(key="thin")


def no_numbers(page: str) -> list[str]:
    """Return what a page tells in the place of a number, with some words before it."""
    scripts_gone = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    text = html.unescape(re.sub(r"\s+", " ", strip_tags(scripts_gone)))
    return [text[max(0, result.start() - 60) : result.end()] for result in NO_NUMBER.finditer(text)]


def test_the_search_finds_what_is_no_number() -> None:
    assert no_numbers("<td>mean</td> <td>nan</td>") == ["mean nan"]
    assert no_numbers("<p>r = None, p = inf</p>") == ["r = None", "r = None, p = inf"]
    assert not no_numbers("<script>None</script><p>nobody, none, info; financial. None is left</p>")


@pytest.mark.parametrize("what", THIN)
def test_every_page_of_a_thin_study_is_there_and_tells_numbers(staff: Client, tmp_path: Path, what: str) -> None:
    study = thin(tmp_path, what)
    call_command("compute_metrics", "--study", "thin", "--metrics", "words,question", "--inline")
    pages = [page for page in addresses(study) if "/thin/" in page or "/conversations/" in page]
    if what == "no ratings":  # there is no report, and each part says why it is empty
        pages += part_pages(study)
    else:
        pages += statistics_pages(study)
    wrong = {page: result for page in pages if (result := no_numbers(read(staff, page)))}
    assert not wrong
    for table in ("ratings", "metrics", "participants"):
        out = tmp_path / "out.csv"
        call_command("export", "--study", "thin", "--what", table, "--format", "csv", "--output", str(out))
        text = out.read_text(encoding="utf-8")
        assert text.splitlines()[0].count(",") > 2, table
        assert not NO_NUMBER.search(text), table
