"""Agreement of a metric with people's scores, by data set and dialogue model.

Ceiling: the square root of the reliability of the ratings. The reliability of the mean of k raters is ICC(1,k), for
nobody knows whether two items had the same raters; its interval is from the F distribution. A metric that knew each
reply's true value would correlate with the raters' mean by the square root of that, no more, unless by chance.

Agreement with each rater alone: the best one, as in PONE's paper, and the mean among raters. The largest of several
coefficients exceeds their mean by chance alone, so compare it only with figures that were made the same way. The
paper's raters judged every reply; here a rater counts who judged at least half of them, because the largest of many
coefficients over a few replies each means nothing. It is shown as `max_over_raters` everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.items import JudgedItem, detokenise_text
from evaluation.metrics.text_cache import BLANK
from evaluation.number_format import columns_printed, share
from evaluation.published.correlations import cells_of
from evaluation.stats.agreement import rating_table
from evaluation.stats.correlation import METHODS, Correlation, correlate, is_constant
from evaluation.stats.icc import icc
from evaluation.system_agreement import SystemAgreement, agreement_of_systems

ONLY_MEANS = "only means of the ratings are known"
PUBLISHED_MEAN = "mean"


@dataclass(frozen=True, slots=True)
class ReliabilityCeiling:
    """The highest correlation with the mean rating that can be expected.

    Attributes:
        r: None where unknown, with the reason.
        low, high: ends of its interval of 95 %.
        n_items: items with at least two raters; n_ratings: their ratings.
    """

    r: float | None
    low: float | None = None
    high: float | None = None
    n_items: int = 0
    n_ratings: int = 0
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return `{"r", "ci95", "n_items", "n_ratings"}`, and the reason where `r` is null."""
        ends = None if self.low is None or self.high is None else [self.low, self.high]
        found: dict[str, Any] = {"r": self.r, "ci95": ends, "n_items": self.n_items, "n_ratings": self.n_ratings}
        return {**found, "reason": self.reason} if self.reason else found


def ceiling_of(scores: Sequence[Sequence[tuple[str, float]]]) -> ReliabilityCeiling:
    """Return the ceiling of items.

    Args:
        scores: of each item its (rater, score); a rater "mean" is a published mean, which tells nothing of raters.
    """
    own = [[value for rater, value in item if rater != PUBLISHED_MEAN] for item in scores]
    if not any(own) and any(scores):
        return ReliabilityCeiling(None, reason=ONLY_MEANS)
    values = [value for item in own for value in item]
    items = [k for k, item in enumerate(own) for _ in item]
    found = icc(rating_table(values, items), "icc1_k")
    if found.value is None:
        why = "" if found.reason is None else str(found.reason)
        return ReliabilityCeiling(None, n_items=found.n_items, n_ratings=found.n_ratings, reason=why)

    def root(value: float | None) -> float | None:
        return None if value is None else float(np.sqrt(max(value, 0.0)))

    return ReliabilityCeiling(root(found.value), root(found.low), root(found.high), found.n_items, found.n_ratings)


NOT_JUDGED = "there is no human score of it"
BEYOND_SCALE = "its human scores lie beyond the scale"
METRIC_UNDEFINED = "the metric is undefined here"


@dataclass(frozen=True)
class ScoreAgreement:
    """Agreement of a column of scores with people over some replies.

    Attributes:
        correlations: by method.
        n: replies with both scores.
        n_contexts: different contexts among them, which the jackknife leaves out.
        n_responses: different replies among them; few of them make a coefficient rest on a few texts.
        skipped: number of other replies, by the reason for leaving them out.
        ceiling: correlation that a perfect metric could reach, by the raters' reliability.
    """

    correlations: dict[str, Correlation]
    n: int
    n_contexts: int
    n_responses: int
    skipped: dict[str, int]
    ceiling: ReliabilityCeiling

    def to_json(self) -> dict[str, Any]:
        """Return `{"pearson": {"r", "p", "ci95"}, …, "n", "n_contexts", "n_responses", "skipped", "ceiling"}`."""
        return {
            **{name: found.to_json() for name, found in self.correlations.items()},
            "n": self.n,
            "n_contexts": self.n_contexts,
            "n_responses": self.n_responses,
            "skipped": self.skipped,
            "ceiling": self.ceiling.to_json(),
        }


@dataclass(frozen=True)
class AgreementCells:
    """An agreement over everything, and over parts of it.

    Attributes:
        pooled: all replies.
        models: by dialogue model, where the file names several.
        sources: by data set, where it names several, each with its own models.
        system_level: over the dialogue models of one data set, where it has several.
    """

    pooled: ScoreAgreement
    models: dict[str, ScoreAgreement]
    sources: dict[str, AgreementCells]
    system_level: SystemAgreement | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the pooled agreement, with `models` and `sources` where there are several."""
        found = self.pooled.to_json()
        if self.models:
            found["models"] = {name: one.to_json() for name, one in self.models.items()}
        if self.sources:
            found["sources"] = {name: one.to_json() for name, one in self.sources.items()}
        if self.system_level is not None:
            found["system_level"] = self.system_level.to_json()
        return found


@dataclass(frozen=True)
class HumanScores:
    """People's mean score of each item, and the parts that items fall into.

    Attributes:
        items: (N,) the items.
        target: the dimension.
        means: (N,) NaN where there is none.
        beyond: (N,) whether all scores of an item lie beyond the scale.
        n_partly_beyond: items of which some scores do, and others count.
        contexts: (N,) the source and the context, which replies share.
        given: of each item its raters and their scores.
    """

    items: tuple[JudgedItem, ...]
    target: str
    skipped: dict[str, int]
    means: np.ndarray
    beyond: np.ndarray
    contexts: np.ndarray
    models: np.ndarray
    sources: np.ndarray
    responses: np.ndarray
    given: tuple[list[tuple[str, float]], ...]
    n_partly_beyond: int = 0
    ceilings: dict[bytes, ReliabilityCeiling] = field(default_factory=dict)

    @classmethod
    def of(cls, items: tuple[JudgedItem, ...], skipped: dict[str, int], target: str) -> HumanScores:
        given = [item.scores(target) for item in items]
        return cls(
            items=items,
            target=target,
            skipped=skipped,
            means=np.array(
                [np.mean([value for _, value in kept]) if kept else np.nan for kept, _ in given], dtype=float
            ),
            beyond=np.array([not kept and left > 0 for kept, left in given], dtype=bool),
            contexts=_texts("\n".join((item.source, *item.context)) for item in items),
            models=_texts(item.model for item in items),
            sources=_texts(item.source for item in items),
            responses=_texts(detokenise_text(item.response).casefold() for item in items),
            given=tuple(kept for kept, _ in given),
            n_partly_beyond=sum(bool(kept) and left > 0 for kept, left in given),
        )

    @property
    def judged(self) -> np.ndarray:
        """Return (N,) whether people judged an item."""
        return np.isfinite(self.means)

    @property
    def only_source(self) -> str:
        """The data set of all items; empty where there are several, or it has no name."""
        found = set(self.sources)
        return str(found.pop()) if len(found) == 1 else ""

    def cells(
        self, values: np.ndarray, told: np.ndarray, lacking: Sequence[str | None], sign: float = 1.0
    ) -> AgreementCells:
        """Correlate a column's scores with people's, over everything and its parts.

        Args:
            sign: −1 where lower scores are better, for what compares systems.
        """
        why = np.full(len(self.items), "", dtype=object)
        for k, reason in enumerate(lacking):
            if self.beyond[k]:
                why[k] = BEYOND_SCALE
            elif not np.isfinite(self.means[k]):
                why[k] = NOT_JUDGED
            elif not told[k]:
                why[k] = BLANK
            elif not np.isfinite(values[k]):
                why[k] = reason or METRIC_UNDEFINED
        everything = np.ones(len(self.items), dtype=bool)
        pooled = self._cells(values, why, everything, sign)
        pooled.pooled.skipped.update(self.skipped)
        return pooled

    def _cells(self, values: np.ndarray, why: np.ndarray, part: np.ndarray, sign: float) -> AgreementCells:
        models, sources = parts_named(self.models[part]), parts_named(self.sources[part])
        return AgreementCells(
            self._agreement(values, why, part),
            {name: self._agreement(values, why, part & (self.models == name)) for name in models},
            {name: self._cells(values, why, part & (self.sources == name), sign) for name in sources},
            None if sources else self.systems_of(part & (why == ""), sign * values),
        )

    def systems_of(self, part: np.ndarray, values: np.ndarray) -> SystemAgreement | None:
        """Compare a column, of which higher is better, with people on the systems of a data set."""
        return agreement_of_systems(values[part], self.means[part], self.models[part], self.contexts[part])

    def _agreement(self, values: np.ndarray, why: np.ndarray, part: np.ndarray) -> ScoreAgreement:
        used = part & (why == "")
        x, y, units = values[used], self.means[used], self.contexts[used]
        skipped = Counter(str(reason) for reason in why[part] if reason)
        return ScoreAgreement(
            {method: correlate(x, y, method, units=units) for method in METHODS},
            n=int(used.sum()),
            n_contexts=len(set(units)),
            n_responses=len(set(self.responses[used])),
            skipped=dict(skipped),
            ceiling=self._ceiling(used),
        )

    def _ceiling(self, used: np.ndarray) -> ReliabilityCeiling:
        """Return the ceiling of some replies; most metrics ask for the same ones."""
        key = used.tobytes()
        if key not in self.ceilings:
            self.ceilings[key] = ceiling_of([self.given[k] for k in np.flatnonzero(used)])
        return self.ceilings[key]


def _texts(values: Iterable[str]) -> np.ndarray:
    return np.array(list(values), dtype=object)


def parts_named(names: np.ndarray) -> list[str]:
    """Return the names, in their order, where there are several; items without one are in no part."""
    found = list(dict.fromkeys(name for name in names if name))
    return found if len(found) > 1 else []


def length_bias(responses: Sequence[str], scores: np.ndarray, means: np.ndarray) -> tuple[float | None, float | None]:
    """Return Spearman's coefficient with the words of the reply: of the metric, and of people on the same replies.

    What the first has beyond the second is the metric's own. None with fewer than three replies or a constant side.

    Args:
        scores, means: (N,) the metric's scores and people's means, NaN where there is none.
    """
    from scipy.stats import rankdata

    known = np.isfinite(scores) & np.isfinite(means)
    words = np.array([len(text.split()) for text in responses], dtype=float)[known]
    found: list[float | None] = []
    for side in (scores[known], means[known]):
        if len(side) < 3 or is_constant(side) or is_constant(words):
            found.append(None)
        else:
            found.append(float(np.corrcoef(rankdata(side), rankdata(words))[0, 1]))
    return found[0], found[1]


FEWEST = 3
"""Replies that two must share for a coefficient."""
NO_RATERS = "no two raters are known by name who judged half of the replies each, three at least"
HUMAN = "Human"


def max_over_raters(values: np.ndarray, given: Sequence[Sequence[tuple[str, float]]]) -> dict[str, Any]:
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
    values: np.ndarray, given: Sequence[Sequence[tuple[str, float]]], sources: np.ndarray, models: np.ndarray
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
