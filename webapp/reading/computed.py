"""Numbers and times of conversations that no index holds: the database computes them where a search asks for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import (
    Case,
    CharField,
    Count,
    F,
    FloatField,
    Func,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, NullIf
from django.utils.translation import gettext_lazy

from webapp.quality.models import TaskFlag
from webapp.ratings.models import Rating


class _Minutes(Func):
    """The minutes between two times, to a tenth, so that what prints alike is the same."""

    template = "ROUND((EXTRACT(EPOCH FROM (%(expressions)s)) / 60)::numeric, 1)::double precision"
    arg_joiner = " - "
    output_field = FloatField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Return the same in SQLite, whose times are texts."""
        template = "ROUND((%(expressions)s) * 1440.0, 1)"
        days = [Func(one, function="julianday") for one in self.get_source_expressions()]
        copy = self.copy()
        copy.set_source_expressions(days)
        return copy.as_sql(compiler, connection, template=template, **extra)


def _duration() -> Any:
    return _Minutes(F("ended_at"), F("created_at"))


def _counted(rows: QuerySet[Any], of: str, what: Any) -> Subquery:
    """Return how many different ones the rows hold; null where there are none."""
    found = rows.order_by().values(of).annotate(n=NullIf(Count(what, distinct=True), Value(0)))
    return Subquery(found.values("n"))


def _raters() -> Any:
    """Return how many people are named as raters of the whole conversation; null without one."""
    name = Coalesce(NullIf("rater", Value("")), Cast("participant", CharField()))
    given = Rating.objects.filter(conversation=OuterRef("pk"))
    return Cast(_counted(given, "conversation", name), FloatField())


def _flags() -> Any:
    """Return how many kinds of flags the work of its participant has; null for what nobody did here.

    Most people have none: they are told by one look at all flags, not by one for each conversation.
    """
    flagged = TaskFlag.objects.values("participant")
    own = TaskFlag.objects.filter(participant=OuterRef("participant"))
    return Case(
        When(participant__isnull=True, then=Value(None)),
        When(
            participant__in=flagged, then=Cast(_counted(own, "participant", "name"), FloatField())
        ),
        default=Value(0.0),
        output_field=FloatField(),
    )


@dataclass(frozen=True, slots=True)
class Computed:
    """How a number is computed.

    Attributes:
        title: for people.
        value: makes the expression over conversations; null where it is undefined.
        is_time: a time, which is asked for by days.
    """

    title: Any
    value: Callable[[], Any]
    is_time: bool = False


COMPUTED = {
    "raters": Computed(gettext_lazy("Raters"), _raters),
    "flags": Computed(gettext_lazy("Flags"), _flags),
    "duration": Computed(gettext_lazy("Minutes"), _duration),
    "started": Computed(gettext_lazy("Started"), lambda: F("created_at"), is_time=True),
    "ended": Computed(gettext_lazy("Ended"), lambda: F("ended_at"), is_time=True),
}
