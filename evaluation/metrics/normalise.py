"""Normalisers and rewards over a whole table, as the released code has them (fact sheet section 1.6).

They look at all rows at once, of all bots, so they belong to an analysis of one table and never to a stored
metric, whose value must not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chatbots.storable import quote


def zscore(values: np.ndarray, *, epsilon: float = 0.0) -> np.ndarray:
    """Compute (x − mean) / (std + ε) with the population std of the defined values; NaN where that is 0/0."""
    defined = values[~np.isnan(values)]
    if not len(defined):
        return np.full(len(values), np.nan)
    spread = float(np.std(defined)) + epsilon
    # A constant column has no z; rounding must not give it one.
    if np.ptp(defined) == 0 and epsilon == 0:
        return np.full(len(values), np.nan)
    return (values - float(np.mean(defined))) / spread


def min_max(values: np.ndarray) -> np.ndarray:
    """Compute (x − min) / (max − min) over the defined values; NaN for a constant column."""
    defined = values[~np.isnan(values)]
    if not len(defined) or np.ptp(defined) == 0:
        return np.full(len(values), np.nan)
    low = float(defined.min())
    return (values - low) / (float(defined.max()) - low)


def discounted(values: np.ndarray, conversation_of: np.ndarray, gamma: float) -> np.ndarray:
    """Compute R_t = r_t + γ R_{t+1} within each conversation, from its last row backwards: (R,).

    Args:
        values: (R,) rewards of rows, a conversation's rows in order and side by side.
        conversation_of: (R,) which conversation a row belongs to.
        gamma: the discount, 0 … 1.

    Raises:
        ValueError: gamma lies outside 0 … 1.
    """
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma is {gamma}; it must be between 0 and 1")
    found = np.array(values, dtype=float)
    for row in range(len(found) - 2, -1, -1):
        if conversation_of[row] == conversation_of[row + 1]:
            found[row] += gamma * found[row + 1]
    return found


def length_reward(n_rows: int, gamma: float = 0.95) -> np.ndarray:
    """Turn a conversation's length into rewards: n·γ^(n−2−t) for row t (from 0), 0 for the last row: (n,)."""
    rewards = n_rows * gamma ** (n_rows - 2.0 - np.arange(n_rows))
    rewards[-1:] = 0.0
    return rewards


def combination(
    rewards: Mapping[str, np.ndarray],
    weights: Mapping[str, float],
    conversation_of: np.ndarray,
    *,
    gamma: float = 0.9,
    epsilon: float = 1e-5,
) -> np.ndarray:
    """Compute Σ weight · z-score of the discounted reward, with std + ε: what the released RL code maximises.

    The fact sheet does not give the size of ε; the default only keeps a constant reward at 0.

    Args:
        rewards: name to (R,) values of all rows.
        weights: name to weight; those without one take no part.

    Raises:
        ValueError: for a weight without a reward.
    """
    unknown = sorted(set(weights) - set(rewards))
    if unknown:
        raise ValueError(f"there is no reward {quote(unknown[0])}; there are {', '.join(rewards)}")
    total = np.zeros(len(conversation_of))
    for name, weight in weights.items():
        total += weight * zscore(discounted(rewards[name], conversation_of, gamma), epsilon=epsilon)
    return total
