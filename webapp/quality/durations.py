"""Durations of a study's tasks, in bars, shown next to the flag for speed."""

from __future__ import annotations

import statistics
from typing import Any

from webapp.quality.flags.fast import FEWEST, HOW_MUCH_FASTER
from webapp.quality.work import Work
from webapp.studies.models import Outcome

_BARS = 24
_LONGEST = 3
"""Medians. Whoever took longer was away; the last bar holds them."""


def durations_of(work: Work) -> dict[str, Any]:
    """Return the finished tasks' durations as JSON.

    Returns:
        `n`; and where there is one, `median` and `threshold` in seconds (the latter None with too few tasks),
        `width` of a bar in seconds, and `bars`, their counts from 0 on, the last of which has all that took longer.
    """
    seconds = [task.seconds for task in work.done if task.outcome == Outcome.RATED]
    if not seconds:
        return {"n": 0}
    median = statistics.median(seconds)
    width = max(median * _LONGEST / _BARS, 1.0)
    bars = [0] * (_BARS + 1)
    for one in seconds:
        bars[min(int(max(one, 0) // width), _BARS)] += 1
    return {
        "n": len(seconds),
        "median": median,
        "threshold": median / HOW_MUCH_FASTER if len(seconds) >= FEWEST else None,
        "width": width,
        "bars": bars,
    }
