"""Reads of pairs of stored conversations: the number of participants for each pair, and the sides."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, OuterRef, QuerySet, Subquery, UUIDField

from webapp.studies.models import Slot, Study, Task


@dataclass(frozen=True, slots=True)
class PairBegun:
    """Two conversations that were side by side already.

    Attributes:
        n_raters: number of participants who have or had them.
        n_first: number of these for whom the first one was A.
    """

    first: str
    second: str
    n_raters: int
    n_first: int

    def shown(self, rng: random.Random) -> tuple[str, str]:
        """Return both with the one first that was A less often; drawn where neither was."""
        ahead = 2 * self.n_first - self.n_raters
        is_first = ahead < 0 or (ahead == 0 and rng.random() < 0.5)
        return (self.first, self.second) if is_first else (self.second, self.first)


@dataclass
class DialogueHistory:
    """Counts of how often each bot's conversations were shown, by bot and side."""

    n: Counter[tuple[str, str]] = field(default_factory=Counter)

    def load(self, bot_id: str) -> int:
        """Return the number of times that the bot's conversations were given."""
        return self.n[bot_id, "A"] + self.n[bot_id, "B"]

    def sides(self, first: str, second: str, rng: random.Random) -> tuple[str, str]:
        """Return both bots with the one first that was A less often than B, compared with the other."""
        ahead = [self.n[bot_id, "A"] - self.n[bot_id, "B"] for bot_id in (first, second)]
        is_first = ahead[0] < ahead[1] or (ahead[0] == ahead[1] and rng.random() < 0.5)
        return (first, second) if is_first else (second, first)

    def add(self, on_a: str, on_b: str) -> None:
        """Count one more pair."""
        self.n.update([(on_a, "A"), (on_b, "B")])


def dialogue_history(study: Study, *, synthetic: bool) -> DialogueHistory:
    """Count the conversations that the study's participants had, by bot and side, in one query."""
    rows = _given(study, synthetic=synthetic).values_list("conversation__bot__bot_id", "side")
    return DialogueHistory(
        Counter({(bot, side): n for bot, side, n in rows.annotate(n=Count("pk"))})
    )


def pairs_begun(
    study: Study, unseen: QuerySet[Any], wanted: int, *, synthetic: bool
) -> list[PairBegun]:
    """Return the pairs of unseen conversations that fewer than `wanted` people have, in an order that is the same
    each time.

    Args:
        unseen: conversations that the participant may be given.
    """
    partner = Slot.objects.filter(task=OuterRef("task"), order=OuterRef("order") + 1, side="B")
    rows = (
        _given(study, synthetic=synthetic)
        .filter(side="A", conversation__in=unseen.order_by().values("pk"))
        .annotate(other=Subquery(partner.values("conversation")[:1], output_field=UUIDField()))
        .filter(other__isnull=False)
        .values_list("conversation", "other")
        .annotate(n=Count("pk"))
    )
    first: Counter[tuple[str, str]] = Counter({(str(a), str(b)): n for a, b, n in rows})
    pairs = sorted({tuple(sorted(pair)) for pair in first})
    may = unseen.filter(pk__in={pk for pair in pairs for pk in pair})
    allowed = {str(pk) for pk in may.values_list("pk", flat=True)}
    found = [PairBegun(a, b, first[a, b] + first[b, a], first[a, b]) for a, b in pairs]
    return [one for one in found if one.n_raters < wanted and {one.first, one.second} <= allowed]


def _given(study: Study, *, synthetic: bool) -> QuerySet[Slot]:
    """Return the slots of the study that hold a side of a pair; places that were lost are given again."""
    slots = Slot.objects.filter(
        task__participant__study=study,
        task__participant__is_synthetic=synthetic,
        conversation__isnull=False,
    ).exclude(side="")
    return slots.exclude(task__state__in=[Task.State.EXPIRED, Task.State.WITHDRAWN]).order_by()
