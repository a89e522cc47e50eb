"""Live part of a study's people: content at one moment.

The number of queries does not grow with the study.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from webapp.insights.live_bots import (
    FailedReply,
    LiveActionItem,
    LiveBot,
    WaitingParticipant,
    bots_of,
    failures_of,
    live_action_items,
    waiting_of,
)
from webapp.insights.live_progress import (
    Money,
    ParticipantProgress,
    RatingPace,
    money_of,
    pace_of,
    participant_progress,
)
from webapp.insights.live_ranking import LiveRanking, rankings_of
from webapp.insights.stopping import StoppingLine, stopping_line
from webapp.results.refresh import ranking_newest
from webapp.studies.models import Study
from webapp.studies.sitting_tasks import SittingCount, sitting_counts


@dataclass(frozen=True, slots=True)
class LiveRoom:
    """Content of the live part.

    Attributes:
        waiting: participants who wait for a reply, the longest wait first; `n_waiting` in total.
        failed: the latest replies that failed.
        orders: order of the bots by each question; empty if not computed yet, or not possible.
        stopping: forecast of when to stop; None if there is none, or scripted participants are included.
        things: matters that need a researcher.
        parts: participants of each part; empty in a study without parts.
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
    stopping: StoppingLine | None
    things: list[LiveActionItem]
    parts: list[SittingCount]

    @property
    def aside(self) -> list[LiveBot]:
        """The disabled bots."""
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
    """Read the live part, and request a new ranking if there are new ratings.

    A worker computes it.

    Args:
        may_pay: as in `webapp.insights.action_items.pay_action_items`.
    """
    bots = bots_of(study, include_synthetic=include_synthetic, now=now)
    waiting, n_waiting = waiting_of(study, bots, include_synthetic=include_synthetic, now=now)
    people = participant_progress(study, include_synthetic=include_synthetic, now=now)
    pace = pace_of(study, people, include_synthetic=include_synthetic, now=now)
    state = ranking_newest(study)
    return LiveRoom(
        study.state,
        people,
        bots,
        waiting,
        n_waiting,
        failures_of(study, bots, include_synthetic=include_synthetic, now=now),
        pace,
        money_of(study),
        rankings_of(study, state, bots),
        None if include_synthetic else stopping_line(study, state, now=now),
        live_action_items(study, bots, may_pay=may_pay),
        sitting_counts(study, include_synthetic=include_synthetic, now=now),
    )
