"""Answers to attention checks: which passed, and whose work is set apart for one that did not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet

from webapp.ratings.models import Rating
from webapp.studies.models import Item, Outcome, Study, Task


@dataclass(frozen=True, slots=True)
class Checked:
    """One attention check that somebody answered.

    Attributes:
        expected: answers that pass, by question; the others may be answered in any way.
    """

    rating: Rating
    expected: dict[str, list[float]]

    @property
    def passed(self) -> bool:
        """Whether the answers are among those that pass."""
        given: dict[str, Any] = self.rating.answers
        return all(given.get(key) in passing for key, passing in self.expected.items())


@dataclass(frozen=True, slots=True)
class SetApart:
    """Work of people who missed a check: left out of the study's numbers unless asked for."""

    n_tasks: int
    n_ratings: int


def checks_of(ratings: QuerySet[Rating]) -> Iterator[Checked]:
    """Yield the answers to attention checks among these ratings, in one query."""
    found = ratings.filter(item__purpose=Item.Purpose.CHECK).select_related("item", "task")
    for rating in found.order_by("pk").iterator(chunk_size=1000):
        assert rating.item is not None
        yield Checked(rating, rating.item.expected)


def set_apart(study: Study, *, include_synthetic: bool = False) -> SetApart:
    """Return how much work of the study was set apart, in one query."""
    tasks = Task.objects.filter(participant__study=study, outcome=Outcome.FAILED_CHECK)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
    judged = Rating.objects.filter(task__in=tasks).exclude(item__purpose=Item.Purpose.CHECK)
    counted = judged.aggregate(n_tasks=Count("task", distinct=True), n_ratings=Count("pk"))
    return SetApart(counted["n_tasks"], counted["n_ratings"])
