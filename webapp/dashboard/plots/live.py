"""The drawings of the live room: ratings by hour, and means with intervals beside the planned ones."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils import timezone
from markupsafe import Markup

from evaluation.plots.lettering import plain, shorten
from evaluation.plots.marks import bot_shape, interval_mark
from evaluation.plots.scale import Scale, rating_ticks
from evaluation.plots.svg import drawing, group, line, rect, text
from evaluation.printing import figure, span
from webapp.dashboard import counts
from webapp.dashboard.live.order import Order
from webapp.dashboard.live.pace import Hour

_BARS = 284.0
_BAR_HEIGHT = 76.0
_WIDE, _NARROW = 520.0, 298.0
_ROW = 36.0


def hours_drawing(hours: Sequence[Hour]) -> Markup:
    """Draw how many ratings came in each hour; the present one is pale."""
    most = max((hour.n for hour in hours), default=0) or 1
    step = _BARS / max(len(hours), 1)
    marks = []
    for i, hour in enumerate(hours):
        height = hour.n / most * _BAR_HEIGHT
        middle, top = i * step + step / 2, 20 + _BAR_HEIGHT - height
        pale = " is-running" if hour.is_running else ""
        marks.append(
            group(
                rect(middle - 13, top, 26, max(height, 2), rx=4, class_=f"hour-bar{pale}"),
                text(middle, top - 6, f"{hour.n:,}", class_="tick middle"),
                text(
                    middle,
                    40 + _BAR_HEIGHT,
                    f"{timezone.localtime(hour.start):%H}",
                    class_="tick middle",
                ),
            )
        )
    said = ", ".join(f"{timezone.localtime(one.start):%H}: {one.n:,}" for one in hours)
    name = f"Ratings by hour of the day: {said}."
    return drawing(_BARS, 46 + _BAR_HEIGHT, *marks, name=name, interactive=False)


def order_drawings(order: Order) -> tuple[Markup, Markup]:
    """Draw every bot's mean with its interval at any look, for wide and for narrow columns."""
    return _order(order, _WIDE, 150.0, "plot-wide"), _order(order, _NARROW, 104.0, "")


def _order(order: Order, width: float, names: float, css: str) -> Markup:
    scale = Scale(order.low, order.high, names + 8, width - 52)
    height = _ROW * len(order.rows)
    ticks = rating_ticks(order.low, order.high)
    grid = [
        group(
            line(scale(tick), 4, scale(tick), height, class_="grid"),
            text(scale(tick), height + 18, plain(tick), class_="tick middle"),
        )
        for tick in ticks
    ]
    rows = []
    for i, row in enumerate(order.rows):
        y = i * _ROW + _ROW / 2
        planned = None
        if row.planned is not None:
            left, right = (scale.held(end) for end in row.planned)
            planned = rect(left, y - 9, right - left, 18, rx=6, class_="planned-interval")
        rows.append(
            group(
                bot_shape(8, y, row.info.slot, hollow=row.info.is_control),
                text(22, y + 4, shorten(row.info.title, names - 24), class_="name"),
                planned,
                interval_mark(
                    y,
                    scale.held(row.mean),
                    scale.held(row.low),
                    scale.held(row.high),
                    hollow=row.info.is_control,
                ),
                text(width, y + 4, figure(row.mean), class_="value end"),
            )
        )
    said = "; ".join(
        f"{row.info.title} {figure(row.mean)} {span(row.low, row.high)}, {counts.ratings(row.n)}"
        for row in order.rows
    )
    name = f"Means with intervals: {said}."
    return drawing(
        width, height + 26, *grid, *rows, name=name, interactive=False, class_=css or None
    )
