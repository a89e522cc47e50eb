"""Wilson's interval of many shares at once."""

from __future__ import annotations

import numpy as np


def wilson(shares: np.ndarray, n: float, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Wilson's interval of each share, which stays between 0 and 1.

    Args:
        n: observations.
    """
    from scipy.special import ndtri

    z = float(ndtri(0.5 + level / 2))
    middle = (shares + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(shares * (1 - shares) / n + z**2 / (4 * n**2))
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)
