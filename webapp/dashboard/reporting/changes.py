"""Changes since the previous report of a study: its headline numbers, before and now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from evaluation.printing import figure, percent, share
from webapp.core.speaking import plural
from webapp.dashboard.plots.figure import Cell, Header, Table
from webapp.dashboard.reporting.document import Document, Headline, chapter_of
from webapp.dashboard.wording.sections import NamedTable, Section

SECTION = "changes"
_SHARES = ("alpha", "icc", "kappa", "hybrid")


@dataclass(frozen=True, slots=True)
class Past:
    """Summary kept of an earlier report when a newer one replaces it."""

    made: datetime
    n_ratings: int
    n_conversations: int
    headlines: tuple[Headline, ...]


def past_of(document: Document) -> Past:
    """Return the summary kept of a report."""
    return Past(document.made, document.n_ratings, document.n_conversations, document.headlines)


def with_changes(document: Document, before: Past | None) -> Document:
    """Return the report with a section on what has changed, before the last one; as it is without an earlier report."""
    if before is None:
        return document
    found = chapter_of(_section(document, before))
    return replace(document, chapters=(*document.chapters[:-1], found, *document.chapters[-1:]))


def _section(now: Document, before: Past) -> Section:
    section = Section(SECTION, "What has changed")
    n = now.n_conversations - before.n_conversations
    counted = (
        plural(n, "%(n)s rated conversation has come", "%(n)s rated conversations have come")
        if n >= 0
        else plural(-n, "%(n)s rated conversation has gone", "%(n)s rated conversations have gone")
    ) % {"n": f"{abs(n):,}"}
    section.lead.append(
        "Since the report of {day} UTC, {conversations}.".format(
            day=f"{before.made:%-d %B %Y, %H:%M}", conversations=counted
        )
    )
    earlier = {one.key: one for one in before.headlines}
    later = {one.key: one for one in now.headlines}
    rows = [_row(earlier.get(key), later.get(key)) for key in dict.fromkeys([*later, *earlier])]
    changed = [
        key
        for key, one in later.items()
        if key not in earlier or _printed(earlier[key]) != _printed(one)
    ]
    section.lead.append(
        plural(
            len(changed),
            "%(n)d of its %(all)d headline numbers is another now.",
            "%(n)d of its %(all)d headline numbers are others now.",
        )
        % {"n": len(changed), "all": len(later)}
        if changed
        else "Its headline numbers are the same."
    )
    headers = [Header("Number")]
    for when in ("Before", "Now"):
        headers += [Header(when, numeric=True), Header(f"{when}, interval")]
    headers.append(Header("Change", numeric=True))
    section.tables.append(
        NamedTable(
            SECTION,
            "Headline numbers before and now",
            Table(headers, rows),
            note=(
                "Both reports rest on the earlier conversations, so overlapping intervals say nothing about whether a "
                "change is one of chance."
            ),
        )
    )
    return section


def _row(before: Headline | None, now: Headline | None) -> list[Cell]:
    one = now or before
    assert one is not None, "a row is of a number that one of the reports has"
    return [Cell(one.what), *_cells(before), *_cells(now), _change(before, now)]


def _cells(found: Headline | None) -> list[Cell]:
    if found is None:
        return [Cell("–", why="not in this report", raw=(None,)), Cell("–", raw=(None, None))]
    why = found.why if found.value is None else ""
    return [
        Cell(found.text, why=why, raw=(found.value,)),
        Cell(found.interval or "–", raw=(found.low, found.high)),
    ]


def _change(before: Headline | None, now: Headline | None) -> Cell:
    if before is None or now is None or before.value is None or now.value is None:
        return Cell("–", raw=(None,))
    gap = now.value - before.value
    if before.key in _SHARES:
        text = share(gap)
    elif before.key == "left_early":
        text = percent(gap)
    elif isinstance(now.value, int) or before.key in ("n", "raters", "judgements"):
        text = figure(gap, 0)
    else:
        text = figure(gap)
    return Cell(text if gap <= 0 else f"+{text}", raw=(gap,))


def _printed(found: Headline) -> tuple[str, str]:
    return found.text, found.interval
