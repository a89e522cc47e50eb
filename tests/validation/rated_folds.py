"""Cross-validation of metrics trained on rated pairs, in folds that share no contexts.

`folds_measured` trains a network per fold and seed, like `train_metric`, and correlates the scores pooled over folds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.stats.correlation import METHODS, correlate
from evaluation.training.checkpoint import checkpoint_read
from evaluation.training.config import config_check, learned_get
from evaluation.training.loop import restored, train
from evaluation.training.metrics.rade import RatedExamples, lite_batch, parted, predicted, texts_remembered
from evaluation.training.rade_data import context_key, rated_pairs_read

SEEDS = (11, 12, 13)


@dataclass(frozen=True)
class FoldsMeasured:
    """Correlations of held-out scores, by seed.

    Attributes:
        seeds: seeds of folds and weights.
        r: by method, one coefficient per seed, pooled over folds.
        ci95: interval of Pearson's r of the scores averaged over seeds, resampling contexts.
        scores: (seeds, N) scores, each by a network not trained on the pair's context.
        people: (N,) human ratings.
        contexts: (N,) names of the pairs' contexts.
    """

    seeds: tuple[int, ...]
    r: dict[str, tuple[float, ...]]
    ci95: tuple[float, float] | None
    scores: np.ndarray
    people: np.ndarray
    contexts: np.ndarray

    @property
    def n(self) -> int:
        """Number of pairs."""
        return len(self.people)

    def mean(self, method: str = "pearson") -> float:
        """Return the mean over seeds."""
        return float(np.mean(self.r[method]))

    def spread(self, method: str = "pearson") -> float:
        """Return the standard deviation over seeds."""
        return float(np.std(self.r[method], ddof=1)) if len(self.seeds) > 1 else float("nan")


def folds_measured(config: Mapping[str, Any], data: Path, seeds: Sequence[int] = SEEDS) -> FoldsMeasured:
    """Score each fold by a network trained on the other folds, for each seed.

    Args:
        config: values of a config with rated pairs; `fold`, `fold_seed` and `seed` are set here.
        data: folder of the rated pairs.
    """
    from evaluation.metrics.text_cache import TextCache

    shared = TextCache()
    scores_by_seed: list[np.ndarray] = []
    people: dict[Any, float] = {}
    units: dict[Any, str] = {}
    order: list[Any] = []  # duplicate rows count as one
    for seed in seeds:
        scores: dict[Any, float] = {}
        n_folds = int(dict(config.get("options", {})).get("folds", 5))
        for fold in range(n_folds):
            values = {
                **config,
                "name": f"fold-{fold}",
                "seed": seed,
                "options": {**config.get("options", {}), "fold": fold, "fold_seed": seed},
            }
            checked = config_check(values, data)
            with tempfile.TemporaryDirectory(prefix="confab-fold-") as work, texts_remembered(shared):
                train(checked, work)
                network = restored(checkpoint_read(work))
            rows = checked.metric_options.split == "rows"
            needs_scores = learned_get(checked.metric).needs_reference_scores(checked.metric_options)
            pairs = [
                pair
                for name in checked.metric_options.rated
                for file in [rated_pairs_read(checked.path(name), reference_scores=needs_scores)]
                for pair in (file.rows if rows else file.pairs)
            ]
            test = parted(pairs, checked.metric_options)["test"]
            is_lite = getattr(checked.metric_options, "network", "") == "lite"
            predictions = predicted(network, RatedExamples(test, lite_batch(test, shared) if is_lite else None))
            for pair, score in zip(test, predictions, strict=True):
                key = (pair.context, pair.response, pair.reference)
                scores[key], people[key], units[key] = float(score), pair.score, context_key(pair)
        order = order or list(scores)
        scores_by_seed.append(np.array([scores[key] for key in order]))
    y = np.array([people[key] for key in order])
    r = {
        str(method): tuple(float(correlate(x, y, method, interval="fisher").r or np.nan) for x in scores_by_seed)
        for method in METHODS
    }
    contexts = [units[key] for key in order]
    correlation = correlate(np.mean(scores_by_seed, axis=0), y, units=contexts)
    ends = None if correlation.low is None or correlation.high is None else (correlation.low, correlation.high)
    return FoldsMeasured(tuple(seeds), r, ends, np.array(scores_by_seed), y, np.array(contexts))
