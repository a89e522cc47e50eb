"""Importance of options to people: the share that chose each option, and weights made of these shares.

Shi et al. (2023) let 100 people choose the four most important of six sub-metrics; the weight of a sub-metric is the
softmax of its share, over those that apply to an item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.analysis.tables import plain, text_table
from evaluation.printing import share, span
from evaluation.reasons import Reason
from evaluation.stats.intervals import SHARE, mean_interval
from evaluation.stats.shares import wilson

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Chosen:
    """One option.

    Attributes:
        n: people who chose it.
        approval: their share, with the ends of its interval (Wilson 1927).
        weight: softmax of the shares, with the ends of its interval over people; None with one person.
    """

    option: str
    n: int
    approval: float
    low: float
    high: float
    weight: float
    weight_low: float | None
    weight_high: float | None


@dataclass(frozen=True, slots=True, repr=False)
class Approval:
    """All options, in the order of the question.

    Attributes:
        reason: why nothing is known.
    """

    n_people: int
    options: tuple[Chosen, ...]
    reason: Reason | None = None

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each option."""
        return {one.option: one.weight for one in self.options}

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        found: dict[str, Any] = plain(self)
        return found

    def summary(self) -> str:
        """Return a table for a terminal."""
        if self.reason is not None:
            return f"What people chose: {self.reason}"
        rows = [
            [
                *(one.option, share(one.approval), span(one.low, one.high, shares=True)),
                *(share(one.weight, 3), str(one.n)),
            ]
            for one in self.options
        ]
        title = f"What {self.n_people:,} people chose"
        return text_table(title, ["option", "share", f"{LEVEL:.0%}", "weight", "n"], rows)

    def __repr__(self) -> str:
        return self.summary()


def softmax_weights(shares: Mapping[str, float]) -> dict[str, float]:
    """Return weights that sum to 1: exp(share), over the sum of all of them."""
    if not shares:
        return {}
    raw = _softmax(np.array([list(shares.values())], dtype=float))[0]
    return dict(zip(shares, (float(one) for one in raw), strict=True))


def approval(
    chosen: np.ndarray,
    options: Sequence[str],
    *,
    level: float = LEVEL,
) -> Approval:
    """Return the share of people who chose each option.

    Args:
        chosen: (people, options) 1 where the person chose it, else 0.
        level: of the intervals.

    Raises:
        ValueError: for a table of another shape, or anything but 0 and 1 in it.
    """
    table = np.asarray(chosen, dtype=float).reshape(len(chosen), -1) if len(chosen) else None
    if table is None:
        return Approval(0, (), Reason("nobody_chose", "nobody has chosen yet"))
    if table.shape[1] != len(options) or not np.isin(table, (0, 1)).all():
        raise ValueError(
            f"chosen has shape {table.shape}; it must hold 0 or 1 for each person and each of "
            f"{len(options)} options"
        )
    n = len(table)
    shares = table.mean(axis=0)
    low, high = wilson(shares, n, level)
    weights = _softmax(shares[None])[0]
    ends = _weight_ends(table, weights, level)
    found = [
        Chosen(
            option,
            int(table[:, j].sum()),
            float(shares[j]),
            float(low[j]),
            float(high[j]),
            float(weights[j]),
            None if ends is None else float(ends[0][j]),
            None if ends is None else float(ends[1][j]),
        )
        for j, option in enumerate(options)
    ]
    return Approval(n, tuple(found))


def _weight_ends(
    table: np.ndarray, weights: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the ends of each weight's interval; None with one person.

    log(w / (1 − w)) of a weight is a difference of the option's share and a mean of the others', weighted by their
    weights. Its ends are recovered from those of the shares (MOVER; Zou and Donner 2008, Statistics in Medicine 27),
    which lie on their scale though everybody, or nobody, chose an option.

    Args:
        table: (people, options); weights: (options,).
    """
    n, n_options = table.shape
    if n < 2:
        return None
    if n_options < 2:
        return weights, weights  # all the weight, whatever people choose
    shares = table.mean(axis=0)
    found = [mean_interval(column, level=level, scale=SHARE) for column in table.T]
    down = np.array([mean - one.low for mean, one in zip(shares, found, strict=True)])
    up = np.array([one.high - mean for mean, one in zip(shares, found, strict=True)])
    spread = table.std(axis=0)
    apart = (table - shares) / np.where(spread > 0, spread, 1.0)
    together = apart.T @ apart / n
    np.fill_diagonal(together, 1.0)
    # Of option j: 1 for its own share, less the others' weights.
    moves = np.eye(n_options) - (1 - np.eye(n_options)) * weights / (1 - weights)[:, None]
    logits = np.log(weights / (1 - weights))
    ends = []
    for sign in (-1, 1):
        reach = moves * np.where(moves * sign > 0, up, down)
        half = np.sqrt(np.maximum(np.einsum("ji,ik,jk->j", reach, together, reach), 0.0))
        odds = np.exp(logits + sign * half)
        ends.append(odds / (1 + odds))
    return np.minimum(ends[0], weights), np.maximum(ends[1], weights)  # rounding


def _softmax(shares: np.ndarray) -> np.ndarray:
    raised = np.exp(shares - shares.max(axis=1, keepdims=True))  # (B, options)
    result: np.ndarray = raised / raised.sum(axis=1, keepdims=True)
    return result
