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
    Q,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, NullIf
from django.utils.translation import gettext_lazy

from webapp.quality.flags.base import flag_kinds
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


def _raters() -> Any:
    """Return an expression that counts the raters of the whole conversation."""
    name = Coalesce(NullIf("rater", Value("")), Cast("participant", CharField()))
    given = Rating.objects.filter(conversation=OuterRef("pk")).order_by().values("conversation")
    found = given.annotate(n=Count(name, distinct=True)).values("n")
    return Cast(Subquery(found), FloatField())


def _flags() -> Any:
    """Return an expression that counts the kinds of flags on the participant's work.

    The participants of each kind are looked up at once for all conversations: to count them one by one would take
    much longer.

    The people of each kind are looked up at once for all conversations: counted one by one it would take much longer.
    """
    found: Any = Value(0.0)
    for name in flag_kinds.names():
        people = TaskFlag.objects.filter(name=name).values("participant")
        found += Case(When(participant__in=people, then=Value(1.0)), default=Value(0.0))
    return found


@dataclass(frozen=True, slots=True)
class Computed:
    """Definition of a number that is computed on request.

    Attributes:
        title: for people.
        value: makes the expression over conversations.
        defined: the condition on conversations that have a value; it costs less than the value.
        is_time: a time, which is asked for by days.
    """

    title: Any
    value: Callable[[], Any]
    defined: Q
    is_time: bool = False


_NAMED = Rating.objects.exclude(rater="", participant=None)
COMPUTED = {
    "raters": Computed(
        gettext_lazy("Raters"),
        _raters,
        Q(pk__in=_NAMED.filter(conversation__isnull=False).values("conversation")),
    ),
    "flags": Computed(gettext_lazy("Flags"), _flags, Q(participant__isnull=False)),
    "duration": Computed(gettext_lazy("Minutes"), _duration, Q(ended_at__isnull=False)),
    "started": Computed(
        gettext_lazy("Started"), lambda: F("created_at"), Q(created_at__isnull=False), is_time=True
    ),
    "ended": Computed(
        gettext_lazy("Ended"), lambda: F("ended_at"), Q(ended_at__isnull=False), is_time=True
    ),
}
