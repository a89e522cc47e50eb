"""Simulated judged replies: how often the intervals of gains hold, of one metric over another and of a combined one
over the best.

For the suite in small, for `tests.validation.held` in full. Replies share contexts, dialogue models may answer the
same ones, metrics see people's judgement through noise of which they share a part.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from evaluation.agreement.combination import ScoredSet, combine_sets
from evaluation.agreement.paired_comparison import PairedComparison, compare_paired
from tests.evaluation.stats.simulated_models import Held

MANY = 60_000


@dataclass(frozen=True)
class Judged:
    """How replies are judged.

    Attributes:
        contexts, replies: contexts of a model, and its replies to each.
        models: dialogue models; shared: whether they answer the same contexts.
        ours, theirs: correlation of each metric with what people judge.
        points: whether people give points of 1 to 5 and the other metric is skewed.
    """

    contexts: int
    replies: int
    models: int
    shared: bool
    ours: float
    theirs: float
    points: bool


JUDGED = {
    "8 contexts": Judged(8, 1, 1, False, 0.7, 0.3, False),
    "15 contexts": Judged(15, 1, 1, False, 0.7, 0.3, False),
    "15 contexts, points": Judged(15, 2, 1, False, 0.5, 0.5, True),
    "15 contexts, four models": Judged(15, 2, 4, True, 0.7, 0.3, False),
    "40 contexts, both good": Judged(40, 2, 1, False, 0.85, 0.85, False),
    "75 contexts, two models, points": Judged(75, 2, 2, True, 0.5, 0.5, True),
}


def _replies(
    rng: np.random.Generator, design: Judged
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[tuple[str, str]]]:
    """Return our scores, theirs, people's means, the contexts and the cells of all replies."""
    context = np.repeat(np.arange(design.contexts), design.replies)
    n = len(context)
    own = rng.normal(size=(design.models, 3, design.contexts))
    if design.shared:
        own[:] = own[0]
    true = 0.6 * own[:, 0][:, context] + 0.8 * rng.normal(size=(design.models, n))
    common = rng.normal(size=(design.models, n))
    scores = []
    for k, quality in enumerate((design.ours, design.theirs)):
        noise = 0.6 * own[:, k + 1][:, context] + 0.8 * rng.normal(size=(design.models, n))
        scores.append(quality * true + np.sqrt(1 - quality**2) * (0.6 * common + 0.8 * noise))
    given = true + rng.normal(size=(5, design.models, n))
    if design.points:
        given = np.clip(np.round(4 + given), 1, 5)
        scores[1] = np.exp(scores[1])
    names = np.tile(context.astype(str), design.models).astype(object)
    if not design.shared:
        names = np.array([f"{m} {c}" for m in range(design.models) for c in context], dtype=object)
    cells = [("s", f"m{m}") for m in range(design.models) for _ in context]
    return scores[0].ravel(), scores[1].ravel(), given.mean(axis=0).ravel(), names, cells


@cache
def _gain_of(replies: int, ours: float, theirs: float, points: bool) -> dict[str, float]:
    """Return the gains in very many replies."""
    many = Judged(MANY // replies, replies, 1, False, ours, theirs, points)
    x, other, y, _contexts, _cells = _replies(np.random.default_rng(0), many)
    few = np.arange(len(x)) % 50  # the interval of these is not asked for
    result: PairedComparison = compare_paired(x, other, y, few.astype(str).astype(object), [("s", "m")] * len(x), "")
    return {name: gain.gain for name, gain in result.gains.items()}


def paired(design: Judged, n_studies: int, seed: int = 0) -> dict[str, Held]:
    """Return by coefficient how often the interval of the gain of one metric over another held."""
    rng = np.random.default_rng(seed)
    true = _gain_of(design.replies, design.ours, design.theirs, design.points)
    results = {name: Held() for name in true}
    for _ in range(n_studies):
        for name, gain in compare_paired(*_replies(rng, design), "theirs").gains.items():
            results[name].add(true[name], gain.low, gain.high)
    return results


@dataclass(frozen=True)
class Combined:
    """How data sets are judged.

    Attributes:
        sets, replies: data sets, and replies of each, two to a context.
        qualities: of the metrics, their correlation with what people judge; differ: its spread over sets.
    """

    sets: int
    replies: int
    qualities: tuple[float, ...]
    differ: float


COMBINED = {
    "3 sets alike": Combined(3, 60, (0.4, 0.4, 0.4), 0.0),
    "3 sets that differ": Combined(3, 60, (0.4, 0.4, 0.4), 0.15),
    "3 sets, one metric leads": Combined(3, 120, (0.5, 0.3, 0.2, 0.1, 0.0), 0.15),
    "5 sets that differ": Combined(5, 60, (0.4, 0.4, 0.4), 0.15),
    "10 sets that differ": Combined(10, 60, (0.5, 0.3, 0.2), 0.15),
}


def _sets(rng: np.random.Generator, design: Combined) -> Iterator[ScoredSet]:
    context = np.repeat(np.arange(design.replies // 2), 2)
    n = len(context)

    def in_contexts() -> np.ndarray:
        return 0.5 * rng.normal(size=design.replies // 2)[context] + 0.87 * rng.normal(size=n)

    for k in range(design.sets):
        true, common = in_contexts(), rng.normal(size=n)
        scores = {}
        for m, middle in enumerate(design.qualities):
            quality = float(np.clip(middle + design.differ * rng.normal(), -0.2, 0.9))
            noise = 0.5 * common + 0.87 * in_contexts()
            scores[f"m{m}"] = quality * true + np.sqrt(1 - quality**2) * noise
        human = true + 0.7 * rng.normal(size=n)
        yield ScoredSet(f"s{k}", human, context.astype(str).astype(object), scores)


def combined(design: Combined, n_studies: int, seed: int = 0) -> Held:
    """Return how often the interval of a combined metric's gain held the mean gain over all of these studies."""
    rng = np.random.default_rng(seed)
    gains = [combine_sets(list(_sets(rng, design))).gains["pearson"] for _ in range(n_studies)]
    true, result = float(np.mean([gain.value for gain in gains])), Held()
    for gain in gains:
        result.add(true, gain.low, gain.high)
    return result
