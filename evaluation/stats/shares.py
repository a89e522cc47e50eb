"""Intervals of shares: Wilson's, and his for replies that come several from one conversation."""

from __future__ import annotations

import numpy as np


def wilson(shares: np.ndarray, n: float, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Wilson's interval of each share, which stays between 0 and 1.

    Args:
        n: observations; not whole where it is what clustered observations are worth.
    """
    from scipy.special import ndtri

    z = float(ndtri(0.5 + level / 2))
    middle = (shares + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(shares * (1 - shares) / n + z**2 / (4 * n**2))
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)


def worth_of_clusters(share: float, n: float, n_clusters: int, spread: float) -> float:
    """Return how many independent observations clustered ones are worth for their share (Korn and Graubard 1998).

    Args:
        share: of all `n` observations in `n_clusters` clusters.
        spread: sum over clusters of the squared (positive observations minus `share` times all), by which the variance
            of the ratio is linearised.

    Returns:
        At most `n`; where all observations are alike, the number of clusters.
    """
    if n_clusters < 2 or not 0 < share < 1 or spread <= 0:
        return float(min(n_clusters, n))
    variance = n_clusters / (n_clusters - 1) * spread / n**2
    return float(min(share * (1 - share) / variance, n))
