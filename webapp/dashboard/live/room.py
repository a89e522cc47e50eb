"""The live room as a whole: everything that its page shows at one moment."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef

from webapp.dashboard.live.bots import (
    Failed,
    LiveBot,
    Waiting,
    bots_of,
    failures_of,
    waiting_of,
)
from webapp.dashboard.live.order import Order, orders_of
from webapp.dashboard.live.pace import Money, Pace, money_of, pace_of
from webapp.dashboard.live.people import People, people_of, step_names
from webapp.dashboard.live.things import Thing, things_of
from webapp.dashboard.live.totals import totals_of
from webapp.ratings.models import Rating
from webapp.results.order import has_order, order_refresh
from webapp.studies.models import OrderState, Study
from webapp.studies.places import is_collecting


@dataclass(frozen=True, slots=True)
class Room:
    """Content of the live page.

    Attributes:
        waiting: participants who wait for a reply, the longest first; `n_waiting` in total.
        failed: the latest replies that failed.
        orders: order of the bots by each question; empty if not computed yet, or not possible.
        things: matters that need a researcher.
    """

    state: str
    people: People
    bots: list[LiveBot]
    waiting: list[Waiting]
    n_waiting: int
    failed: list[Failed]
    pace: Pace
    money: Money
    orders: list[Order]
    things: list[Thing]

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


def room_of(study: Study, *, include_synthetic: bool, now: datetime, may_pay: bool = True) -> Room:
    """Read the live room, and ask a worker to look at the order again where ratings have come since.

    Args:
        may_pay: as `webapp.dashboard.needs.pay_needs`.
    """
    bots = bots_of(study, include_synthetic=include_synthetic, now=now)
    waiting, n_waiting = waiting_of(study, bots, include_synthetic=include_synthetic, now=now)
    people = people_of(study, include_synthetic=include_synthetic, now=now)
    pace = pace_of(study, people, include_synthetic=include_synthetic, now=now)
    real = people.totals
    if include_synthetic:
        real = totals_of(study, step_names(study), include_synthetic=False)
    orders: list[Order] = []
    if has_order(study):
        state = OrderState.objects.filter(study=study).first()
        orders = orders_of(study, state, bots)
        if is_collecting(study) and _is_new(study, state):
            order_refresh(study)
    return Room(
        study.state,
        people,
        bots,
        waiting,
        n_waiting,
        failures_of(study, bots, include_synthetic=include_synthetic, now=now),
        pace,
        money_of(study, real),
        orders,
        things_of(study, bots, may_pay=may_pay),
    )


def _is_new(study: Study, state: OrderState | None) -> bool:
    """Return True if ratings were submitted since a worker last computed the order."""
    if state:
        lately = Rating.objects.filter(submitted_at__gt=state.made_at)
        return lately.filter(participant__study=study).exists()
    # Query participants first: for a study without ratings the database would scan every rating.
    theirs = Rating.objects.filter(participant=OuterRef("pk"))
    return study.participants.filter(Exists(theirs)).exists()
