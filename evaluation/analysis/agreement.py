"""Agreement between raters, within sets of items, and of raters with themselves.

For each dimension, every applicable coefficient is given, or the reason why it does not apply. Agreement is measured on
the same conversation, if several raters rated it, and on the same bot, which is a different conversation for every
rater. Controls are excluded from agreement about bots, because they are deliberately poor.

A set contains the items of one upload, data set or source. Items of one source are similarly difficult, and papers
compare sets by such figures; over all items, easy and hard sets would mix. The coefficients and their intervals come
from `stats/agreement.py`.

Self-agreement uses items that a rater rated twice in one session, not in succession.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.data.tables import SummarisedResult, number_or_reason, text_table
from evaluation.findings import Reason
from evaluation.number_format import share, span
from evaluation.stats.agreement import (
    USUAL_SHARED,
    AgreementEstimate,
    Level,
    Weights,
    cohen_kappa,
    fleiss_kappa,
    gwet_ac,
    krippendorff_alpha,
    pairwise_kappa,
    undefined,
)
from evaluation.stats.agreement import rating_table as items_by_raters
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.icc import icc
from evaluation.stats.means import SHARE, Interval, mean_interval

MOST_CATEGORIES = 11
"""Maximum number of different answers for a kappa, which treats each as a category; sliders have too many."""

Code = Literal["alpha_ordinal", "alpha_interval", "icc_one", "icc_mean", "fleiss", "gwet", "cohen", "cohen_median"]
About = Literal["conversation", "bot"]


@dataclass(frozen=True, slots=True)
class AgreementCoefficient:
    """One coefficient of one dimension.

    Attributes:
        n_pairs: number of rater pairs, for the median of Cohen's kappa.
    """

    dimension: str
    code: Code
    about: About
    found: AgreementEstimate
    n_pairs: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined ones are null, with a reason."""
        return {
            "dimension": self.dimension,
            "coefficient": self.code,
            "about": self.about,
            "value": self.found.value,
            "low": self.found.low,
            "high": self.found.high,
            "n_items": self.found.n_items,
            "n_ratings": self.found.n_ratings,
            **number_or_reason(self.found.reason),
        }


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """All coefficients, with those of the leading question first.

    Attributes:
        leading: key of the question that bots are ranked by.
    """

    leading: str
    coefficients: tuple[AgreementCoefficient, ...]

    def get_leading(self, about: About, *codes: Code) -> AgreementEstimate:
        """Return the first of these coefficients for the leading question.

        Raises:
            KeyError: if there is none.
        """
        for coefficient in self.coefficients:
            if (coefficient.dimension, coefficient.about) == (self.leading, about) and coefficient.code in codes:
                return coefficient.found
        raise KeyError(f"no {' or '.join(codes)} of {self.leading} about the same {about}")

    @property
    def same_conversation(self) -> AgreementEstimate:
        """Krippendorff's alpha of the leading question over conversations rated by several people."""
        return self.get_leading("conversation", "alpha_ordinal", "alpha_interval")

    @property
    def one_rater(self) -> AgreementEstimate:
        """ICC(1): reliability of a single rater's view of a bot."""
        return self.get_leading("bot", "icc_one")

    @property
    def reliability_of_bots(self) -> AgreementEstimate:
        """ICC(k): reliability of the bots' means over repeated samples of raters."""
        return self.get_leading("bot", "icc_mean")

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"leading": self.leading, "coefficients": [c.to_json() for c in self.coefficients]}

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                *(coefficient.dimension, coefficient.code.replace("_", " "), coefficient.about),
                share(coefficient.found.value)
                if coefficient.found.value is not None
                else str(coefficient.found.reason),
                span(coefficient.found.low, coefficient.found.high, shares=True),
                *(str(coefficient.found.n_items), str(coefficient.found.n_ratings)),
            ]
            for coefficient in self.coefficients
        ]
        headers = ["dimension", "coefficient", "about", "value", "95%", "items", "ratings"]
        return text_table("Agreement of raters", headers, rows)


def rater_agreement(ratings: Ratings) -> RaterAgreement:
    """Return every coefficient of every dimension."""
    if ratings.leading is None:
        raise ValueError("the study has no rating dimension")
    first = ratings.leading.key
    keys = [first, *(d.key for d in ratings.dimensions if d.key != first)]
    return RaterAgreement(
        first, tuple(coefficient for key in keys for coefficient in _coefficients(ratings, ratings.once(), key))
    )


def _coefficients(ratings: Ratings, once: Ratings, key: str) -> Iterator[AgreementCoefficient]:
    table = items_by_raters(once.values(key), once.conversation.tolist())
    shared, n = int((np.isfinite(table).sum(axis=1) > 1).sum()), len(table)
    alpha: Code = "alpha_ordinal" if _is_ordinal(table) else "alpha_interval"
    if shared < 2:
        text = f"only {shared} of {n} conversations were rated by more than one rater"
        reason = Reason("few_shared", text, n_shared=shared, n_conversations=n)
        missing = AgreementEstimate(None, None, None, shared, 0, reason=reason)
        yield AgreementCoefficient(key, alpha, "conversation", missing)
    else:
        yield AgreementCoefficient(key, alpha, "conversation", _alpha(table))
        yield AgreementCoefficient(key, "icc_one", "conversation", icc(table, "icc1_1"))
        yield AgreementCoefficient(key, "icc_mean", "conversation", icc(table, "icc1_k"))
        yield from _kappas(once, once.dimension(key), table)
    by_bot = _by_bot(ratings, key)
    alpha = "alpha_ordinal" if _is_ordinal(by_bot) else "alpha_interval"
    yield AgreementCoefficient(key, alpha, "bot", _alpha(by_bot))
    yield AgreementCoefficient(key, "icc_one", "bot", icc(by_bot, "icc1_1"))
    yield AgreementCoefficient(key, "icc_mean", "bot", icc(by_bot, "icc1_k"))


def _kappas(once: Ratings, dimension: RatingDimension, table: np.ndarray) -> Iterator[AgreementCoefficient]:
    key = dimension.key
    n_answers = len(np.unique(table[np.isfinite(table)]))
    if n_answers > MOST_CATEGORIES:
        text = f"{n_answers} different answers; kappa requires few categories"
        reason = Reason("many_answers", text, n_answers=n_answers)
        missing = AgreementEstimate(None, None, None, 0, 0, reason=reason)
        yield AgreementCoefficient(key, "fleiss", "conversation", missing)
        return
    yield AgreementCoefficient(key, "fleiss", "conversation", fleiss_kappa(table))
    yield AgreementCoefficient(key, "gwet", "conversation", _gwet(table, dimension))
    named_ratings = once.select(once.is_named)
    if not len(named_ratings):
        return
    by_name = items_by_raters(
        named_ratings.values(key), named_ratings.conversation.tolist(), named_ratings.rater.tolist()
    )
    if by_name.shape[1] == 2:
        estimate = cohen_kappa(by_name[:, 0], by_name[:, 1], "linear")
        yield AgreementCoefficient(key, "cohen", "conversation", estimate)
        return
    pairs = pairwise_kappa(by_name, "linear")
    n = int(np.isfinite(by_name).sum())
    median = AgreementEstimate(pairs.median, pairs.low, pairs.high, len(by_name), n, reason=pairs.reason)
    yield AgreementCoefficient(key, "cohen_median", "conversation", median, len(pairs.kappas))


def _is_ordinal(table: np.ndarray) -> bool:
    """Return True if the values are few, so that only their order is certain.

    Many values come from a slider, whose distances are used as they are.
    """
    return len(np.unique(table[np.isfinite(table)])) <= MOST_CATEGORIES


def _alpha(table: np.ndarray) -> AgreementEstimate:
    return krippendorff_alpha(table, "ordinal" if _is_ordinal(table) else "interval")


def _gwet(table: np.ndarray, dimension: RatingDimension) -> AgreementEstimate:
    """Return Gwet's AC1 for two possible answers, otherwise AC2 with linear weights."""
    values = table[np.isfinite(table)]
    weights: Weights = None if _level(dimension, values) == "nominal" else "linear"
    return gwet_ac(table, weights, categories=_points(dimension, values))


def _points(dimension: RatingDimension, values: np.ndarray) -> list[float] | None:
    """Return all points of a known integer scale, otherwise None."""
    n = dimension.high - dimension.low + 1
    is_known = not dimension.inferred and n <= MOST_CATEGORIES
    if not is_known or not np.equal(np.mod([*values, dimension.low, n], 1), 0).all():
        return None
    return [dimension.low + i for i in range(int(n))]


def _by_bot(ratings: Ratings, key: str) -> np.ndarray:
    """Return a bots × raters table without controls.

    A rater's ratings of one bot are averaged.
    """
    import pandas as pd

    values = ratings.values(key)
    keep = ratings.ranked & np.isfinite(values)
    frame = pd.DataFrame({"bot": ratings.bot[keep], "unit": ratings.unit[keep], "value": values[keep]})
    means = frame.groupby(["bot", "unit"], sort=True)["value"].mean().reset_index()
    return items_by_raters(means["value"].to_numpy(), means["bot"].tolist())


NOT_NAMED = Reason("not_named", "raters are not identified, so they cannot be compared with each other")


@dataclass(frozen=True, slots=True)
class SetAgreement:
    """Agreement on one question about the items of one set.

    Attributes:
        items: name of the set; empty for items without a named source.
        level: distance measure: "nominal" on a scale of two points, "ordinal" for few points, "interval" for a slider.
        n_items, n_shared: number of items with a rating, and with two or more.
        n_raters: number of identified raters.
        alpha: Krippendorff's.
        fleiss: Fleiss' kappa.
        gwet: AC1, or AC2 with linear weights unless nominal; each with a 95 % interval over items.
        cohen: Cohen's kappa of the two raters, or the median over pairs if there are more; with linear weights unless
            nominal.
        n_pairs: number of rater pairs behind Cohen's kappa.
    """

    items: str
    dimension: str
    level: Level
    n_items: int
    n_shared: int
    n_raters: int
    alpha: AgreementEstimate
    fleiss: AgreementEstimate
    gwet: AgreementEstimate
    cohen: AgreementEstimate
    n_pairs: int


@dataclass(frozen=True, slots=True, repr=False)
class ItemSets(SummarisedResult):
    """Agreement for every set and question, keyed by set name first."""

    sets: tuple[SetAgreement, ...]

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = []
        for agreement in self.sets:
            cells = [agreement.items or "–", agreement.dimension, f"{agreement.n_shared} of {agreement.n_items}"]
            for estimate in (agreement.alpha, agreement.fleiss, agreement.gwet, agreement.cohen):
                cells.append(share(estimate.value))
                cells.append(span(estimate.low, estimate.high, shares=True))
            rows.append(cells)
        heads = ["alpha", "95%", "Fleiss", "95%", "Gwet", "95%", "Cohen", "95%"]
        return text_table("Agreement on items", ["set", "question", "items", *heads], rows)


def item_sets(ratings: Ratings, set_of: Mapping[str, str], *, shared: int = USUAL_SHARED) -> ItemSets:
    """Return the inter-rater agreement on each set of items and each question.

    Args:
        ratings: ratings whose conversations are the items.
        set_of: set name of each item; other items belong to the unnamed set.
        shared: minimum number of items that two raters must share for their kappa, if there are more than two raters.

    Raises:
        ValueError: if there is no question.
    """
    if not ratings.dimensions:
        raise ValueError("the study has no rating dimension")
    once = ratings.once()
    names = np.array([set_of.get(str(item), "") for item in once.conversation], dtype=object)
    return ItemSets(tuple(_iterate_set_agreements(once, names, shared)))


def _iterate_set_agreements(once: Ratings, names: np.ndarray, shared: int) -> Iterator[SetAgreement]:
    for name in sorted(set(names.tolist())):
        part = once.select(names == name)
        for dimension in once.dimensions:
            yield _agreement(part, name, dimension, shared)


def _agreement(part: Ratings, name: str, dimension: RatingDimension, shared: int) -> SetAgreement:
    values = part.values(dimension.key)
    part = part.select(np.isfinite(values))
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
        fleiss=_check_categories(values) or fleiss_kappa(table),
        gwet=_check_categories(values) or _gwet(table, dimension),
        cohen=cohen,
        n_pairs=n_pairs,
    )


def _level(dimension: RatingDimension, values: np.ndarray) -> Level:
    if dimension.high - dimension.low == 1 and set(values) <= {dimension.low, dimension.high}:
        return "nominal"
    return "ordinal" if len(np.unique(values)) <= MOST_CATEGORIES else "interval"


def _check_categories(values: np.ndarray) -> AgreementEstimate | None:
    """Return an undefined agreement if a kappa has too many categories."""
    n = len(np.unique(values))
    if n <= MOST_CATEGORIES:
        return None
    text = f"{n} different answers; kappa requires few categories"
    return undefined(0, 0, Reason("many_answers", text, n_answers=n))


def _cohen(part: Ratings, key: str, level: Level, shared: int) -> tuple[AgreementEstimate, int]:
    """Return Cohen's kappa and the number of rater pairs.

    With more than two raters it is the median over pairs.
    """
    if (problem := _check_categories(part.values(key))) is not None:
        return problem, 0
    named_ratings = part.select(part.is_named)
    if not len(named_ratings):
        return undefined(0, 0, NOT_NAMED), 0
    table = items_by_raters(
        named_ratings.values(key), named_ratings.conversation.tolist(), named_ratings.rater.tolist()
    )
    weights: Weights = None if level == "nominal" else "linear"
    if table.shape[1] == 2:
        return cohen_kappa(table[:, 0], table[:, 1], weights), 1
    pairs = pairwise_kappa(table, weights, min_items=shared)
    n = int(np.isfinite(table).sum())
    median = AgreementEstimate(
        pairs.median,
        pairs.low,
        pairs.high,
        len(table),
        n,
        "bootstrap over items" if pairs.low is not None else "",
        pairs.reason,
    )
    return median, len(pairs.kappas)


@dataclass(frozen=True, slots=True)
class OwnAgreement:
    """Share of answers that raters repeated on the same item.

    Attributes:
        same: share of equal answers, with the ends of its interval.
        apart: mean distance of the two answers in points of the scale, with its interval.
        n_people: number of raters who answered twice.
    """

    same: Interval
    apart: Interval
    n_people: int


def own_agreement(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    people: Sequence[object],
    *,
    level: float = RATING_LEVEL,
    width: float | None = None,
) -> OwnAgreement:
    """Compare the first and second answers of several people.

    Intervals treat people as independent and allow for dependence between answers of one person.

    Args:
        first, second: (k,) answers to the same question about the same item; NaN for a skipped answer.
        people: (k,) person who gave both.
        width: width of the question's scale, the maximum distance; None for a scale without ends.
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    distance = np.abs(a - b)
    same = np.where(np.isfinite(distance), (distance == 0).astype(float), np.nan)
    is_paired = np.isfinite(distance)
    groups = [person for person, is_given in zip(people, is_paired, strict=True) if is_given]
    return OwnAgreement(
        mean_interval(same[is_paired], groups, level, scale=SHARE),
        mean_interval(distance[is_paired], groups, level, scale=None if width is None else (0.0, width)),
        len(set(groups)),
    )
