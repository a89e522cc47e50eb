"""Inter-rater agreement on each set of items: of one upload or data set, or drawn from one place.

Items of one source are similarly difficult, and papers compare sets by such figures; over all
items together, easy and hard sets would mix. The coefficients and their intervals are those of `stats/agreement.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chatbots.storable import quote
from evaluation.analysis.agreement import MOST_CATEGORIES
from evaluation.analysis.tables import plain, text_table
from evaluation.printing import share, span
from evaluation.ratings import Dimension, Ratings
from evaluation.reasons import Reason
from evaluation.stats.agreement import (
    USUAL_SHARED,
    Agreement,
    Level,
    Weights,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    pairwise_kappa,
    undefined,
)
from evaluation.stats.agreement import rating_table as items_by_raters

NOT_NAMED = Reason("not_named", "raters are not named, so no two of them can be compared")


@dataclass(frozen=True, slots=True)
class SetAgreement:
    """Agreement on one question about the items of one set.

    Attributes:
        items: the set's name; empty: the items of no named source.
        level: what the distance of two answers means: "nominal" on a scale of two points, "ordinal" on one of few,
            "interval" on a slider.
        n_items, n_shared: with a rating, and with two or more; n_raters: who are named.
        alpha: Krippendorff's; fleiss: Fleiss' kappa, each with a 95 % interval over items.
        cohen: Cohen's kappa of the two raters, or the median over pairs of more; by linear weights unless nominal.
        n_pairs: of raters, that Cohen's kappa is of.
    """

    items: str
    dimension: str
    level: Level
    n_items: int
    n_shared: int
    n_raters: int
    alpha: Agreement
    fleiss: Agreement
    cohen: Agreement
    n_pairs: int


@dataclass(frozen=True, slots=True, repr=False)
class ItemSets:
    """Agreement for every set and question, the set's name first."""

    sets: tuple[SetAgreement, ...]

    def of(self, items: str, dimension: str) -> SetAgreement:
        """Return the agreement on a question about a set.

        Raises:
            KeyError: there is no such set or question.
        """
        for one in self.sets:
            if (one.items, one.dimension) == (items, dimension):
                return one
        raise KeyError(f"no set {quote(items)} with ratings of {quote(dimension)}")

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined is null, with a reason."""
        found: dict[str, Any] = plain(self)
        return found

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = []
        for one in self.sets:
            cells = [one.items or "–", one.dimension, f"{one.n_shared} of {one.n_items}"]
            for found in (one.alpha, one.fleiss, one.cohen):
                cells.append(share(found.value))
                cells.append(span(found.low, found.high, shares=True))
            rows.append(cells)
        heads = ["alpha", "95%", "Fleiss", "95%", "Cohen", "95%"]
        return text_table("Agreement on items", ["set", "question", "items", *heads], rows)

    def __repr__(self) -> str:
        return self.summary()


def item_sets(
    ratings: Ratings, set_of: Mapping[str, str], *, shared: int = USUAL_SHARED
) -> ItemSets:
    """Return the inter-rater agreement on each set of items and each question.

    Args:
        ratings: whose conversations are the items.
        set_of: the name of each item's set; other items belong to the set without a name.
        shared: items that two raters must have in common for their kappa, where there are more than two.

    Raises:
        ValueError: there is no question.
    """
    if not ratings.dimensions:
        raise ValueError("there is no dimension to agree on")
    once = ratings.once()
    names = np.array([set_of.get(str(item), "") for item in once.conversation], dtype=object)
    return ItemSets(tuple(_found(once, names, shared)))


def _found(once: Ratings, names: np.ndarray, shared: int) -> Iterator[SetAgreement]:
    for name in sorted(set(names.tolist())):
        part = once.where(names == name)
        for dimension in once.dimensions:
            yield _agreement(part, name, dimension, shared)


def _agreement(part: Ratings, name: str, dimension: Dimension, shared: int) -> SetAgreement:
    values = part.values(dimension.key)
    part = part.where(np.isfinite(values))
    values = part.values(dimension.key)
    table = items_by_raters(values, part.conversation.tolist())
    level = _level(dimension, values)
    n_raters = len({rater for rater in part.rater if rater is not None})
    cohen, n_pairs = _cohen(part, dimension.key, level, shared)
    return SetAgreement(
        items=name,
        dimension=dimension.key,
        level=level,
        n_items=len(table),
        n_shared=int((np.isfinite(table).sum(axis=1) > 1).sum()) if len(table) else 0,
        n_raters=n_raters,
        alpha=krippendorff_alpha(table, level),
        fleiss=_too_many(values) or fleiss_kappa(table),
        cohen=cohen,
        n_pairs=n_pairs,
    )


def _level(dimension: Dimension, values: np.ndarray) -> Level:
    if dimension.high - dimension.low == 1 and set(values) <= {dimension.low, dimension.high}:
        return "nominal"
    return "ordinal" if len(np.unique(values)) <= MOST_CATEGORIES else "interval"


def _too_many(values: np.ndarray) -> Agreement | None:
    """Return an undefined agreement if there are too many different answers for a kappa, else None."""
    n = len(np.unique(values))
    if n <= MOST_CATEGORIES:
        return None
    text = f"{n} different answers: kappas need few categories"
    return undefined(0, 0, Reason("many_answers", text, n_answers=n))


def _cohen(part: Ratings, key: str, level: Level, shared: int) -> tuple[Agreement, int]:
    """Return Cohen's kappa of two raters, or the median over pairs of more; and how many pairs it is of."""
    if (why := _too_many(part.values(key))) is not None:
        return why, 0
    named = part.where(part.named)
    if not len(named):
        return undefined(0, 0, NOT_NAMED), 0
    table = items_by_raters(named.values(key), named.conversation.tolist(), named.rater.tolist())
    weights: Weights = None if level == "nominal" else "linear"
    if table.shape[1] == 2:
        return cohen_kappa(table[:, 0], table[:, 1], weights), 1
    pairs = pairwise_kappa(table, weights, min_items=shared)
    n = int(np.isfinite(table).sum())
    median = Agreement(
        pairs.median,
        pairs.low,
        pairs.high,
        len(table),
        n,
        "bootstrap over items" if pairs.low is not None else "",
        pairs.reason,
    )
    return median, len(pairs.kappas)
