"""A language model as judge of pairs, each asked in both orders, and what its judgements lean on besides: place and length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.items import Item
from evaluation.metrics.judge import PAIR_PROMPT, Judge, lines
from evaluation.stats.correlation import Correlation, correlate


@dataclass(frozen=True)
class PairsJudged:
    """Comparisons of two replies by a judge.

    Attributes:
        preference: (N,) how likely the first reply is the better one, mean of both orders; NaN where undefined.
        first_place: (N,) how likely whatever stood first was preferred, mean of both orders; .5 without a position bias.
        longer: (N,) words of the first reply less those of the second.
        n_requests: what they cost.
        refused: pairs that were not asked since the judge's cap was reached.
    """

    preference: np.ndarray
    first_place: np.ndarray
    longer: np.ndarray
    n_requests: int
    refused: int

    @property
    def position_bias(self) -> float | None:
        """How much likelier a reply is preferred because it stands first, from −.5 to .5."""
        known = self.first_place[np.isfinite(self.first_place)]
        return float(known.mean() - 0.5) if len(known) else None

    @property
    def changed(self) -> float | None:
        """The share of pairs whose better reply is another one in the other order."""
        known = np.isfinite(self.preference)
        if not known.any():
            return None
        forward = self.preference[known] + self.first_place[known] - 0.5
        backward = self.preference[known] - self.first_place[known] + 0.5
        return float(((forward - 0.5) * (backward - 0.5) < 0).mean())

    @property
    def length_bias(self) -> Correlation:
        """How preference goes with being longer (Spearman): a bias as far as people's does not."""
        known = np.isfinite(self.preference)
        return correlate(self.longer[known], self.preference[known], "spearman")

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "preference": [None if np.isnan(one) else float(one) for one in self.preference],
            "position_bias": self.position_bias,
            "changed": self.changed,
            "length_bias": self.length_bias.to_json(),
            "n": int(np.isfinite(self.preference).sum()),
            "n_requests": self.n_requests,
            "refused": self.refused,
        }


def pairs_judged(judge: Judge, items: Sequence[Item]) -> PairsJudged:
    """Have the judge compare the two replies of each item, in both orders.

    Raises:
        ValueError: the judge cannot be asked here, with the reason; or an item has one reply.
    """
    reason = judge.unavailable_reason()
    if reason is not None or judge.options is None:
        raise ValueError(f"{judge.name} cannot judge: {reason}")
    for item in items:
        if item.second_response is None:
            raise ValueError(f"item {item.key} has no second reply to compare with")
    window = judge.options.window
    left = max(judge.options.max_requests - judge.n_requests, 0) // 2
    asked = items[:left]
    prompts = [
        PAIR_PROMPT.format(context=lines(item.context[-window:]), first=first, second=second)
        for item in asked
        for first, second in _both_orders(item)
    ]
    before = judge.n_requests
    found = np.full((len(items), 2), np.nan)
    if prompts:
        found[: len(asked)] = judge.chances(prompts, ("A", "B"))[:, 0].reshape(-1, 2)
    forward, swapped = found.T
    return PairsJudged(
        preference=(forward + 1 - swapped) / 2,
        first_place=(forward + swapped) / 2,
        longer=np.array([_words(item.response) - _words(item.second_response) for item in items]),
        n_requests=judge.n_requests - before,
        refused=len(items) - len(asked),
    )


def _both_orders(item: Item) -> list[tuple[str, str]]:
    first, second = item.response, str(item.second_response)
    return [(first, second), (second, first)]


def _words(text: str | None) -> int:
    return len((text or "").split())
