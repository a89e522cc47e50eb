"""Agreement of a metric with human scores by data set and model.

The ceiling is the expected correlation of a perfect metric with the raters' mean: the square root of the mean's
reliability. The reliability is ICC(1,k) with an interval from the F distribution, because it is unknown whether two
items had the same raters. A metric can exceed the ceiling only by chance.

Agreement with each rater alone: the maximum over raters, as in PONE's paper, and the mean. The maximum of several
coefficients exceeds their mean by chance alone, so compare it only with figures obtained in the same way. The paper's
raters rated every reply; here a rater must have rated at least half of them, because the maximum of many coefficients
over a few replies each is meaningless. It is always labelled `max_over_raters`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.agreement.system_agreement import SystemAgreement, agreement_of_systems
from evaluation.data.items import JudgedItem, detokenise_text
from evaluation.metrics.text_cache import BLANK
from evaluation.number_format import columns_printed, plain_interval, share
from evaluation.published.correlations import cells_of
from evaluation.stats.agreement import rating_table
from evaluation.stats.correlation import METHODS, Correlation, correlate, is_constant
from evaluation.stats.icc import icc

ONLY_MEANS = "only mean ratings are known"
PUBLISHED_MEAN = "mean"


@dataclass(frozen=True, slots=True)
class ReliabilityCeiling:
    """Expected correlation of a perfect metric with the mean rating.

    Attributes:
        r: None if unknown, with the reason.
        low, high: ends of its 95 % interval.
        n_items: number of items with at least two raters.
        n_ratings: number of their ratings.
    """

    r: float | None
    low: float | None = None
    high: float | None = None
    n_items: int = 0
    n_ratings: int = 0
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return `{"r", "ci95", "n_items", "n_ratings"}`, with the reason if `r` is null."""
        ends = plain_interval(self.low, self.high)
        ceiling_json: dict[str, Any] = {"r": self.r, "ci95": ends, "n_items": self.n_items, "n_ratings": self.n_ratings}
        return {**ceiling_json, "reason": self.reason} if self.reason else ceiling_json


def ceiling_of(scores: Sequence[Sequence[tuple[str, float]]]) -> ReliabilityCeiling:
    """Return the ceiling of items.

    Args:
        scores: (rater, score) pairs of each item; a rater "mean" is a published mean, which does not describe raters.
    """
    scores_by_item = [[value for rater, value in item if rater != PUBLISHED_MEAN] for item in scores]
    if not any(scores_by_item) and any(scores):
        return ReliabilityCeiling(None, reason=ONLY_MEANS)
    values = [value for item in scores_by_item for value in item]
    items = [k for k, item in enumerate(scores_by_item) for _ in item]
    reliability = icc(rating_table(values, items), "icc1_k")
    if reliability.value is None:
        reason = "" if reliability.reason is None else str(reliability.reason)
        return ReliabilityCeiling(None, n_items=reliability.n_items, n_ratings=reliability.n_ratings, reason=reason)

    def root(value: float | None) -> float | None:
        return None if value is None else float(np.sqrt(max(value, 0.0)))

    return ReliabilityCeiling(
        root(reliability.value),
        root(reliability.low),
        root(reliability.high),
        reliability.n_items,
        reliability.n_ratings,
    )


NOT_JUDGED = "it has no human score"
BEYOND_SCALE = "its human scores are outside the scale"
METRIC_UNDEFINED = "the metric is undefined here"


@dataclass(frozen=True)
class ScoreAgreement:
    """Agreement of a score column with human scores over several replies.

    Attributes:
        correlations: by method.
        n: number of replies with both scores.
        n_contexts: number of their contexts, the units of the jackknife.
        n_responses: number of distinct replies; if small, a coefficient depends on a few texts.
        skipped: number of excluded replies by reason.
        ceiling: maximum correlation of a perfect metric, from the raters' reliability.
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
            **{name: correlation.to_json() for name, correlation in self.correlations.items()},
            "n": self.n,
            "n_contexts": self.n_contexts,
            "n_responses": self.n_responses,
            "skipped": self.skipped,
            "ceiling": self.ceiling.to_json(),
        }


@dataclass(frozen=True)
class AgreementCells:
    """Agreement overall and by group.

    Attributes:
        pooled: all replies.
        models: by dialogue model, if the file names several.
        sources: by data set, if it names several, each with its own models.
        system_level: over the dialogue models of one data set, if it has several.
    """

    pooled: ScoreAgreement
    models: dict[str, ScoreAgreement]
    sources: dict[str, AgreementCells]
    system_level: SystemAgreement | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the overall agreement, with `models` and `sources` if there are several."""
        agreement_json = self.pooled.to_json()
        if self.models:
            agreement_json["models"] = {name: part.to_json() for name, part in self.models.items()}
        if self.sources:
            agreement_json["sources"] = {name: part.to_json() for name, part in self.sources.items()}
        if self.system_level is not None:
            agreement_json["system_level"] = self.system_level.to_json()
        return agreement_json


@dataclass(frozen=True)
class HumanScores:
    """Mean human score of each item, and the groups of items.

    Attributes:
        items: (N,) the items.
        target: the dimension.
        means: (N,) NaN if there is none.
        beyond: (N,) True if all scores of an item are outside the scale.
        n_partly_beyond: number of items with some scores outside the scale.
        contexts: (N,) source and context, which replies share.
        scores_by_item: raters and scores of each item.
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
    scores_by_item: tuple[list[tuple[str, float]], ...]
    n_partly_beyond: int = 0
    ceilings: dict[bytes, ReliabilityCeiling] = field(default_factory=dict)

    @classmethod
    def from_items(cls, items: tuple[JudgedItem, ...], skipped: dict[str, int], target: str) -> HumanScores:
        item_scores = [item.scores(target) for item in items]
        return cls(
            items=items,
            target=target,
            skipped=skipped,
            means=np.array(
                [np.mean([value for _, value in scores]) if scores else np.nan for scores, _ in item_scores],
                dtype=float,
            ),
            beyond=np.array([not scores and n_beyond > 0 for scores, n_beyond in item_scores], dtype=bool),
            contexts=_texts("\n".join((item.source, *item.context)) for item in items),
            models=_texts(item.model for item in items),
            sources=_texts(item.source for item in items),
            responses=_texts(detokenise_text(item.response).casefold() for item in items),
            scores_by_item=tuple(scores for scores, _ in item_scores),
            n_partly_beyond=sum(bool(scores) and n_beyond > 0 for scores, n_beyond in item_scores),
        )

    @property
    def judged(self) -> np.ndarray:
        """Return (N,) True for items with human scores."""
        return np.isfinite(self.means)

    @property
    def only_source(self) -> str:
        """Data set of all items; empty if several or unnamed."""
        sources = set(self.sources)
        return str(sources.pop()) if len(sources) == 1 else ""

    def exclusions(self, values: np.ndarray, has_text: np.ndarray, lacking: Sequence[str | None]) -> np.ndarray:
        """Return the reason why each item is not compared, (N,); empty if it is.

        Args:
            values: (N,) a column's scores.
            has_text: (N,) False for blank replies.
            lacking: the metric's reason for each missing score.
        """
        reasons = np.full(len(self.items), "", dtype=object)
        for k, reason in enumerate(lacking):
            if self.beyond[k]:
                reasons[k] = BEYOND_SCALE
            elif not np.isfinite(self.means[k]):
                reasons[k] = NOT_JUDGED
            elif not has_text[k]:
                reasons[k] = BLANK
            elif not np.isfinite(values[k]):
                reasons[k] = reason or METRIC_UNDEFINED
        return reasons

    def cells(
        self, values: np.ndarray, has_text: np.ndarray, lacking: Sequence[str | None], sign: float = 1.0
    ) -> AgreementCells:
        """Correlate a column's scores with human scores, overall and by group.

        Args:
            sign: −1 if lower scores are better, for comparisons of systems.
        """
        reasons = self.exclusions(values, has_text, lacking)
        everything = np.ones(len(self.items), dtype=bool)
        pooled = self._cells(values, reasons, everything, sign)
        pooled.pooled.skipped.update(self.skipped)
        return pooled

    def _cells(self, values: np.ndarray, reasons: np.ndarray, part: np.ndarray, sign: float) -> AgreementCells:
        models, sources = parts_named(self.models[part]), parts_named(self.sources[part])
        return AgreementCells(
            self._agreement(values, reasons, part),
            {name: self._agreement(values, reasons, part & (self.models == name)) for name in models},
            {name: self._cells(values, reasons, part & (self.sources == name), sign) for name in sources},
            None if sources else self.systems_of(part & (reasons == ""), sign * values),
        )

    def systems_of(self, part: np.ndarray, values: np.ndarray) -> SystemAgreement | None:
        """Compare a column with people on a data set's systems.

        Higher values must be better.
        """
        return agreement_of_systems(values[part], self.means[part], self.models[part], self.contexts[part])

    def _agreement(self, values: np.ndarray, reasons: np.ndarray, part: np.ndarray) -> ScoreAgreement:
        used = part & (reasons == "")
        x, y, units = values[used], self.means[used], self.contexts[used]
        skipped = Counter(str(reason) for reason in reasons[part] if reason)
        return ScoreAgreement(
            {method: correlate(x, y, method, units=units) for method in METHODS},
            n=int(used.sum()),
            n_contexts=len(set(units)),
            n_responses=len(set(self.responses[used])),
            skipped=dict(skipped),
            ceiling=self._ceiling(used),
        )

    def _ceiling(self, used: np.ndarray) -> ReliabilityCeiling:
        """Return the ceiling of a set of replies.

        Cached, because most metrics use the same replies.
        """
        key = used.tobytes()
        if key not in self.ceilings:
            self.ceilings[key] = ceiling_of([self.scores_by_item[k] for k in np.flatnonzero(used)])
        return self.ceilings[key]


def _texts(values: Iterable[str]) -> np.ndarray:
    return np.array(list(values), dtype=object)


def parts_named(names: np.ndarray) -> list[str]:
    """Return the names in order if there are several.

    Items without a name belong to no group.
    """
    distinct_names = list(dict.fromkeys(name for name in names if name))
    return distinct_names if len(distinct_names) > 1 else []


def length_bias(responses: Sequence[str], scores: np.ndarray, means: np.ndarray) -> tuple[float | None, float | None]:
    """Return Spearman's coefficients of reply length with metric and human scores.

    Both use the same replies. The excess of the first over the second is the metric's own length bias. None with fewer
    than three replies or a constant side.

    Args:
        scores, means: (N,) metric scores and human means, NaN if missing.
    """
    from scipy.stats import rankdata

    known = np.isfinite(scores) & np.isfinite(means)
    words = np.array([len(text.split()) for text in responses], dtype=float)[known]
    coefficients: list[float | None] = []
    for side in (scores[known], means[known]):
        if len(side) < 3 or is_constant(side) or is_constant(words):
            coefficients.append(None)
        else:
            coefficients.append(float(np.corrcoef(rankdata(side), rankdata(words))[0, 1]))
    return coefficients[0], coefficients[1]


FEWEST = 3
"""Minimum number of replies that two raters must share for a coefficient."""
NO_RATERS = "fewer than two identified raters rated half of the replies each, and at least three"
HUMAN = "Human"


def max_over_raters(values: np.ndarray, scores_by_reply: Sequence[Sequence[tuple[str, float]]]) -> dict[str, Any]:
    """Return the agreement with single raters by method.

    The result has the maximum over raters, each rater's coefficient, and the bounds Human (mean) and Human (max).

    Args:
        values: (N,) scores of a column, NaN if undefined.
        scores_by_reply: raters and scores of each reply.
    """
    raters = list(
        dict.fromkeys(r for reply_scores in scores_by_reply for r, _ in reply_scores if r and r != PUBLISHED_MEAN)
    )
    by_name = [dict(reply_scores) for reply_scores in scores_by_reply]
    scores = {r: np.array([reply_scores.get(r, np.nan) for reply_scores in by_name], dtype=float) for r in raters}
    replies = {r: int(np.isfinite(rater_scores).sum()) for r, rater_scores in scores.items()}
    n_judged = sum(any(r in scores for r in reply_scores) for reply_scores in by_name)
    included_raters = [r for r, n in replies.items() if n >= FEWEST and 2 * n >= n_judged]
    figures: dict[str, Any] = {"n_raters": len(included_raters), "n_named": len(raters), "replies": replies}
    if len(included_raters) < 2:
        return {**figures, "reason": NO_RATERS}
    for method in METHODS:
        coefficients = [_r(values, scores[r], method) for r in included_raters]
        pairs = [_r(scores[a], scores[b], method) for a, b in combinations(included_raters, 2)]
        defined_coefficients, defined_pairs = (
            [r for r in coefficients if r is not None],
            [r for r in pairs if r is not None],
        )
        figures[method] = {
            "max_over_raters": max(defined_coefficients, default=None),
            "mean_over_raters": float(np.mean(defined_coefficients)) if defined_coefficients else None,
            "raters": dict(zip(included_raters, coefficients, strict=True)),
            "human_mean": float(np.mean(defined_pairs)) if defined_pairs else None,
            "human_max": max(defined_pairs, default=None),
        }
    return figures


def max_over_raters_everywhere(
    values: np.ndarray, scores_by_reply: Sequence[Sequence[tuple[str, float]]], sources: np.ndarray, models: np.ndarray
) -> dict[str, Any]:
    """Return `max_over_raters` overall, with `models` and `sources` if there are several.

    Args:
        values, scores_by_reply: as in `max_over_raters`.
        sources, models: (N,) data set and dialogue model; empty if unknown.
    """

    def compute_part(part: np.ndarray) -> dict[str, Any]:
        return max_over_raters(values[part], [scores_by_reply[k] for k in np.flatnonzero(part).tolist()])

    def with_models(part: np.ndarray) -> dict[str, Any]:
        figures, names = compute_part(part), parts_named(models[part])
        return figures | ({"models": {m: compute_part(part & (models == m)) for m in names}} if names else {})

    figures, names = with_models(np.ones(len(values), dtype=bool)), parts_named(sources)
    return figures | ({"sources": {s: with_models(sources == s) for s in names}} if names else {})


def _r(x: np.ndarray, y: np.ndarray, method: Any) -> float | None:
    if (np.isfinite(x) & np.isfinite(y)).sum() < FEWEST:
        return None
    return correlate(x, y, method, interval="fisher").r


def best_raters_printed(result: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Format the JSON of `judge(..., by_best_rater=True)` as a table.

    One line per metric and cell, then people.
    """
    figures_by_metric = {
        name: figures for name, agreement in result.items() if (figures := agreement.get("max_over_raters"))
    }
    if not figures_by_metric:
        return []
    titles = [word for method in METHODS for word in (f"{method.capitalize()} max", "mean")]
    rows = [("max over raters", "data", "model", "raters", *titles)]
    for name, figures in figures_by_metric.items():
        rows += _rows(name, figures, "max_over_raters", "mean_over_raters")
    rows += _rows(HUMAN, next(iter(figures_by_metric.values())), "human_max", "human_mean")
    lines = ["", *columns_printed(rows, 3)]
    if any("reason" in cell for figures in figures_by_metric.values() for _s, _m, cell in cells_of(figures)):
        lines.append(f"max over raters: undefined if {NO_RATERS}.")
    lines.append(
        "max over raters: highest correlation with a single rater, as in PONE's paper; it exceeds the "
        "others by chance alone. mean: mean over raters. raters: those who rated at least half of the replies, of all "
        f"identified ones. {HUMAN}: agreement between raters."
    )
    return lines


def _rows(name: str, figures: Mapping[str, Any], max_key: str, mean_key: str) -> Iterator[tuple[str, ...]]:
    for source, model, cell in cells_of(figures):
        yield (
            name,
            source or "all",
            model or "all",
            f"{cell['n_raters']} of {cell['n_named']}",
            *(
                "undefined" if method not in cell else share(cell[method][which], 3)
                for method in METHODS
                for which in (max_key, mean_key)
            ),
        )
