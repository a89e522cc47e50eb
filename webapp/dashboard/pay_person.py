"""Details of one visit on the pay page: times, code, messages, flags, chats and decisions with their authors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Sum

from webapp.conversations.models import Conversation
from webapp.dashboard.pay_list import Row, money, row_of, state_of
from webapp.pay.models import Decision
from webapp.pay.visits import Visit, codes_shown
from webapp.quality.selectors import Flag
from webapp.ratings.models import Rating
from webapp.studies.models import Study


@dataclass(frozen=True, slots=True)
class Person:
    """One visit in full.

    Attributes:
        key: of the visit, as forms send it.
        n_messages: that they wrote; None where they chatted with nobody.
        n_ratings: that they gave.
        chats: the visit's conversations, oldest first.
        history: all that was ever decided, oldest first, with its words.
    """

    row: Row
    key: str
    platform: str
    submission: str
    n_messages: int | None
    n_ratings: int
    chats: list[Any]
    history: list[tuple[Decision, str]]

    @property
    def can_be_decided(self) -> bool:
        """True if the visit can be approved or rejected now."""
        return self.row.visit.can_be_approved


def pay_person(study: Study, visit: Visit, flags: list[Flag], *, with_ids: bool) -> Person:
    """Read what the page of one visit shows.

    Args:
        with_ids: whether the platform's ids may be seen.
    """
    own = {
        "slot__task__participant": visit.key.participant,
        "slot__task__submission": visit.key.submission,
    }
    chats = list(Conversation.objects.filter(**own).order_by("created_at", "pk"))
    written = Conversation.objects.filter(**own).aggregate(n=Sum("n_exchanges"))["n"]
    decisions = (
        Decision.objects.filter(participant=visit.key.participant, submission=visit.key.submission)
        .select_related("decided_by", "closed_by")
        .order_by("pk")
    )
    settings = study.values.recruitment
    return Person(
        row=row_of(
            study,
            visit,
            flags,
            state_of(visit, flags),
            codes_shown([visit]).get(visit.key, ""),
            with_ids=with_ids,
        ),
        key=str(visit.key),
        platform=visit.platform,
        submission=visit.key.submission if with_ids else "",
        n_messages=written if chats else None,
        n_ratings=Rating.objects.filter(
            task__participant=visit.key.participant, task__submission=visit.key.submission
        ).count(),
        chats=chats,
        history=[
            (one, money(one.amount, settings.currency) if one.amount is not None else "")
            for one in decisions
        ],
    )
