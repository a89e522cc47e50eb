"""Totals of a study's conversations, from the index: of a million ratings none is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet, Sum

from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.ratings.selectors import conversations_counted, ratings_counted
from webapp.reading.models import Figure, Series
from webapp.studies.models import Study
from webapp.studies.selectors import judges_items, marks_turns

_COUNTS = ("ratings", "turns", "results")


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of conversations.

    Attributes:
        n_rated: conversations with a rating of the whole.
        n_ratings: ratings of whole conversations.
        rated_at: when one of these was last changed, in seconds since 1970; None without one.
        n_turns: of all.
        n_results: of metrics.
    """

    n_rated: int = 0
    n_ratings: int = 0
    rated_at: float | None = None
    n_turns: int = 0
    n_results: int = 0


def figures_among(study: Study, among: Q) -> QuerySet[Figure]:
    """Return the numbers in the index of those conversations of a study that meet a condition.

    Asked for are the numbers of all without the others: most of a study's conversations are counted, and the few that
    are not are sooner found than all the others.
    """
    others = Conversation.objects.filter(~among, study=study, pk=OuterRef("conversation"))
    return Figure.objects.filter(~Exists(others), study=study)


def totals(study: Study, among: Q, *names: str) -> Totals:
    """Return totals of a study's conversations that meet a condition, in three queries at most.

    Each is read from the index alone: a number's sum from its part, the newest time from its end.

    Args:
        names: requested totals: `ratings`, `rated_at`, `turns` or `results`; the rest stays 0.

    Raises:
        ValueError: for another name.
    """
    unknown = set(names) - {*_COUNTS, "rated_at"}
    if unknown:
        raise ValueError(f"no total is called {', '.join(unknown)}; there are {_COUNTS}, rated_at")
    kinds = Series.Kind
    counts = Q(kind=kinds.COUNT, name__in=[name for name in names if name in _COUNTS])
    series = list(
        Series.objects.filter(counts | Q(kind=kinds.TIME)).values_list("pk", "kind", "name")
    )
    counted = {pk: name for pk, kind, name in series if kind == kinds.COUNT}
    figures = figures_among(study, among).order_by()
    found = {}
    if counted:
        rows = figures.filter(series__in=list(counted)).values_list("series")
        sums = rows.annotate(n=Count("*"), total=Sum("value"))
        found = {counted[pk]: (n, total) for pk, n, total in sums}
    time = next((pk for pk, kind, _name in series if kind == kinds.TIME), None)
    newest = None
    if "rated_at" in names and time is not None:
        times = figures.filter(series=time).order_by("-value")
        newest = times.values_list("value", flat=True).first()
    nothing = (0, 0)
    return Totals(
        n_rated=found.get("ratings", nothing)[0],
        n_ratings=round(found.get("ratings", nothing)[1]),
        rated_at=newest,
        n_turns=round(found.get("turns", nothing)[1]),
        n_results=round(found.get("results", nothing)[1]),
    )


def rated_by_bot(study: Study, among: Q) -> dict[str, int]:
    """Return by bot how many of these conversations have a rating of the whole."""
    rated = Figure.objects.filter(
        series__kind=Series.Kind.COUNT, series__name="ratings", study=study
    ).values("conversation")
    return conversations_by_bot(Conversation.objects.filter(among, pk__in=rated))


def conversations_by_bot(rows: QuerySet[Conversation]) -> dict[str, int]:
    """Return by bot how many of these conversations it had."""
    # By version, a number, for names are slow to tell apart.
    by_version = dict(rows.order_by().values_list("bot").annotate(Count("pk")))
    found: Counter[str] = Counter()
    for version, bot in BotVersion.objects.filter(pk__in=by_version).values_list("pk", "bot_id"):
        found[bot] += by_version[version]
    return dict(found)


def rated_totals(
    study: Study,
    *,
    include_synthetic: bool = False,
    include_failed: bool = False,
    without: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the number of ratings that count (`ratings_counted`), and the times that change with them.

    Ratings of whole conversations are counted from the index. Others are counted one by one: those of turns and
    items, and those of studies where raters are left out, who may be others than those who chatted.
    """
    counted: dict[str, Any] = {
        "include_synthetic": include_synthetic,
        "include_failed": include_failed,
        "without": without,
    }
    if without or judges_items(study) or marks_turns(study):
        # Of chats a million ratings need not be looked up among the items.
        changed = {"changed": Max("item__updated_at")} if judges_items(study) else {}
        return ratings_counted(study, **counted).aggregate(
            n=Count("pk"), newest=Max("updated_at"), **changed
        )
    found = totals(study, conversations_counted(study, **counted), "ratings", "rated_at")
    return {"n": found.n_ratings, "newest": found.rated_at}
