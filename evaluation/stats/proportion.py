"""The interval of a share, right for few people and for shares near 0 and 1."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist


def share_interval(k: int, n: int, *, level: float = 0.95) -> tuple[float, float] | None:
    """Return the ends of the interval of the share `k` of `n`, both from 0 to 1; None for `n` = 0.

    The score interval of Wilson (1927), Journal of the American Statistical Association 22.

    Raises:
        ValueError: for a count below 0 or above `n`.
    """
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is no share; the first number must be from 0 to the second")
    if n == 0:
        return None
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, extra = k / n, z * z / n
    middle = (share + extra / 2) / (1 + extra)
    half = z / (1 + extra) * sqrt(share * (1 - share) / n + extra / (4 * n))
    return (0.0 if k == 0 else middle - half), (1.0 if k == n else middle + half)
