"""Pagination of the conversations that match a query.

A page starts after the key of the previous page's last row, so that new conversations shift nothing. A key holds
the row's value in the chosen order (empty where it has none), its time and its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import Case, Count, Q, QuerySet, When
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from evaluation.data.ratings import RatingDimension
from webapp.conversations.models import Conversation, Turn
from webapp.jobs.models import SelfPlayRun
from webapp.jobs.selectors.fits import fit_leading_id
from webapp.ratings.flag_selectors import left_out
from webapp.ratings.models import Rating
from webapp.ratings.selectors import ranking_dimensions, study_bots
from webapp.search.fields import Number, Numbers
from webapp.search.models import Figure, Note
from webapp.search.query import SearchQuery, parse_query, sorted_rows
from webapp.search.text_search import ExcerptPiece, SearchWords, excerpt_of, opening_of
from webapp.studies.models import Study

PAGE = 50
MANY = 2000
"""Number of conversations above which the first page is found by walking the index of the sort key. Fewer are sorted
faster than found among all others, and the database's own estimate is often far off.
"""


Source = Study | SelfPlayRun
"""Whose conversations are read."""


def conversations_of_study(study: Study) -> QuerySet[Conversation]:
    """Return a study's conversations, with scripted and failed, without simulated ones."""
    return study.conversations.exclude(source__in=Conversation.WITHOUT_PEOPLE)


def conversations_of_run(run: SelfPlayRun) -> QuerySet[Conversation]:
    """Return the conversations of a self-play run."""
    return Conversation.objects.filter(selfplay__run=run).select_related("selfplay")


def conversations_of_source(source: Source) -> QuerySet[Conversation]:
    """Return the conversations of a study or run."""
    return conversations_of_study(source) if isinstance(source, Study) else conversations_of_run(source)


def study_numbers(study: Study, dimensions: Sequence[RatingDimension] | None = None) -> Numbers:
    """Return the numeric fields of a study's conversations, the one that bots are ranked by first.

    Args:
        dimensions: `ranking_dimensions` of the study, if already known.
    """
    return Numbers(ranking_dimensions(study) if dimensions is None else dimensions, fit_leading_id(study))


def filter_conversations(
    rows: QuerySet[Conversation], *, synthetic: bool, excluded_flags: Sequence[str] = ()
) -> QuerySet[Conversation]:
    """Filter conversations as the study's pages count them.

    Args:
        synthetic: also include those of scripted participants.
        excluded_flags: names of flags; conversations of people with one of them are left out.
    """
    included = rows.filter(left_out(None, excluded_flags))
    return included if synthetic else included.filter(is_synthetic=False)


def all_and_scripted(rows: QuerySet[Conversation]) -> tuple[int, int]:
    """Return the number of conversations, and of scripted ones among them."""
    counts = rows.aggregate(n=Count("pk"), scripted=Count("pk", filter=Q(is_synthetic=True)))
    return counts["n"], counts["scripted"]


@dataclass(frozen=True, slots=True)
class PageKey:
    """Position key of a row in a listing."""

    sort_value: float | datetime | None
    created_at: datetime
    pk: UUID

    def __str__(self) -> str:
        sort_value = self.sort_value.isoformat() if isinstance(self.sort_value, datetime) else self.sort_value
        return f"{'' if sort_value is None else sort_value}~{self.created_at.isoformat()}~{self.pk}"

    @classmethod
    def read(cls, text: str) -> PageKey | None:
        """Parse a key from an address; None if invalid."""
        try:
            sort_text, created_text, pk = text.split("~")
            created_at = parse_datetime(created_text)
            value = (parse_datetime(sort_text) or float(sort_text)) if sort_text else None
            is_naive = isinstance(value, datetime) and timezone.is_naive(value)
            return None if created_at is None or is_naive else cls(value, created_at, UUID(pk))
        except ValueError:
            return None


class Listing:
    """Conversations that match a query, in its order.

    With a value to sort by, the rows have it as `at`, and those without one come last; of two with the same value
    the newer one comes first. Rows with a value are queried first, and the others only if needed, so that the database
    can walk its index instead of sorting all rows.

    Args:
        study: study of all rows, whose index is walked if many match.
    """

    def __init__(self, rows: QuerySet[Conversation], query: SearchQuery, study: Study | None = None) -> None:
        self.words = query.words
        self.number = query.sort
        self._falling = query.is_falling
        self._newest_first = query.is_falling if self.number is None else True
        self._fitting = query.matching(rows)
        self._study = study
        self._n: int | None = None
        if query.limit is not None:
            first = [row.pk for row in self.take(None, query.limit)]
            self._fitting = self._fitting.filter(pk__in=first)
            self._n = len(first)

    @property
    def rows(self) -> QuerySet[Conversation]:
        """The conversations, with their value as `at`, in no order."""
        if self.number is None:
            return self._fitting
        walked = self._study if self._study is not None and self.count() >= MANY else None
        return sorted_rows(self._fitting, self.number, walked)

    @property
    def fitting(self) -> QuerySet[Conversation]:
        """The conversations, in no order."""
        return self._fitting.order_by()

    def count(self) -> int:
        """Return the number of fitting conversations; the database is queried once."""
        if self._n is None:
            self._n = self._fitting.count()
        return self._n

    def take(self, key: PageKey | None, n: int, *, backwards: bool = False) -> list[Conversation]:
        """Return `n` rows after a key (None: from the start), in order.

        Args:
            backwards: the rows before the key, nearest first.
        """
        selected: list[Conversation] = []
        for rows in self._parts(key, backwards):
            selected += rows.select_related("bot")[: n - len(selected)]
            if len(selected) >= n:
                break
        return selected

    def number_of(self, key: PageKey) -> int:
        """Return the position of a key, from 1."""
        return 1 + sum(rows.order_by().count() for rows in self._parts(key, True))

    def key_of(self, row: Conversation) -> PageKey:
        """Return the key of one of the listing's rows."""
        sort_value = None if self.number is None else row.at  # type: ignore[attr-defined]
        return PageKey(sort_value, row.created_at, row.pk)

    def find(self, pk: UUID) -> PageKey | None:
        """Return the key of a conversation; None if it does not match."""
        row = self.rows.filter(pk=pk).first()
        return self.key_of(row) if row else None

    def _parts(self, key: PageKey | None, backwards: bool) -> Iterator[QuerySet[Conversation]]:
        """Yield rows with a value, then those without, starting at the key."""
        if key is not None and key.sort_value is not None and self.number is not None:
            is_of_this_order = isinstance(key.sort_value, datetime) == self.number.is_time
            key = key if is_of_this_order else None
        newest_first = self._newest_first != backwards
        sign, side = ("-", "lt") if newest_first else ("", "gt")
        by_time = (f"{sign}created_at", f"{sign}pk")
        later = Q()
        if key is not None:
            later = Q(**{f"created_at__{side}": key.created_at}) | Q(
                **{"created_at": key.created_at, f"pk__{side}": key.pk}
            )
        if self.number is None:
            yield self._fitting.filter(later).order_by(*by_time)
            return
        falling = self._falling != backwards
        computed = self.number.computed
        has_value = computed.defined if computed is not None else Q(at__isnull=False)
        valued = self.rows.filter(has_value)
        valued = valued.order_by("-at" if falling else "at", *by_time)
        if key is not None and key.sort_value is not None:
            beyond = Q(**{f"at__{'lt' if falling else 'gt'}": key.sort_value})
            valued = valued.filter(beyond | (Q(at=key.sort_value) & later))
        unvalued = self.rows.filter(~has_value).order_by(*by_time)
        if key is not None and key.sort_value is None:
            unvalued = unvalued.filter(later)
        # Rows without a value come last: a key without one follows all rows with one, and a key with one precedes them.
        if not backwards and (key is None or key.sort_value is not None):
            yield valued
        if not backwards or (key is not None and key.sort_value is None):
            yield unvalued
        if backwards:
            yield valued


@dataclass(frozen=True, slots=True)
class ListedConversation:
    """Conversation in the list.

    Attributes:
        excerpt: text around the hit, or the first turn of at least four words.
        figures: the values of the chosen columns, in their order; None where one is undefined.
        tags: that readers left.
        is_starred: whether a reader starred it.
    """

    conversation: Conversation
    excerpt: list[ExcerptPiece]
    figures: list[tuple[Number, float | datetime | None]] = field(default_factory=list)
    tags: tuple[str, ...] = ()
    is_starred: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Page of a listing.

    Attributes:
        after: key after which the next page starts; empty on the last page.
        total: total number of rows.
        following: the first conversation of the next page.
    """

    rows: list[ListedConversation]
    after: str
    total: int
    following: UUID | None = None


def page_of(
    listing: Listing, columns: Sequence[Number] = (), *, after: str = "", total: int | None = None, size: int = PAGE
) -> Page:
    """Return the next `size` conversations after a key.

    This takes at most eight queries.

    Args:
        columns: numbers shown in each row.
        total: total number, if already known.
    """
    conversations = listing.take(PageKey.read(after), size + 1)
    rest, conversations = conversations[size:], conversations[:size]
    ids = [conversation.pk for conversation in conversations]
    excerpts = _excerpts(ids, listing.words)
    values = _values(ids, columns)
    tags, starred = _marks(ids)
    return Page(
        rows=[
            ListedConversation(
                row,
                excerpts.get(row.pk, []),
                [
                    (column, getattr(row, column.column) if column.column else values.get((row.pk, column)))
                    for column in columns
                ],
                tuple(tags.get(row.pk, ())),
                row.pk in starred,
            )
            for row in conversations
        ],
        after=str(listing.key_of(conversations[-1])) if rest else "",
        total=listing.count() if total is None else total,
        following=rest[0].pk if rest else None,
    )


def _values(ids: Sequence[UUID], columns: Sequence[Number]) -> dict[tuple[UUID, Number], float | datetime | None]:
    by_series = {column.series: column for column in columns if column.series is not None}
    figures = Figure.objects.filter(conversation__in=ids, series__in=list(by_series))
    values_by_key: dict[tuple[UUID, Number], float | datetime | None] = {
        (conversation_id, by_series[series_id]): value
        for conversation_id, series_id, value in figures.values_list("conversation_id", "series_id", "value")
    }
    computed = [column for column in columns if column.computed is not None]
    if computed:
        rows = Conversation.objects.filter(pk__in=ids).annotate(
            **{
                f"of_{column.name}": Case(When(column.computed.defined, then=column.computed.value()))
                for column in computed
                if column.computed
            }
        )
        for pk, *values in rows.values_list("pk", *(f"of_{column.name}" for column in computed)):
            values_by_key |= {(pk, column): value for column, value in zip(computed, values, strict=True)}
    return values_by_key


def _marks(ids: Sequence[UUID]) -> tuple[dict[UUID, list[str]], set[UUID]]:
    """Return the tags of conversations, and those that are starred."""
    tags: dict[UUID, list[str]] = {}
    starred = set()
    notes = Note.objects.filter(conversation__in=ids).exclude(kind=Note.Kind.NOTE).order_by("pk")
    for conversation_id, kind, text in notes.values_list("conversation_id", "kind", "text"):
        if kind == Note.Kind.STAR:
            starred.add(conversation_id)
        else:
            tags.setdefault(conversation_id, []).append(text)
    return tags, starred


def _excerpts(ids: Sequence[UUID], words: Sequence[SearchWords]) -> dict[UUID, list[ExcerptPiece]]:
    """Return each conversation's first hit, or its beginning."""
    turns = Turn.objects.filter(conversation__in=ids).order_by("conversation", "index")
    if not words:
        turns = turns.filter(index__lt=4)
    texts: dict[UUID, list[str]] = {}
    excerpts: dict[UUID, list[ExcerptPiece]] = {}
    for conversation_id, text in turns.values_list("conversation", "text"):
        if conversation_id in excerpts or not text:
            continue
        texts.setdefault(conversation_id, []).append(text)
        pieces = excerpt_of(text, words)
        if any(piece.is_hit for piece in pieces):
            excerpts[conversation_id] = pieces
    remaining = [pk for pk in ids if pk not in excerpts] if words else []
    if remaining:
        comments = Rating.objects.filter(conversation__in=remaining).exclude(comment="")
        for conversation_id, text in comments.values_list("conversation", "comment"):
            pieces = excerpt_of(text, words)
            if any(piece.is_hit for piece in pieces):
                excerpts.setdefault(conversation_id, pieces)
    return {pk: excerpt_of(opening_of(turn_texts), ()) for pk, turn_texts in texts.items()} | excerpts


@dataclass(frozen=True, slots=True)
class ListPosition:
    """Position of a conversation in a listing, from 1, with its neighbours."""

    number: int
    before: UUID | None
    following: UUID | None


def position_of(listing: Listing, conversation: Conversation, page: Page | None = None) -> ListPosition | None:
    """Return the position of a conversation; None if it does not match.

    Args:
        page: first page of the listing; its rows need no query.
    """
    on_page = [row.conversation.pk for row in page.rows] if page is not None else []
    if page is not None and conversation.pk in on_page:
        i = on_page.index(conversation.pk)
        beyond = [*on_page, *([page.following] if page.following else [])]
        return ListPosition(i + 1, on_page[i - 1] if i else None, beyond[i + 1] if i + 1 < len(beyond) else None)
    key = listing.find(conversation.pk)
    if key is None:
        return None
    before, following = (listing.take(key, 1, backwards=way) for way in (True, False))
    return ListPosition(
        listing.number_of(key), before[0].pk if before else None, following[0].pk if following else None
    )


def find_conversations(
    source: Source, line: str, *, synthetic: bool = False, excluded_flags: Sequence[str] = ()
) -> QuerySet[Conversation]:
    """Return the conversations that match a query, unordered.

    Args:
        synthetic: scripted participants' too; they take part in samples and limits.
        excluded_flags: names of flags; conversations of people with one of them are left out.

    Raises:
        Unreadable: with the error and a valid example.
    """
    rows, study = conversations_of_source(source), None
    if isinstance(source, Study):
        study = source
        numbers, bots = study_numbers(source), tuple(study_bots(source))
    else:
        numbers, bots = Numbers([]), tuple(source.plan.get("bots", []))
    query = parse_query(line, numbers, bots=bots, study=study)
    return Listing(filter_conversations(rows, synthetic=synthetic, excluded_flags=excluded_flags), query, study).fitting
