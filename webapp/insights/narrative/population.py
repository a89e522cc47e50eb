"""Bots weighted to a population and by group of participants, in sentences and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from evaluation.analysis.conditions import LevelResult
from evaluation.analysis.leaderboard import format_ranks
from evaluation.analysis.levels import order_alpha
from evaluation.analysis.population import NO_MARGINS, GroupTest, PopulationResult
from evaluation.data.result_tables import Cell, NamedTable, declared_table
from evaluation.number_format import digits_for, figure, p_value, percent, pluralise, span
from evaluation.stats.raking import MOST_WEIGHT
from webapp.insights.narrative.phrases import Section, listed, named_cell, reason_text, wording_of
from webapp.insights.narrative.verdicts import one_look
from webapp.results.study_data import StudyFrame
from webapp.studies.assignment.capacity import keeps_always_valid
from webapp.studies.selectors import questions_of_study


def population_section(frame: StudyFrame, result: PopulationResult) -> Section:
    """Return the section on weighted results and results by group; the conclusion comes first."""
    section = Section("population", "Whose opinion? Population and groups")
    if not result.groups:
        section.missing.append("No participant with ratings has chosen an answer before the task.")
        return section
    titles = {question.key: question.short for question in questions_of_study(frame.study)}
    wording = wording_of(frame)

    def level_cell(column: str, level: str) -> Cell:
        return Cell(titles.get(level, level)) if column == "question" else wording.level(column, level)

    if result.reason is None:
        section.lead += _weighted_sentences(frame, result)
    elif result.reason.code == NO_MARGINS.code:
        section.missing.append("Results are not weighted: the study’s settings describe no population.")
    else:
        section.missing.append(f"Results are not weighted: {reason_text(result.reason)}.")
    section.lead += _test_sentences(frame, result, titles)
    if absent := [f"{listed(answers)} ({titles.get(key, key)})" for key, answers in result.absent.items()]:
        section.caution = (
            f"No participant gave these answers of the population: {'; '.join(absent)}. The results do not speak for "
            "them; the shares of the other answers are divided by their sum."
        )
    section.methods.append(
        f"Answers of fewer than {result.smallest_group} participants are merged. A bot that fewer participants of a "
        "group rated has no weighted result and none by group. Participants without an answer keep their share."
    )
    if keeps_always_valid(frame.study):
        section.methods.append(one_look())
    section.tables += result.tables(replace(wording, level=level_cell))
    for test in result.tests:
        title = f"Bots by {titles.get(test.question, test.question)}"
        if set(frame.rated_bots) <= set(test.hidden_bots):
            section.missing.append(f"{title} is not shown: too few participants of some group rated each bot.")
        else:
            section.tables.append(_group_table(frame, result, test, title))
    section.conclusion = section.in_one_sentence
    return section


def _weighted_sentences(frame: StudyFrame, result: PopulationResult) -> list[str]:
    order, plain = result.order, result.plain_order
    if len(order) < 2:
        is_hidden = any(test.hidden_bots for test in result.tests)
        reason = "their groups have too few participants" if is_hidden else "fewer than two bots are ranked"
        return [f"Weighted to your population, no two bots can be compared: {reason}."]
    moves = [
        f"{frame.title(bot)} moves from {plain.index(bot) + 1} to {place}"
        for place, bot in enumerate(order, 1)
        if plain[place - 1] != bot
    ]
    change = f"the order of the bots changes: {listed(moves)}" if moves else "the order of the bots stays the same"
    sentences = [
        f"Weighted to your population, {change}.",
        f"Pairs of bots that differ significantly: {result.n_told_apart_weighted} of {result.n_pairs} with weights, "
        f"{result.n_told_apart} without.",
        f"The weights cost precision: {pluralise(result.n_raters, 'participant')} count like "
        f"{figure(result.n_effective, 0)} with equal weights (design effect {figure(result.design_effect)}).",
    ]
    if result.n_trimmed:
        sentences.append(
            f"Weights above {MOST_WEIGHT:g} times the mean were cut ({pluralise(result.n_trimmed, 'participant')}), so "
            f"shares differ from the population’s by up to {percent(result.gap, 1)}."
        )
    return sentences


def _test_sentences(frame: StudyFrame, result: PopulationResult, titles: Mapping[str, str]) -> list[str]:
    """Say for which questions the differences between bots depend on the group."""
    tested = {titles.get(test.question, test.question): test.p_holm for test in result.tests if test.p_holm is not None}
    significant = [title for title, p in tested.items() if p < order_alpha(frame.study.values.quotas.level)]
    if significant:
        return [f"Differences between bots depend on the participant’s answer to {listed(significant)}."]
    return [f"There is no significant sign that differences between bots depend on {listed([*tested], 'or')}."] * bool(
        tested
    )


def _group_table(frame: StudyFrame, result: PopulationResult, test: GroupTest, title: str) -> NamedTable:
    groups = [group.group for group in result.groups if group.question == test.question]
    levels = [level for group in groups if (level := result.by_group.get_level(test.question, group)) is not None]
    hidden = listed([frame.title(bot) for bot in test.hidden_bots])
    tested = f"Bot × group: F = {figure(test.f)}, p = {p_value(test.p)}, corrected by Holm {p_value(test.p_holm)}."
    return declared_table(
        f"population-by-{test.question}",
        title,
        [bot for bot in frame.rated_bots if bot not in test.hidden_bots],
        ("Bot", lambda bot: named_cell(frame.bots, bot)),
        *((level.level, partial(_group_cell, frame, level)) for level in levels),
        method=f"Mean with {percent(result.level)} interval, range of ranks in the group, and number of ratings.",
        note=(tested if test.p is not None else f"Bot × group is not tested: {reason_text(test.reason)}.")
        + (f" Left out, with too few participants in a group: {hidden}." if hidden else ""),
    )


def _group_cell(frame: StudyFrame, level: LevelResult, bot: str) -> Cell:
    interval, digits = level.interval(bot, frame.headline.key), digits_for(frame.headline.low, frame.headline.high)
    text = f"{figure(interval.mean, digits)} {span(interval.low, interval.high, digits)}"
    ranks = level.compared.ranks.get(bot)
    rank = f", rank {format_ranks(ranks)}" if ranks else ""
    return Cell(f"{text}{rank}, n = {interval.n}", reason=reason_text(interval.reason), raw=(interval.mean,))
