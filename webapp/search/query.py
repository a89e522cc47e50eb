"""Query of a search line, parsed and validated.

Pages, exports and saved searches share `SearchQuery`; `matching` selects its
conversations.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import (
    Case,
    CharField,
    Exists,
    F,
    FilteredRelation,
    FloatField,
    OuterRef,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.fields.json import KT
from django.db.models.functions import MD5, Cast, Concat, Replace
from django.utils.translation import gettext as _

from chatbots.text import nearest_names
from webapp.conversations.models import Conversation, ReplyMark, ReplyReport
from webapp.ratings.flag_store.models import TaskFlag
from webapp.ratings.flags.base import flag_kinds
from webapp.ratings.models import Rating
from webapp.search.fields import (
    EXAMPLE,
    TELLING,
    Number,
    Numbers,
    QueryTerm,
    Unreadable,
    bounds_of,
    days_of,
    is_within,
    terms_of,
)
from webapp.search.models import Figure, Note, Series
from webapp.search.text_search import SearchWords, words_within
from webapp.studies.models import Study
from webapp.studies.selectors import condition_names, in_condition

_NEVER = Q(pk__in=[])
_IS: dict[str, Callable[[], Q]] = {
    "commented": lambda: Q(Exists(Rating.objects.filter(conversation=OuterRef("pk")).exclude(comment=""))),
    "scripted": lambda: Q(is_synthetic=True),
    "starred": lambda: _has_note(kind=Note.Kind.STAR),
    "tagged": lambda: _has_note(kind=Note.Kind.TAG),
    "noted": lambda: _has_note(kind=Note.Kind.NOTE),
    "reported": lambda: Q(pk__in=ReplyReport.objects.filter(turn__isnull=False).values("turn__conversation")),
    "filtered": lambda: Q(pk__in=ReplyMark.objects.values("turn__conversation")),
}
CHOICES = ("bot", "condition", "state", "source", "rater", "flag", "tag", "is", "has", "first", "id")
MOST = 10_000
"""Maximum of `limit:` and `sample:`, whose conversations are listed one by one in the query."""
_NEAR = 70
_FEW = 12
"""Maximum number of names that an error about an unknown name lists completely."""
ORDERS = ("sort", "limit", "sample", "seed")


def _has_note(**conditions: str) -> Q:
    return Q(pk__in=Note.objects.filter(**conditions).values("conversation"))


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """Parsed query of a search line.

    Attributes:
        condition: on conversations.
        words: search words, for highlighting hits.
        sort: number to sort by; None: by time.
        is_falling: True for a descending order.
        limit: maximum number; None: all.
        sample: size of a random sample; None: no sampling.
        seed: seed of the sample.
        narrows: True if the query excludes anything.
        numbers: fields named in the query, in order.
    """

    condition: Q = field(default_factory=Q)
    words: tuple[SearchWords, ...] = ()
    sort: Number | None = None
    is_falling: bool = True
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    narrows: bool = False
    numbers: tuple[Number, ...] = ()

    def matching(self, rows: QuerySet[Conversation]) -> QuerySet[Conversation]:
        """Return the matching conversations, or a sample of them."""
        fitting = rows.filter(self.condition)
        if self.sample is None:
            return fitting
        drawn_ids = fitting.annotate(lot=_lot(self.seed)).order_by("lot", "pk").values("pk")
        return rows.filter(pk__in=list(drawn_ids.values_list("pk", flat=True)[: self.sample]))


def _lot(seed: int) -> Any:
    """Return a random order by id and seed, equal in every database."""
    text = Replace(Cast("pk", CharField()), Value("-"), Value(""))
    return MD5(Concat(text, Value(f"/{seed}")))


def parse_query(line: str, numbers: Numbers, *, bots: Collection[str] = (), study: Study | None = None) -> SearchQuery:
    """Parse a query.

    Args:
        numbers: available fields.
        bots: ids of available bots.
        study: study of the conversations; None for a run.

    Raises:
        Unreadable: with what is wrong and a line that would work.
    """
    reader = _Reader(numbers, bots, study)
    try:
        for term in terms_of(line):
            reader.take(term)
    except Unreadable as error:
        if error.example != EXAMPLE:
            raise
        raise Unreadable(error.reason, example_of(numbers)) from None
    return reader.build_query()


def example_of(numbers: Numbers) -> str:
    """Return an example query that uses available fields only."""
    measured = numbers.measured()
    rating = next((number for number in measured if number.kind == Series.Kind.RATING), None)
    return " ".join(
        [
            *(f"{name}>0.6" for name in (TELLING,) if name in {number.name for number in measured}),
            f"sort:{rating.name if rating is not None else 'exchanges'}",
            'limit:20 "exact words"',
        ]
    )


class _Reader:
    """Parser of one term after another."""

    def __init__(self, numbers: Numbers, bots: Collection[str], study: Study | None) -> None:
        self.numbers = numbers
        self.bots = bots
        self.of_study = {"study": study} if study is not None else {}
        self.study = study
        self.conditions: list[Q] = []
        self.words: list[SearchWords] = []
        self.spoken_of: dict[str, Number] = {}
        self.sort: Number | None = None
        self.is_falling = True
        self.orders: dict[str, int] = {}

    def take(self, term: QueryTerm) -> None:
        """Read one term."""
        if not term.field:
            condition = self._match_words(term)
        elif term.field in ORDERS:
            self._order(term)
            return
        elif term.field in CHOICES:
            condition = self._choice(term)
        else:
            condition = self._number(term)
        self.conditions.append(~condition if term.is_not else condition)

    def build_query(self) -> SearchQuery:
        """Return the parsed query."""
        condition = Q()
        for term_condition in self.conditions:
            condition &= term_condition
        return SearchQuery(
            condition=condition,
            words=tuple(self.words),
            sort=self.sort,
            is_falling=self.is_falling,
            limit=self.orders.get("limit"),
            sample=self.orders.get("sample"),
            seed=self.orders.get("seed", 0),
            narrows=bool(self.conditions) or "limit" in self.orders or "sample" in self.orders,
            numbers=tuple(self.spoken_of.values()),
        )

    def _match_words(self, term: QueryTerm) -> Q:
        words = SearchWords(term.value, term.is_exact)
        if not words.parts:
            raise Unreadable(
                _("“{text}” contains no letter or digit to search for.").format(text=term.value), '"100 %"'
            )
        if not term.is_not:
            self.words.append(words)
        return words_within(words)

    def _choice(self, term: QueryTerm) -> Q:
        if term.sign != ":":
            raise Unreadable(
                _("“{field}” has no order, so “{sign}” cannot be used with it.").format(
                    field=term.field, sign=term.sign
                ),
                f"{term.field}:{term.value}",
            )
        make = getattr(self, f"_by_{term.field}")
        condition = Q()
        values = dict.fromkeys([*filter(None, term.value.split(",")), *self._unsplit_values(term)])
        for value in values:
            condition |= make(value)
        return condition

    def _unsplit_values(self, term: QueryTerm) -> list[str]:
        """Return the value unsplit, since names of raters may contain commas."""
        return [term.value] if term.field == "rater" else []

    def _by_bot(self, value: str) -> Q:
        if self.bots and value not in self.bots:
            _known(value, self.bots, _("There is no bot “{name}” here."), "bot:{}")
        return Q(bot__bot_id=value)

    def _by_condition(self, value: str) -> Q:
        names = condition_names(self.study) if self.study is not None else []
        if not names:
            raise Unreadable(_("These conversations have no conditions."), EXAMPLE)
        factor, _sign, level = _known(value, names, _("There is no condition “{name}”."), "condition:{}").partition("=")
        return in_condition({factor: level})

    def _by_first(self, value: str) -> Q:
        alone = Q(selfplay__partner_bot_id="", selfplay__bot_id=value)
        return alone | Q(selfplay__partner_bot_id=value)

    def _by_state(self, value: str) -> Q:
        states = Conversation.State.values
        return Q(state=_known(value, states, _("There is no state “{name}”."), "state:{}"))

    def _by_source(self, value: str) -> Q:
        sources = Conversation.Source.values
        return Q(source=_known(value, sources, _("There is no source “{name}”."), "source:{}"))

    def _by_is(self, value: str) -> Q:
        _known(value, ("rated", "unrated", "voted", *_IS), _("“is:{name}” is not a filter."), "is:{}")
        if value in _IS:
            return _IS[value]()
        if value == "voted":
            return self._in_index(self.numbers.get("count.up"), {"gt": 0}) | self._in_index(
                self.numbers.get("count.down"), {"gt": 0}
            )
        rated = self._in_index(self.numbers.get("count.ratings"), {"gt": 0})
        return rated if value == "rated" else ~rated

    def _by_has(self, value: str) -> Q:
        number = self._find_number(QueryTerm(value, "has", ":"), value, "has:{}")
        if number.computed is not None:
            return number.computed.defined
        return Q() if number.column else self._in_index(number, {})

    def _by_flag(self, value: str) -> Q:
        _known(value, flag_kinds.names(), _("There is no flag “{name}”."), "flag:{}")
        return Q(participant__in=TaskFlag.objects.filter(name=value).values("participant"))

    def _by_tag(self, value: str) -> Q:
        return _has_note(kind=Note.Kind.TAG, text=value.lower())

    def _by_rater(self, value: str) -> Q:
        condition = Q(rater=value)
        with contextlib.suppress(ValueError):
            condition |= Q(participant=uuid.UUID(value))
        return Q(pk__in=Rating.objects.filter(condition).values("conversation"))

    def _by_id(self, value: str) -> Q:
        try:
            low, high = (uuid.UUID(value.replace("-", "").ljust(32, last)) for last in "0f")
        except ValueError:
            raise Unreadable(_("No conversation id starts with “{text}”.").format(text=value), "id:7c1f") from None
        return Q(pk__gte=low, pk__lte=high)

    def _find_number(self, term: QueryTerm, name: str, example: str) -> Number:
        number = self.numbers.get(name)
        if number is not None:
            # A conversation with a value is listed with it, as is one in a range.
            self.spoken_of.setdefault(number.name, number)
            return number
        # Only numeric fields can be sorted or compared.
        takes_words = term.sign == ":" and term.field not in (*ORDERS, "has")
        keywords = (*CHOICES, *ORDERS) if takes_words else ()
        names = [*keywords, *self.numbers.names()]
        near = nearest_names(name, [candidate for candidate in names if _is_like(name, candidate)], least=_NEAR)
        message = _("There is no field “{name}” here.").format(name=name)
        if near:
            message += " " + _("Did you mean {names}?").format(names=_listed(near))
            raise Unreadable(message, example.format(near[0]))
        message += " " + _("To search for the words themselves, put them in quotes.")
        raise Unreadable(message, f'"{term}"')

    def _number(self, term: QueryTerm) -> Q:
        name = term.field.removeprefix("any.")
        written = f"{term.sign}{term.value}"
        number = self._find_number(term, name, "{}" + written)
        computed = number.computed
        if computed is not None and computed.is_time and not term.field.startswith("any."):
            return is_within(computed, days_of(term))
        bounds = bounds_of(term)
        if term.field.startswith("any."):
            return self._any(term, number, bounds)
        if number.column:
            return Q(**{f"{number.column}__{sign}": value for sign, value in bounds.items()})
        if computed is not None:
            return is_within(computed, bounds)
        return self._in_index(number, bounds)

    def _in_index(self, number: Number | None, bounds: dict[str, float]) -> Q:
        """Return the condition that an indexed number is within the bounds."""
        if number is None or number.series is None:
            return _NEVER
        figures = Figure.objects.filter(
            **self.of_study, series=number.series, **{f"value__{sign}": value for sign, value in bounds.items()}
        )
        return Q(pk__in=figures.values("conversation"))

    def _any(self, term: QueryTerm, number: Number, bounds: dict[str, float]) -> Q:
        """Return the condition that some rater's answer is within the bounds."""
        if number.kind != "rating":
            raise Unreadable(
                _("“any.” searches the ratings of single raters, but “{name}” is not a rating.").format(
                    name=number.name
                ),
                str(term).replace("any.", ""),
            )
        answers = Rating.objects.filter(conversation=OuterRef("pk"), answers__has_key=number.name).annotate(
            answer=Cast(KT(f"answers__{number.name}"), FloatField())
        )
        return Q(Exists(answers.filter(**{f"answer__{sign}": v for sign, v in bounds.items()})))

    def _order(self, term: QueryTerm) -> None:
        if term.is_not or term.sign != ":":
            raise Unreadable(_("“{field}” needs a colon and a value.").format(field=term.field), EXAMPLE)
        if term.field == "sort":
            name = term.value.removeprefix("-").lower()
            if name in ("newest", "oldest"):
                self.sort, self.is_falling = None, (name == "newest") != (term.value[0] == "-")
            else:
                self.sort = self._find_number(term, name, "sort:{}")
                self.is_falling = term.value.startswith("-")
            return
        lowest = 0 if term.field == "seed" else 1
        if not term.value.isascii() or not term.value.isdigit() or len(term.value) > 9:
            raise Unreadable(_("“{term}” needs a whole number.").format(term=term), f"{term.field}:20")
        if int(term.value) < lowest:
            raise Unreadable(_("“{term}” would show nothing.").format(term=term), f"{term.field}:20")
        if term.field != "seed" and int(term.value) > MOST:
            raise Unreadable(_("“{term}”: the maximum is {most}.").format(term=term, most=MOST), f"{term.field}:{MOST}")
        self.orders[term.field] = int(term.value)


def _known(name: str, names: Iterable[str], template: str, example: str) -> str:
    names = list(names)
    if name in names:
        return name
    near = nearest_names(name, names, least=_NEAR)
    first = (near or sorted(names))[:1]
    message = template.format(name=name)
    if len(names) <= _FEW or not near:
        listed = sorted(names)[:_FEW]
        message += " " + _("Available: {names}.").format(names=_listed(listed))
    else:
        message += " " + _("Did you mean {names}?").format(names=_listed(near))
    raise Unreadable(message, example.format(first[0]) if first else EXAMPLE)


def _is_like(name: str, candidate: str) -> bool:
    """Return True if two names have similar lengths.

    Short names occur within many long ones by chance.
    """
    short_name = candidate.rpartition(".")[2]
    return len(short_name) <= 2 * len(name) + 2 or name.lower() in short_name.lower()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def sorted_rows(rows: QuerySet[Conversation], number: Number, study: Study | None = None) -> QuerySet[Conversation]:
    """Annotate conversations with `at`, the value of a number or None.

    Args:
        study: of all of them; with it the database can walk its index.
    """
    if number.column:
        return rows.annotate(at=Cast(number.column, FloatField()))
    if number.computed is not None:
        return rows.annotate(at=Case(When(number.computed.defined, then=number.computed.value())))
    condition = Q(figures__series=number.series or 0)
    if study is not None:
        condition &= Q(figures__study=study)
    relation = FilteredRelation("figures", condition=condition)
    return rows.annotate(sorted_by=relation, at=F("sorted_by__value"))
