"""Combination of metrics, evaluated on data sets not used for its weights.

`combine_sets` leaves out one data set at a time and learns a weight for every metric on the others. On the left-out set
it compares the weighted sum with human ratings, and so does the single metric that agreed best with people on the other
sets. Nothing evaluated on a data set was learned or selected there. The design was fixed before it was tried:

- within a data set each metric's scores become normal scores of their ranks, so that neither the scale nor a few
  extreme values matter; undefined scores become 0, the middle, and are counted;
- human means are standardised within a data set; all data sets have the same weight, whatever their size;
- ridge regression (Hoerl and Kennard, 1970) without intercept; the penalty maximises the mean Pearson coefficient when
  each of the other data sets is left out in turn.

The interval of the mean gain over S data sets refers to a new data set: Student's t of the gains with the variance
multiplied by 1 / S + 1 / (S − 1), because the training data of the folds overlap (Nadeau and Bengio 2003, Machine
Learning 52). Its half width is combined in quadrature with that of a jackknife over contexts. The latter is necessary
because chance in the contexts can make the same metric the best one in all sets, which differences between their gains
do not reveal. If a side effectively depends on fewer than 2.5 contexts, there is no interval and no claim, as with
correlations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chatbots.text import quote
from evaluation.agreement.metric_agreement import JudgedReplies, MetricAgreement, judge, judgements_read
from evaluation.findings import Reason
from evaluation.metrics.base import Metric
from evaluation.metrics.replies import Progress
from evaluation.metrics.text_cache import TextCache
from evaluation.number_format import plain_interval
from evaluation.stats.constants import MOST_NUMBERS, SCORE_LEVEL
from evaluation.stats.correlation import effective_units_of_cells, few_carry, is_constant, ranks, weighted_correlations
from evaluation.stats.resampling import jackknife_half, leave_one_out_values

METHODS = ("pearson", "spearman")
PENALTIES = (0.01, 0.1, 1.0, 10.0)
"""Candidate penalties, relative to a sum of squares of 1 for every data set and metric."""
FEWEST_SETS = 3
"""Minimum number of data sets: one is left out, and another is left out to choose the penalty."""
_ROUNDING = 1e-9
"""Tolerance within which coefficients count as equal."""


@dataclass(frozen=True)
class ScoredSet:
    """Human and metric scores of the N replies of a data set.

    Attributes:
        human: (N,) mean human score.
        contexts: (N,) context, which replies share.
        scores: by metric (N,), NaN if undefined.
    """

    name: str
    human: np.ndarray
    contexts: np.ndarray
    scores: dict[str, np.ndarray]


@dataclass(frozen=True)
class SetCombined:
    """Results on one data set for weights learned on the others.

    Attributes:
        weights: by metric, for its standardised scores.
        penalty: penalty of the ridge regression.
        best: metric with the largest mean Pearson coefficient on the other data sets.
        imputed: by metric, number of its undefined scores here.
        combined: by method, agreement of the combination with people here.
        single: by method and metric, agreement of each metric; None if undefined.
    """

    name: str
    n: int
    n_contexts: int
    weights: dict[str, float]
    penalty: float
    best: str
    imputed: dict[str, int]
    combined: dict[str, float]
    single: dict[str, dict[str, float | None]]

    def to_json(self) -> dict[str, Any]:
        """Return the results as plain values, with one part per method."""
        return {
            "n": self.n,
            "n_contexts": self.n_contexts,
            "weights": self.weights,
            "penalty": self.penalty,
            "best": self.best,
            "imputed": self.imputed,
            **{
                method: {
                    "combined": self.combined[method],
                    "best": self.single[method][self.best],
                    "metrics": self.single[method],
                }
                for method in METHODS
            },
        }


@dataclass(frozen=True)
class Gain:
    """Gain in agreement over the best single metric, averaged over data sets.

    Attributes:
        combined, best: the mean coefficients.
        low, high: 95 % interval of their difference; None if few contexts carry the variance of a side.
        reason: reason for a missing interval.
    """

    combined: float
    best: float
    low: float | None
    high: float | None
    reason: Reason | None = None

    @property
    def value(self) -> float:
        """The difference of the means."""
        return self.combined - self.best

    @property
    def claimed(self) -> bool:
        """True if the interval lies above 0, so that a gain is claimed."""
        return self.low is not None and self.low > _ROUNDING

    def to_json(self) -> dict[str, Any]:
        """Return `{"combined", "best", "gain", "ci95", "claimed"}`.

        A missing interval has a reason.
        """
        return {
            "combined": self.combined,
            "best": self.best,
            "gain": self.value,
            "ci95": plain_interval(self.low, self.high),
            "claimed": self.claimed,
            **({} if self.reason is None else {"reason": self.reason.to_json()}),
        }


@dataclass(frozen=True)
class Combination:
    """Combination of metrics, with each data set left out once."""

    sets: tuple[SetCombined, ...]
    gains: dict[str, Gain]

    def to_json(self) -> dict[str, Any]:
        """Return `{"sets": {name: …}, "pearson": {…}, "spearman": {…}}`."""
        return {
            "sets": {dataset.name: dataset.to_json() for dataset in self.sets},
            **{method: gain.to_json() for method, gain in self.gains.items()},
        }


def combine(
    files: Sequence[Path | str],
    metrics: Sequence[Metric | str],
    *,
    target: str = "",
    shared: TextCache | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> Combination:
    """Score rated replies by metrics and evaluate their combination.

    Each data set is left out once.

    Args:
        files: files of rated items; data sets are those named by the items, otherwise the files.
        metrics, shared, progress: as in `judge`; metrics that cannot be computed here are skipped.
        target: rated dimension in every file; by default each file's own, see `JudgedReplies.target`.

    Raises:
        ValueError: if there are too few data sets or metrics; see `combine_sets`.
    """
    shared = shared or TextCache()
    sets: list[ScoredSet] = []
    for file in map(Path, files):
        judgements = judgements_read(file)
        judged = judge(judgements, metrics, target=target, shared=shared, progress=progress)
        sets += judged_sets(judgements, judged, file.name.split(".")[0])
    return combine_sets(sets)


def judged_sets(judgements: JudgedReplies, judged: Mapping[str, MetricAgreement], name: str) -> list[ScoredSet]:
    """Split rated replies by data set; unrated replies are skipped.

    Args:
        judged: by metric; main columns are used, and metrics that could not be computed are skipped.
        name: name for replies that name no data set.
    """
    available = {metric: agreement for metric, agreement in judged.items() if not agreement.unavailable}
    means: list[float] = []
    for item in judgements.items:
        rater_scores, _ = item.scores(next(iter(judged.values())).target)
        means.append(float(np.mean([value for _, value in rater_scores])) if rater_scores else np.nan)
    human = np.array(means)
    sources = np.array([item.source or name for item in judgements.items], dtype=object)
    contexts = np.array(["\n".join(item.context) for item in judgements.items], dtype=object)
    scored_sets = []
    for source in dict.fromkeys(sources):
        part = (sources == source) & np.isfinite(human)
        if part.any():
            scores = {
                metric: agreement.scores[next(iter(agreement.columns))][part] for metric, agreement in available.items()
            }
            scored_sets.append(ScoredSet(str(source), human[part], contexts[part], scores))
    return scored_sets


def combine_sets(sets: Sequence[ScoredSet]) -> Combination:
    """Learn and evaluate weights of metrics, leaving out each data set once.

    Args:
        sets: each with scores of the same two or more metrics.

    Raises:
        ValueError: with fewer than three data sets or two metrics, duplicate names, or a data set whose human means are
            all equal.
    """
    metrics = _validate_sets(sets)
    inputs = [_normal_scores(dataset, metrics) for dataset in sets]
    targets = [_standardised(dataset.human) for dataset in sets]
    single = [
        {
            method: {name: _agreement(dataset.scores[name], dataset.human, method) for name in metrics}
            for method in METHODS
        }
        for dataset in sets
    ]
    combined_sets, predicted = [], []
    for held_out, dataset in enumerate(sets):
        training_sets = [k for k in range(len(sets)) if k != held_out]
        penalty = _penalty(inputs, targets, training_sets)
        weights = _ridge(inputs, targets, training_sets, penalty)
        combined_scores = inputs[held_out] @ weights
        predicted.append(combined_scores)
        combined_sets.append(
            SetCombined(
                name=dataset.name,
                n=len(dataset.human),
                n_contexts=len(set(dataset.contexts)),
                weights=dict(zip(metrics, map(float, weights), strict=True)),
                penalty=penalty,
                best=_best(metrics, single, held_out, training_sets),
                imputed={
                    name: missing for name in metrics if (missing := int((~np.isfinite(dataset.scores[name])).sum()))
                },
                combined={method: _agreement(combined_scores, dataset.human, method) or 0.0 for method in METHODS},
                single=single[held_out],
            )
        )
    gains = {method: _gain(sets, combined_sets, predicted, method) for method in METHODS}
    return Combination(tuple(combined_sets), gains)


def _validate_sets(sets: Sequence[ScoredSet]) -> tuple[str, ...]:
    """Return the metrics; raises ValueError for unusable data sets."""
    names = [dataset.name for dataset in sets]
    if len(names) < FEWEST_SETS:
        names_text = ", ".join(names) or "none"
        raise ValueError(
            f"{len(names)} data sets ({names_text}) are too few: at least {FEWEST_SETS} are needed, "
            "because one is left out at a time"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two data sets are named {quote(twice[0])}")
    metrics = tuple(sets[0].scores)
    if len(metrics) < 2:
        raise ValueError(
            f"{len(metrics)} metrics that can be computed here are too few: a combination needs at least two"
        )
    for dataset in sets:
        if is_constant(dataset.human):
            raise ValueError(f"human means are all equal in {dataset.name}, so no agreement can be computed")
    return metrics


def _normal_scores(dataset: ScoredSet, metrics: Sequence[str]) -> np.ndarray:
    """Return (N, M) normal scores of ranks (Blom, 1958).

    Undefined scores become 0.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    quantiles = np.zeros((len(dataset.human), len(metrics)))
    for k, name in enumerate(metrics):
        is_defined = np.isfinite(dataset.scores[name])
        values = dataset.scores[name][is_defined]
        if len(values) and not is_constant(values):
            quantiles[is_defined, k] = _standardised(ndtri((rankdata(values) - 0.375) / (len(values) + 0.25)))
    return quantiles


def _standardised(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / values.std()


def _ridge(
    inputs: Sequence[np.ndarray], targets: Sequence[np.ndarray], training_sets: Sequence[int], penalty: float
) -> np.ndarray:
    """Return the (M,) weights learned on some of the data sets."""
    from sklearn.linear_model import Ridge

    weight = np.concatenate([np.full(len(targets[k]), 1 / len(targets[k])) for k in training_sets])
    x, y = np.concatenate([inputs[k] for k in training_sets]), np.concatenate([targets[k] for k in training_sets])
    fitted = Ridge(alpha=penalty * len(training_sets), fit_intercept=False).fit(x, y, sample_weight=weight)
    return np.asarray(fitted.coef_, dtype=float)


def _penalty(inputs: Sequence[np.ndarray], targets: Sequence[np.ndarray], training_sets: Sequence[int]) -> float:
    """Choose the penalty by leave-one-set-out; ties go to the largest."""

    def mean_agreement(penalty: float) -> float:
        agreements = []
        for held_out in training_sets:
            weights = _ridge(inputs, targets, [k for k in training_sets if k != held_out], penalty)
            agreements.append(_agreement(inputs[held_out] @ weights, targets[held_out], "pearson") or 0.0)
        return float(np.mean(agreements))

    return max(reversed(PENALTIES), key=mean_agreement)


def _agreement(x: np.ndarray, y: np.ndarray, method: str) -> float | None:
    """Return the coefficient where x is defined; None if undefined."""
    is_defined = np.isfinite(x)
    x, y = x[is_defined], y[is_defined]
    if len(x) < 3 or is_constant(x) or is_constant(y):
        return None
    if method == "spearman":
        x, y = ranks(x), ranks(y)
    return float(np.corrcoef(x, y)[0, 1])


def _best(
    metrics: Sequence[str],
    single: Sequence[Mapping[str, Mapping[str, float | None]]],
    held_out: int,
    training_sets: Sequence[int],
) -> str:
    """Return the metric that agrees best with people on the other sets.

    It must be defined on the left-out set.

    A metric that is undefined on a whole data set counts as having no agreement there.
    """
    here = [name for name in metrics if single[held_out]["pearson"][name] is not None]
    return max(
        here or metrics, key=lambda name: float(np.mean([single[k]["pearson"][name] or 0.0 for k in training_sets]))
    )


def _gain(
    sets: Sequence[ScoredSet], combined_sets: Sequence[SetCombined], predicted: Sequence[np.ndarray], method: str
) -> Gain:
    """Return the mean gain over data sets with its interval.

    Ranks are computed within a data set.
    """
    from scipy.special import stdtrit

    n = len(sets)
    combined = np.array([combined_set.combined[method] for combined_set in combined_sets])
    best = np.array([combined_set.single[method][combined_set.best] or 0.0 for combined_set in combined_sets])
    gain = float((combined - best).mean())
    spread = float((combined - best).std(ddof=1)) * np.sqrt(1 / n + 1 / (n - 1))
    few = _few_carry(sets, combined_sets, predicted, method)
    if few is not None:
        return Gain(float(combined.mean()), float(best.mean()), None, None, few)
    leave_one_out = [
        _leave_out_contexts(dataset, combined_set.best, scores, method) / n
        for dataset, combined_set, scores in zip(sets, combined_sets, predicted, strict=True)
    ]
    reach = float(stdtrit(n - 1, 0.5 + SCORE_LEVEL / 2) * spread)
    half = float(np.hypot(reach, jackknife_half(leave_one_out, SCORE_LEVEL) or 0.0))
    return Gain(float(combined.mean()), float(best.mean()), max(gain - half, -2.0), min(gain + half, 2.0))


def _few_carry(
    sets: Sequence[ScoredSet], combined_sets: Sequence[SetCombined], predicted: Sequence[np.ndarray], method: str
) -> Reason | None:
    """Return the reason if a side depends on few contexts, else None.

    Sides are the combination, the best metrics and the human scores.
    """
    units = [np.array([f"{dataset.name}\n{context}" for context in dataset.contexts]) for dataset in sets]
    sides = (
        predicted,
        [dataset.scores[combined_set.best] for dataset, combined_set in zip(sets, combined_sets, strict=True)],
        [s.human for s in sets],
    )
    carried = float("inf")
    for side in sides:
        defined_parts = [
            (values[is_defined := np.isfinite(values)], set_units[is_defined])
            for values, set_units in zip(side, units, strict=True)
        ]
        cells = [(values, set_units) for values, set_units in defined_parts if len(values) and not is_constant(values)]
        if cells:
            carried = min(carried, effective_units_of_cells(cells, method))
    return few_carry(carried, len(np.unique(np.concatenate(units))))


def _leave_out_contexts(dataset: ScoredSet, best: str, predicted: np.ndarray, method: str) -> np.ndarray:
    """Return the gain on a data set without each context.

    NaN if undefined.
    """
    scores = dataset.scores[best]
    is_defined = np.isfinite(scores)
    names, codes = np.unique(dataset.contexts.astype(str), return_inverse=True)

    def gains(times: np.ndarray) -> np.ndarray:
        weights = times[:, codes]
        return weighted_correlations(predicted, dataset.human, weights, method) - weighted_correlations(
            scores[is_defined], dataset.human[is_defined], weights[:, is_defined], method
        )

    return leave_one_out_values(gains, len(names), max(1, MOST_NUMBERS // len(codes)))
