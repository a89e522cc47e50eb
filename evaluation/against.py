"""How much better one column agrees with people than another, on the same replies: the paired difference with its interval.

A cell is a dialogue model of a data set. In each the two columns are compared on the replies where both are defined; the gain
is the mean over cells of the difference of their coefficients. Its interval of 95 % resamples contexts within each cell,
the same for both columns, so that what makes a reply easy for both cancels. With ranks, they are those among
all replies of a cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.stats.correlation import is_constant
from evaluation.stats.resampling import interval_of_draws
from evaluation.stats.weighted import contexts_resampled, ranks, weighted_correlations

AGAINST = ("pearson", "spearman")
MEAN = "mean"
"""Of the two coefficients, as GRADE's paper averages them."""
N_BOOTSTRAP = 2000
NO_CELL = "in no cell do both have three different scores beside people's"
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class PairedGain:
    """A column's mean coefficient over cells, another's, and the interval of their difference."""

    ours: float
    theirs: float
    low: float | None
    high: float | None

    @property
    def gain(self) -> float:
        """The difference."""
        return self.ours - self.theirs

    def to_json(self) -> dict[str, Any]:
        """Return `{"r", "r_against", "gain", "ci95"}`."""
        ends = None if self.low is None or self.high is None else [self.low, self.high]
        return {"r": self.ours, "r_against": self.theirs, "gain": self.gain, "ci95": ends}


@dataclass(frozen=True, slots=True)
class Against:
    """A column beside another one.

    Attributes:
        column: the other.
        gains: for "pearson", "spearman" and "mean" of both; empty where no cell has enough of both.
        cells: replies of each cell that is counted, by data set and dialogue model.
        left_out: cells in which a coefficient is undefined.
    """

    column: str
    gains: dict[str, PairedGain]
    cells: dict[tuple[str, str], int]
    left_out: int

    def to_json(self) -> dict[str, Any]:
        """Return the gains by method, `column`, `cells`, and why there are none."""
        return {
            "column": self.column,
            **{name: one.to_json() for name, one in self.gains.items()},
            "cells": [
                {"source": source, "model": model, "n": n}
                for (source, model), n in self.cells.items()
            ],
            "cells_left_out": self.left_out,
            **({} if self.gains else {"reason": NO_CELL}),
        }


def against(
    ours: np.ndarray,
    theirs: np.ndarray,
    human: np.ndarray,
    contexts: np.ndarray,
    cells: Sequence[tuple[str, str]],
    column: str,
    *,
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = 0,
) -> Against:
    """Compare two columns of scores of the same N replies.

    Args:
        ours, theirs, human: (N,) NaN where undefined.
        contexts: (N,) the context, which replies share.
        cells: (N,) data set and dialogue model.
        column: the name of the other column.
    """
    known = np.isfinite(ours) & np.isfinite(theirs) & np.isfinite(human)
    rng = np.random.default_rng(seed)
    counted: dict[tuple[str, str], int] = {}
    left_out = 0
    n_units: list[int] = []
    r: dict[str, list[tuple[float, float]]] = {method: [] for method in AGAINST}
    draws: dict[str, list[np.ndarray]] = {method: [] for method in AGAINST}
    for cell in dict.fromkeys(cells):
        here = known & np.array([one == cell for one in cells], dtype=bool)
        x, other, y = ours[here], theirs[here], human[here]
        if here.sum() < 3 or any(map(is_constant, (x, other, y))):
            left_out += 1
            continue
        counted[cell] = int(here.sum())
        n_units.append(len(set(contexts[here])))
        weights = contexts_resampled(contexts[here], n_bootstrap, rng)
        for method in AGAINST:
            r[method].append((_coefficient(x, y, method), _coefficient(other, y, method)))
            draws[method].append(
                weighted_correlations(x, y, weights, method)
                - weighted_correlations(other, y, weights, method)
            )
    if not counted:
        return Against(column, {}, {}, left_out)
    means = {method: np.mean(r[method], axis=0) for method in AGAINST}
    drawn = {method: np.mean(draws[method], axis=0) for method in AGAINST}
    means[MEAN] = np.mean([means[method] for method in AGAINST], axis=0)
    drawn[MEAN] = np.mean([drawn[method] for method in AGAINST], axis=0)
    gains = {}
    for name, (mine, its) in means.items():
        # The fewest contexts of a cell decide how far out the percentiles lie: nothing is claimed that they do not bear.
        low, high = interval_of_draws(drawn[name], min(n_units), _LEVEL) or (None, None)
        gains[name] = PairedGain(float(mine), float(its), low, high)
    return Against(column, gains, counted, left_out)


def _coefficient(x: np.ndarray, y: np.ndarray, method: str) -> float:
    if method == "spearman":
        x, y = ranks(x), ranks(y)
    return float(np.corrcoef(x, y)[0, 1])


def gains_printed(result: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each metric and coefficient of the JSON of `judge(..., against=...)`."""
    from evaluation.printing import share, span

    lines = []
    for name, found in result.items():
        one = found.get("against")
        if not one:
            continue
        if "reason" in one:
            lines.append(f"{name} against {one['column']}: undefined, {one['reason']}")
            continue
        parts = [
            f"{method} {share(one[method]['r'], 3)} less {share(one[method]['r_against'], 3)}, a gain of "
            f"{share(one[method]['gain'], 3)} {span(*(one[method]['ci95'] or (None, None)), shares=True)}"
            for method in (*AGAINST, MEAN)
        ]
        left = f", {one['cells_left_out']} left out" if one["cells_left_out"] else ""
        lines.append(
            f"{name} against {one['column']}, mean over {len(one['cells'])} cells{left}: {'; '.join(parts)}"
        )
    if lines:
        lines.append(
            "against: on the same replies; 95 % by resampling contexts within each cell, a dialogue model of a data set."
        )
    return lines
