"""Pairs of bots that people rate significantly differently, and the test: the reference for a fit's pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evaluation.analysis.comparisons import Test, Units, compare
from evaluation.ratings import Ratings

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class ToldApart:
    """Pairs of bots whose ratings differ significantly, as `evaluation.analysis.comparisons.compare` says.

    Attributes:
        pairs: each sorted by name.
        test: of these differences: the fixed-sample one, or while the study collects the always-valid one; None where
            nothing was rated.
        units: within which ratings are not assumed independent: raters, conversations if raters are unnamed, or both.
    """

    pairs: frozenset[tuple[str, str]] = frozenset()
    test: Test | None = None
    units: Units = "raters"


def told_apart(human: pd.DataFrame, targets: Sequence[str], ratings: Ratings | None) -> ToldApart:
    """Find the pairs of bots that differ significantly.

    Args:
        human: as of `fit_hybrid`, where `ratings` is not there or lacks a target.
        targets: dimensions whose mean is compared.
        ratings: every single rating.
    """
    if ratings is None or set(targets) - set(ratings.answers):
        table = human.drop(columns="rater", errors="ignore")
        table = table.rename(columns={"participant": "rater"})
        ratings = Ratings.from_frame(table, list(targets))
    found = compare(ratings, targets, plans=False)
    return ToldApart(found.told_apart, found.test, found.units)
