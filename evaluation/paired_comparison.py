"""Paired comparison of two columns' correlations with human scores, with its interval.

A cell is a dialogue model of a data set. In each the two columns are compared on the replies where both are
defined; the gain is the mean over cells of the difference of their coefficients. Its interval of 95 % is that of
the jackknife over the contexts of each data set, which are left out of both columns at once, so that what makes a
reply easy for both cancels, and of all models at once, which often answer the same contexts. It reaches as far from
the gain and from the gain less its bias by the jackknife: Pearson's coefficient of few replies comes out too high
where scores are skewed. With ranks, they are those among all replies of a cell. Either side may be several columns,
such as trainings by several seeds: the mean of their coefficients then counts, and the interval is of these very
trainings. Where effectively fewer than 2.5 contexts carry a side, as with correlations, there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.stats.correlation import effective_units_of_cells, few_carry, is_constant, ranks, weighted_correlations
from evaluation.stats.resampling import jackknife_half, leave_one_out_values

AGAINST = ("pearson", "spearman")
MEAN = "mean"
"""Of the two coefficients, as GRADE's paper averages them."""
NO_CELL = "in no cell do both have three different scores beside people's"
_LEVEL = 0.95
_BLOCK = 4_000_000  # numbers held at once


@dataclass(frozen=True, slots=True)
class PairedGain:
    """A column's mean coefficient over cells, another's, and the interval of their difference.

    Attributes:
        reason: why there is no interval, where few contexts carry a side.
    """

    ours: float
    theirs: float
    low: float | None
    high: float | None
    reason: Reason | None = None

    @property
    def gain(self) -> float:
        """The difference."""
        return self.ours - self.theirs

    def to_json(self) -> dict[str, Any]:
        """Return `{"r", "r_against", "gain", "ci95"}`, and the reason for no interval."""
        ends = None if self.low is None or self.high is None else [self.low, self.high]
        found: dict[str, Any] = {"r": self.ours, "r_against": self.theirs, "gain": self.gain, "ci95": ends}
        if self.reason is not None:
            found["reason"] = self.reason.to_json()
        return found


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """A column compared with another one.

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
            "cells": [{"source": source, "model": model, "n": n} for (source, model), n in self.cells.items()],
            "cells_left_out": self.left_out,
            **({} if self.gains else {"reason": NO_CELL}),
        }


def compare_paired(
    ours: np.ndarray,
    theirs: np.ndarray,
    human: np.ndarray,
    contexts: np.ndarray,
    cells: Sequence[tuple[str, str]],
    column: str,
) -> PairedComparison:
    """Compare two columns of scores of the same N replies.

    Args:
        ours, theirs: (N,) NaN where undefined; or (K, N), several columns, all of them defined where a reply counts.
        human: (N,) NaN where undefined.
        contexts: (N,) the context, which replies share.
        cells: (N,) data set and dialogue model.
        column: the name of the other column.
    """
    ours, theirs = np.atleast_2d(ours), np.atleast_2d(theirs)
    known = np.isfinite(np.vstack([ours, theirs, human])).all(axis=0)
    counted: dict[tuple[str, str], np.ndarray] = {}
    left_out = 0
    for cell in dict.fromkeys(cells):
        here = known & np.array([one == cell for one in cells], dtype=bool)
        if here.sum() < 3 or any(is_constant(one[here]) for one in (*ours, *theirs, human)):
            left_out += 1
        else:
            counted[cell] = np.flatnonzero(here)
    if not counted:
        return PairedComparison(column, {}, {}, left_out)
    gains = {}
    for name, methods in {**{one: (one,) for one in AGAINST}, MEAN: AGAINST}.items():
        mine, its = (
            float(
                np.mean(
                    [
                        _coefficient(one[at], human[at], method)
                        for at in counted.values()
                        for method in methods
                        for one in side
                    ]
                )
            )
            for side in (ours, theirs)
        )
        parts = [
            _differences(ours, theirs, human, contexts, _of_source(counted, source), methods)
            for source in dict.fromkeys(source for source, _model in counted)
        ]
        half = jackknife_half([without / len(counted) for _whole, without in parts], _LEVEL)
        few = _few_carry([*ours, *theirs, human], contexts, counted, methods)
        low = high = None
        if half is not None and few is None:
            bias = sum((len(without) - 1) * (without.mean() - whole) for whole, without in parts)
            ends = sorted((mine - its, mine - its - float(bias) / len(counted)))
            low, high = max(ends[0] - half, -2.0), min(ends[1] + half, 2.0)
        gains[name] = PairedGain(mine, its, low, high, few)
    return PairedComparison(column, gains, {cell: len(at) for cell, at in counted.items()}, left_out)


def _few_carry(
    sides: Sequence[np.ndarray],
    contexts: np.ndarray,
    counted: Mapping[tuple[str, str], np.ndarray],
    methods: Sequence[str],
) -> Reason | None:
    """Return the reason where few contexts of all cells carry one of the (N,) sides; else None."""
    units = {cell: np.array([f"{cell[0]}\n{one}" for one in contexts[at]]) for cell, at in counted.items()}
    carried = min(
        effective_units_of_cells([(side[at], units[cell]) for cell, at in counted.items()], method)
        for side in sides
        for method in methods
    )
    return few_carry(carried, len(np.unique(np.concatenate(list(units.values())))))


def _of_source(counted: Mapping[tuple[str, str], np.ndarray], source: str) -> list[np.ndarray]:
    """Return the rows of each of a data set's cells."""
    return [at for (of, _model), at in counted.items() if of == source]


def _differences(
    ours: np.ndarray,
    theirs: np.ndarray,
    human: np.ndarray,
    contexts: np.ndarray,
    cells: Sequence[np.ndarray],
    methods: Sequence[str],
) -> tuple[float, np.ndarray]:
    """Return the sum over cells of the mean difference of coefficients, with all contexts and, (contexts,), without
    each.

    Args:
        ours, theirs: (K, N); cells: the rows of each.
    """
    rows = np.concatenate(cells)
    names, codes = np.unique(contexts[rows].astype(str), return_inverse=True)
    places = np.split(np.arange(len(rows)), np.cumsum([len(at) for at in cells])[:-1])

    def differences(times: np.ndarray) -> np.ndarray:
        weights = times[:, codes]
        found = np.zeros(len(times))
        for at, place in zip(cells, places, strict=True):
            for method in methods:
                mine, its = (
                    np.mean(
                        [weighted_correlations(one[at], human[at], weights[:, place], method) for one in side], axis=0
                    )
                    for side in (ours, theirs)
                )
                found += (mine - its) / len(methods)
        return found

    whole = differences(np.ones((1, len(names))))
    return float(whole[0]), leave_one_out_values(differences, len(names), max(1, _BLOCK // len(rows)))


def _coefficient(x: np.ndarray, y: np.ndarray, method: str) -> float:
    if method == "spearman":
        x, y = ranks(x), ranks(y)
    return float(np.corrcoef(x, y)[0, 1])


def gains_printed(result: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each metric and coefficient of the JSON of `judge(..., against=...)`."""
    from evaluation.number_format import share

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
            f"{share(one[method]['gain'], 3)} {_interval_printed(one[method])}"
            for method in (*AGAINST, MEAN)
        ]
        left = f", {one['cells_left_out']} left out" if one["cells_left_out"] else ""
        lines.append(f"{name} against {one['column']}, mean over {len(one['cells'])} cells{left}: {'; '.join(parts)}")
    if lines:
        lines.append("against: on the same replies; 95 % by the jackknife over the contexts of each data set.")
    return lines


def _interval_printed(gain: Mapping[str, Any]) -> str:
    """Return the interval of a gain's JSON, or the reason for none."""
    from evaluation.number_format import share, span

    few = gain.get("reason")
    if few:
        return f"(no interval: {share(few['n_carrying'], 1)} of {few['n_units']} contexts carry one side)"
    return span(*(gain["ci95"] or (None, None)), shares=True)
