"""Document of a report: contents, headlines, and changes since the previous.

Pages, files, shared links and the comparison with an earlier report use only the document, so they read no ratings and
all agree.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from chatbots.compressed_files import DAMAGE_ERRORS
from evaluation.analysis.agreement import RaterAgreement
from evaluation.analysis.bot_means import BotMeans
from evaluation.analysis.pairs import PairResults
from evaluation.data.result_tables import Cell, NamedTable, PageTable, StoredReason, declared_table
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import digits_for, figure, percent, result_dump, result_load, share, span
from evaluation.stats.agreement import AgreementEstimate
from evaluation.stats.constants import SCORE_LEVEL
from evaluation.stats.means import share_interval
from webapp.core.language import plural
from webapp.insights.charts.figure import PageFigure
from webapp.insights.narrative import phrases
from webapp.insights.narrative.hybrid import target_in_words
from webapp.insights.narrative.hybrid_tables import intercept_in_words
from webapp.insights.narrative.phrases import Section, reason_text
from webapp.insights.selectors import study_cards
from webapp.jobs.selectors.fits import fit_leading
from webapp.results.study_data import StudyFrame
from webapp.studies.protocols.base import get_protocol


@dataclass(frozen=True, slots=True)
class Headline:
    """Number printed large above a report, or compared with later reports.

    Attributes:
        key: identifies it across reports.
        text: printed number, "–" if missing.
        what: description of the number.
        value: number with all digits; None if undefined.
        low, high: ends of its interval; None without one.
        interval: printed interval; "" without one.
        reason: reason for a missing number or interval; "" for a plain count, which needs none.
        is_shown: whether it is printed above the report; the others are only compared.
    """

    key: str
    text: str
    what: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    interval: str = ""
    reason: StoredReason = ""
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class Drawing:
    """Plot as SVG, for wide columns, and in titled parts for narrow ones."""

    wide: str
    narrow: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ReportPart:
    """A figure or table.

    Attributes:
        id: unique in the report, and the name of its files.
        label: "Figure 3"; "" before it is numbered.
        marks: meaning of the drawing's marks; not part of its table's caption.
    """

    id: str
    title: str
    method: str
    note_lead: str
    note: str
    table: PageTable
    drawing: Drawing | None = None
    label: str = ""
    marks: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """Section of a report, with its parts in order."""

    id: str
    title: str
    lead: tuple[str, ...]
    points: tuple[str, ...]
    missing: tuple[str, ...]
    caution: str
    parts: tuple[ReportPart, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A whole report.

    Compared by identity, so that pages made from it can be cached by it.

    Attributes:
        study: the study's key.
        like: paper whose numbering it follows; "" for Confab's own order.
        n_ratings, n_conversations: numbers of ratings and conversations in the report.
        summary: summary in sentences, beginning with the conclusion.
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
        """The numbers printed above it."""
        return [headline for headline in self.headlines if headline.is_shown]

    def chosen(self, ids: Collection[str]) -> Document:
        """Return the report with only these sections.

        With all if it has none of them.
        """
        return replace(self, chapters=tuple(chapter for chapter in self.chapters if chapter.id in ids) or self.chapters)

    def unknown(self, ids: Iterable[str]) -> list[str]:
        """Return those of these names that no section has."""
        known = {chapter.id for chapter in self.chapters}
        return [name for name in ids if name not in known]

    def table(self, id: str) -> ReportPart | None:
        """Return the part with this id.

        None without one.
        """
        return next((part for chapter in self.chapters for part in chapter.parts if part.id == id), None)


def chapter_of(section: Section, labels: Sequence[str] = ()) -> Chapter:
    """Return a part of the analysis as a section of a report.

    Args:
        labels: labels of its figures and tables, figures first; otherwise they are numbered when shown.
    """
    parts = [*map(_of_figure, section.figures), *map(_of_table, section.tables)]
    if labels:
        parts = [replace(part, label=label) for part, label in zip(parts, labels, strict=True)]
    return Chapter(
        section.id,
        str(section.title),
        (*section.lead, *section.methods),
        tuple(section.points),
        tuple(section.missing),
        section.caution,
        tuple(parts),
    )


def _of_figure(figure: PageFigure) -> ReportPart:
    # A page can unfold a table that it draws in part; paper cannot.
    whole_figure = figure.complete or figure
    narrow = tuple((str(v.title), str(v.svg)) for v in whole_figure.narrow)
    drawing = Drawing(str(whole_figure.wide), narrow)
    lead = figure.note_lead
    return ReportPart(
        figure.id, figure.title, figure.method, lead, figure.note, figure.table, drawing, marks=figure.marks
    )


def _of_table(table: NamedTable) -> ReportPart:
    return ReportPart(table.id, table.title, table.method, "", table.note, table.table)


def count_headline(key: str, n: int, title: str, reason: str = "") -> Headline:
    """Return a count.

    If a reason is given, a count of zero is a dash with that reason.
    """
    if n == 0 and reason:
        return Headline(key, "–", title, reason=reason)
    return Headline(key, f"{n:,}", title, value=n)


def share_headline(
    key: str, value: float | None, title: str, low: float | None, high: float | None, level: float, reason: str = ""
) -> Headline:
    """Return a coefficient between −1 and 1 with its interval."""
    interval = "" if low is None else f"{percent(level)}: {span(low, high, shares=True)}"
    return Headline(key, share(value), title, value, low, high, interval, reason)


def document_dump(document: Document) -> bytes:
    """Return the document as stored: compressed JSON."""
    text = json.dumps(result_dump(document, Document), ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)


def document_load(stored: bytes) -> Document:
    """Return the document that `document_dump` stored.

    Raises:
        ValueError: it is not a document, or one of an earlier version of Confab.
    """
    try:
        return result_load(json.loads(gzip.decompress(stored)), Document)
    except DAMAGE_ERRORS as error:
        raise ValueError(f"not a valid report: {error}") from None


def headlines_of(frame: StudyFrame, agreement: RaterAgreement, means: BotMeans) -> tuple[Headline, ...]:
    """Return the four numbers above the report, then the bots' means."""
    cards = study_cards(frame.study, **frame.counted_work)
    rated = "items rated" if get_protocol(frame.study).judges_items else "conversations rated"
    headlines = [count_headline("n", frame.facts.n_conversations, rated), _agreement(agreement), _hybrid(frame)]
    left_interval = share_interval(cards.n_left, cards.n_over) if cards.n_over else None
    if cards.left_early is None or left_interval is None:
        n = frame.facts.n_raters
        headlines.append(count_headline("raters", n, "raters", reason="without ID"))
    else:
        ends = f"{percent(SCORE_LEVEL)}: [{percent(left_interval[0])}, {percent(left_interval[1])}]"
        headlines.append(
            Headline(
                "left_early", percent(cards.left_early), "left before rating", cards.left_early, *left_interval, ends
            )
        )
    return (*headlines, *_means(frame, means))


def headlines_of_pairs(results: PairResults) -> tuple[Headline, ...]:
    """Return the numbers above a report of paired comparisons."""
    kappa = results.kappas[0].found if results.kappas else None
    title = "agreement, Cohen’s κ"
    return (
        count_headline("judgements", results.n, "judgements"),
        count_headline("n", results.n_items, "pairs judged"),
        Headline("kappa", "–", title, reason="no pair was rated by two raters")
        if kappa is None
        else _of_agreement("kappa", kappa, title, results.level),
        count_headline("raters", results.n_raters, "raters", reason="without ID"),
    )


def _agreement(agreement: RaterAgreement) -> Headline:
    if agreement.same_conversation.value is not None:
        title = "agreement, Krippendorff’s α"
        return _of_agreement("alpha", agreement.same_conversation, title, SCORE_LEVEL)
    title = "reliability of the bots’ means, ICC(k)"
    return _of_agreement("icc", agreement.reliability_of_bots, title, SCORE_LEVEL)


def _of_agreement(key: str, estimate: AgreementEstimate, title: str, level: float) -> Headline:
    return share_headline(key, estimate.value, title, estimate.low, estimate.high, level, reason_text(estimate.reason))


def _hybrid(frame: StudyFrame) -> Headline:
    fit = fit_leading(frame.study, frame.excluded_flags)
    fit_result: Mapping[str, Any] = (fit.result or {}) if fit is not None else {}
    if not fit_result:
        return Headline("hybrid", "–", "hybrid metric", reason="not fitted")
    pearson = fit_result.get("bot_level", {}).get("pearson") or {}
    if pearson.get("r") is None or fit_result["n_bots"] < FEW_BOTS:
        return Headline("hybrid", "–", "hybrid metric", reason=f"no r over {phrases.bots_text(fit_result['n_bots'])}")
    target = target_in_words(fit_result["target"], [d.key for d in frame.dimensions])
    title = (
        f"hybrid metric of {target}, r over {phrases.bots_text(fit_result['n_bots'])}, {intercept_in_words(fit_result)}"
    )
    low, high = pearson.get("ci95") or (None, None)
    reason = "" if low is not None else reason_text(pearson.get("reason")) or "no interval"
    return share_headline("hybrid", pearson["r"], title, low, high, SCORE_LEVEL, reason)


def _means(frame: StudyFrame, means: BotMeans) -> list[Headline]:
    """Return the bots' means on the ranking question, best first.

    They are in the first figure.
    """
    headline = frame.headline
    digits = digits_for(headline.low, headline.high)
    headlines = []
    for bot in frame.rated_bots:
        row = means.rows.get((bot, headline.key))
        if row is None:
            continue
        mean, low, high = row.interval.mean, row.interval.low, row.interval.high
        ends = "" if low is None else f"{percent(means.level)}: {span(low, high, digits)}"
        title = f"{frame.title(bot)}, mean {headline.title.lower()}"
        reason = reason_text(row.interval.reason)
        text = figure(mean, digits)
        headlines.append(Headline(f"mean:{bot}", text, title, mean, low, high, ends, reason, is_shown=False))
    return headlines


CHANGES_SECTION = "changes"
_SHARES = ("alpha", "icc", "kappa", "hybrid")


@dataclass(frozen=True, slots=True)
class Past:
    """Summary of an earlier report, kept when a newer one replaces it."""

    made: datetime
    n_ratings: int
    n_conversations: int
    headlines: tuple[Headline, ...]


def past_of(document: Document) -> Past:
    """Return the stored summary of a report."""
    return Past(document.made, document.n_ratings, document.n_conversations, document.headlines)


def with_changes(document: Document, before: Past | None) -> Document:
    """Return the report with a section on changes before the last one.

    Unchanged without an earlier report.
    """
    if before is None:
        return document
    chapter = chapter_of(_section(document, before))
    return replace(document, chapters=(*document.chapters[:-1], chapter, *document.chapters[-1:]))


def _section(now: Document, before: Past) -> Section:
    section = Section(CHANGES_SECTION, "Changes")
    n = now.n_conversations - before.n_conversations
    have = plural(abs(n), "conversation has", "conversations have")
    change_text = f"{abs(n):,} rated {have} been {'added' if n >= 0 else 'removed'}"
    section.lead.append(f"Since the report of {before.made:%-d %B %Y, %H:%M} UTC, {change_text}.")
    earlier = {headline.key: headline for headline in before.headlines}
    later = {headline.key: headline for headline in now.headlines}
    rows = [(headline, earlier.get(key), later.get(key)) for key, headline in {**later, **earlier, **later}.items()]
    changed = [
        key for key, headline in later.items() if key not in earlier or _printed(earlier[key]) != _printed(headline)
    ]
    section.lead.append(
        f"{len(changed)} of its {len(later)} headline numbers {plural(len(changed), 'has', 'have')} changed."
        if changed
        else "Its headline numbers have not changed."
    )
    table = declared_table(
        CHANGES_SECTION,
        "Headline numbers before and now",
        rows,
        ("Number", lambda row: Cell(row[0].what)),
        (("Before", "Before, interval"), lambda row: _cells(row[1])),
        (("Now", "Now, interval"), lambda row: _cells(row[2])),
        ("Change", lambda row: _change(*row[1:])),
        note=(
            "Both reports include the earlier conversations, so overlapping intervals do not show whether a change "
            "is due to chance."
        ),
    )
    section.tables.append(table)
    return section


def _cells(headline: Headline | None) -> list[Cell]:
    if headline is None:
        return [Cell("–", reason="not in this report", raw=(None,)), Cell("–", raw=(None, None))]
    reason = headline.reason if headline.value is None else ""
    return [
        Cell(headline.text, reason=reason, raw=(headline.value,)),
        Cell(headline.interval or "–", raw=(headline.low, headline.high)),
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


def _printed(headline: Headline) -> tuple[str, str]:
    return headline.text, headline.interval
