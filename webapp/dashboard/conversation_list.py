"""Conversations of a study or of a self-play run, filtered and read page by page from a key.

Pages begin after the last row of the one before (newest first), so that a page costs the same however
far down it is, and new conversations shift nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from webapp.conversations.models import Conversation, Turn
from webapp.ratings.models import Rating
from webapp.ratings.summary import DimensionInfo

PAGE = 50
_OPENING = 120


@dataclass(frozen=True, slots=True)
class Filters:
    """What to show; empty means all. `answer` is a value of the leading dimension, `first` in a self-play
    run the bot that begins."""

    bot: str = ""
    state: str = ""
    rated: str = ""
    answer: str = ""
    first: str = ""
    synthetic: bool = False

    @classmethod
    def of(cls, query: QueryDict) -> Filters:
        """Read from an address; what is not understood is left out."""
        state = query.get("state", "")
        answer = query.get("answer", "")
        try:
            float(answer.replace("−", "-"))
        except ValueError:
            answer = ""
        return cls(
            bot=query.get("bot", ""),
            state=state if state in Conversation.State.values else "",
            rated=query.get("rated", "") if query.get("rated") in ("yes", "no") else "",
            answer=answer,
            first=query.get("first", ""),
            synthetic=query.get("synthetic") == "1",
        )

    def query(self) -> str:
        """The address part that keeps these filters."""
        return urlencode(self.query_pairs())

    def query_pairs(self) -> list[tuple[str, str]]:
        """The filters that are set, by their names in an address."""
        found = [
            ("bot", self.bot),
            ("state", self.state),
            ("rated", self.rated),
            ("answer", self.answer),
            ("first", self.first),
            ("synthetic", "1" if self.synthetic else ""),
        ]
        return [(key, value) for key, value in found if value]

    def apply(
        self, rows: QuerySet[Conversation], leading: DimensionInfo | None
    ) -> QuerySet[Conversation]:
        """The rows that pass, newest first."""
        if self.bot:
            rows = rows.filter(bot__bot_id=self.bot)
        if self.first:
            alone = Q(selfplay__partner_bot_id="", selfplay__bot_id=self.first)
            rows = rows.filter(alone | Q(selfplay__partner_bot_id=self.first))
        if self.state:
            rows = rows.filter(state=self.state)
        if not self.synthetic:
            rows = rows.filter(is_synthetic=False)
        ratings = Rating.objects.filter(conversation=OuterRef("pk"))
        if self.rated == "yes":
            rows = rows.filter(Exists(ratings))
        elif self.rated == "no":
            rows = rows.filter(~Exists(ratings))
        if self.answer and leading is not None:
            value = float(self.answer.replace("−", "-"))
            exact: float | int = int(value) if value.is_integer() else value
            rows = rows.filter(Exists(ratings.filter(**{f"answers__{leading.key}": exact})))
        return rows.order_by("-created_at", "-pk")


@dataclass(frozen=True, slots=True)
class Row:
    """One conversation of the list."""

    conversation: Conversation
    opening: str
    n_ratings: int
    rating: float | None
    votes_up: int
    votes_down: int


@dataclass(frozen=True, slots=True)
class Page:
    """One page, with the key that the next one begins after."""

    rows: list[Row]
    after: str


def page_of(
    rows: QuerySet[Conversation], leading: DimensionInfo | None, after: str = "", size: int = PAGE
) -> Page:
    """The next `size` conversations after a key (empty: from the newest)."""
    if (key := _key_read(after)) is not None:
        rows = rows.filter(_behind(*key))
    found = list(rows.select_related("bot")[: size + 1])
    more, found = len(found) > size, found[:size]
    ids = [conversation.pk for conversation in found]
    votes: dict[UUID, dict[str, int]] = {
        row["conversation"]: row  # type: ignore[misc]
        for row in Turn.objects.filter(conversation__in=ids)
        .order_by()
        .values("conversation")
        .annotate(up=Count("pk", filter=Q(vote=1)), down=Count("pk", filter=Q(vote=-1)))
    }
    openings: dict[UUID, str] = {}
    for conversation_id, text in (
        Turn.objects.filter(conversation__in=ids, index__lt=2)
        .order_by("index")
        .values_list("conversation", "text")
    ):
        if not openings.get(conversation_id):
            openings[conversation_id] = text[:_OPENING]
    answers: dict[UUID, list[float]] = {}
    counts: dict[UUID, int] = {}
    for conversation_id, given in Rating.objects.filter(conversation__in=ids).values_list(
        "conversation", "answers"
    ):
        counts[conversation_id] = counts.get(conversation_id, 0) + 1
        value = given.get(leading.key) if leading is not None else None
        if isinstance(value, int | float):
            answers.setdefault(conversation_id, []).append(value)
    return Page(
        rows=[
            Row(
                conversation=conversation,
                opening=openings.get(conversation.pk, ""),
                n_ratings=counts.get(conversation.pk, 0),
                rating=_mean(answers.get(conversation.pk)),
                votes_up=votes.get(conversation.pk, {}).get("up", 0),
                votes_down=votes.get(conversation.pk, {}).get("down", 0),
            )
            for conversation in found
        ],
        after=_key(found[-1]) if more else "",
    )


def neighbours(
    rows: QuerySet[Conversation], conversation: Conversation
) -> tuple[UUID | None, UUID | None]:
    """The conversations before and after this one in a filtered list."""
    at = (conversation.created_at, conversation.pk)
    following = rows.filter(_behind(*at)).values_list("pk", flat=True).first()
    before = (
        rows.filter(Q(created_at__gt=at[0]) | Q(created_at=at[0], pk__gt=at[1]))
        .order_by("created_at", "pk")
        .values_list("pk", flat=True)
        .first()
    )
    return before, following


def _behind(created_at: datetime, pk: UUID) -> Q:
    return Q(created_at__lt=created_at) | Q(created_at=created_at, pk__lt=pk)


def _key(conversation: Conversation) -> str:
    return f"{conversation.created_at.isoformat()}~{conversation.pk}"


def _key_read(text: str) -> tuple[datetime, UUID] | None:
    when, _, pk = text.partition("~")
    try:
        created_at = parse_datetime(when)
        return None if created_at is None else (created_at, UUID(pk))
    except ValueError:
        return None


def _mean(values: list[float] | None) -> float | None:
    return sum(values) / len(values) if values else None
