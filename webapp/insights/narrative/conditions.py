"""Bots by condition: tables of levels, and the weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from evaluation.analysis.comparisons import Comparisons
from evaluation.analysis.conditions import ConditionResults, LevelResult
from evaluation.data.ratings import RatingDimension
from evaluation.data.result_tables import Cell, NamedTable, declared_table
from evaluation.number_format import digits_for, figure, percent, span
from webapp.core.language import plural
from webapp.insights.narrative.phrases import Section, named_cell, reason_text
from webapp.results.study_data import StudyFrame
from webapp.studies.conditions import Factor


def within_sentence(compared: Comparisons) -> str:
    """Describe the weights of conditions in comparisons; empty without factors."""
    n = compared.n_conditions
    if n is None:
        return ""
    if not n:
        return "No condition has two raters for every bot, so all ratings are pooled."
    return plural(
        n,
        "Bots are compared within %(n)s condition, the only one with two raters for every bot.",
        "Bots are compared within %(n)s conditions, which have equal weight in every mean. Conditions with fewer "
        "than two raters for a bot are excluded.",
    ) % {"n": n}


def conditions_section(frame: StudyFrame, conditions: ConditionResults) -> Section:
    """Return the section on the bots at each level of each factor."""
    section = Section("conditions", "Bots by condition")
    factors = frame.study.values.conditions.factors
    if not conditions.levels or conditions.dimension is None:
        section.missing.append("None of the rated conversations has a condition.")
        return section
    factor_texts = (f"{factor.title} ({', '.join(level.title for level in factor.levels)})" for factor in factors)
    section.lead.append(f"The chats differ by {'; '.join(factor_texts)}.")
    section.tables += [_table(frame, conditions, conditions.dimension, factor) for factor in factors]
    return section


def _table(frame: StudyFrame, conditions: ConditionResults, dimension: RatingDimension, factor: Factor) -> NamedTable:
    """Tabulate bots by the levels of a factor.

    Cells have the mean with its interval, and the number of rated conversations.
    """
    columns = [
        (
            level.title,
            partial(
                _cell,
                conditions.get_level(factor.key, level.key),
                dimension,
                digits_for(dimension.low, dimension.high),
                partial(frame.mean_link, dimension, condition=f"{factor.key}={level.key}"),
            ),
        )
        for level in factor.levels
    ]
    level = conditions.levels[0].means.level
    return declared_table(
        f"conditions-{factor.key}",
        f"{dimension.title} by {factor.title}",
        [bot for bot in frame.rated_bots if bot in conditions.bots],
        ("Bot", lambda bot: named_cell(frame.bots, bot)),
        *columns,
        method=(
            f"Mean with {percent(level)} interval, clustered by rater, and number of rated conversations. The "
            "conditions of other factors have equal weight."
        ),
    )


def _cell(
    level_result: LevelResult | None, dimension: RatingDimension, digits: int, link: Callable[[str], str], bot: str
) -> Cell:
    """Make the cell of a bot at a level.

    Without ratings it has the reason.

    Args:
        link: address of the conversations of a bot at this level.
    """
    n = level_result.n_conversations.get(bot, 0) if level_result is not None else 0
    if level_result is None or not n:
        return Cell("–", reason="no rated conversations", raw=(None,))
    interval = level_result.interval(bot, dimension.key)
    ends = f" {span(interval.low, interval.high, digits)}" if interval.low is not None else ""
    return Cell(
        f"{figure(interval.mean, digits)}{ends}, n = {n}",
        link(bot),
        reason=reason_text(interval.reason),
        raw=(interval.mean,),
    )
