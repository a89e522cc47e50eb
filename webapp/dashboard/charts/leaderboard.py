"""Drawings of the leaderboard's rows: intervals, significance bars, two bots.

Places along the scale are shares of the row's width, so a drawing is as wide as the page lets it be and no mark is
stretched. A row says its numbers in words next to its drawing, so these are pictures alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.plots.marks import bot_shape
from evaluation.plots.svg import el, group, rating_ticks, ticks
from evaluation.plots.text_layout import tick_label

LANE = 13.0
"""Pixels between two bars that join bots."""

Lane = list[tuple[int, int, frozenset[int]]]
"""Bars side by side, each with its first, last and all of its rows."""

Mark = tuple[float | None, int, bool]
"""Of a bot its mean, its slot, and whether it is a control."""


@dataclass(frozen=True, slots=True)
class ScaleWindow:
    """The part of a scale that rows show.

    Attributes:
        low, high: its ends.
        ticks: of the axis, within them.
        scale: ends of the whole scale.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    scale: tuple[float, float]

    @property
    def is_whole(self) -> bool:
        """True if the whole scale is shown."""
        return (self.low, self.high) == self.scale

    def at(self, value: float) -> str:
        """Return the position of a value along the row in percent, clipped to the ends."""
        return _percent(_share(min(max(value, self.low), self.high), self.low, self.high))


def whole(low: float, high: float) -> ScaleWindow:
    """Return the window of a whole rating scale."""
    return ScaleWindow(low, high, tuple(rating_ticks(low, high)), (low, high))


def around(values: Sequence[float], low: float, high: float) -> ScaleWindow:
    """Return the window where these values are, with ends at ticks; the whole scale where there are none."""
    if not values:
        return whole(low, high)
    least, most = min(values), max(values)
    room = max((most - least) * 0.05, (high - low) * 0.01)
    marks = ticks(max(least - room, low), min(most + room, high), 7)
    step = marks[1] - marks[0] if len(marks) > 1 else (high - low) / 10
    start = max(low, marks[0] - step if marks[0] > least - room else marks[0])
    end = min(high, marks[-1] + step if marks[-1] < most + room else marks[-1])
    return ScaleWindow(start, end, tuple(ticks(start, end, 7)), (low, high))


def interval_row(
    window: ScaleWindow, mean: float | None, low: float | None, high: float | None, *, hollow: bool
) -> Markup:
    """Draw a bot's mean with its interval over the grid."""
    kind = " hollow" if hollow else ""
    parts: list[object] = [_grid(window)]
    if low is not None and high is not None:
        start, end = (_share(min(max(v, window.low), window.high), window.low, window.high) for v in (low, high))
        parts.append(
            el(
                "rect",
                x=_percent(start),
                y="50%",
                width=_percent(end - start),
                height=6,
                rx=3,
                transform="translate(0,-3)",
                class_=f"interval{kind}",
            )
        )
    if mean is not None:
        parts.append(
            el(
                "rect",
                x=window.at(mean),
                y="50%",
                width=3,
                height=15,
                rx=1.5,
                transform="translate(-1.5,-7.5)",
                class_=f"mean-tick{kind}",
            )
        )
    return _row(*parts)


def axis_row(window: ScaleWindow) -> Markup:
    """Draw the ticks' labels below the rows and, where not the whole scale is shown, a strip of all of it."""
    labels = [el("text", tick_label(tick), x=window.at(tick), y=16, class_="tick middle") for tick in window.ticks]
    if window.is_whole:
        return _row(*labels)
    low, high = window.scale
    start, end = (_share(value, low, high) for value in (window.low, window.high))
    strip = [
        el("rect", x="0%", y=28, width="100%", height=6, rx=3, class_="strip"),
        el(
            "rect",
            x=_percent(start),
            y=28,
            width=_percent(end - start),
            height=6,
            rx=3,
            class_="strip-shown",
        ),
        el("text", tick_label(low), x="0%", y=48, class_="tick"),
        el("text", tick_label(high), x="100%", y=48, class_="tick end"),
    ]
    return _row(*labels, *strip)


def lanes_of(groups: Sequence[Sequence[str]], order: Sequence[str]) -> list[Lane]:
    """Return the bars in as few lanes as they fit in side by side."""
    at = {bot: i for i, bot in enumerate(order)}
    lanes: list[Lane] = []
    for rows in sorted(sorted(at[bot] for bot in alike) for alike in groups):
        bar = rows[0], rows[-1], frozenset(rows)
        free = next((lane for lane in lanes if lane[-1][1] < bar[0]), None)
        if free is None:
            lanes.append([bar])
        else:
            free.append(bar)
    return lanes


def bars_row(lanes: Sequence[Lane], row: int) -> Markup:
    """Draw the part of the bars that stands in one row.

    A bar passes thinly by a bot between two others that does not belong to its group.
    """
    parts = []
    for n, lane in enumerate(lanes):
        x = _percent((n + 0.5) / len(lanes))
        for first, last, rows in lane:
            if not first <= row <= last:
                continue
            start = "22%" if row == first else "0%"
            end = "78%" if row == last else "100%"
            kind = "joins" if row in rows else "joins joins-past"
            parts.append(el("line", x1=x, x2=x, y1=start, y2=end, class_=kind))
    return el(
        "svg",
        *parts,
        class_="board-svg",
        width=max(len(lanes), 1) * LANE,
        height="100%",
        aria_hidden="true",
    )


def against_row(window: ScaleWindow, marks: Sequence[Mark]) -> Markup:
    """Draw two bots' means of one question, the first on top, and the line between them."""
    means = [mean for mean, _slot, _hollow in marks if mean is not None]
    parts: list[object] = [_grid(window)]
    if len(means) == 2:
        ends = [window.at(mean) for mean in means]
        parts.append(el("line", x1=ends[0], x2=ends[1], y1="50%", y2="50%", class_="between"))
    for mean, slot, hollow in reversed(marks):
        if mean is not None:
            shape = bot_shape(0, 0, slot, hollow=hollow)
            parts.append(
                el(
                    "svg",
                    group(shape),
                    x=window.at(mean),
                    y="50%",
                    overflow="visible",
                    class_="haloed",
                )
            )
    return _row(*parts)


def _grid(window: ScaleWindow) -> Markup:
    return group(
        *(
            el("line", x1=window.at(tick), x2=window.at(tick), y1="0%", y2="100%", class_="grid")
            for tick in window.ticks
        )
    )


def _row(*parts: object) -> Markup:
    return el("svg", *parts, class_="board-svg", width="100%", height="100%", aria_hidden="true")


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"
