"""What a report says: as a document, what has changed since the previous one, and a study in the paper's numbering."""

import io
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from evaluation.published.ghandeharioun2019 import DIMENSIONS, PaperBot, matched, paper_bots, published
from tests.webapp.results.conftest import study  # noqa: F401
from webapp.dashboard.report_document import (
    CHANGES_SECTION,
    Chapter,
    Document,
    Headline,
    Past,
    count_headline,
    share_headline,
    with_changes,
)
from webapp.dashboard.report_files import report_ask, report_newest, report_read
from webapp.dashboard.report_paper import _r
from webapp.jobs.engine import run_job
from webapp.studies.bot_columns import bot_columns_read
from webapp.studies.models import Study
from webapp.studies.services import bot_columns_store


def document(n: int, *headlines: Headline) -> Document:
    chapters = tuple(Chapter(name, name, (), (), (), "", ()) for name in ("ratings", "methods"))
    made = datetime(2026, 11, 21, 14, 32, tzinfo=UTC)
    return Document("s", "S", 1, made, n, n, ("One.", "Two."), tuple(headlines), chapters)


def test_changes_are_told_with_both_intervals() -> None:
    before = Past(
        datetime(2026, 11, 2, 9, 5, tzinfo=UTC),
        40,
        40,
        (
            count_headline("n", 40, "conversations"),
            share_headline("alpha", 0.5, "agreement", 0.3, 0.6, 0.95),
            Headline("mean:gone", "3.00", "gone, mean quality", 3.0, is_shown=False),
        ),
    )
    now = document(
        41,
        count_headline("n", 41, "conversations"),
        share_headline("alpha", 0.44, "agreement", 0.2, 0.6, 0.95),
        Headline("mean:new", "4.00", "new, mean quality", 4.0, is_shown=False),
        Headline("hybrid", "–", "hybrid metric", why="not fitted"),
    )
    found = with_changes(now, before)
    assert [one.id for one in found.chapters] == ["ratings", CHANGES_SECTION, "methods"]
    chapter = found.chapters[1]
    assert chapter.lead == (
        "Since the report of 2 November 2026, 09:05 UTC, 1 rated conversation has come.",
        "4 of its 4 headline numbers are others now.",
    )
    [part] = chapter.parts
    assert [[cell.text for cell in row] for row in part.table.rows] == [
        ["conversations", "40", "–", "41", "–", "+1"],
        ["agreement", ".50", "95 %: [.30, .60]", ".44", "95 %: [.20, .60]", "−.06"],
        ["new, mean quality", "–", "–", "4.00", "–", "–"],
        ["hybrid metric", "–", "–", "–", "–", "–"],
        ["gone, mean quality", "3.00", "–", "–", "–", "–"],
    ]
    assert part.table.rows[4][3].why == "not in this report"


def test_a_report_without_an_earlier_one_or_with_the_same_numbers() -> None:
    now = document(40, count_headline("n", 40, "conversations"))
    assert with_changes(now, None) is now
    same = Past(now.made, 40, 40, now.headlines)
    [_ratings, chapter, _methods] = with_changes(now, same).chapters
    assert chapter.lead[1] == "Its headline numbers are the same."


TABLE = b"bot,ppl,corpus,architecture,EI\nalpha,20,Reddit,HRED,EI\nbeta,25,Reddit,HRED,plain\ngamma,40,,,\nbad,,,,\n"


def test_the_published_numbers_agree_with_what_the_paper_says_of_them() -> None:
    rows = published()
    n = [rows["8", bot, "ratings"].value for bot in paper_bots()]
    assert sum(one or 0 for one in n) == 566
    for dimension in DIMENSIONS:
        assert all(rows["2", bot, dimension].half_width for bot in paper_bots())
    # Correlations of Tables 2 and 3 over the twelve bots, as computed elsewhere.
    quality = [rows["2", bot, "quality"].value for bot in paper_bots()]
    for name, expected in (("perplexity", -0.854), ("average", 0.866), ("greedy", 0.855)):
        found = _r(quality, [rows["5", bot, name].value for bot in paper_bots()])
        assert found.r == pytest.approx(expected, abs=5e-4)
    fluency = [rows["2", bot, "fluency"].value for bot in paper_bots()]
    assert _r(quality, fluency).r == pytest.approx(0.818, abs=5e-4)


@pytest.mark.parametrize(
    ("bot", "factors", "expected"),
    [
        ("vhred-ei-reddit", {}, PaperBot("VHRED", "Reddit", "EI")),
        ("HRED_cornell", {}, PaperBot("HRED", "Cornell", "baseline")),
        ("x", {"architecture": {"x": "vhcr"}, "corpus": {"x": "cornell"}, "EI": {"x": "EI_emo"}},
         PaperBot("VHCR", "Cornell", "EI_emo")),
        ("hred-reddit", {"EI": {"hred-reddit": "plain"}}, PaperBot("HRED", "Reddit", "baseline")),
        ("hred-reddit", {"corpus": {"hred-reddit": "OpenSubtitles"}}, None),
        ("shred-reddits", {}, None),
        ("dialog-350m", {}, None),
    ],
)  # fmt: skip
def test_bots_are_matched_by_factors_or_words(bot: str, factors: dict, expected: PaperBot | None) -> None:
    assert matched(bot, factors) == expected


def test_a_study_stands_beside_the_paper(
    staff: Client,
    study: Study,  # noqa: F811
    tmp_path: Path,
) -> None:
    bots = ["alpha", "beta", "gamma", "bad"]
    bot_columns_store(study=study, columns=bot_columns_read(TABLE, bots, "bots.csv"))
    run_job(report_ask(study=study, like="ghandeharioun2019"))
    made = report_newest(study, like="ghandeharioun2019")
    document = report_read(made) if made else None
    assert [chapter.id for chapter in document.chapters] == [
        *("table-2", "table-3", *(f"figure-{n}" for n in range(3, 9)), "table-5", "table-8")
    ]
    two, three, eight = (document.table(f"table-{n}") for n in (2, 3, 8))
    assert two.label == "Table 2"
    rows = {(row[0].text, row[1].text): row for row in two.table.rows}
    there = rows["HRED, Reddit, EI", "Quality"]
    assert (there[2].raw, there[3].text, there[6].raw) == ((2.714,), "[2.415, 3.013]", (16,))
    assert rows["VHCR, Cornell, EI", "Quality"][4].why == ("this study has no bot VHCR, Cornell, EI")
    assert "does not ask for empathy" in rows["HRED, Reddit, EI", "empathy"][4].why
    assert rows["gamma", "Quality"][2].why == "not in the paper"
    assert [row[2].text for row in three.table.rows if row[0].text == "HRED, Reddit, EI"] == ["20.000"]
    assert [row[1].text for row in eight.table.rows[:2]] == ["55", "49"]
    lacking = next(one for one in document.chapters if one.id == "figure-6")
    assert not lacking.parts
    assert "No hybrid metric has been fitted" in lacking.missing[0]
    where = reverse("dashboard:study_report", args=[study.key])
    page = staff.get(where + "?like=ghandeharioun2019&part=preview").content.decode()
    assert "Table 8. Ratings per bot" in page
    assert staff.get(where + "?like=gp2020").status_code == 404
    output = tmp_path / "paper.html"
    call_command(
        *("report", "--study", study.key, "--like", "ghandeharioun2019", "--output", str(output)), stdout=io.StringIO()
    )
    assert re.findall(r'<section id="([a-z0-9-]+)"', output.read_text())[:2] == [*("table-2", "table-3")]
    with pytest.raises(CommandError, match="invalid choice: 'gp2020'"):
        call_command("report", "--study", study.key, "--like", "gp2020", "--output", "x.html")
    with pytest.raises(CommandError, match=r"name it by --output FILE\.html"):
        call_command("report", "--study", study.key, "--like", "ghandeharioun2019", "--json")
