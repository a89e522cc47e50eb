"""Replies of each bot and the votes on them, read from the index of counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from django.db.models import Count, F, FilteredRelation, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from evaluation.stats.intervals import SHARE, mean_interval
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.reading.models import Figure, Series
from webapp.studies.models import Study

LEVEL = 0.90


@dataclass(frozen=True, slots=True)
class BotVotes:
    """The votes on one bot's replies.

    Attributes:
        n_chats: conversations with a vote.
        low, high: of the share of votes up, with conversations as clusters; None where fewer than two conversations
            have votes.
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
        """Share of the votes that are up; None without votes."""
        return self.up / self.n if self.n else None


def has_votes(study: Study, rows: QuerySet[Conversation]) -> bool:
    """Return True if these conversations of a study have a vote on a reply, without reading all of them."""
    voted = Figure.objects.filter(study=study, value__gt=0, conversation__in=rows)
    # The end of the index is read, and no more of it than is needed.
    return any(
        voted.filter(series=pk).order_by("-value").values_list("pk").first()
        for pk in _series("up", "down").values()
    )


def votes_of_bots(study: Study, rows: QuerySet[Conversation]) -> dict[str, BotVotes]:
    """Return the votes on each bot's replies in these conversations, by the bot's id; bots without votes are left out.

    Args:
        study: of all of the rows, in whose part of the index the counts are found.
    """
    series = _series("up", "down")
    if len(series) < 2:
        return {}
    # Conversations with as many votes of both kinds are one row: there are few such rows however many conversations.
    found = (
        rows.annotate(
            voted_up=_of(study, series["up"]),
            voted_down=_of(study, series["down"]),
        )
        .filter(Q(voted_up__value__gt=0) | Q(voted_down__value__gt=0))
        .order_by()
        .annotate(
            ups=Coalesce(F("voted_up__value"), 0.0), downs=Coalesce(F("voted_down__value"), 0.0)
        )
        .values_list("bot__bot_id", "ups", "downs")
        .annotate(n=Count("pk"))
    )
    alike: dict[str, list[tuple[int, int, int]]] = {}
    for bot, up, down, n in found:
        alike.setdefault(bot, []).append((int(up), int(down), n))
    return {bot: _votes(bot, sorted(rows)) for bot, rows in alike.items()}


def replies_of_bots(study: Study, rows: QuerySet[Conversation]) -> dict[str, Counter[str]]:
    """Return by bot how many `replies` it gave in these conversations of a study, and how many votes `up` and `down`
    they have.

    Args:
        study: of all of the rows, in whose part of the index the counts are found.
    """
    names = {key: name for name, key in _series("replies", "up", "down").items()}
    counted = rows.filter(
        figures__series__in=list(names), figures__study=study, figures__value__gt=0
    ).order_by()
    sums = list(counted.values_list("bot", "figures__series").annotate(Sum("figures__value")))
    # By version, a number, for names are slow to tell apart.
    versions = BotVersion.objects.filter(pk__in={version for version, _series, _n in sums})
    bots = dict(versions.values_list("pk", "bot_id"))
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for version, key, n in sums:
        found[bots[version]][names[key]] += round(n)
    return found


def votes_ranked(bots: Iterable[str], votes: Mapping[str, BotVotes]) -> list[BotVotes]:
    """Return the votes of these bots, the highest share of votes up first; bots without a vote come last.

    They have no ranks: people vote when they like, so nothing is tested.
    """
    found = [votes.get(bot, BotVotes(bot, 0, 0, 0, None, None)) for bot in bots]
    return sorted(found, key=lambda one: (one.share is None, -(one.share or 0.0)))


def _series(*names: str) -> dict[str, int]:
    """Return the keys in the index of the counts with these names, by name."""
    counts = Series.objects.filter(kind=Series.Kind.COUNT, name__in=names)
    return dict(counts.values_list("name", "pk"))


def _of(study: Study, series: int) -> FilteredRelation:
    """Return the join with one number of each conversation."""
    return FilteredRelation("figures", condition=Q(figures__series=series, figures__study=study))


def _votes(bot: str, alike: list[tuple[int, int, int]]) -> BotVotes:
    """Return a bot's votes.

    Args:
        alike: votes up, votes down, and how many conversations have as many of both.
    """
    up, down, n = np.array(alike).T
    each = np.repeat(np.column_stack([up, down]), n, axis=0)  # (conversations, 2)
    values = np.repeat(np.tile([1.0, 0.0], len(each)), each.ravel())
    chats = np.repeat(np.arange(len(each)), each.sum(axis=1))
    found = mean_interval(values, chats, LEVEL, scale=SHARE)
    ups, downs = each.sum(axis=0).tolist()
    return BotVotes(bot, ups, downs, len(each), found.low, found.high)
