"""Live room of a study: content at one moment, and drawings.

The number of queries does not grow with the study.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef
from django.utils import timezone
from markupsafe import Markup

from evaluation.number_format import figure, span
from evaluation.plots.marks import bot_shape, interval_mark
from evaluation.plots.svg import Scale, drawing, group, line, rating_ticks, rect, text
from evaluation.plots.text_layout import shorten, tick_label
from webapp.dashboard.live_bots import (
    FailedReply,
    LiveActionItem,
    LiveBot,
    WaitingParticipant,
    bots_of,
    failures_of,
    live_action_items,
    waiting_of,
)
from webapp.dashboard.live_progress import (
    Hour,
    Money,
    ParticipantProgress,
    RatingPace,
    money_of,
    pace_of,
    participant_progress,
    step_names,
    totals_of,
)
from webapp.dashboard.live_ranking import LiveRanking, rankings_of
from webapp.dashboard.narrative import phrases
from webapp.ratings.models import Rating
from webapp.results.refresh import has_order, order_refresh
from webapp.studies.assignment.capacity import is_collecting
from webapp.studies.models import OrderState, Study


@dataclass(frozen=True, slots=True)
class LiveRoom:
    """Content of the live page.

    Attributes:
        waiting: participants who wait for a reply, the longest first; `n_waiting` in total.
        failed: the latest replies that failed.
        orders: order of the bots by each question; empty if not computed yet, or not possible.
        things: matters that need a researcher.
    """

    state: str
    people: ParticipantProgress
    bots: list[LiveBot]
    waiting: list[WaitingParticipant]
    n_waiting: int
    failed: list[FailedReply]
    pace: RatingPace
    money: Money
    orders: list[LiveRanking]
    things: list[LiveActionItem]

    @property
    def aside(self) -> list[LiveBot]:
        """The bots that are set aside."""
        return [bot for bot in self.bots if bot.aside is not None]

    @property
    def is_empty(self) -> bool:
        """True if no participant has come yet."""
        return not self.people.totals.n_opened and not self.people.n_agreed

    @property
    def digest(self) -> str:
        """Hash of the content, equal as long as nothing shown changes."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:32]


def live_room(study: Study, *, include_synthetic: bool, now: datetime, may_pay: bool = True) -> LiveRoom:
    """Read the live room, and ask a worker to look at the order again where ratings have come since.

    Args:
        may_pay: as `webapp.dashboard.action_items.pay_action_items`.
    """
    bots = bots_of(study, include_synthetic=include_synthetic, now=now)
    waiting, n_waiting = waiting_of(study, bots, include_synthetic=include_synthetic, now=now)
    people = participant_progress(study, include_synthetic=include_synthetic, now=now)
    pace = pace_of(study, people, include_synthetic=include_synthetic, now=now)
    real = people.totals
    if include_synthetic:
        real = totals_of(study, step_names(study), include_synthetic=False)
    orders: list[LiveRanking] = []
    if has_order(study):
        state = OrderState.objects.filter(study=study).first()
        orders = rankings_of(study, state, bots)
        if is_collecting(study) and _is_new(study, state):
            order_refresh(study)
    return LiveRoom(
        study.state,
        people,
        bots,
        waiting,
        n_waiting,
        failures_of(study, bots, include_synthetic=include_synthetic, now=now),
        pace,
        money_of(study, real),
        orders,
        live_action_items(study, bots, may_pay=may_pay),
    )


def _is_new(study: Study, state: OrderState | None) -> bool:
    """Return True if ratings were submitted since a worker last computed the order."""
    if state:
        lately = Rating.objects.filter(submitted_at__gt=state.made_at)
        return lately.filter(participant__study=study).exists()
    # Query participants first: for a study without ratings the database would scan every rating.
    theirs = Rating.objects.filter(participant=OuterRef("pk"))
    return study.participants.filter(Exists(theirs)).exists()


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


def order_drawings(order: LiveRanking) -> tuple[Markup, Markup]:
    """Draw every bot's mean with its interval at any look, for wide and for narrow columns."""
    return _order(order, _WIDE, 150.0, "plot-wide"), _order(order, _NARROW, 104.0, "")


def _order(order: LiveRanking, width: float, names: float, css: str) -> Markup:
    scale = Scale(order.low, order.high, names + 8, width - 52)
    height = _ROW * len(order.rows)
    ticks = rating_ticks(order.low, order.high)
    grid = [
        group(
            line(scale(tick), 4, scale(tick), height, class_="grid"),
            text(scale(tick), height + 18, tick_label(tick), class_="tick middle"),
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
        f"{row.info.title} {figure(row.mean)} {span(row.low, row.high)}, {phrases.ratings_text(row.n)}"
        for row in order.rows
    )
    name = f"Means with intervals: {said}."
    return drawing(width, height + 26, *grid, *rows, name=name, interactive=False, class_=css or None)
