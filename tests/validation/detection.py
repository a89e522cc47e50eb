"""How well rater filters find raters who are known to be bad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.stats.rater_filters import RaterVerdict


@dataclass(frozen=True, slots=True)
class Detection:
    """How well verdicts single out raters known to be bad.

    Attributes:
        precision: share of those thrown out who are bad; recall: share of the bad who are thrown out. None
            where nobody is. Intervals are Wilson's (1927).
        caught, missed, wrongly, kept: counts of bad raters thrown out, bad kept, good thrown out, good kept.
    """

    precision: float | None
    precision_low: float | None
    precision_high: float | None
    recall: float | None
    recall_low: float | None
    recall_high: float | None
    caught: int
    missed: int
    wrongly: int
    kept: int


def detection(verdicts: Sequence[RaterVerdict], bad: Sequence[Any], *, level: float = 0.95) -> Detection:
    """Measure precision and recall of a filter, given who is known to be bad.

    Args:
        verdicts: of `screen_raters`.
        bad: the bad raters' names.
        level: of the intervals.
    """
    names = {str(rater) for rater in bad}
    caught = sum(v.rater in names and not v.passed for v in verdicts)
    missed = sum(v.rater in names and v.passed for v in verdicts)
    wrongly = sum(v.rater not in names and not v.passed for v in verdicts)
    return Detection(
        *_wilson(caught, caught + wrongly, level),
        *_wilson(caught, caught + missed, level),
        caught,
        missed,
        wrongly,
        len(verdicts) - caught - missed - wrongly,
    )


def _wilson(hits: int, n: int, level: float) -> tuple[float | None, float | None, float | None]:
    from scipy import stats

    if not n:
        return None, None, None
    z = float(stats.norm.ppf(0.5 + level / 2))
    share = hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    return share, max(0.0, centre - half), min(1.0, centre + half)
