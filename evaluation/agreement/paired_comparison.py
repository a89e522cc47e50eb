"""Paired comparison of two columns' correlations with human scores.

A cell is a dialogue model of a data set. In each cell the two columns are compared on the replies where both are
defined; the gain is the difference of their coefficients, averaged over cells.

Its 95 % interval is a jackknife over the contexts of each data set. A context is left out of both columns, so that its
difficulty cancels, and of all models, which often answer the same contexts. The interval covers the gain and the
bias-corrected gain, because with few replies and skewed scores Pearson's coefficient is too high. Ranks are among all
replies of a cell.

Either side can consist of several columns, such as trainings with several seeds; the mean of their coefficients is then
used, and the interval refers to these trainings. As with correlations, there is no interval if a side effectively
depends on fewer than 2.5 contexts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.number_format import plain_interval
from evaluation.stats.constants import MOST_NUMBERS, SCORE_LEVEL
from evaluation.stats.correlation import effective_units_of_cells, few_carry, is_constant, ranks, weighted_correlations
from evaluation.stats.resampling import jackknife_half, leave_one_out_values

AGAINST = ("pearson", "spearman")
MEAN = "mean"
"""Name of the mean of the two coefficients, as in GRADE's paper."""
NO_CELL = "no cell has three replies with different scores by both columns and by people"


@dataclass(frozen=True, slots=True)
class PairedGain:
    """Mean coefficients of two columns over cells, with their difference's interval.

    Attributes:
        reason: reason for a missing interval, if few contexts carry the variance of a side.
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
        """Return `{"r", "r_against", "gain", "ci95"}`, and the reason for a missing interval."""
        ends = plain_interval(self.low, self.high)
        gain_json: dict[str, Any] = {"r": self.ours, "r_against": self.theirs, "gain": self.gain, "ci95": ends}
        if self.reason is not None:
            gain_json["reason"] = self.reason.to_json()
        return gain_json


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Comparison of a column with another one.

    Attributes:
        column: name of the other column.
        gains: for "pearson", "spearman" and "mean" of both; empty if no cell has enough of both.
        cells: number of replies in each cell used, by data set and dialogue model.
        left_out: number of skipped cells, whose coefficients are undefined.
    """

    column: str
    gains: dict[str, PairedGain]
    cells: dict[tuple[str, str], int]
    left_out: int

    def to_json(self) -> dict[str, Any]:
        """Return the gains by method, `column` and `cells`.

        Without gains there is a reason.
        """
        return {
            "column": self.column,
            **{name: gain.to_json() for name, gain in self.gains.items()},
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
        ours, theirs: (N,) NaN if undefined; or (K, N) for several columns, of which all must be defined for a reply to
            count.
        human: (N,) NaN if undefined.
        contexts: (N,) context, which replies share.
        cells: (N,) data set and dialogue model.
        column: the name of the other column.
    """
    ours, theirs = np.atleast_2d(ours), np.atleast_2d(theirs)
    known = np.isfinite(np.vstack([ours, theirs, human])).all(axis=0)
    rows_by_cell: dict[tuple[str, str], np.ndarray] = {}
    left_out = 0
    for cell in dict.fromkeys(cells):
        here = known & np.array([reply_cell == cell for reply_cell in cells], dtype=bool)
        if here.sum() < 3 or any(is_constant(scores[here]) for scores in (*ours, *theirs, human)):
            left_out += 1
        else:
            rows_by_cell[cell] = np.flatnonzero(here)
    if not rows_by_cell:
        return PairedComparison(column, {}, {}, left_out)
    gains = {}
    for name, methods in {**{method: (method,) for method in AGAINST}, MEAN: AGAINST}.items():
        our_mean, their_mean = (
            float(
                np.mean(
                    [
                        _coefficient(scores[rows], human[rows], method)
                        for rows in rows_by_cell.values()
                        for method in methods
                        for scores in side
                    ]
                )
            )
            for side in (ours, theirs)
        )
        parts = [
            _differences(ours, theirs, human, contexts, _of_source(rows_by_cell, source), methods)
            for source in dict.fromkeys(source for source, _model in rows_by_cell)
        ]
        half = jackknife_half([leave_one_out / len(rows_by_cell) for _total, leave_one_out in parts], SCORE_LEVEL)
        few = _few_carry([*ours, *theirs, human], contexts, rows_by_cell, methods)
        low = high = None
        if half is not None and few is None:
            bias = sum((len(leave_one_out) - 1) * (leave_one_out.mean() - total) for total, leave_one_out in parts)
            ends = sorted((our_mean - their_mean, our_mean - their_mean - float(bias) / len(rows_by_cell)))
            low, high = max(ends[0] - half, -2.0), min(ends[1] + half, 2.0)
        gains[name] = PairedGain(our_mean, their_mean, low, high, few)
    return PairedComparison(column, gains, {cell: len(rows) for cell, rows in rows_by_cell.items()}, left_out)


def _few_carry(
    sides: Sequence[np.ndarray],
    contexts: np.ndarray,
    rows_by_cell: Mapping[tuple[str, str], np.ndarray],
    methods: Sequence[str],
) -> Reason | None:
    """Return the reason if a side depends on few contexts, else None."""
    units = {
        cell: np.array([f"{cell[0]}\n{context}" for context in contexts[rows]]) for cell, rows in rows_by_cell.items()
    }
    carried = min(
        effective_units_of_cells([(side[rows], units[cell]) for cell, rows in rows_by_cell.items()], method)
        for side in sides
        for method in methods
    )
    return few_carry(carried, len(np.unique(np.concatenate(list(units.values())))))


def _of_source(rows_by_cell: Mapping[tuple[str, str], np.ndarray], source: str) -> list[np.ndarray]:
    """Return the rows of each cell of a data set."""
    return [rows for (cell_source, _model), rows in rows_by_cell.items() if cell_source == source]


def _differences(
    ours: np.ndarray,
    theirs: np.ndarray,
    human: np.ndarray,
    contexts: np.ndarray,
    cells: Sequence[np.ndarray],
    methods: Sequence[str],
) -> tuple[float, np.ndarray]:
    """Return the mean differences of coefficients, summed over cells.

    The values are with all contexts and, (contexts,), without each.

    Args:
        ours, theirs: (K, N).
        cells: the rows of each.
    """
    rows = np.concatenate(cells)
    names, codes = np.unique(contexts[rows].astype(str), return_inverse=True)
    places = np.split(np.arange(len(rows)), np.cumsum([len(cell_rows) for cell_rows in cells])[:-1])

    def differences(times: np.ndarray) -> np.ndarray:
        weights = times[:, codes]
        totals = np.zeros(len(times))
        for cell_rows, place in zip(cells, places, strict=True):
            for method in methods:
                our_mean, their_mean = (
                    np.mean(
                        [
                            weighted_correlations(scores[cell_rows], human[cell_rows], weights[:, place], method)
                            for scores in side
                        ],
                        axis=0,
                    )
                    for side in (ours, theirs)
                )
                totals += (our_mean - their_mean) / len(methods)
        return totals

    total = differences(np.ones((1, len(names))))
    return float(total[0]), leave_one_out_values(differences, len(names), max(1, MOST_NUMBERS // len(rows)))


def _coefficient(x: np.ndarray, y: np.ndarray, method: str) -> float:
    if method == "spearman":
        x, y = ranks(x), ranks(y)
    return float(np.corrcoef(x, y)[0, 1])


def gains_printed(result: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Format the JSON of `judge(..., against=...)`.

    One line per metric and coefficient.
    """
    from evaluation.number_format import share

    lines = []
    for name, agreement in result.items():
        gains = agreement.get("against")
        if not gains:
            continue
        if "reason" in gains:
            lines.append(f"{name} against {gains['column']}: undefined, {gains['reason']}")
            continue
        parts = [
            f"{method} {share(gains[method]['r'], 3)} versus {share(gains[method]['r_against'], 3)}, a "
            f"gain of {share(gains[method]['gain'], 3)} {_interval_printed(gains[method])}"
            for method in (*AGAINST, MEAN)
        ]
        left_out_text = f", {gains['cells_left_out']} skipped" if gains["cells_left_out"] else ""
        lines.append(
            f"{name} against {gains['column']}, mean over {len(gains['cells'])} cells{left_out_text}: "
            f"{'; '.join(parts)}"
        )
    if lines:
        lines.append(
            "against: on the same replies; 95 % intervals by the jackknife over the contexts of each data set."
        )
    return lines


def _interval_printed(gain: Mapping[str, Any]) -> str:
    """Format the interval of a gain's JSON, or its missing reason."""
    from evaluation.number_format import share, span

    few = gain.get("reason")
    if few:
        return (
            f"(no interval: {share(few['n_carrying'], 1)} of {few['n_units']} contexts determine the variance of one "
            "side)"
        )
    return span(*(gain["ci95"] or (None, None)), shares=True)
