"""A report as a document: all its words, numbers and drawings, kept as it was when it was made.

Pages, files, shared links and the comparison with an earlier report are made of the document alone, so none of them
reads a rating, and all say the same.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from chatbots.archives import DAMAGE
from evaluation.printing import percent, share, span
from evaluation.storing import result_dump, result_load
from webapp.dashboard.plots.figure import Figure, Table
from webapp.dashboard.wording.sections import NamedTable, Section


@dataclass(frozen=True, slots=True)
class Headline:
    """A number that stands large above a report, or that a later report is compared by.

    Attributes:
        key: names it from report to report.
        text: the number as it is printed, "–" where there is none.
        what: what it is.
        value: with all digits; None where it is undefined.
        low, high: ends of its interval; None where it has none.
        interval: the interval as it is printed; "" where there is none.
        why: why the number or its interval is missing; "" for a plain count, which needs none.
        is_shown: whether it stands above the report; the others are only compared.
    """

    key: str
    text: str
    what: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    interval: str = ""
    why: str = ""
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class Drawing:
    """A plot as SVG: for wide columns, and for narrow ones with the title of each."""

    wide: str
    narrow: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A figure or table.

    Attributes:
        id: unique in the report, and the name of its files.
        label: "Figure 3"; "" while nobody has numbered it.
    """

    id: str
    title: str
    method: str
    note_lead: str
    note: str
    table: Table
    drawing: Drawing | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A section of a report, its parts in order."""

    id: str
    title: str
    lead: tuple[str, ...]
    points: tuple[str, ...]
    missing: tuple[str, ...]
    caution: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A whole report. One read again is another one, so that pages made of it can be kept by it.

    Attributes:
        study: the study's key.
        like: the paper whose numbering it follows; "" for a report in its own order.
        n_ratings, n_conversations: of so many it is.
        summary: sentences; the second is the most important.
    """

    study: str
    name: str
    rubric_version: int
    made: datetime
    n_ratings: int
    n_conversations: int
    summary: tuple[str, ...]
    headlines: tuple[Headline, ...]
    chapters: tuple[Chapter, ...]
    like: str = ""

    @property
    def numbers(self) -> list[Headline]:
        """Those that stand above it."""
        return [one for one in self.headlines if one.is_shown]

    def chosen(self, ids: Collection[str]) -> Document:
        """Return the report with these sections alone; with all where none is named."""
        if not ids:
            return self
        return replace(self, chapters=tuple(one for one in self.chapters if one.id in ids))

    def unknown(self, ids: Iterable[str]) -> list[str]:
        """Return those of these names that no section has."""
        known = {one.id for one in self.chapters}
        return [name for name in ids if name not in known]

    def table(self, id: str) -> Part | None:
        """Return the part with this id; None without one."""
        return next((p for one in self.chapters for p in one.parts if p.id == id), None)


def chapter_of(section: Section, labels: Sequence[str] = ()) -> Chapter:
    """Return a part of the analysis as a section of a report.

    Args:
        labels: of its figures and tables, figures first; without them they are numbered when they are shown.
    """
    found = [*map(_of_figure, section.figures), *map(_of_table, section.tables)]
    if labels:
        found = [replace(part, label=label) for part, label in zip(found, labels, strict=True)]
    return Chapter(
        section.id,
        str(section.title),
        (*section.lead, *section.how),
        tuple(section.points),
        tuple(section.missing),
        section.caution,
        tuple(found),
    )


def _of_figure(found: Figure) -> Part:
    # A page unfolds the whole of what it draws in part; paper cannot.
    drawn = found.more or found
    narrow = tuple((str(v.title), str(v.svg)) for v in drawn.narrow)
    drawing = Drawing(str(drawn.wide), narrow)
    lead = found.note_lead
    return Part(found.id, found.title, found.method, lead, found.note, found.table, drawing)


def _of_table(found: NamedTable) -> Part:
    return Part(found.id, found.title, found.method, "", found.note, found.table)


def count_headline(key: str, n: int, what: str, why: str = "") -> Headline:
    """Return a count; a count of none is a dash with its reason where one is given."""
    if n == 0 and why:
        return Headline(key, "–", what, why=why)
    return Headline(key, f"{n:,}", what, value=n)


def share_headline(
    key: str,
    value: float | None,
    what: str,
    low: float | None,
    high: float | None,
    level: float,
    why: str = "",
) -> Headline:
    """Return a coefficient between −1 and 1 with its interval."""
    interval = "" if low is None else f"{percent(level)}: {span(low, high, shares=True)}"
    return Headline(key, share(value), what, value, low, high, interval, why)


def document_dump(document: Document) -> bytes:
    """Return the document as it is kept: compressed JSON."""
    text = json.dumps(result_dump(document, Document), ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)


def document_load(kept: bytes) -> Document:
    """Return the document that `document_dump` wrote.

    Raises:
        ValueError: it is none; perhaps an earlier version of Confab wrote it.
    """
    try:
        return result_load(json.loads(gzip.decompress(kept)), Document)
    except DAMAGE as error:
        raise ValueError(f"this is no report: {error}") from None
