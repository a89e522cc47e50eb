"""Distributions: answers as stacked bars, task durations as a histogram.

The bars are centred on the middle of the scale. The histogram shows the threshold below which work is flagged as
fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from evaluation.analysis.answers import DimensionAnswers
from evaluation.data.ratings import RatingDimension
from evaluation.data.result_tables import Cell, PageTable, count_cell, number_cell, page_table
from evaluation.number_format import figure
from evaluation.plots.marks import mark_link
from evaluation.plots.rows import Column, RowName, rows_drawing
from evaluation.plots.svg import Scale, drawing, el, line, rect, text
from evaluation.plots.text_layout import shorten, tick_label
from webapp.insights.charts.figure import NARROW, TEXT_WIDE, PageFigure, for_widths
from webapp.insights.narrative import phrases
from webapp.ratings.flags.base import clock
from webapp.ratings.selectors import BotInfo


@dataclass(frozen=True, slots=True)
class AnswerDistribution:
    """Distribution of a bot's answers.

    `counts`, and addresses in `steps`, follow the scale.
    """

    bot: BotInfo
    counts: list[int]
    mean: float | None
    href: str = ""
    steps: Sequence[str] = ()

    @property
    def n(self) -> int:
        """Answers given."""
        return sum(self.counts)


def step_class(i: int, n_steps: int) -> str:
    """Return one of nine diverging colours for step i of n."""
    if n_steps < 2:
        return "div-5"
    if n_steps == 7:
        return f"div-{[1, 2, 3, 5, 7, 8, 9][i]}"
    return f"div-{1 + round(i / (n_steps - 1) * 8)}"


def spread_figure(
    spreads: Sequence[AnswerDistribution], dimension: RatingDimension, steps: Sequence[float]
) -> PageFigure:
    """Draw one row for each bot, centred on the middle step of the scale."""
    n = sum(spread.n for spread in spreads)
    wide, narrow = for_widths(lambda width, css: _draw(spreads, dimension, steps, width, css=css), 554)
    return PageFigure(
        id="spread",
        title="Distribution of the answers",
        method=f"Share of each answer to “{dimension.title.lower()}”, in %. {phrases.ratings_text(n)}.",
        marks="Centred on the middle of the scale.",
        wide=wide,
        narrow=narrow,
        table=page_table(
            spreads,
            (
                "Bot",
                lambda spread: Cell(spread.bot.title, spread.href, slot=spread.bot.slot, hollow=spread.bot.is_control),
            ),
            ([*map(tick_label, steps)], lambda spread: [_share(count, spread.n) for count in spread.counts]),
            ("Mean", lambda spread: number_cell(spread.mean, reason="no ratings yet")),
            ("n", lambda spread: count_cell(spread.n)),
        ),
    )


def _share(count: int, n: int) -> Cell:
    return Cell(f"{100 * count / n:.0f} %", raw=(count / n,)) if n else count_cell(None)


def _draw(
    spreads: Sequence[AnswerDistribution], dimension: RatingDimension, steps: Sequence[float], width: float, *, css: str
) -> Markup:
    shares = [[c / s.n if s.n else 0.0 for c in s.counts] for s in spreads]
    below = max((_below(share) for share in shares), default=0.5)
    unit = 1 / max(below + max((sum(share) - _below(share) for share in shares), default=0.5), 0.2)
    room = width * 0.6
    cells = [
        _bar(spread, share, steps, start=(below - _below(share)) * unit, unit=unit, room=room)
        if spread.n
        else "no ratings yet"
        for spread, share in zip(spreads, shares, strict=True)
    ]
    columns = [
        Column("Bot", [RowName(spread.bot.title, spread.bot.slot, spread.bot.is_control) for spread in spreads]),
        Column("", cells, _legend(dimension, steps, room), below=56),
        Column("Mean", [figure(spread.mean) if spread.n else "" for spread in spreads], align="end"),
    ]
    name = f"Share of each answer to {dimension.title.lower()} for {phrases.bots_text(len(spreads))}."
    return rows_drawing([columns], width, name=name, css=css)


def _bar(
    spread: AnswerDistribution,
    share: Sequence[float],
    steps: Sequence[float],
    *,
    start: float,
    unit: float,
    room: float,
) -> Markup:
    """Draw the answers of a bot side by side.

    Positions are shares of the width, `room` its pixels.
    """
    parts: list[object] = []
    for k, value in enumerate(share):
        if not value:
            continue
        wide, css = value * unit, step_class(k, len(steps))
        says = f"{spread.bot.title}\n{tick_label(steps[k])}: {spread.counts[k]} of {spread.n}, {100 * value:.0f} %"
        box = {"x": f"{100 * start:.2f}%", "width": f"{100 * wide:.2f}%", "y": 3, "height": 24}
        number = el(
            "text", f"{100 * value:.0f}", x=f"{100 * (start + wide / 2):.2f}%", y=19.5, class_=f"step-text {css}"
        )
        mark = el("rect", **box, class_=f"step {css}")
        href = spread.steps[k] if spread.steps else None
        parts.append(mark_link(href, says, mark, number if wide * room > 24 else None))
        start += wide
    return el("svg", *parts, width="100%", height="100%", overflow="visible")


def _below(share: Sequence[float]) -> float:
    """Return the share left of the centre.

    It consists of the lower steps and half of the middle one.
    """
    half, odd = divmod(len(share), 2)
    return sum(share[:half]) + (share[half] / 2 if odd else 0)


def _legend(dimension: RatingDimension, steps: Sequence[float], room: float) -> Markup:
    box = min(30.0, room / len(steps))
    parts: list[object] = []
    for i, step in enumerate(steps):
        parts.append(rect(i * box, 6, box - 0.8, 12, class_=f"step {step_class(i, len(steps))}"))
        if i in (0, len(steps) - 1) or len(steps) <= 7:
            parts.append(text(i * box + box / 2, 32, tick_label(step), class_="tick middle"))
    ends = " – ".join(filter(None, [dimension.low_label, dimension.high_label]))
    parts.append(text(0, 49, shorten(ends, room, 12), class_="tick"))
    return el("svg", *parts, overflow="visible")


_HEIGHT, _TOP, _FOOT = 150.0, 22.0, 42.0


def durations_figure(durations: Mapping[str, Any]) -> PageFigure | None:
    """Draw the durations of a study's finished tasks.

    None if there are none.

    Args:
        durations: as returned by `webapp.ratings.flags.answers`.
    """
    if not durations.get("n"):
        return None
    median, threshold = durations["median"], durations["threshold"]
    fast = (
        (f"tasks below half of it, {clock(threshold)}, are flagged as fast")
        if threshold
        else "too few to flag fast tasks"
    )
    method = f"{durations['n']} finished tasks, median {clock(median)} minutes; {fast}."
    drawings = for_widths(lambda width, css: _draw_durations(durations, width, name=method, css=css), TEXT_WIDE)
    return PageFigure("durations", "Task durations", method, *drawings, _table(durations))


def _draw_durations(durations: Mapping[str, Any], width: float, *, name: str, css: str = "") -> Markup:
    bars, bar_s = durations["bars"], durations["width"]
    x = Scale(0, bar_s * len(bars), 4, width - 4)
    y = Scale(0, max(bars), _TOP + _HEIGHT, _TOP + 14)
    bottom = _TOP + _HEIGHT
    threshold = durations["threshold"]
    parts: list[object] = []
    for number, n in enumerate(bars):
        bar_start, bar_end = x(number * bar_s), x((number + 1) * bar_s)
        is_fast = threshold is not None and (number + 1) * bar_s <= threshold + bar_s / 2
        css_bar = "duration fast" if is_fast else "duration"
        if n:
            parts.append(rect(bar_start + 1, y(n), bar_end - bar_start - 2, bottom - y(n), class_=css_bar))
    parts.append(line(4, bottom, width - 4, bottom, class_="axis"))
    every = 6 if width > NARROW else 12
    for number in range(0, len(bars), every):
        anchor = "tick" if number == 0 else "tick middle"
        parts.append(text(x(number * bar_s), bottom + 17, clock(number * bar_s), class_=anchor))
    parts.append(text(width / 2, bottom + 36, "minutes; the last bar includes all longer tasks", class_="tick middle"))
    if threshold is not None:
        threshold_x = x(threshold)
        parts.append(line(threshold_x, _TOP - 6, threshold_x, bottom, class_="duration-line"))
        parts.append(text(threshold_x + 6, _TOP, f"fast below {clock(threshold)}", class_="tick"))
    return drawing(width, bottom + _FOOT, *parts, name=name, interactive=False, class_=css or None)


def _table(durations: Mapping[str, Any]) -> PageTable:
    last, width = len(durations["bars"]) - 1, durations["width"]

    def minutes(number: int) -> Cell:
        low, high = clock(number * width), clock((number + 1) * width)
        return Cell(f"{low} or more" if number == last else f"{low} to {high}")

    return page_table(
        enumerate(durations["bars"]),
        ("Minutes", lambda row: minutes(row[0])),
        ("Tasks", lambda row: count_cell(row[1])),
    )


Link = Callable[[str, str], str]
"""Address of the conversations with a bot that have a given answer, or of all its conversations if empty."""


def answers_figure(
    answers: DimensionAnswers, dimension: RatingDimension, bots: Mapping[str, BotInfo], link: Link | None = None
) -> PageFigure:
    """Return the share of each answer by bot.

    Args:
        dimension: question of the answers, with its title.
        link: function of a bot and the raw answer, which differs from the counted one for a reversed question.
    """
    answer_texts = [
        tick_label(dimension.low + dimension.high - step if dimension.reversed else step) for step in answers.steps
    ]
    spreads = [
        AnswerDistribution(
            bots[bot.bot],
            list(bot.counts),
            bot.mean,
            link(bot.bot, "") if link else "",
            [link(bot.bot, answer) for answer in answer_texts] if link else [],
        )
        for bot in answers.bots
    ]
    return spread_figure(spreads, dimension, answers.steps)
