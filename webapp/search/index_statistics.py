"""Statistics read from the index: totals, votes by bot, and histograms.

They do not read ratings, of which there may be a million.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from django.db.models import Count, Exists, F, FilteredRelation, Max, Min, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, Floor

from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.means import SHARE, mean_interval
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.ratings.selectors import CountedWork, conversations_counted, ratings_counted
from webapp.search.fields import Number
from webapp.search.models import Figure, Series
from webapp.search.query import sorted_rows
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

_COUNTS = ("ratings", "turns", "results")


@dataclass(frozen=True, slots=True)
class ConversationTotals:
    """Totals of conversations.

    Attributes:
        n_rated: conversations with a rating of the whole.
        n_ratings: ratings of whole conversations.
        rated_at: time of their last change, in seconds since 1970; None without ratings.
        n_turns: number of turns.
        n_results: number of metric results.
    """

    n_rated: int = 0
    n_ratings: int = 0
    rated_at: float | None = None
    n_turns: int = 0
    n_results: int = 0


def figures_among(study: Study, among: Q) -> QuerySet[Figure]:
    """Return the index rows of a study's conversations that meet a condition.

    The query excludes the others, because most conversations are included and the few exceptions are faster to find.
    """
    uncounted = study.conversations.filter(~among, pk=OuterRef("conversation"))
    return Figure.objects.filter(~Exists(uncounted), study=study)


def conversation_totals(study: Study, among: Q, *names: str) -> ConversationTotals:
    """Return totals of a study's conversations that meet a condition.

    This takes at most three queries.

    Each total is read from the index alone.

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
    series = list(Series.objects.filter(counts | Q(kind=kinds.TIME)).values_list("pk", "kind", "name"))
    count_names = {pk: name for pk, kind, name in series if kind == kinds.COUNT}
    figures = figures_among(study, among).order_by()
    totals = {}
    if count_names:
        rows = figures.filter(series__in=list(count_names)).values_list("series")
        sums = rows.annotate(n=Count("*"), total=Sum("value"))
        totals = {count_names[pk]: (n, total) for pk, n, total in sums}
    time = next((pk for pk, kind, _name in series if kind == kinds.TIME), None)
    newest = None
    if "rated_at" in names and time is not None:
        times = figures.filter(series=time).order_by("-value")
        newest = times.values_list("value", flat=True).first()
    nothing = (0, 0)
    return ConversationTotals(
        n_rated=totals.get("ratings", nothing)[0],
        n_ratings=round(totals.get("ratings", nothing)[1]),
        rated_at=newest,
        n_turns=round(totals.get("turns", nothing)[1]),
        n_results=round(totals.get("results", nothing)[1]),
    )


def rated_by_bot(study: Study, among: Q) -> dict[str, int]:
    """Count these conversations with an overall rating by bot."""
    rated = Figure.objects.filter(series__kind=Series.Kind.COUNT, series__name="ratings", study=study).values(
        "conversation"
    )
    return conversations_by_bot(study.conversations.filter(among, pk__in=rated))


def conversations_by_bot(rows: QuerySet[Conversation]) -> dict[str, int]:
    """Count these conversations by bot."""
    # Group by version, a number, because comparing names is slow.
    by_version = dict(rows.order_by().values_list("bot").annotate(Count("pk")))
    counts: Counter[str] = Counter()
    for version, bot in BotVersion.objects.filter(pk__in=by_version).values_list("pk", "bot_id"):
        counts[bot] += by_version[version]
    return dict(counts)


def rated_totals(study: Study, **work_filter: Unpack[CountedWork]) -> dict[str, Any]:
    """Return the number of valid ratings, and the time of their last change.

    Ratings of whole conversations are counted from the index. Ratings of turns and items are counted one by one, as are
    those of studies with excluded raters, who may differ from the chats' participants.
    """
    if work_filter.get("without") or get_protocol(study).judges_items or get_protocol(study).marks_turns:
        # For studies of chats, do not look up a million ratings among the items.
        changed = {"changed": Max("item__updated_at")} if get_protocol(study).judges_items else {}
        return ratings_counted(study, **work_filter).aggregate(n=Count("pk"), newest=Max("updated_at"), **changed)
    totals = conversation_totals(study, conversations_counted(study, **work_filter), "ratings", "rated_at")
    return {"n": totals.n_ratings, "newest": totals.rated_at}


VOTES_LEVEL = RATING_LEVEL


@dataclass(frozen=True, slots=True)
class BotVotes:
    """Votes on one bot's replies.

    Attributes:
        n_chats: conversations with a vote.
        low, high: ends of the interval of the share of upvotes, clustered by conversation; None with fewer than two
            conversations with votes.
    """

    bot_id: str
    up: int
    down: int
    n_chats: int
    low: float | None
    high: float | None

    @property
    def n(self) -> int:
        """Number of votes."""
        return self.up + self.down

    @property
    def share(self) -> float | None:
        """Share of upvotes; None without votes."""
        return self.up / self.n if self.n else None


def has_votes(study: Study, rows: QuerySet[Conversation]) -> bool:
    """Return True if these conversations have a vote, reading few of them."""
    voted = Figure.objects.filter(study=study, value__gt=0, conversation__in=rows)
    # Reads the end of the index, only as far as needed.
    return any(
        voted.filter(series=pk).order_by("-value").values_list("pk").first() for pk in _series("up", "down").values()
    )


def votes_of_bots(study: Study, rows: QuerySet[Conversation]) -> dict[str, BotVotes]:
    """Return the votes on replies in these conversations by bot id.

    Bots without votes are left out.

    Args:
        study: study of all rows, whose part of the index has the counts.
    """
    series = _series("up", "down")
    if len(series) < 2:
        return {}
    # Conversations with equal counts share a row, so the number of rows stays small.
    vote_counts = (
        rows.annotate(voted_up=_join_figures(study, series["up"]), voted_down=_join_figures(study, series["down"]))
        .filter(Q(voted_up__value__gt=0) | Q(voted_down__value__gt=0))
        .order_by()
        .annotate(ups=Coalesce(F("voted_up__value"), 0.0), downs=Coalesce(F("voted_down__value"), 0.0))
        .values_list("bot__bot_id", "ups", "downs")
        .annotate(n=Count("pk"))
    )
    patterns_by_bot: dict[str, list[tuple[int, int, int]]] = {}
    for bot, up, down, n in vote_counts:
        patterns_by_bot.setdefault(bot, []).append((int(up), int(down), n))
    return {bot: _votes(bot, sorted(rows)) for bot, rows in patterns_by_bot.items()}


def replies_of_bots(study: Study, rows: QuerySet[Conversation]) -> dict[str, Counter[str]]:
    """Return each bot's number of replies and votes in a study.

    They are `replies`, `up` and `down` in these conversations.

    Args:
        study: study of all rows, whose part of the index has the counts.
    """
    names = {key: name for name, key in _series("replies", "up", "down").items()}
    figures = rows.filter(figures__series__in=list(names), figures__study=study, figures__value__gt=0).order_by()
    sums = list(figures.values_list("bot", "figures__series").annotate(Sum("figures__value")))
    # Group by version, a number, because comparing names is slow.
    versions = BotVersion.objects.filter(pk__in={version for version, _series, _n in sums})
    bots = dict(versions.values_list("pk", "bot_id"))
    reply_counts: dict[str, Counter[str]] = defaultdict(Counter)
    for version, key, n in sums:
        reply_counts[bots[version]][names[key]] += round(n)
    return reply_counts


def votes_ranked(bots: Iterable[str], votes: Mapping[str, BotVotes]) -> list[BotVotes]:
    """Return the bots' votes, highest share of upvotes first, unvoted last.

    There are no ranks or tests, because voting is optional.
    """
    unsorted_votes = [votes.get(bot, BotVotes(bot, 0, 0, 0, None, None)) for bot in bots]
    return sorted(unsorted_votes, key=lambda bot_votes: (bot_votes.share is None, -(bot_votes.share or 0.0)))


def _series(*names: str) -> dict[str, int]:
    """Return the index keys of counts by name."""
    counts = Series.objects.filter(kind=Series.Kind.COUNT, name__in=names)
    return dict(counts.values_list("name", "pk"))


def _join_figures(study: Study, series: int) -> FilteredRelation:
    """Return the join with one number of each conversation."""
    return FilteredRelation("figures", condition=Q(figures__series=series, figures__study=study))


def _votes(bot: str, patterns: list[tuple[int, int, int]]) -> BotVotes:
    """Return a bot's votes.

    Args:
        patterns: upvotes, downvotes, and the number of conversations with these counts.
    """
    up, down, n = np.array(patterns).T
    each = np.repeat(np.column_stack([up, down]), n, axis=0)  # (conversations, 2)
    values = np.repeat(np.tile([1.0, 0.0], len(each)), each.ravel())
    chats = np.repeat(np.arange(len(each)), each.sum(axis=1))
    interval = mean_interval(values, chats, VOTES_LEVEL, scale=SHARE)
    ups, downs = each.sum(axis=0).tolist()
    return BotVotes(bot, ups, downs, len(each), interval.low, interval.high)


MOST_BARS = 20


@dataclass(frozen=True, slots=True)
class HistogramBar:
    """Conversations from `low` up to the next bar.

    The last bar includes its end.
    """

    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """Histogram of a number, from its lowest to its highest value.

    Attributes:
        step: step of a slider; 1 if all values are whole.
        n: conversations that have a value.
    """

    low: float
    high: float
    step: float
    bars: tuple[HistogramBar, ...]
    n: int


def histogram_of(rows: QuerySet[Conversation], number: Number, study: Study | None = None) -> Histogram | None:
    """Count conversations per bar, in two queries; None without values.

    A few whole numbers get one bar each; otherwise all bars have equal width.

    Args:
        study: study of all rows, whose part of the index has the values.
    """
    valued: Any = sorted_rows(rows, number, study).filter(Q(at__isnull=False)).order_by()
    ends = valued.aggregate(low=Min("at"), high=Max("at"), n=Count("pk"), whole=Count("pk", filter=Q(at=Floor("at"))))
    if not ends["n"]:
        return None
    low, high, width = float(ends["low"]), float(ends["high"]), 1.0
    is_whole = ends["whole"] == ends["n"]
    if is_whole:
        width = math.ceil((high - low + 1) / MOST_BARS)
        n_bars = math.floor((high - low) / width) + 1
    else:
        low, high, width = _round_ends(low, high)
        n_bars = max(round((high - low) / width), 1)
    # A value displayed as a bar's start belongs to that bar, despite rounding errors.
    place: Any = Floor((F("at") - low) / width + 1e-9)
    bar_counts: dict[int, int] = {}
    for position, n in valued.values_list(place).annotate(n=Count("pk")):
        key = min(max(int(position), 0), n_bars - 1)
        bar_counts[key] = bar_counts.get(key, 0) + n
    bars = tuple(HistogramBar(low + i * width, low + (i + 1) * width, bar_counts.get(i, 0)) for i in range(n_bars))
    return Histogram(low, high, 1.0 if is_whole else width / 5, bars, ends["n"])


def _round_ends(low: float, high: float) -> tuple[float, float, float]:
    """Return round axis limits that contain the values, and the bin width."""
    if high == low:
        return low, high, 1.0
    rough = (high - low) / MOST_BARS
    power = 10.0 ** math.floor(math.log10(rough))
    width = next(step * power for step in (1, 2, 5, 10) if step * power >= rough * (1 - 1e-9))
    return math.floor(low / width) * width, math.ceil(high / width) * width, width
