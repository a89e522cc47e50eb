"""Report in the numbering of Ghandeharioun et al. (2019).

It has Tables 1 to 9 and Figures 2 to 9, with the published numbers. Our numbers are those of the normal report. A
number that the study lacks is shown as a gap with one of the five reasons of `GapReason`. The module
`webapp/insights/report_paper_one_turn.py` makes the one-turn comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from evaluation.data.result_tables import (
    Cell,
    count_cell,
    declared_table,
    number_cell,
    share_cell,
    span_cell,
    with_footnotes,
)
from evaluation.published.ghandeharioun2019 import (
    DIMENSIONS,
    HYPER_PARAMETERS,
    LEVEL,
    NAME,
    VERSIONS,
    PaperBot,
    hyper_parameters,
    matched,
    paper_bots,
    published,
    published_hyper_parameters,
)
from evaluation.published.papers import GapReason
from evaluation.stats.correlation import Correlation, correlate
from webapp.bots.selectors import bots_trained
from webapp.core.clock import database_now
from webapp.insights.narrative import phrases
from webapp.insights.narrative.hybrid_fits import hybrid_section
from webapp.insights.narrative.phrases import Section, mean_cells
from webapp.insights.report_document import Chapter, Document, chapter_of
from webapp.insights.report_paper_one_turn import OneTurn
from webapp.insights.report_sections import SECTIONS
from webapp.jobs.selectors.analysis_tables import bot_versions, factors_of, measured_of
from webapp.results.compute import StudyComparisons
from webapp.results.study_data import StudyFrame
from webapp.studies.bot_columns import BotColumns

LIKE = (NAME,)
"""Papers whose layout a report can follow."""
_MEASURED = {
    "perplexity": ("perplexity", "ppl"),
    "kl": ("kl",),
    "average": ("average", "avg"),
    "extrema": ("extrema", "ext"),
    "greedy": ("greedy_ref", "greedy", "grd"),
}
_SHORT = {"perplexity": "PPL", "kl": "KL", "average": "Avg", "extrema": "Ext", "greedy": "Grd"}


Row = tuple[PaperBot | None, str | None]
"""Bot of the paper with the study's matching bot, or a further bot of the study."""


@dataclass(frozen=True, slots=True)
class _Ours:
    """The study's bots that match the paper's, and the others."""

    frame: StudyFrame
    by_paper: Mapping[PaperBot, str]
    unmatched: Sequence[str]

    def rows(self, papers: Sequence[PaperBot]) -> list[Row]:
        """Return the rows of a table of bots: the paper's, then others."""
        return [*((paper, self.by_paper.get(paper)) for paper in papers), *((None, bot) for bot in self.unmatched)]

    def name(self, row: Row) -> Cell:
        """Return the cell with a bot's name."""
        return Cell(str(row[0] or self.frame.title(row[1] or "")))


def paper_report(frame: StudyFrame, result: Callable[[str], Any]) -> Document:
    """Return the study in the layout of the paper."""
    versions = bot_versions(frame.study)
    bot_table = BotColumns.from_json(frame.study.bot_columns)
    factors = factors_of(versions, bot_table)
    by_paper: dict[PaperBot, str] = {}
    unmatched = []
    for bot in frame.rated_bots:
        paper_bot = matched(bot, factors)
        if paper_bot is None or paper_bot in by_paper:
            unmatched.append(bot)
        else:
            by_paper[paper_bot] = bot
    ours = _Ours(frame, by_paper, unmatched)
    comparisons: StudyComparisons = result("comparisons")
    measured = {name.lower(): values for name, values in measured_of(versions, bot_table).items()}
    two = ("baseline", "EI")
    one_turn = OneTurn(frame, by_paper)
    chapters = [
        chapter_of(one_turn.forms(comparisons), ["Table 1"]),
        chapter_of(_questions(frame), ["Figure 2"]),
        chapter_of(_ratings(ours, comparisons), ["Table 2"]),
        chapter_of(_models(ours, measured, two, "3"), ["Table 3"]),
        *_figures(frame, result),
        chapter_of(one_turn.shares("Table 4", ["quality"]), ["Table 4"]),
        chapter_of(_models(ours, measured, VERSIONS, "5"), ["Table 5"]),
        chapter_of(one_turn.shares("Table 6", one_turn.question_keys), ["Table 6"]),
        chapter_of(one_turn.ambiguous(), ["Table 7", "Table 7, agreement"]),
        chapter_of(_count_ratings(ours, comparisons), ["Table 8"]),
        chapter_of(_hyper_parameters(ours), ["Table 9"]),
        chapter_of(one_turn.questions(), ["Figure 9"]),
        chapter_of(one_turn.against_interactive()),
    ]
    index = [chapter.id for chapter in chapters].index("figure-7")
    together = chapter_of(_over_bots(frame, comparisons), ["Figure 7, over bots"])
    chapters[index] = replace(chapters[index], parts=(*chapters[index].parts, *together.parts))
    known = f"{sum(bot in by_paper for bot in paper_bots())} of the paper’s 12 bots are in this study."
    if unmatched:
        known += (
            f" {phrases.bots_text(len(unmatched))} of this study are not in the paper; they are listed below its rows."
        )
    return Document(
        study=frame.study.key,
        name=f"{frame.study.name}, laid out as in Ghandeharioun et al. (2019)",
        rubric_version=frame.study.rubric.version,
        made=database_now(),
        n_ratings=frame.facts.n_ratings,
        n_conversations=frame.facts.n_conversations,
        summary=(
            (
                "Tables 1 to 9 and Figures 2 to 9 of “Approximating Interactive Human Evaluation with "
                "Self-Play for Open-Domain Dialog Systems” (arXiv 1906.09308), with the results of this study next "
                "to the published ones."
            ),
            known,
            "Bots are matched by architecture, corpus and EI, from the table of bots or their IDs.",
        ),
        headlines=(),
        chapters=tuple(chapters),
        like=NAME,
    )


def _ratings(ours: _Ours, comparisons: StudyComparisons) -> Section:
    frame = ours.frame
    keys = {dimension.key: dimension.title for dimension in frame.dimensions}
    rows = [(row, name) for row in ours.rows(paper_bots()) for name in (DIMENSIONS if row[0] else keys)]

    def theirs(cell_key: tuple[Row, str]) -> list[Cell]:
        row, name = cell_key
        value = published()["2", row[0], name] if row[0] else None
        mean, half = (value.value, value.half_width) if value else (None, None)
        low, high = (None, None) if mean is None or half is None else (mean - half, mean + half)
        return [number_cell(mean, 3, GapReason.NOT_PUBLISHED), span_cell(low, high, 3, reason=GapReason.NOT_PUBLISHED)]

    def here(cell_key: tuple[Row, str]) -> list[Cell]:
        row, name = cell_key
        mean_row = comparisons.means.rows.get((row[1], name)) if row[1] else None
        if mean_row is not None:
            return [*mean_cells(mean_row.interval, 3, reason=GapReason.UNDEFINED), count_cell(mean_row.interval.n)]
        reason = GapReason.NO_DATA
        return [number_cell(None, reason=reason), span_cell(None, None, reason=reason), count_cell(None, reason)]

    note = ""
    if (frame.headline.low, frame.headline.high) != (1, 7):
        note = (
            f"The scale of the paper goes from 1 to 7, that of this study from {frame.headline.low:g} to "
            f"{frame.headline.high:g}."
        )
    section = Section("table-2", "Table 2. Ratings of conversations", _replicated(ours, comparisons))
    section.tables.append(
        declared_table(
            "table-2",
            section.title[9:],
            rows,
            ("Bot", lambda cell_key: ours.name(cell_key[0])),
            ("Dimension", lambda cell_key: Cell(keys.get(cell_key[1], cell_key[1]))),
            (("Published", f"Published, {LEVEL:.0%}"), theirs),
            (("Here", f"Here, {comparisons.means.level:.0%}", "n"), here),
            method="Mean with interval; the published intervals are by bot, ours over raters.",
            note=note,
        )
    )
    section.tables[:] = map(with_footnotes, section.tables)
    return section


def _replicated(ours: _Ours, comparisons: StudyComparisons) -> list[str]:
    """Count the pairs of a bot and its EI version with higher quality for EI.

    In the paper these are all six.
    """
    higher = n = 0
    for paper, bot in ours.by_paper.items():
        plain = ours.by_paper.get(replace(paper, version="baseline"))
        ei_mean, baseline_mean = (_mean(comparisons, candidate or "", "quality") for candidate in (bot, plain))
        if paper.version == "EI" and ei_mean is not None and baseline_mean is not None:
            n += 1
            higher += ei_mean > baseline_mean
    if not n:
        return []
    return [f"In the paper mean quality is higher with EI in 6 of 6 pairs; here in {higher} of {n}."]


def _models(
    ours: _Ours, measured: Mapping[str, Mapping[str, float]], versions: tuple[str, ...], number: str
) -> Section:
    def compare_values(row: Row, name: str) -> list[Cell]:
        value = published()["5", row[0], name].value if row[0] else None
        bot = row[1] or ""
        here = next((measured[n][bot] for n in _MEASURED[name] if bot in measured.get(n, {})), None)
        return [
            number_cell(value, 3, GapReason.NOT_PUBLISHED),
            number_cell(here, 3, GapReason.NO_DATA if row[1] is None else GapReason.NOT_COMPUTED),
        ]

    titles = [f"{short}, {whose}" for short in _SHORT.values() for whose in ("published", "here")]
    table = declared_table(
        f"table-{number}",
        "Results of the models on single responses",
        ours.rows(paper_bots(versions)),
        ("Bot", ours.name),
        (titles, lambda row: [cell for name in _SHORT for cell in compare_values(row, name)]),
        method="On held-out text: perplexity, KL, and similarity by average, extrema and greedy matching.",
        note="There are no published intervals. Our values come from the bots’ checkpoints or the table of bots, which "
        "you upload under Correlations on the Why page. HRED has no latent variable and therefore no KL.",
    )
    return Section(table.id, f"Table {number}. {table.title}", tables=[with_footnotes(table)])


def _count_ratings(ours: _Ours, comparisons: StudyComparisons) -> Section:
    def published_n(row: Row) -> Cell:
        value = published()["8", row[0], "ratings"].value if row[0] else None
        return count_cell(int(value or 0) if row[0] else None, GapReason.NOT_PUBLISHED)

    def n(row: Row) -> Cell:
        return count_cell(comparisons.means.n_ratings.get(row[1], 0) if row[1] else None, GapReason.NO_DATA)

    columns = (("Bot", ours.name), ("Published", published_n), ("Here", n))
    table = declared_table("table-8", "Ratings per bot", ours.rows(paper_bots()), *columns)
    return Section("table-8", "Table 8. Ratings per bot", tables=[with_footnotes(table)])


def _questions(frame: StudyFrame) -> Section:
    """Return Figure 2: the questions that participants answer after a conversation."""
    table = declared_table(
        "figure-2",
        "Questions after a conversation",
        frame.dimensions,
        ("Question", lambda dimension: Cell(dimension.title)),
        ("Lowest", lambda dimension: Cell(f"{dimension.low:g} {dimension.low_label}".strip())),
        ("Highest", lambda dimension: Cell(f"{dimension.high:g} {dimension.high_label}".strip())),
        ("In the paper", lambda dimension: Cell("yes" if dimension.key in DIMENSIONS else "no")),
        note="The paper shows a screenshot; its scales go from 1 to 7.",
    )
    return Section("figure-2", "Figure 2. Questions after a conversation", tables=[table])


def _hyper_parameters(ours: _Ours) -> Section:
    """Return Table 9: hyper-parameters of the paper's bots and of the study's trained ones."""
    theirs = published_hyper_parameters()
    trained_bots = bots_trained([*ours.by_paper.values(), *ours.unmatched])
    here = {bot_id: hyper_parameters(bot.training_config) for bot_id, bot in trained_bots.items()}

    def cells(row: Row) -> list[Cell]:
        published_row = theirs.get(row[0], {}) if row[0] else {}
        trained = here.get(row[1] or "", {})
        gap = GapReason.NO_DATA if row[1] is None else GapReason.NOT_COMPUTED
        return [
            cell
            for name in HYPER_PARAMETERS
            for cell in (
                _setting_cell(published_row.get(name), GapReason.NOT_PUBLISHED),
                _setting_cell(trained.get(name), gap),
            )
        ]

    titles = [f"{name}, {whose}" for name in HYPER_PARAMETERS for whose in ("published", "here")]
    table = declared_table(
        "table-9",
        "Hyper-parameters of the models",
        ours.rows(paper_bots()),
        ("Bot", ours.name),
        (titles, cells),
        method="From the checkpoints of bots that were trained with Confab and are installed here.",
        note="w_emo, e, w_inf and s belong to EI.",
    )
    return Section("table-9", f"Table 9. {table.title}", tables=[with_footnotes(table)])


def _setting_cell(value: float | None, reason: GapReason) -> Cell:
    return Cell("–" if value is None else f"{value:g}", reason="" if value is not None else reason, raw=(value,))


def _figures(frame: StudyFrame, result: Callable[[str], Any]) -> list[Chapter]:
    """Return Figures 3 to 8, each with the paper's finding."""
    courses = SECTIONS["trajectories"](frame, result("trajectories"))
    matrices = SECTIONS["correlations"](frame, result("correlations"))
    hybrid = hybrid_section(frame)
    no_numbers = "The paper gives no numbers for this figure."
    paper_figures = [
        (3, courses, "best-worst", "Best and worst conversations", "people write more, are more positive and vote up "
         "more in the best conversations, and replies are closer to what they said."),
        (4, courses, "by-trait", "Bots with and without EI", "with EI people write more and laugh more, and replies "
         "are closer to what they said."),
        (5, matrices, "metrics-dimensions", "Ratings and metrics", (
            "participants’ sentiment correlates more strongly with ratings than perplexity and embedding metrics do."
        )),
        (6, hybrid, "weights-", "Weights of the hybrid metric", "weights are similar in all folds."),
        (7, matrices, "dimensions", "Correlations between ratings", "quality correlates with every other dimension."),
        (8, matrices, "bots-dimensions", "Self-play and ratings over bots", "the hybrid metric of self-play has "
         "r > .7 with all ratings, and r > .8 with empathy, over 12 bots."),
    ]  # fmt: skip
    chapters = []
    for number, section, id, title, words in paper_figures:
        label = f"Figure {number}"
        figure_section = Section(f"figure-{number}", f"{label}. {title}", [f"The paper: {words} {no_numbers}"])
        figure_section.figures = [
            figure for figure in section.figures if figure.id == id or (figure.id.startswith(id) and id.endswith("-"))
        ][:1]
        if not figure_section.figures:
            figure_section.missing = list(section.missing) or ["This study does not have enough data for it."]
        chapters.append(chapter_of(figure_section, [label] * len(figure_section.figures)))
    return chapters


def _over_bots(frame: StudyFrame, comparisons: StudyComparisons) -> Section:
    """Compare the correlations in the paper's Table 2 with ours over bots."""
    paper_means = {d: [published()["2", bot, d].value for bot in paper_bots()] for d in DIMENSIONS}
    bots = [bot for bot in frame.rated_bots if not frame.bots[bot].is_control]
    keys = [d for d in DIMENSIONS if d in {dimension.key for dimension in frame.dimensions}]
    our_means = {d: [_mean(comparisons, bot, d) for bot in bots] for d in keys}

    def here(pair: tuple[str, str]) -> list[Cell]:
        if not set(pair) <= our_means.keys():
            return [share_cell(None, reason=GapReason.NO_DATA), span_cell(None, None, reason=GapReason.NO_DATA)]
        return _r_cells(*(our_means[name] for name in pair))

    section = Section("figure-7-bots", "Figure 7, over bots")
    method = (
        f"Pearson’s r of mean ratings over 12 bots and over {phrases.bots_text(len(bots))} here, Fisher’s intervals."
    )
    note = "Computed from Table 2 of the paper; its Figure 7 is over conversations."
    section.tables.append(
        declared_table(
            "figure-7-bots",
            "Correlations between mean ratings of bots",
            combinations(DIMENSIONS, 2),
            ("Dimensions", lambda pair: Cell(", ".join(pair))),
            (
                ("Paper’s Table 2", "Paper’s Table 2, 95 %"),
                lambda pair: _r_cells(*(paper_means[name] for name in pair)),
            ),
            (("Here", "Here, 95 %"), here),
            method=method,
            note=note,
        )
    )
    return section


def _mean(comparisons: StudyComparisons, bot: str, key: str) -> float | None:
    row = comparisons.means.rows.get((bot, key))
    return row.interval.mean if row else None


def _r(*sides: Sequence[float | None]) -> Correlation:
    x, y = ([float("nan") if value is None else value for value in side] for side in sides)
    return correlate(x, y, "pearson", interval="fisher")


def _r_cells(*sides: Sequence[float | None]) -> list[Cell]:
    return mean_cells(_r(*sides), attribute="r", shares=True)
