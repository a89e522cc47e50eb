"""Trajectories over the turns of conversations: text, figures, tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from django.urls import reverse

from evaluation.analysis.trajectories import SEED, GroupContrast, Grouping, TrajectoryMeasure, TrajectoryResult
from evaluation.data.result_tables import Cell, NamedTable, declared_table, number_cell
from evaluation.number_format import digits_for, figure, share, span
from webapp.insights.charts.figure import PageFigure
from webapp.insights.charts.lines import LineGroup, LinePanel, lines_figure, with_shared_axes
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import Section, bot_cell, controls_sentence, listed, reason_text
from webapp.jobs.selectors.analysis_tables import VOTES
from webapp.jobs.selectors.metrics import metrics_all
from webapp.results.compute import StudyTrajectories, point_ratings, study_point
from webapp.results.study_data import StudyFrame

MOST = 500
"""Maximum number of conversations listed for a point."""


def trajectories_section(frame: StudyFrame, trajectories: StudyTrajectories) -> Section:
    """Return Figures 3 and 4 of the paper for a study.

    Only the best and worst conversations exclude controls.
    """
    best_worst, by_trait = trajectories.best_worst, trajectories.by_trait
    section = Section("trajectories", "Trajectories over the conversation")
    titles = column_titles()
    best_worst_panels, by_trait_panels = with_shared_axes(
        _panels(frame, best_worst, titles), _panels(frame, by_trait, titles)
    )
    grouping = best_worst.grouping
    if not grouping.groups:
        section.missing.append(f"Best and worst conversations: {reason_text(grouping.reason)}.")
    else:
        section.points.extend(_contrast_sentences(best_worst, best_worst_panels))
        if verdict := verdict_sentence(best_worst, titles):
            section.conclusion = verdict.partition(" (")[0] + "."
        section.figures.append(_best_worst_figure(frame, best_worst, best_worst_panels, verdict))
        if grouping.reason:
            section.missing.append(f"Best and worst conversations: {reason_text(grouping.reason)}.")
    grouping = by_trait.grouping
    if not grouping.trait:
        section.missing.append(
            "Plain against EI: unknown for these bots. Upload a table of bots with a column “EI” (plain, EI) to see "
            "this comparison."
        )
    elif len(grouping.groups) < 2:
        section.missing.append(f"{grouping.trait}: only one kind of bot has rated conversations.")
    else:
        section.points.extend(_contrast_sentences(by_trait, by_trait_panels))
        verdict = verdict_sentence(by_trait, titles)
        section.figures.append(_by_trait_figure(frame, by_trait, by_trait_panels, verdict))
    return section


def _best_worst_figure(
    frame: StudyFrame, trajectory: TrajectoryResult, panels: list[LinePanel], verdict: str
) -> PageFigure:
    grouping, headline = trajectory.grouping, frame.headline
    digits = digits_for(headline.low, headline.high)
    n = len(grouping.groups[0].conversations)
    return lines_figure(
        panels,
        id=grouping.kind,
        title="Best and worst conversations by exchange",
        method=(
            f"The {phrases.conversations_text(n)} rated highest and the {n} rated lowest by {headline.title.lower()} "
            f"({figure(grouping.lowest_best, digits)} and above, {figure(grouping.highest_worst, digits)} and below). "
            "Mean over the conversations that reach the exchange, with 90 % intervals. "
            f"{controls_sentence(frame, left_out=True)}"
        ).strip(),
        note_lead=verdict,
        note=_note_best_worst(grouping),
        x_title="exchange",
    )


def _note_best_worst(grouping: Grouping) -> str:
    note = (
        "The numbers under each plot count the conversations per point. People who continue chatting differ from "
        "those who leave."
    )
    if max(grouping.n_tied) < 2:
        return note
    best, worst = grouping.n_tied
    ties = f"{best} and {phrases.conversations_text(worst)}"
    return f"{note} Ties at the cut-offs ({ties}) were drawn at random (seed {SEED})."


def _by_trait_figure(
    frame: StudyFrame, trajectory: TrajectoryResult, panels: list[LinePanel], verdict: str
) -> PageFigure:
    grouping = trajectory.grouping
    sample_note = (
        "" if grouping.n_drawn is None else (f" {grouping.n_drawn} conversations drawn at random (seed {SEED}).")
    )
    method = (
        f"Rated conversations by the bot’s {grouping.trait}; mean and 90 % interval.{sample_note} "
        f"{controls_sentence(frame, left_out=False)}"
    ).strip()
    return lines_figure(
        panels,
        id=grouping.kind,
        title=f"Conversations by “{grouping.trait}”",
        method=method,
        note_lead=verdict,
        note=(
            "The unit is the conversation, so bots with more conversations have more weight. A difference may come "
            "from single bots."
        ),
        x_title="exchange",
    )


def column_titles() -> dict[str, str]:
    """Return the titles of the columns of trajectories."""
    columns = [column for metric in metrics_all() for column in metric.columns if column.level == "turn"]
    return {**{column.name: column.title for column in columns}, VOTES: "Votes on replies, up minus down"}


def group_title(grouping: Grouping, place: int) -> str:
    """Return the title of a group.

    The best and worst conversations come with their number.
    """
    group = grouping.groups[place]
    if grouping.kind == "by-trait":
        return group.name
    return f"{group.name} {len(group.conversations)}"


def _panels(frame: StudyFrame, trajectory: TrajectoryResult, titles: Mapping[str, str]) -> list[LinePanel]:
    return [
        _panel(frame, trajectory.grouping, measure, titles.get(measure.name, measure.name))
        for measure in trajectory.measures
    ]


def _panel(frame: StudyFrame, grouping: Grouping, measure: TrajectoryMeasure, title: str) -> LinePanel:
    if not measure.courses:
        return LinePanel(title, [], "no votes" if measure.name == VOTES else "not computed yet (see Prediction)")
    groups = [
        LineGroup(group_title(grouping, place), course, partial(frame.point_link, grouping.kind, measure.name, place))
        for place, course in enumerate(measure.courses)
    ]
    return LinePanel(title, groups)


def _contrast_sentences(trajectory: TrajectoryResult, panels: list[LinePanel]) -> list[str]:
    """Compose sentences on differences between the groups.

    They compare conversation means, and name the exchanges that differ.
    """
    return [
        _statement(panel, measure.contrast)
        for measure, panel in zip(trajectory.measures, panels, strict=True)
        if measure.contrast is not None
    ]


def _statement(panel: LinePanel, contrast: GroupContrast) -> str:
    means = [abs(mean) for mean in (contrast.first, contrast.second) if mean is not None]
    # Rare events such as laughter need more than two digits.
    digits = 2 if max(means, default=0) >= 0.05 else 4
    gap = ""
    if contrast.low is not None and contrast.high is not None:
        ends = span(contrast.low, contrast.high, digits)
        gap = f", difference {figure(contrast.difference, digits)} {ends}"
    first, second = (group.title for group in panel.groups[:2])
    return (
        f"{panel.title}: {figure(contrast.first, digits)} ({first}), {figure(contrast.second, digits)} "
        f"({second}){gap}; intervals do not overlap at {contrast.n_apart} of {contrast.n_compared} exchanges."
    )


def verdict_sentence(trajectory: TrajectoryResult, titles: Mapping[str, str]) -> str:
    """Name the measures in which two groups differ significantly.

    "" for more groups.
    """
    titles_by_direction: dict[str, list[str]] = {"higher": [], "lower": [], "none": []}
    for measure in trajectory.measures:
        if measure.contrast is not None:
            title = titles.get(measure.name, measure.name)
            titles_by_direction[measure.contrast.direction].append(f"“{title.lower()}”")
    parts = [
        words.format(listed(titles_by_direction[direction]))
        for direction, words in (
            ("higher", "higher in {}"),
            ("lower", "lower in {}"),
            ("none", "no significant difference in {}"),
        )
        if titles_by_direction[direction]
    ]
    if not parts:
        return ""
    first, second = (group_title(trajectory.grouping, place) for place in (0, 1))
    return (
        f"{first[:1].upper()}{first[1:]} against {second}: {'; '.join(parts)} (means of conversations, errors "
        f"clustered by participant, p < {share(1 - trajectory.level)} with Holm’s correction)."
    )


def point_table(
    frame: StudyFrame, trajectories: StudyTrajectories, kind: str, column: str, group: int, exchange: int
) -> NamedTable | None:
    """Return the conversations behind a point of a trajectory.

    None for no such point.

    Args:
        kind, column, group: identify the trajectory; the group by its position in the figure.
        exchange: from 1.
    """
    point = study_point(frame.study, trajectories, kind, column, group, exchange, **frame.counted_work)
    if point is None:
        return None
    (grouping, values), headline = point, frame.headline
    means = point_ratings(frame.study, list(values)[:MOST], headline.key)
    # Conversations may have been deleted since the trajectories were computed.
    values = {pk: value for n, (pk, value) in enumerate(values.items()) if n >= MOST or pk in means}
    digits, title = digits_for(headline.low, headline.high), column_titles().get(column, column)
    return declared_table(
        "behind",
        f"{title}, exchange {exchange}: {group_title(grouping, group)}",
        [pk for pk in list(values)[:MOST] if pk in means],
        ("Conversation", lambda pk: Cell(pk[:8], href=reverse("dashboard:conversation", args=[pk]))),
        ("Bot", lambda pk: bot_cell(frame.bots[means[pk][0]])),
        (headline.title, lambda pk: number_cell(means[pk][1], digits)),
        (title, lambda pk: number_cell(values[pk])),
        method=f"{phrases.conversations_text(len(values))}, highest values first.",
        note=f"Only the first {MOST} are shown." if len(values) > MOST else "",
    )
