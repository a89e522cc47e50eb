"""Conversations of a study or of a self-play run: filtered, searched, sorted, read page by page from a key.

Pages begin after the last row of the one before, so that new conversations shift nothing. A key holds the
row's value in the chosen order (empty where it has none), its time and its id.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import (
    Avg,
    Count,
    Exists,
    F,
    FloatField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
)
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.http import QueryDict
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from chatbots.registry import UnknownName
from evaluation.ratings import Dimension
from webapp.conversations.models import Conversation, Turn
from webapp.quality.selectors import left_out, without_read
from webapp.ratings.models import Rating
from webapp.runs.models import SelfPlayRun
from webapp.studies.models import Study

PAGE = 50
_OPENING = 120
_BEFORE_HIT = 40
"""Characters shown before the words that were searched for."""
OLDEST = "oldest"
LONGEST, SHORTEST = "longest", "shortest"
_HIGH, _LOW = "high:", "low:"


def of_study(study: Study) -> QuerySet[Conversation]:
    """Return all conversations of a study, scripted and failed ones too, without its bots' self-play."""
    return Conversation.objects.filter(study=study).exclude(source=Conversation.Source.SELFPLAY)


def of_run(run: SelfPlayRun) -> QuerySet[Conversation]:
    """Return the conversations of a self-play run."""
    return Conversation.objects.filter(selfplay__run=run).select_related("selfplay")


def beside(conversation: Conversation) -> QuerySet[Conversation]:
    """Return the conversations among which this one is read: its study's, its run's, or itself alone."""
    if conversation.study is not None:
        return of_study(conversation.study)
    if hasattr(conversation, "selfplay"):
        return of_run(conversation.selfplay.run)
    return Conversation.objects.filter(pk=conversation.pk)


@dataclass(frozen=True, slots=True)
class Filters:
    """What to show, and in which order; empty means all, newest first.

    Attributes:
        answer: as it was given to `question`; to the leading dimension where that is empty.
        first: in a self-play run, the bot that begins.
        words: what a turn or a rater's comment must contain, upper and lower case alike.
        without: names of flags; conversations of people with one of them are left out.
        sort: `oldest`, `longest`, `shortest`, or `high:` or `low:` with a dimension's key.
    """

    bot: str = ""
    state: str = ""
    rated: str = ""
    answer: str = ""
    question: str = ""
    first: str = ""
    words: str = ""
    sort: str = ""
    synthetic: bool = False
    without: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: QueryDict) -> Filters:
        """Read from an address; what is not understood is left out."""
        state = query.get("state", "")
        answer = query.get("answer", "")
        try:
            float(answer.replace("−", "-"))
        except ValueError:
            answer = ""
        sort = query.get("sort", "")
        is_order = sort in (OLDEST, LONGEST, SHORTEST) or sort.startswith((_HIGH, _LOW))
        return cls(
            bot=query.get("bot", ""),
            state=state if state in Conversation.State.values else "",
            rated=query.get("rated", "") if query.get("rated") in ("yes", "no") else "",
            answer=answer,
            question=query.get("question", ""),
            first=query.get("first", ""),
            words=" ".join(query.get("words", "").replace("\x00", "").split())[:200],
            sort=sort if is_order else "",
            synthetic=query.get("synthetic") == "1",
            without=_flags(query),
        )

    def query(self) -> str:
        """Return the address part that keeps these filters."""
        return urlencode(self.query_pairs(), safe=",")

    def query_pairs(self) -> list[tuple[str, str]]:
        """Return the filters that are set, by their names in an address."""
        found = [
            ("bot", self.bot),
            ("state", self.state),
            ("rated", self.rated),
            ("answer", self.answer),
            ("question", self.question),
            ("first", self.first),
            ("words", self.words),
            ("sort", self.sort),
            ("synthetic", "1" if self.synthetic else ""),
            ("without", ",".join(self.without)),
        ]
        return [(key, value) for key, value in found if value]

    @property
    def narrows(self) -> bool:
        """Whether anything is filtered out; an order alone leaves nothing out."""
        orders = {"sort", "synthetic", "question"}
        return bool({key for key, _value in self.query_pairs()} - orders)

    def asked(self, dimensions: Sequence[Dimension]) -> Dimension | None:
        """Return the dimension that `answer` is an answer to; None without dimensions."""
        leading = next(iter(dimensions), None)
        return next((d for d in dimensions if d.key == self.question), leading)

    def apply(self, rows: QuerySet[Conversation], dimensions: Sequence[Dimension]) -> Listing:
        """Return the rows that pass, in their order.

        Args:
            dimensions: of the study, the leading one first; none for a self-play run.
        """
        if self.bot:
            rows = rows.filter(bot__bot_id=self.bot)
        if self.first:
            alone = Q(selfplay__partner_bot_id="", selfplay__bot_id=self.first)
            rows = rows.filter(alone | Q(selfplay__partner_bot_id=self.first))
        if self.state:
            rows = rows.filter(state=self.state)
        if not self.synthetic:
            rows = rows.filter(is_synthetic=False)
        rows = rows.filter(left_out(None, self.without))
        ratings = Rating.objects.filter(conversation=OuterRef("pk"))
        if self.rated == "yes":
            rows = rows.filter(Exists(ratings))
        elif self.rated == "no":
            rows = rows.filter(~Exists(ratings))
        asked = self.asked(dimensions)
        if self.answer and asked is not None:
            value = float(self.answer.replace("−", "-"))
            exact: float | int = int(value) if value.is_integer() else value
            rows = rows.filter(Exists(ratings.filter(**{f"answers__{asked.key}": exact})))
        if self.words:
            turns = Turn.objects.filter(conversation=OuterRef("pk"), text__icontains=self.words)
            rows = rows.filter(
                Exists(turns) | Exists(ratings.filter(comment__icontains=self.words))
            )
        return self._ordered(rows, dimensions)

    def _ordered(self, rows: QuerySet[Conversation], dimensions: Sequence[Dimension]) -> Listing:
        by_key = {dimension.key: dimension for dimension in dimensions}
        direction, _colon, key = self.sort.partition(":")
        if self.sort in (LONGEST, SHORTEST):
            rows = rows.annotate(at=Cast("n_exchanges", FloatField()))
            return Listing(rows, falling=self.sort == LONGEST)
        if key in by_key:
            means = (
                Rating.objects.filter(conversation=OuterRef("pk"))
                .order_by()
                .values("conversation")
                .annotate(mean=Avg(Cast(KT(f"answers__{key}"), FloatField())))
                .values("mean")
            )
            rows = rows.annotate(at=Subquery(means, output_field=FloatField()))
            return Listing(rows, falling=direction == "high", dimension=by_key[key])
        rows = rows.annotate(at=Value(None, output_field=FloatField()))
        return Listing(rows, by_value=False, newest_first=self.sort != OLDEST)


def _flags(query: QueryDict) -> tuple[str, ...]:
    try:
        return without_read(",".join(query.getlist("without")))
    except UnknownName:  # pages refuse such an address
        return ()


def orders(dimensions: Sequence[Dimension]) -> list[tuple[str, str]]:
    """Return the orders that a reader may choose, each as its value in an address and its name."""
    found = [
        ("", _("newest first")),
        (OLDEST, _("oldest first")),
        (LONGEST, _("longest first")),
        (SHORTEST, _("shortest first")),
    ]
    for dimension in dimensions:
        title = dimension.title
        found.append((f"{_LOW}{dimension.key}", _("{title}, lowest first").format(title=title)))
        found.append((f"{_HIGH}{dimension.key}", _("{title}, highest first").format(title=title)))
    return found


@dataclass(frozen=True, slots=True)
class Listing:
    """Filtered conversations in an order.

    Attributes:
        rows: annotated with `at`, the value they are sorted by; those without one come last.
        by_value: whether there is such a value; else the order is that of time.
        falling: whether the highest value comes first.
        newest_first: which of two with the same value comes first.
        dimension: the rating that they are sorted by, if any.
    """

    rows: QuerySet[Conversation]
    by_value: bool = True
    falling: bool = True
    newest_first: bool = True
    dimension: Dimension | None = None

    def ordered(self, *, backwards: bool = False) -> QuerySet[Conversation]:
        """Return the rows in their order, or in the opposite one."""
        sign = "-" if self.newest_first != backwards else ""
        by_time = (f"{sign}created_at", f"{sign}pk")
        if not self.by_value:
            return self.rows.order_by(*by_time)
        nulls = {"nulls_first": True} if backwards else {"nulls_last": True}
        at = F("at")
        value = at.desc(**nulls) if self.falling != backwards else at.asc(**nulls)
        return self.rows.order_by(value, *by_time)

    def after(self, key: Key) -> QuerySet[Conversation]:
        """Return the rows behind a key, in their order."""
        return self.ordered().filter(self._behind(key))

    def before(self, key: Key) -> QuerySet[Conversation]:
        """Return the rows before a key, the nearest first."""
        rows = self.ordered(backwards=True)
        return rows.exclude(self._behind(key)).exclude(pk=key.pk)

    def key_of(self, pk: UUID) -> Key | None:
        """Return the key of a row of this listing; None for one that does not pass the filters."""
        found = self.rows.filter(pk=pk).first()
        return Key(found.at, found.created_at, found.pk) if found else None  # type: ignore[attr-defined]

    def _behind(self, key: Key) -> Q:
        side = "lt" if self.newest_first else "gt"
        later = Q(**{f"created_at__{side}": key.created_at}) | Q(
            **{"created_at": key.created_at, f"pk__{side}": key.pk}
        )
        if not self.by_value:
            return later
        if key.at is None:
            return Q(at__isnull=True) & later
        beyond = Q(**{f"at__{'lt' if self.falling else 'gt'}": key.at})
        return beyond | Q(at__isnull=True) | (Q(at=key.at) & later)


@dataclass(frozen=True, slots=True)
class Key:
    """The place of a row in a listing."""

    at: float | None
    created_at: datetime
    pk: UUID

    def __str__(self) -> str:
        return f"{'' if self.at is None else repr(self.at)}~{self.created_at.isoformat()}~{self.pk}"

    @classmethod
    def read(cls, text: str) -> Key | None:
        """Return the key that an address names; None for what is none."""
        try:
            at, when, pk = text.split("~")
            created_at = parse_datetime(when)
            value = float(at) if at else None
            return None if created_at is None else cls(value, created_at, UUID(pk))
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of text; `hit` is what was searched for, empty where nothing was."""

    before: str
    hit: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One conversation of the list; `rating` is the mean of the dimension that the page shows."""

    conversation: Conversation
    excerpt: Excerpt
    n_ratings: int
    rating: float | None
    votes_up: int
    votes_down: int


@dataclass(frozen=True, slots=True)
class Page:
    """One page, with the key that the next one begins after, and how many rows there are in all."""

    rows: list[Row]
    after: str
    total: int


def page_of(
    listing: Listing,
    shown: Dimension | None = None,
    *,
    words: str = "",
    after: str = "",
    size: int = PAGE,
) -> Page:
    """Read the next `size` conversations after a key (empty: from the first one).

    Args:
        shown: the dimension whose mean each row tells.
        words: what was searched for; each row tells where it was found.
    """
    key = Key.read(after)
    rows = listing.after(key) if key else listing.ordered()
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
    excerpts = _excerpts(ids, words)
    answers: dict[UUID, list[float]] = {}
    counts: dict[UUID, int] = {}
    for conversation_id, given in Rating.objects.filter(conversation__in=ids).values_list(
        "conversation", "answers"
    ):
        counts[conversation_id] = counts.get(conversation_id, 0) + 1
        value = given.get(shown.key) if shown is not None else None
        if isinstance(value, int | float):
            answers.setdefault(conversation_id, []).append(value)
    last = found[-1] if more else None
    return Page(
        rows=[
            Row(
                conversation=conversation,
                excerpt=excerpts.get(conversation.pk, Excerpt("")),
                n_ratings=counts.get(conversation.pk, 0),
                rating=_mean(answers.get(conversation.pk)),
                votes_up=votes.get(conversation.pk, {}).get("up", 0),
                votes_down=votes.get(conversation.pk, {}).get("down", 0),
            )
            for conversation in found
        ],
        after=str(Key(last.at, last.created_at, last.pk)) if last else "",  # type: ignore[attr-defined]
        total=listing.rows.count(),
    )


def _excerpts(ids: Sequence[UUID], words: str) -> dict[UUID, Excerpt]:
    """Return for each conversation where the words were first found, or how it begins."""
    turns = Turn.objects.filter(conversation__in=ids).order_by("conversation", "index")
    turns = turns.filter(text__icontains=words) if words else turns.filter(index__lt=2)
    found: dict[UUID, Excerpt] = {}
    for conversation_id, text in turns.values_list("conversation", "text"):
        if conversation_id not in found and text:
            found[conversation_id] = _excerpt(text, words)
    if words:
        comments = Rating.objects.filter(conversation__in=ids, comment__icontains=words)
        for conversation_id, text in comments.values_list("conversation", "comment"):
            found.setdefault(conversation_id, _excerpt(text, words))
    return found


def _excerpt(text: str, words: str) -> Excerpt:
    hit = re.search(re.escape(words), text, re.IGNORECASE) if words else None
    if hit is None:
        return Excerpt(text[:_OPENING])
    start = max(0, hit.start() - _BEFORE_HIT)
    return Excerpt(
        ("…" if start else "") + text[start : hit.start()],
        hit.group(),
        text[hit.end() : hit.end() + _OPENING - _BEFORE_HIT],
    )


def neighbours(listing: Listing, conversation: Conversation) -> tuple[UUID | None, UUID | None]:
    """Return the ids of the conversations before and after this one in a listing."""
    key = listing.key_of(conversation.pk)
    if key is None:
        return None, None
    before = listing.before(key).values_list("pk", flat=True).first()
    following = listing.after(key).values_list("pk", flat=True).first()
    return before, following


def _mean(values: list[float] | None) -> float | None:
    return sum(values) / len(values) if values else None
