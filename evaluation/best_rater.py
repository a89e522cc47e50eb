"""Agreement of a column with each rater alone: the best one, as in PONE's paper, and among raters.

The largest of several coefficients exceeds their mean by chance alone, so compare it only with figures that were made
the same way. The paper's raters judged every reply; here a rater counts who judged at least half of them, because the
largest of many coefficients over a few replies each means nothing. It is shown as `max_over_raters` everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.ceilings import PUBLISHED_MEAN
from evaluation.judged_cells import parts_named
from evaluation.printing import columns_printed, share
from evaluation.published.cells import cells_of
from evaluation.stats.correlation import METHODS, correlate

FEWEST = 3
"""Replies that two must share for a coefficient."""
NO_RATERS = "no two raters are known by name who judged half of the replies each, three at least"
HUMAN = "Human"


def max_over_raters(
    values: np.ndarray, given: Sequence[Sequence[tuple[str, float]]]
) -> dict[str, Any]:
    """Return by method the largest coefficient over raters, with each, and the bounds Human (mean) and Human (max).

    Args:
        values: (N,) a column's scores, NaN where undefined.
        given: of each reply its raters and their scores.
    """
    raters = list(dict.fromkeys(r for one in given for r, _ in one if r and r != PUBLISHED_MEAN))
    by_name = [dict(one) for one in given]
    scores = {r: np.array([one.get(r, np.nan) for one in by_name], dtype=float) for r in raters}
    replies = {r: int(np.isfinite(one).sum()) for r, one in scores.items()}
    n_judged = sum(any(r in scores for r in one) for one in by_name)
    counted = [r for r, n in replies.items() if n >= FEWEST and 2 * n >= n_judged]
    found: dict[str, Any] = {"n_raters": len(counted), "n_named": len(raters), "replies": replies}
    if len(counted) < 2:
        return {**found, "reason": NO_RATERS}
    for method in METHODS:
        own = [_r(values, scores[r], method) for r in counted]
        pairs = [_r(scores[a], scores[b], method) for a, b in combinations(counted, 2)]
        alone, both = [r for r in own if r is not None], [r for r in pairs if r is not None]
        found[method] = {
            "max_over_raters": max(alone, default=None),
            "mean_over_raters": float(np.mean(alone)) if alone else None,
            "raters": dict(zip(counted, own, strict=True)),
            "human_mean": float(np.mean(both)) if both else None,
            "human_max": max(both, default=None),
        }
    return found


def max_over_raters_everywhere(
    values: np.ndarray,
    given: Sequence[Sequence[tuple[str, float]]],
    sources: np.ndarray,
    models: np.ndarray,
) -> dict[str, Any]:
    """Return `max_over_raters` of all replies, with `models` and `sources` where there are several, as of other
    agreements.

    Args:
        values, given: as there.
        sources, models: (N,) data set and dialogue model; empty where not known.
    """

    def of(part: np.ndarray) -> dict[str, Any]:
        return max_over_raters(values[part], [given[k] for k in np.flatnonzero(part).tolist()])

    def with_models(part: np.ndarray) -> dict[str, Any]:
        found, names = of(part), parts_named(models[part])
        return found | ({"models": {m: of(part & (models == m)) for m in names}} if names else {})

    found, names = with_models(np.ones(len(values), dtype=bool)), parts_named(sources)
    return found | ({"sources": {s: with_models(sources == s) for s in names}} if names else {})


def _r(x: np.ndarray, y: np.ndarray, method: Any) -> float | None:
    if (np.isfinite(x) & np.isfinite(y)).sum() < FEWEST:
        return None
    return correlate(x, y, method, interval="fisher").r


def best_raters_printed(result: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the JSON of `judge(..., by_best_rater=True)` as a table: a line per metric and cell, then people."""
    told = {name: one for name, found in result.items() if (one := found.get("max_over_raters"))}
    if not told:
        return []
    titles = [word for method in METHODS for word in (f"{method.capitalize()} max", "mean")]
    rows = [("max over raters", "data", "model", "raters", *titles)]
    for name, one in told.items():
        rows += _rows(name, one, "max_over_raters", "mean_over_raters")
    rows += _rows(HUMAN, next(iter(told.values())), "human_max", "human_mean")
    lines = ["", *columns_printed(rows, 3)]
    if any("reason" in cell for one in told.values() for _s, _m, cell in cells_of(one)):
        lines.append(f"max over raters, undefined where {NO_RATERS}.")
    lines.append(
        "max over raters: the best of the raters taken one by one, as PONE's paper prints it, above the others by "
        "chance alone; mean: of all of them. raters: who judged half of the replies or more, of all with a name. "
        f"{HUMAN}: raters with one another."
    )
    return lines


def _rows(name: str, found: Mapping[str, Any], most: str, mean: str) -> Iterator[tuple[str, ...]]:
    for source, model, one in cells_of(found):
        yield (
            name,
            source or "all",
            model or "all",
            f"{one['n_raters']} of {one['n_named']}",
            *(
                "undefined" if method not in one else share(one[method][which], 3)
                for method in METHODS
                for which in (most, mean)
            ),
        )
