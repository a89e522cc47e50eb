"""Two bots compared on each question, with differences around zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.analysis.comparisons import Comparisons
from evaluation.data.ratings import RatingDimension
from evaluation.data.result_tables import NamedTable
from evaluation.number_format import digits_for, figure, percent, span
from evaluation.plots.rows import Column, RowName, axis_cell, centred_window, interval_cell
from evaluation.plots.svg import Plot
from webapp.insights.leaderboard import BoardParams, plot_alone
from webapp.insights.narrative.comparisons import effects_table
from webapp.insights.narrative.phrases import reason_text
from webapp.insights.narrative.verdicts import pair_verdict, question_counts_sentence
from webapp.ratings.selectors import BotInfo
from webapp.results.study_data import StudyFrame


@dataclass(frozen=True, slots=True)
class QuestionComparison:
    """Two bots on one question.

    Attributes:
        gap, ends: the difference and its interval, formatted.
        reason: reason for a missing interval.
        is_apart: whether the two differ significantly on this question.
        sentence: the same as a sentence.
        href: address of the conversations of both bots, worst first.
    """

    title: str
    means: tuple[str, str]
    gap: str
    ends: str
    reason: str
    is_apart: bool
    sentence: str
    drawing: Markup
    href: str = ""


@dataclass(frozen=True, slots=True)
class HeadToHead:
    """Two bots on all questions, the higher-ranked one first.

    Attributes:
        unit: unit of the axis.
        lead: standing in each question; need: what it takes for a significant difference in the ranking.
        effects: their effect sizes for each question.
    """

    first: BotInfo
    second: BotInfo
    questions: list[QuestionComparison]
    axis: Markup
    unit: str
    level: str
    lead: str
    need: str
    effects: NamedTable

    def picture(self, study: str) -> Plot:
        """Return the comparison as an SVG document.

        Args:
            study: the study's name, for the title.
        """
        questions = self.questions
        heavy = frozenset(i for i, question in enumerate(questions) if question.is_apart)
        names = f"{self.first.title} against {self.second.title}"
        gaps = [" ".join(filter(None, [question.gap, question.ends or question.reason])) for question in questions]
        columns = [
            Column("Question", [RowName(question.title) for question in questions]),
            Column(
                f"{self.first.title} − {self.second.title}, {self.unit}",
                [question.drawing for question in questions],
                self.axis,
            ),
            Column("Difference", gaps, align="end", bold=heavy),
        ]
        caption = f"Difference with {self.level} interval. Bold: the two differ significantly on this question."
        return plot_alone(columns, f"{study}: {names}", f"{caption} {self.lead} {self.need}", caption)


def head_to_head(
    frame: StudyFrame, headline: Comparisons, compared: Mapping[str, Comparisons], choice: BoardParams
) -> HeadToHead | None:
    """Compare the two selected bots on every question.

    None unless two are selected.

    Args:
        headline: comparisons by the ranking question, with plans.
        compared: comparisons by every question.
    """
    if len(choice.against) < 2:
        return None
    bot_order = [*headline.order, *headline.controls]
    a, b = sorted(choice.against, key=lambda bot: bot_order.index(bot) if bot in bot_order else len(bot_order))
    dimensions = [d for d in frame.all_dimensions if d.key in compared]
    differences = [_difference(compared[dimension.key], a, b) for dimension in dimensions]
    # Questions with different scales are drawn as shares of their scales.
    is_one = len({(dimension.low, dimension.high) for dimension in dimensions}) == 1
    units = [1.0 if is_one else (dimension.high - dimension.low) / 100 for dimension in dimensions]
    scaled_differences = [
        [None if v is None else v / unit for v in row] for row, unit in zip(differences, units, strict=True)
    ]
    window = centred_window([v for row in scaled_differences for v in row if v is not None])
    questions = [
        _question(frame, (a, b), compared[d.key], d, row, interval_cell(window, *scaled, hollow=not apart))
        for d, row, scaled in zip(dimensions, differences, scaled_differences, strict=True)
        for apart in [compared[d.key].are_told_apart(a, b)]
    ]
    titles = [d.title for d in dimensions]
    apart = [d.title for d in dimensions if compared[d.key].are_told_apart(a, b)]
    equal = [d.title for d in dimensions if _is_equal(compared[d.key], a, b)]
    pair = headline.pair(a, b)
    need = ""
    if pair is not None and not pair.ordered:
        names = {bot: info.title for bot, info in frame.bots.items()}
        digits = digits_for(frame.headline.low, frame.headline.high)
        need = f"By {frame.headline.title.lower()}: {pair_verdict(pair, headline, names, digits)}"
    return HeadToHead(
        frame.bots[a],
        frame.bots[b],
        questions=questions,
        axis=axis_cell(window),
        unit="in points" if is_one else "in % of the scale",
        level=percent(1 - headline.alpha),
        lead=question_counts_sentence(
            apart, equal, [title for title in titles if title not in (*apart, *equal)], len(titles)
        ),
        need=need,
        effects=effects_table(
            "Question",
            [(d.title, compared[d.key].effect(a, b), frame.mean_link(d, a, b)) for d in dimensions],
            headline,
        ),
    )


def _is_equal(compared: Comparisons, a: str, b: str) -> bool:
    pair = compared.pair(a, b)
    return pair is not None and bool(compared.is_equal(pair))


def _difference(compared: Comparisons, a: str, b: str) -> tuple[float | None, float | None, float | None]:
    """Return the difference, first minus second, and its interval's ends."""
    pair = compared.pair(a, b)
    if pair is None:
        return None, None, None
    if pair.a == a or pair.difference is None:
        return pair.difference, pair.low, pair.high
    ends = (None, None) if pair.low is None or pair.high is None else (-pair.high, -pair.low)
    return -pair.difference, *ends


def _question(
    frame: StudyFrame,
    bots: tuple[str, str],
    compared: Comparisons,
    dimension: RatingDimension,
    difference: tuple[float | None, float | None, float | None],
    drawing: Markup,
) -> QuestionComparison:
    digits = digits_for(dimension.low, dimension.high)
    pair = compared.pair(*bots)
    gap, low, high = difference
    titles = {bot: frame.title(bot) for bot in bots}
    first, second = (figure(compared.means.get(bot), digits) for bot in bots)
    return QuestionComparison(
        title=dimension.title,
        means=(first, second),
        gap=figure(gap, digits),
        ends=span(low, high, digits) if low is not None else "",
        reason=reason_text(pair.reason) if pair is not None else "one bot has no ratings on this question",
        is_apart=compared.are_told_apart(*bots),
        sentence=pair_verdict(pair, compared, titles, digits) if pair is not None else "",
        drawing=drawing,
        href=frame.mean_link(dimension, *bots),
    )
