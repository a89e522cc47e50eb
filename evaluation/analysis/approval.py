"""What people find important: the share that chose each of several options, and weights made of these.

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
from evaluation.stats.resampling import expanded
from evaluation.stats.shares import wilson

LEVEL = 0.95
N_BOOTSTRAP = 2000


@dataclass(frozen=True, slots=True)
class Chosen:
    """One option.

    Attributes:
        n: people who chose it.
        approval: their share, with the ends of its interval (Wilson 1927).
        weight: softmax of the shares, with the ends of its interval over resampled people; None where there is none.
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
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = 0,
) -> Approval:
    """Return the share of people who chose each option.

    Args:
        chosen: (people, options) 1 where somebody chose it, else 0.
        level, n_bootstrap, seed: of the intervals.

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
    ends = _weight_ends(table, level, n_bootstrap, seed)
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
    table: np.ndarray, level: float, n_bootstrap: int, seed: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the ends of each weight's interval over resampled people; None with one person."""
    n = len(table)
    if n < 2:
        return None
    times = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=n_bootstrap)
    draws = _softmax(times @ table / n)
    low, high = np.quantile(draws, expanded(level, n), axis=0)
    return low, high


def _softmax(shares: np.ndarray) -> np.ndarray:
    raised = np.exp(shares - shares.max(axis=1, keepdims=True))  # (B, options)
    result: np.ndarray = raised / raised.sum(axis=1, keepdims=True)
    return result
