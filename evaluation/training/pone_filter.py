"""PONE's label filter (section 5): which augmented responses the scorer itself takes for fitting.

A frozen copy of the scorer gives every augmented pair a score. Those it is sure of, score ≤ θ or ≥ 1 − θ, get the label
(score > ½); the others are dropped or stay positive. Then the scorer is trained on with these labels and looks again,
until few labels change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Uncertain = Literal["drop", "change"]
THETA = 0.05
SETTLED = 0.001
"""Labelling ends when less than this share of labels has changed (the paper's rule)."""


@dataclass(frozen=True)
class Labels:
    """Labels of augmented pairs.

    Attributes:
        positive: (N,) bool.
        kept: (N,) bool, whether a pair is learnt from.
    """

    positive: np.ndarray
    kept: np.ndarray

    @property
    def kept_share(self) -> float:
        """Share of pairs that are learnt from."""
        return float(self.kept.mean()) if len(self.kept) else float("nan")

    def changed(self, before: Labels) -> float:
        """Return the share of pairs whose label, or whether they are kept, differs from before."""
        if not len(self.kept):
            return 0.0
        same = (self.kept == before.kept) & ((self.positive == before.positive) | ~self.kept)
        return float((~same).mean())


def all_positive(n: int) -> Labels:
    """Return the labels before any filtering: every augmented response fits."""
    return Labels(np.ones(n, dtype=bool), np.ones(n, dtype=bool))


def relabelled(scores: np.ndarray, theta: float = THETA, uncertain: Uncertain = "drop") -> Labels:
    """Return the labels that (N,) scores from 0 to 1 give.

    Args:
        theta: how near to 0 or 1 a score must be; ½ keeps everything.
        uncertain: what happens to the others: "drop", or "change", which keeps them as positive.

    Raises:
        ValueError: theta is not in 0 … ½.
    """
    if not 0 <= theta <= 0.5:
        raise ValueError(f"theta is {theta}; it must be in 0 … 0.5")
    sure = (scores <= theta) | (scores >= 1 - theta)
    if uncertain == "drop":
        return Labels(scores > 0.5, sure)
    return Labels((scores > 0.5) | ~sure, np.ones(len(scores), dtype=bool))


def settled(now: Labels, before: Labels | None) -> bool:
    """Return True if hardly a label changes any more."""
    return before is not None and now.changed(before) < SETTLED
