"""Report in the numbering of Ghandeharioun et al. (2019).

Tables 2, 3, 5 and 8, Figures 3 to 8, with the published numbers. Our numbers are those of the report, from the same
results. A number that the study cannot give is a gap with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils import timezone

from evaluation.published.ghandeharioun2019 import (
    DIMENSIONS,
    LEVEL,
    NAME,
    VERSIONS,
    PaperBot,
    matched,
    paper_bots,
    published,
)
from evaluation.stats.correlation import Correlation, correlate
from webapp.dashboard.charts.figure import Cell, Header, PageTable
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import NamedTable, Section, count_cell, number_cell, share_cell, span_cell
from webapp.dashboard.report_document import Chapter, Document, chapter_of
from webapp.dashboard.report_sections import SECTIONS, hybrid_part
from webapp.jobs.selectors.analysis_tables import bot_versions, factors_of, measured_of
from webapp.results.compute import StudyComparisons
from webapp.results.study_data import StudyFrame
from webapp.studies.bot_columns import BotColumns

LIKE = (NAME,)
"""Papers whose numbering a report can follow."""
_MEASURED = {
    "perplexity": ("perplexity", "ppl"),
    "kl": ("kl",),
    "average": ("average", "avg"),
    "extrema": ("extrema", "ext"),
    "greedy": ("greedy_ref", "greedy", "grd"),
}
_SHORT = {"perplexity": "PPL", "kl": "KL", "average": "Avg", "extrema": "Ext", "greedy": "Grd"}


@dataclass(frozen=True, slots=True)
class _Ours:
    """Our bots as the paper knows them, and those that it does not."""

    by_paper: Mapping[PaperBot, str]
    others: Sequence[str]

    def lacking(self, bot: PaperBot) -> str:
        """Return the reason for a missing value: the study has no such bot."""
        return f"this study has no bot {bot}"


def paper_report(frame: StudyFrame, result: Callable[[str], Any]) -> Document:
    """Return the study laid out as the paper is."""
    versions = bot_versions(frame.study)
    own = BotColumns.from_json(frame.study.bot_columns)
    factors = factors_of(versions, own)
    by_paper: dict[PaperBot, str] = {}
    others = []
    for bot in frame.rated_bots:
        found = matched(bot, factors)
        if found is None or found in by_paper:
            others.append(bot)
        else:
            by_paper[found] = bot
    ours = _Ours(by_paper, others)
    comparisons: StudyComparisons = result("comparisons")
    measured = {name.lower(): of for name, of in measured_of(versions, own).items()}
    two = ("baseline", "EI")
    chapters = [
        chapter_of(_ratings(frame, ours, comparisons), ["Table 2"]),
        chapter_of(_models(frame, ours, measured, two, "3"), ["Table 3"]),
        *_figures(frame, result),
        chapter_of(_models(frame, ours, measured, VERSIONS, "5"), ["Table 5"]),
        chapter_of(_counted(frame, ours, comparisons), ["Table 8"]),
    ]
    at = [chapter.id for chapter in chapters].index("figure-7")
    together = chapter_of(_over_bots(frame, comparisons), ["Figure 7, over bots"])
    chapters[at] = replace(chapters[at], parts=(*chapters[at].parts, *together.parts))
    known = f"{sum(bot in by_paper for bot in paper_bots())} of its 12 bots are in this study."
    if others:
        known += " " + f"{phrases.bots_text(len(others))} of this study are not in the paper and stand below its rows."
    return Document(
        study=frame.study.key,
        name=f"{frame.study.name}, laid out as in Ghandeharioun et al. (2019)",
        rubric_version=frame.study.rubric.version,
        made=timezone.now(),
        n_ratings=frame.facts.n_ratings,
        n_conversations=frame.facts.n_conversations,
        summary=(
            (
                "Tables 2, 3, 5 and 8 and Figures 3 to 8 of “Approximating Interactive Human Evaluation with "
                "Self-Play for Open-Domain Dialog Systems” (arXiv 1906.09308), with this study’s numbers beside the "
                "published ones."
            ),
            known,
            "Bots are matched by architecture, corpus and EI, from the table of bots or the words of their ids.",
        ),
        headlines=(),
        chapters=tuple(chapters),
        like=NAME,
    )


def _ratings(frame: StudyFrame, ours: _Ours, found: StudyComparisons) -> Section:
    headers = [Header("Bot"), Header("Dimension")]
    for whose in ("Published", "Here"):
        headers += [Header(whose, numeric=True), Header(f"{whose}, {LEVEL:.0%}", numeric=True)]
    headers.append(Header("n", numeric=True))
    keys = {dimension.key: dimension.title for dimension in frame.dimensions}
    rows = []
    pairs = [(bot, ours.by_paper.get(bot)) for bot in paper_bots()]
    for paper, bot in [*pairs, *((None, bot) for bot in ours.others)]:
        for name in DIMENSIONS if paper else keys:
            row = [Cell(str(paper) if paper else frame.title(bot or "")), Cell(keys.get(name, name))]
            value = published()["2", paper, name] if paper else None
            mean, half = (value.value, value.half_width) if value else (None, None)
            low = mean - half if mean is not None and half is not None else None
            high = mean + half if mean is not None and half is not None else None
            why = "" if paper else "not in the paper"
            row += [number_cell(mean, 3, why), span_cell(low, high, 3, why=why)]
            here = found.means.rows.get((bot, name)) if bot else None
            if here is None:
                why = f"this study does not ask for {name}"
                if bot is None and paper is not None:
                    why = ours.lacking(paper)
                row += [number_cell(None, why=why), span_cell(None, None, why=why), count_cell(None, why)]
            else:
                one = here.interval
                row += [number_cell(one.mean, 3), span_cell(one.low, one.high, 3), count_cell(one.n)]
            rows.append(row)
    method = "Mean and 90 % interval; published by bot, ours over raters."
    note = ""
    if (frame.headline.low, frame.headline.high) != (1, 7):
        note = (
            f"The paper’s scale goes from 1 to 7, this study’s from {frame.headline.low:g} to {frame.headline.high:g}."
        )
    section = Section("table-2", "Table 2. Ratings of conversations")
    section.lead.extend(_replicated(ours, found))
    section.tables.append(NamedTable("table-2", section.title[9:], PageTable(headers, rows), method, note))
    return section


def _replicated(ours: _Ours, found: StudyComparisons) -> list[str]:
    """Say for how many pairs of a bot and its EI version quality is higher with EI, as for all six of the paper."""
    higher = n = 0
    for paper, bot in ours.by_paper.items():
        plain = ours.by_paper.get(replace(paper, version="baseline"))
        if paper.version != "EI" or plain is None:
            continue
        mine = found.means.rows.get((bot, "quality"))
        other = found.means.rows.get((plain, "quality"))
        if mine and other and mine.interval.mean is not None and other.interval.mean is not None:
            n += 1
            higher += mine.interval.mean > other.interval.mean
    if not n:
        return []
    return [f"In the paper mean quality is higher with EI in 6 of 6 pairs; here in {higher} of {n}."]


def _models(
    frame: StudyFrame, ours: _Ours, measured: Mapping[str, Mapping[str, float]], versions: tuple[str, ...], number: str
) -> Section:
    headers = [Header("Bot")]
    for name in _MEASURED:
        headers += [
            Header(f"{_SHORT[name]}, {'published'}", numeric=True),
            Header(f"{_SHORT[name]}, {'here'}", numeric=True),
        ]
    rows = []
    pairs = [(bot, ours.by_paper.get(bot)) for bot in paper_bots(versions)]
    for paper, bot in [*pairs, *((None, bot) for bot in ours.others)]:
        row = [Cell(str(paper) if paper else frame.title(bot or ""))]
        for name, names in _MEASURED.items():
            value = published()["5", paper, name].value if paper else None
            why = "HRED has no latent variable" if paper else "not in the paper"
            row.append(number_cell(value, 3, why))
            here = next((measured[n][bot] for n in names if bot and bot in measured.get(n, {})), None)
            why = "nothing is known of it; Correlations on the page Why take a table of bots"
            if bot is None and paper is not None:
                why = ours.lacking(paper)
            row.append(number_cell(here, 3, why))
        rows.append(row)
    title = "Figures of the models on single responses"
    section = Section(f"table-{number}", f"Table {number}. {title}")
    method = "On held-out text: perplexity, KL, likeness by average, extrema and greedy matching."
    note = "No interval is published. Ours are of the bots’ checkpoints or the table of bots."
    section.tables.append(NamedTable(section.id, title, PageTable(headers, rows), method, note))
    return section


def _counted(frame: StudyFrame, ours: _Ours, found: StudyComparisons) -> Section:
    headers = [Header("Bot"), Header("Published", numeric=True), Header("Here", numeric=True)]
    n_of = found.means.n_ratings
    rows = []
    for paper in paper_bots():
        bot = ours.by_paper.get(paper)
        value = published()["8", paper, "ratings"].value or 0
        mine = count_cell(n_of.get(bot, 0)) if bot else count_cell(None, ours.lacking(paper))
        rows.append([Cell(str(paper)), count_cell(int(value)), mine])
    for bot in ours.others:
        lacking = count_cell(None, "not in the paper")
        rows.append([Cell(frame.title(bot)), lacking, count_cell(n_of.get(bot, 0))])
    section = Section("table-8", "Table 8. Ratings per bot")
    section.tables.append(NamedTable("table-8", "Ratings per bot", PageTable(headers, rows)))
    return section


def _figures(frame: StudyFrame, result: Callable[[str], Any]) -> list[Chapter]:
    """Return Figures 3 to 8 as the report draws them, each with what the paper says of its own."""
    courses = SECTIONS["trajectories"](frame, result("trajectories"))
    matrices = SECTIONS["correlations"](frame, result("correlations"))
    hybrid = hybrid_part(frame)
    no_numbers = "The paper prints no numbers for this figure."
    told = [
        (
            3,
            courses,
            "best-worst",
            "Best and worst conversations",
            "The paper: people write more, are more positive and vote up more in the best conversations, and "
            "replies are closer to what they said.",
        ),
        (
            4,
            courses,
            "by-trait",
            "Bots with and without EI",
            "The paper: with EI people write more and laugh more, and replies are closer to what they said.",
        ),
        (
            5,
            matrices,
            "metrics-dimensions",
            "Ratings and metrics",
            "The paper: sentiment of the participants goes with ratings more closely than perplexity and embedding "
            "metrics do.",
        ),
        (6, hybrid, "weights-", "Weights of the hybrid metric", "The paper: weights are about the same in every fold."),
        (7, matrices, "dimensions", "Ratings among themselves", "The paper: quality goes with every other dimension."),
        (
            8,
            matrices,
            "bots-dimensions",
            "Self-play and ratings over bots",
            "The paper: the hybrid metric of self-play has r > .7 with all ratings, and r > .8 with empathy, over "
            "12 bots.",
        ),
    ]
    chapters = []
    for number, section, id, title, words in told:
        label = f"Figure {number}"
        found = Section(f"figure-{number}", f"{label}. {title}", [f"{words} {no_numbers}"])
        found.figures = [
            one for one in section.figures if one.id == id or (one.id.startswith(id) and id.endswith("-"))
        ][:1]
        if not found.figures:
            found.missing = list(section.missing) or ["This study has too little for it."]
        chapters.append(chapter_of(found, [label] * len(found.figures)))
    return chapters


def _over_bots(frame: StudyFrame, found: StudyComparisons) -> Section:
    """Set the correlations of the paper's Table 2 over its bots beside the same over ours."""
    theirs = {d: [published()["2", bot, d].value for bot in paper_bots()] for d in DIMENSIONS}
    bots = [bot for bot in frame.rated_bots if not frame.bots[bot].is_control]
    keys = [d for d in DIMENSIONS if d in {one.key for one in frame.dimensions}]
    mine = {d: [_mean(found, bot, d) for bot in bots] for d in keys}
    headers = [Header("Dimensions")]
    for whose in ("Paper’s Table 2", "Here"):
        headers += [Header(whose, numeric=True), Header(f"{whose}, 95 %", numeric=True)]
    rows = []
    for i, a in enumerate(DIMENSIONS):
        for b in DIMENSIONS[i + 1 :]:
            row = [Cell(f"{a}, {b}"), *_r_cells(_r(theirs[a], theirs[b]))]
            ours = _r(mine[a], mine[b]) if a in mine and b in mine else None
            rows.append([*row, *_r_cells(ours, "this study does not ask for both")])
    section = Section("figure-7-bots", "Figure 7, over bots")
    method = (
        f"Pearson’s r of mean ratings over 12 bots and over {phrases.bots_text(len(bots))} here, Fisher’s intervals."
    )
    note = "Computed from the paper’s Table 2; its Figure 7 is over conversations."
    title = "Mean ratings of bots among themselves"
    section.tables.append(NamedTable("figure-7-bots", title, PageTable(headers, rows), method, note))
    return section


def _mean(found: StudyComparisons, bot: str, key: str) -> float | None:
    row = found.means.rows.get((bot, key))
    return row.interval.mean if row else None


def _r(x: Sequence[float | None], y: Sequence[float | None]) -> Correlation:
    def numbers(values: Sequence[float | None]) -> list[float]:
        return [float("nan") if value is None else value for value in values]

    return correlate(numbers(x), numbers(y), "pearson", interval="fisher")


def _r_cells(found: Correlation | None, why: str = "") -> list[Cell]:
    if found is None:
        return [share_cell(None, why=why), span_cell(None, None, why=why)]
    reason = str(found.reason) if found.r is None and found.reason else ""
    return [share_cell(found.r, why=reason), span_cell(found.low, found.high, shares=True, why=reason)]
