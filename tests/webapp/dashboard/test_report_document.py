"""A report's document, and what has changed since the previous one."""

from __future__ import annotations

from datetime import UTC, datetime

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
