"""Search queries and their fields: ratings, metrics, counts and times.

The syntax is that of GitHub, Gmail and Kibana: words, phrases in quotes, `field:value`,
comparisons, ranges with two dots, a minus for "not". `webapp.search.query` decides what its fields and values mean.
Some numbers and times are not indexed; the database computes them on request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import regex
from django.db.models import Case, CharField, Count, F, FloatField, Func, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Cast, Coalesce, NullIf
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from evaluation.data.ratings import RatingDimension
from webapp.jobs.models import MetricVersion
from webapp.jobs.selectors.metrics import metrics_all
from webapp.ratings.flag_store.models import TaskFlag
from webapp.ratings.flags.base import flag_kinds
from webapp.ratings.models import Rating
from webapp.search.models import Series

_PIECE = regex.compile(
    r"""
    (?P<minus>-)?
    (?:
        (?P<field>[A-Za-z_][\w.-]*)
        (?P<sign>>=|<=|:>=|:<=|:>|:<|[:><=≥≤])
        (?:"(?P<quoted_value>[^"]*)"|(?P<value>[^\s"]*))
      | "(?P<phrase>[^"]*)"
      | (?P<word>[^\s"]+)
    )
    (?=\s|$)
    """,
    regex.VERBOSE,
)
_SIGNS = {":>": ">", ":<": "<", ":>=": ">=", ":<=": "<=", "≥": ">=", "≤": "<=", "=": ":"}
_QUOTES = str.maketrans("“”„«»", '"""""')
LONGEST = 1000
TELLING = "self_repetition_bot"
"""Preferred metric for examples, because everyone can judge what a large share of it is."""
EXAMPLE = f'{TELLING}>0.6 sort:quality limit:20 "exact words"'
"""Valid example; `asked_of`, which knows the numbers, returns one with existing fields."""


class Unreadable(ValueError):
    """Error in a query, with an explanation and a valid example."""

    def __init__(self, reason: str, example: str = EXAMPLE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.example = example


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """Term of a query.

    Attributes:
        field: empty for words.
        sign: `:`, `>`, `>=`, `<` or `<=`; empty for words.
        value: the text after the sign, or the words.
        is_exact: True if the words are in quotes.
        is_not: True for a negated term.
    """

    value: str
    field: str = ""
    sign: str = ""
    is_exact: bool = False
    is_not: bool = False

    def __str__(self) -> str:
        minus = "-" if self.is_not else ""
        # A value such as "<b>" would be read as a comparison.
        is_sign = bool(self.sign) and self.value[:1] in ("<", ">", "=")
        quoted = self.is_exact or is_sign or any(sign.isspace() for sign in self.value)
        value = f'"{self.value}"' if quoted else self.value
        return f"{minus}{self.field}{self.sign}{value}"


def terms_of(line: str) -> list[QueryTerm]:
    """Split a query into its terms, in order.

    Raises:
        Unreadable: for unclosed quotes, a sign without a value, or a query that is too long.
    """
    line = line.replace("\x00", "").translate(_QUOTES).strip()
    if len(line) > LONGEST:
        raise Unreadable(_("The search has {n} characters; the maximum is {most}.").format(n=len(line), most=LONGEST))
    terms, position = [], 0
    while position < len(line):
        piece = _PIECE.match(line, position)
        if piece is None:
            raise Unreadable(_refusal(line[position:]))
        terms.append(_term(piece.groupdict(), piece.group()))
        position = piece.end()
        while position < len(line) and line[position].isspace():
            position += 1
    return terms


def line_of(terms: list[QueryTerm]) -> str:
    """Return the query text of these terms."""
    return " ".join(map(str, terms))


def _term(piece: dict[str, str | None], text: str) -> QueryTerm:
    is_not = bool(piece["minus"])
    if piece["phrase"] is not None:
        return QueryTerm(" ".join(piece["phrase"].split()), is_exact=True, is_not=is_not)
    if piece["word"] is not None:
        return QueryTerm(piece["word"], is_not=is_not)
    value = piece["quoted_value"] if piece["quoted_value"] is not None else piece["value"]
    field, sign = str(piece["field"]).lower(), str(piece["sign"])
    if not value:
        raise Unreadable(
            _("“{text}” has no value after “{sign}”.").format(text=text, sign=sign),
            f"{field}{sign}3" if sign in "<>" else EXAMPLE,
        )
    return QueryTerm(value, field, _SIGNS.get(sign, sign), is_not=is_not)


def _refusal(rest: str) -> str:
    if rest.count('"') % 2:
        return _("This quotation mark is not closed: {text}").format(text=rest)
    return _("A space is missing next to the quotation marks: {text}").format(text=rest)


class _Minutes(Func):
    """Minutes between two times, rounded to tenths as displayed."""

    template = "ROUND((EXTRACT(EPOCH FROM (%(expressions)s)) / 60)::numeric, 1)::double precision"
    arg_joiner = " - "
    output_field = FloatField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Return the SQL for SQLite, whose times are texts."""
        template = "ROUND((%(expressions)s) * 1440.0, 1)"
        days = [Func(moment, function="julianday") for moment in self.get_source_expressions()]
        copy = self.copy()
        copy.set_source_expressions(days)
        return copy.as_sql(compiler, connection, template=template, **extra)


def _duration() -> Any:
    return _Minutes(F("ended_at"), F("created_at"))


def _raters() -> Any:
    """Return an expression that counts the raters of the whole conversation."""
    name = Coalesce(NullIf("rater", Value("")), Cast("participant", CharField()))
    ratings = Rating.objects.filter(conversation=OuterRef("pk")).order_by().values("conversation")
    counts = ratings.annotate(n=Count(name, distinct=True)).values("n")
    return Cast(Subquery(counts), FloatField())


def _flags() -> Any:
    """Return an expression that counts the flags on the participant's work.

    The participants of each kind are looked up once for all conversations, which is much faster than counting
    conversation by conversation.
    """
    n_flags: Any = Value(0.0)
    for name in flag_kinds.names():
        people = TaskFlag.objects.filter(name=name).values("participant")
        n_flags += Case(When(participant__in=people, then=Value(1.0)), default=Value(0.0))
    return n_flags


@dataclass(frozen=True, slots=True)
class Computed:
    """Definition of a number that is computed on request.

    Attributes:
        title: for people.
        value: returns the expression over conversations.
        defined: the condition on conversations that have a value; cheaper than the value.
        is_time: True for a time, which is searched by day.
    """

    title: Any
    value: Callable[[], Any]
    defined: Q
    is_time: bool = False


_NAMED = Rating.objects.exclude(rater="", participant=None)
COMPUTED = {
    "raters": Computed(
        gettext_lazy("Raters"), _raters, Q(pk__in=_NAMED.filter(conversation__isnull=False).values("conversation"))
    ),
    "flags": Computed(gettext_lazy("Flags"), _flags, Q(participant__isnull=False)),
    "duration": Computed(gettext_lazy("Minutes"), _duration, Q(ended_at__isnull=False)),
    "started": Computed(gettext_lazy("Started"), lambda: F("created_at"), Q(created_at__isnull=False), is_time=True),
    "ended": Computed(gettext_lazy("Ended"), lambda: F("ended_at"), Q(ended_at__isnull=False), is_time=True),
}


COUNTS = {
    "turns": gettext_lazy("Turns"),
    "exchanges": gettext_lazy("Exchanges"),
    "ratings": gettext_lazy("Ratings"),
    "up": gettext_lazy("Votes up"),
    "down": gettext_lazy("Votes down"),
    "cost": gettext_lazy("Cost"),
}
IN_ROW = {"exchanges": "n_exchanges"}
"""Counts stored in the conversation's own row."""


@dataclass(frozen=True, slots=True)
class Number:
    """Numeric field of conversations.

    Attributes:
        name: name in queries.
        title: for people.
        kind: `rating`, `spread`, `fit`, `metric` or `count`.
        series: its key in the index; None if no conversation has a value.
        unit: unit declared by the metric.
        about: explanation in a sentence; empty if the title is enough.
    """

    name: str
    title: str
    kind: str
    series: int | None = None
    unit: str = ""
    about: str = ""

    @property
    def column(self) -> str:
        """Column of the conversation's row; empty for an indexed number."""
        return IN_ROW.get(self.name, "") if self.kind == Series.Kind.COUNT else ""

    @property
    def computed(self) -> Computed | None:
        """Definition of a number computed on request; None for a stored one."""
        return COMPUTED.get(self.name) if self.kind == Series.Kind.COUNT else None

    @property
    def is_time(self) -> bool:
        """True if its values are times."""
        return self.computed is not None and self.computed.is_time


class Numbers:
    """All numeric fields of a study's conversations, read in two queries.

    A metric's own name means its first number, such as `repetition`. If a rating and a metric share a name, it means
    the rating, and `metric.NAME` the metric. `spread` is the spread of the first question.

    Args:
        dimensions: questions, the one that bots are ranked by first.
        fit: primary key of the hybrid fit whose residuals are listed; 0 for none.
    """

    def __init__(self, dimensions: Sequence[RatingDimension], fit: int = 0) -> None:
        versions = {row.key: row for row in MetricVersion.objects.all()}
        newest: dict[str, int] = {}
        for row in sorted(versions.values(), key=lambda row: row.pk):
            newest[row.name] = row.pk
        series = {(s.kind, s.name, s.metric): s.pk for s in Series.objects.all()}
        ratings = [Number(d.key, d.title, "rating", series.get(("rating", d.key, 0))) for d in dimensions]
        spreads = [
            Number(
                f"spread.{d.key}",
                _("{title}, difference between raters").format(title=d.title),
                "spread",
                series.get(("spread", d.key, 0)),
                about=_("Mean absolute difference between two raters of the conversation."),
            )
            for d in dimensions
        ]
        residual = Number(
            "residual",
            _("Error of the prediction"),
            "fit",
            series.get(("fit", "residual", fit)),
            about=_("Distance between the prediction of the hybrid metric and the rating, without its sign."),
        )
        counts = [Number(name, str(title), "count", series.get(("count", name, 0))) for name, title in COUNTS.items()]
        counts += [Number(name, str(definition.title), "count") for name, definition in COMPUTED.items()]
        metrics: list[Number] = []
        short: dict[str, Number] = {}
        for metric in metrics_all():
            present = versions.get(metric.identity.key)
            version = present.pk if present is not None else newest.get(metric.name, 0)
            columns = [column for column in metric.columns if column.level == "conversation"]
            for column in columns:
                number = Number(
                    column.name,
                    column.title.removesuffix(", mean"),
                    "metric",
                    series.get(("metric", column.name, version)),
                    column.unit,
                    column.description,
                )
                metrics.append(number)
                short.setdefault(metric.name, number)
        # Metrics no longer registered can still be searched if they have stored results.
        known = {number.name for number in metrics}
        for (kind, name, _version), key in sorted(series.items(), key=lambda series_row: series_row[0][2]):
            if kind == "metric" and name not in known:
                title = _("{name} (metric no longer available)").format(name=name)
                short[name] = Number(name, title, "metric", key)
        self.shown: list[Number] = [*ratings, *spreads, residual, *counts, *metrics]
        self._by_name: dict[str, Number] = {
            **short,
            **({"spread": spreads[0]} if spreads else {}),
            **{number.name: number for number in (*metrics, residual, *counts, *spreads, *ratings)},
            **{f"{n.kind}.{n.name}": n for n in (*metrics, residual, *counts, *ratings)},
        }

    def get(self, name: str) -> Number | None:
        """Return the field with this name, ignoring case, or None."""
        number = self._by_name.get(name)
        if number is None:
            lower = name.lower()
            number = next((n for key, n in self._by_name.items() if key.lower() == lower), None)
        return number

    def names(self) -> list[str]:
        """Return the names of fields with values, with the kind if ambiguous."""
        return [
            name
            for name, number in self._by_name.items()
            if _is_there(number) and (name != f"{number.kind}.{number.name}" or self._by_name[number.name] != number)
        ]

    def measured(self) -> list[Number]:
        """Return the fields with values: ratings, counts, then metrics."""
        return [number for number in self.shown if _is_there(number)]


def _is_there(number: Number) -> bool:
    return number.series is not None or bool(number.column) or number.computed is not None


_LOOKUPS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_COMPARES: dict[str, Any] = {"gt": GreaterThan, "gte": GreaterThanOrEqual, "lt": LessThan, "lte": LessThanOrEqual}


def is_within(number: Computed, bounds: Mapping[str, Any]) -> Q:
    """Return the condition that a number is defined and within the bounds.

    Its negation holds for all other conversations.
    """
    condition, value = number.defined, number.value()
    for sign, bound in bounds.items():
        condition &= Q(_COMPARES[sign](value, bound))
    return condition


def bounds_of(term: QueryTerm) -> dict[str, float]:
    """Return the lookups and bounds of a comparison, range or value."""
    example = f"{term.field}:2..4"
    if term.sign != ":":
        return {_LOOKUPS[term.sign]: _float(term.value, term, f"{term.field}{term.sign}3")}
    low, dots, high = term.value.partition("..")
    if not dots:
        exact = _float(low, term, example)
        # Means have rounding errors: compare them as displayed.
        return {"gte": exact - 1e-9, "lte": exact + 1e-9}
    bounds = {}
    if low not in ("", "*"):
        bounds["gte"] = _float(low, term, example)
    if high not in ("", "*"):
        bounds["lte"] = _float(high, term, example)
    if not bounds:
        raise Unreadable(_("“{term}” has no start or end.").format(term=term), example)
    if len(bounds) == 2 and bounds["gte"] > bounds["lte"]:
        raise Unreadable(_("“{term}” ends before it begins.").format(term=term), f"{term.field}:{high}..{low}")
    return bounds


def _float(text: str, term: QueryTerm, example: str) -> float:
    try:
        value = float(text.replace("−", "-"))
    except ValueError:
        value = float("nan")
    if value != value or value in (float("inf"), float("-inf")):
        raise Unreadable(_("“{term}”: “{text}” is not a number.").format(term=term, text=text), example)
    return value


def days_of(term: QueryTerm) -> dict[str, datetime]:
    """Return the lookups and times of a comparison, range or day (UTC).

    Raises:
        Unreadable: for an invalid day, or a range that is open or ends before it starts.
    """
    example = f"{term.field}:2026-01-01..2026-02-01"
    if term.sign != ":":
        day = _day(term.value, term, f"{term.field}{term.sign}2026-01-01")
        is_after = term.sign in (">", "<=")  # both refer to the end of the day
        return {"gte" if ">" in term.sign else "lt": _midnight(day, is_after)}
    low, dots, high = term.value.partition("..")
    if not dots:
        high = low
    bounds = {}
    if low not in ("", "*"):
        bounds["gte"] = _midnight(_day(low, term, example), False)
    if high not in ("", "*"):
        bounds["lt"] = _midnight(_day(high, term, example), True)
    if not bounds:
        raise Unreadable(_("“{term}” has no start or end.").format(term=term), example)
    if len(bounds) == 2 and bounds["gte"] >= bounds["lt"]:
        raise Unreadable(_("“{term}” ends before it begins.").format(term=term), f"{term.field}:{high}..{low}")
    return bounds


def _day(text: str, term: QueryTerm, example: str) -> date:
    try:
        day = datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        day = date.max
    if day == date.max:
        raise Unreadable(_("“{term}”: “{text}” is not a date.").format(term=term, text=text), example)
    return day


def _midnight(day: date, is_after: bool) -> datetime:
    """Return the start or the end of a day."""
    return datetime.combine(day + timedelta(days=int(is_after)), time(), UTC)
