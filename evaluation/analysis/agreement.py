"""Inter-rater agreement for each dimension: every coefficient that fits, or the reason why it does not fit.

It covers the same conversation, where several raters rated it, and the same bot, which is another conversation
for every rater. Controls are left out of agreement about bots: they are bad on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.analysis.tables import number_or_reason, text_table
from evaluation.printing import share, span
from evaluation.ratings import Ratings
from evaluation.reasons import Reason
from evaluation.stats.agreement import (
    Agreement,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    pairwise_kappa,
)
from evaluation.stats.agreement import rating_table as items_by_raters
from evaluation.stats.icc import icc

MOST_CATEGORIES = 11
"""Kappas treat every answer as a category of its own; a slider has too many."""

Code = Literal[
    "alpha_ordinal", "alpha_interval", "icc_one", "icc_mean", "fleiss", "cohen", "cohen_median"
]
About = Literal["conversation", "bot"]


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One coefficient of one dimension.

    Attributes:
        n_pairs: of raters, for the median of Cohen's kappa.
    """

    dimension: str
    code: Code
    about: About
    found: Agreement
    n_pairs: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined is null, with a reason."""
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
    """All coefficients, those of the leading question first.

    Attributes:
        leading: key of what bots are ranked by.
    """

    leading: str
    coefficients: tuple[Coefficient, ...]

    def leading_one(self, about: About, *codes: Code) -> Agreement:
        """Return the first of these coefficients of what bots are ranked by.

        Raises:
            KeyError: without one.
        """
        for one in self.coefficients:
            if (one.dimension, one.about) == (self.leading, about) and one.code in codes:
                return one.found
        raise KeyError(f"no {' or '.join(codes)} of {self.leading} about the same {about}")

    @property
    def same_conversation(self) -> Agreement:
        """Krippendorff's alpha of what bots are ranked by over conversations that several people rated."""
        return self.leading_one("conversation", "alpha_ordinal", "alpha_interval")

    @property
    def one_rater(self) -> Agreement:
        """ICC(1): reliability of one rater's view of a bot."""
        return self.leading_one("bot", "icc_one")

    @property
    def reliability_of_bots(self) -> Agreement:
        """ICC(k): reliability of the bots' means over repeated samples of raters."""
        return self.leading_one("bot", "icc_mean")

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"leading": self.leading, "coefficients": [c.to_json() for c in self.coefficients]}

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                *(one.dimension, one.code.replace("_", " "), one.about),
                share(one.found.value) if one.found.value is not None else str(one.found.reason),
                span(one.found.low, one.found.high, shares=True),
                *(str(one.found.n_items), str(one.found.n_ratings)),
            ]
            for one in self.coefficients
        ]
        headers = ["dimension", "coefficient", "about", "value", "95%", "items", "ratings"]
        return text_table("Agreement of raters", headers, rows)


def rater_agreement(ratings: Ratings) -> RaterAgreement:
    """Return every coefficient of every dimension."""
    if ratings.leading is None:
        raise ValueError("there is no dimension to agree on")
    first = ratings.leading.key
    keys = [first, *(d.key for d in ratings.dimensions if d.key != first)]
    return RaterAgreement(
        first, tuple(one for key in keys for one in _coefficients(ratings, ratings.once(), key))
    )


def _coefficients(ratings: Ratings, once: Ratings, key: str) -> Iterator[Coefficient]:
    table = items_by_raters(once.values(key), once.conversation.tolist())
    shared, n = int((np.isfinite(table).sum(axis=1) > 1).sum()), len(table)
    alpha: Code = "alpha_ordinal" if _is_ordinal(table) else "alpha_interval"
    if shared < 2:
        text = f"{shared} of {n} conversations rated by more than one"
        why = Reason("few_shared", text, n_shared=shared, n_conversations=n)
        missing = Agreement(None, None, None, shared, 0, reason=why)
        yield Coefficient(key, alpha, "conversation", missing)
    else:
        yield Coefficient(key, alpha, "conversation", _alpha(table))
        yield Coefficient(key, "icc_one", "conversation", icc(table, "icc1_1"))
        yield Coefficient(key, "icc_mean", "conversation", icc(table, "icc1_k"))
        yield from _kappas(once, key, table)
    by_bot = _by_bot(ratings, key)
    alpha = "alpha_ordinal" if _is_ordinal(by_bot) else "alpha_interval"
    yield Coefficient(key, alpha, "bot", _alpha(by_bot))
    yield Coefficient(key, "icc_one", "bot", icc(by_bot, "icc1_1"))
    yield Coefficient(key, "icc_mean", "bot", icc(by_bot, "icc1_k"))


def _kappas(once: Ratings, key: str, table: np.ndarray) -> Iterator[Coefficient]:
    n_answers = len(np.unique(table[np.isfinite(table)]))
    if n_answers > MOST_CATEGORIES:
        text = f"{n_answers} different answers: kappas need few categories"
        why = Reason("many_answers", text, n_answers=n_answers)
        missing = Agreement(None, None, None, 0, 0, reason=why)
        yield Coefficient(key, "fleiss", "conversation", missing)
        return
    yield Coefficient(key, "fleiss", "conversation", fleiss_kappa(table))
    named = once.where(once.named)
    if not len(named):
        return
    by_name = items_by_raters(named.values(key), named.conversation.tolist(), named.rater.tolist())
    if by_name.shape[1] == 2:
        found = cohen_kappa(by_name[:, 0], by_name[:, 1], "linear")
        yield Coefficient(key, "cohen", "conversation", found)
        return
    pairs = pairwise_kappa(by_name, "linear")
    n = int(np.isfinite(by_name).sum())
    median = Agreement(pairs.median, pairs.low, pairs.high, len(by_name), n, reason=pairs.reason)
    yield Coefficient(key, "cohen_median", "conversation", median, len(pairs.kappas))


def _is_ordinal(table: np.ndarray) -> bool:
    """Return True if there are few distinct values, so that only their order is certain.

    Many values come from a slider, whose distances are used as they are.
    """
    return len(np.unique(table[np.isfinite(table)])) <= MOST_CATEGORIES


def _alpha(table: np.ndarray) -> Agreement:
    return krippendorff_alpha(table, "ordinal" if _is_ordinal(table) else "interval")


def _by_bot(ratings: Ratings, key: str) -> np.ndarray:
    """Return a table of bots without controls × raters; a rater's several ratings of a bot count as their mean."""
    import pandas as pd

    values = ratings.values(key)
    keep = ratings.ranked & np.isfinite(values)
    frame = pd.DataFrame(
        {"bot": ratings.bot[keep], "unit": ratings.unit[keep], "value": values[keep]}
    )
    means = frame.groupby(["bot", "unit"], sort=True)["value"].mean().reset_index()
    return items_by_raters(means["value"].to_numpy(), means["bot"].tolist())
