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
from evaluation.number_format import figure
from evaluation.plots.marks import bot_shape, mark_link
from evaluation.plots.svg import Scale, drawing, group, line, rect, text
from evaluation.plots.text_layout import NAME_PX, shorten, text_width, tick_label
from evaluation.ratings import RatingDimension
from webapp.dashboard.charts.figure import Cell, Header, PageFigure, PageTable, Variant
from webapp.dashboard.narrative import phrases
from webapp.ratings.flags.base import clock
from webapp.ratings.selectors import BotInfo


@dataclass(frozen=True, slots=True)
class AnswerDistribution:
    """Distribution of the answers for a bot; `counts` and addresses in `steps` follow the scale."""

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
    return PageFigure(
        id="spread",
        title="How the answers spread",
        method=f"Share of each answer to “{dimension.title.lower()}”, in %, centred on the middle of the scale. "
        f"{phrases.ratings_text(n)}.",
        wide=_draw(spreads, dimension, steps, 554, css="plot-wide"),
        narrow=[Variant("", _draw(spreads, dimension, steps, 298, css=""))],
        table=PageTable(
            [
                Header("Bot"),
                *[Header(tick_label(step), numeric=True) for step in steps],
                Header("Mean", numeric=True),
                Header("n", numeric=True),
            ],
            [
                [
                    Cell(
                        spread.bot.title,
                        spread.href,
                        slot=spread.bot.slot,
                        hollow=spread.bot.is_control,
                    ),
                    *[Cell(f"{100 * count / spread.n:.0f} %" if spread.n else "–") for count in spread.counts],
                    Cell(figure(spread.mean), why="" if spread.n else "no rating yet"),
                    Cell(str(spread.n)),
                ]
                for spread in spreads
            ],
        ),
    )


def _draw(
    spreads: Sequence[AnswerDistribution],
    dimension: RatingDimension,
    steps: Sequence[float],
    width: float,
    *,
    css: str,
) -> Markup:
    row, n_steps = 33.8, len(steps)
    longest = max((text_width(spread.bot.title) for spread in spreads), default=60)
    names = min(longest + 34, NAME_PX + 34 if css else width * 0.32)
    left, right = names, width - 56
    shares = [[c / s.n if s.n else 0.0 for c in s.counts] for s in spreads]
    below = max((_below(share) for share in shares), default=0.5)
    above = max((sum(share) - _below(share) for share in shares), default=0.5)
    unit = (right - left) / max(below + above, 0.2)
    centre = left + below * unit
    bottom = row * len(spreads) + 4
    parts: list[object] = [line(centre, 0, centre, bottom, class_="grid")]
    for i, (spread, share) in enumerate(zip(spreads, shares, strict=True)):
        y = i * row + row / 2
        parts.append(bot_shape(10, y, spread.bot.slot, hollow=spread.bot.is_control))
        parts.append(text(24, y + 4.5, shorten(spread.bot.title, names - 26), class_="name"))
        if not spread.n:
            parts.append(text(centre, y + 4.5, "no ratings yet", class_="tick middle"))
            continue
        x = centre - _below(share) * unit
        for k, value in enumerate(share):
            if not value:
                continue
            wide = value * unit
            css_class = step_class(k, n_steps)
            says = (
                f"{spread.bot.title}\n"
                + f"{tick_label(steps[k])}: {spread.counts[k]} of {spread.n}, {100 * value:.0f} %"
            )
            parts.append(
                mark_link(
                    spread.steps[k] if spread.steps else "",
                    says,
                    rect(x, y - 12.5, max(wide - 0.8, 0.8), 25, class_=f"step {css_class}"),
                    text(x + wide / 2, y + 4.5, f"{100 * value:.0f}", class_=f"step-text {css_class}")
                    if wide > 24
                    else None,
                )
            )
            x += wide
        parts.append(text(width - 2, y + 4.5, figure(spread.mean), class_="value end"))
    parts.append(_legend(dimension, steps, left, right, bottom + 14))
    parts.append(text(width - 2, bottom + 26, "mean", class_="tick end"))
    name = f"Share of each answer to {dimension.title.lower()} for {phrases.bots_text(len(spreads))}."
    return drawing(width, bottom + 52, *parts, name=name, interactive=True, class_=css or None)


def _below(share: Sequence[float]) -> float:
    """Return the share left of the centre: that of the lower steps and half of the middle one."""
    half, odd = divmod(len(share), 2)
    return sum(share[:half]) + (share[half] / 2 if odd else 0)


def _legend(dimension: RatingDimension, steps: Sequence[float], left: float, right: float, y: float) -> Markup:
    box = min(31.0, (right - left) * 0.55 / len(steps))
    low_width = text_width(dimension.low_label, 12)
    x0 = max(left, (left + right) / 2 - box * len(steps) / 2 - 20)
    x0 = max(x0, left + min(low_width, 70) - 20)
    parts = [
        text(x0 - 8, y + 11, shorten(dimension.low_label, x0 - 10, 12), class_="tick end"),
        text(
            x0 + box * len(steps) + 8,
            y + 11,
            shorten(dimension.high_label, right - x0 - box * len(steps), 12),
            class_="tick",
        ),
    ]
    for i, step in enumerate(steps):
        x = x0 + i * box
        parts.append(rect(x, y, box - 0.8, 14, class_=f"step {step_class(i, len(steps))}"))
        if len(steps) <= 7 or i in (0, len(steps) - 1):
            parts.append(text(x + box / 2, y + 30, tick_label(step), class_="tick middle"))
    return group(*parts)


_HEIGHT, _TOP, _FOOT = 150.0, 22.0, 42.0
_WIDE, _NARROW = 760.0, 298.0


def durations_figure(durations: Mapping[str, Any]) -> PageFigure | None:
    """Draw the durations of a study's finished tasks; None where nobody has finished.

    Args:
        durations: as `webapp.ratings.flags.speed` has them.
    """
    if not durations.get("n"):
        return None
    median, threshold = durations["median"], durations["threshold"]
    if threshold is None:
        method = "{n} finished tasks, median {median} minutes; too few to call anybody fast."
    else:
        method = "{n} finished tasks, median {median} minutes; flagged as fast below {threshold}, half of it."
    method = method.format(n=durations["n"], median=clock(median), threshold=clock(threshold or 0))
    return PageFigure(
        id="durations",
        title="How long tasks took",
        method=method,
        wide=_drawn(durations, _WIDE, name=method, css="plot-wide"),
        narrow=[Variant("", _drawn(durations, _NARROW, name=method))],
        table=_table(durations),
    )


def _drawn(durations: Mapping[str, Any], width: float, *, name: str, css: str = "") -> Markup:
    bars, bar_s = durations["bars"], durations["width"]
    x = Scale(0, bar_s * len(bars), 4, width - 4)
    y = Scale(0, max(bars), _TOP + _HEIGHT, _TOP + 14)
    bottom = _TOP + _HEIGHT
    threshold = durations["threshold"]
    parts: list[object] = []
    for number, n in enumerate(bars):
        left, right = x(number * bar_s), x((number + 1) * bar_s)
        is_fast = threshold is not None and (number + 1) * bar_s <= threshold + bar_s / 2
        css_bar = "duration fast" if is_fast else "duration"
        if n:
            parts.append(rect(left + 1, y(n), right - left - 2, bottom - y(n), class_=css_bar))
    parts.append(line(4, bottom, width - 4, bottom, class_="axis"))
    every = 6 if width > _NARROW else 12
    for number in range(0, len(bars), every):
        anchor = "tick" if number == 0 else "tick middle"
        parts.append(text(x(number * bar_s), bottom + 17, clock(number * bar_s), class_=anchor))
    parts.append(
        text(
            width / 2,
            bottom + 36,
            "minutes; the last bar has all who took longer",
            class_="tick middle",
        )
    )
    if threshold is not None:
        at = x(threshold)
        parts.append(line(at, _TOP - 6, at, bottom, class_="duration-line"))
        parts.append(text(at + 6, _TOP, f"fast below {clock(threshold)}", class_="tick"))
    return drawing(width, bottom + _FOOT, *parts, name=name, interactive=False, class_=css or None)


def _table(durations: Mapping[str, Any]) -> PageTable:
    bars, width = durations["bars"], durations["width"]
    rows = []
    for number, n in enumerate(bars):
        low, high = clock(number * width), clock((number + 1) * width)
        is_last = number == len(bars) - 1
        span = "{low} or more" if is_last else "{low} to {high}"
        rows.append([Cell(span.format(low=low, high=high)), Cell(f"{n:,}", raw=(n,))])
    return PageTable([Header("Minutes"), Header("Tasks", numeric=True)], rows)


Link = Callable[[str, str], str]
"""Address of the conversations with a bot that were given an answer, or of all where it is empty."""


def answers_figure(
    found: DimensionAnswers,
    dimension: RatingDimension,
    bots: Mapping[str, BotInfo],
    link: Link | None = None,
) -> PageFigure:
    """Return the share of each answer for every bot.

    Args:
        dimension: what the answers are about, with its title.
        link: takes a bot and an answer as it was given, which of a reversed question is not as it counts.
    """
    given = [tick_label(dimension.low + dimension.high - step if dimension.reversed else step) for step in found.steps]
    spreads = [
        AnswerDistribution(
            bots[bot.bot],
            list(bot.counts),
            bot.mean,
            link(bot.bot, "") if link else "",
            [link(bot.bot, answer) for answer in given] if link else [],
        )
        for bot in found.bots
    ]
    return spread_figure(spreads, dimension, found.steps)
