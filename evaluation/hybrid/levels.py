"""Agreement of predictions with human ratings, over bots, conversations and dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from evaluation.analysis.comparisons import Test, Units, compare
from evaluation.data.ratings import Ratings
from evaluation.findings import Reason
from evaluation.hybrid.bot_level import BotLevel, OrderedPairs, Permuted
from evaluation.hybrid.features import Design, block_of
from evaluation.hybrid.gaussian_process import Mixture
from evaluation.hybrid.least_squares import Factors, LinearPredictor
from evaluation.hybrid.results import FeatureCoefficient, KeptFit
from evaluation.stats.comparisons import ORDER_ALPHA
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.correlation import (
    FEWEST_DRAWS,
    METHODS,
    Correlation,
    Method,
    correlate,
    correlate_all,
    null_point,
    permutations,
    rowwise,
    undefined_reason,
    within_groups,
)
from evaluation.stats.means import mean_interval

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class SignificantPairs:
    """Pairs of bots with significantly different ratings.

    The test is that of `evaluation.analysis.comparisons.compare`.

    Attributes:
        pairs: pairs, each sorted by name.
        test: the fixed-sample test, or the always-valid one while the study collects data; None without ratings.
        units: groups of ratings not assumed to be independent: raters, conversations if raters are unnamed, or both.
    """

    pairs: frozenset[tuple[str, str]] = frozenset()
    test: Test | None = None
    units: Units = "raters"
    alpha: float = ORDER_ALPHA


def significant_pairs(human: pd.DataFrame, targets: Sequence[str], ratings: Ratings | None) -> SignificantPairs:
    """Find the pairs of significantly different bots.

    Args:
        human: as for `fit_hybrid`, used if `ratings` is missing or lacks a target.
        targets: dimensions whose mean is compared.
        ratings: individual ratings.
    """
    if ratings is None or set(targets) - set(ratings.answers):
        table = human.drop(columns="rater", errors="ignore")
        table = table.rename(columns={"participant": "rater"})
        ratings = Ratings.from_frame(table, list(targets))
    comparison = compare(ratings, targets, plans=False)
    return SignificantPairs(comparison.told_apart, comparison.test, comparison.units, comparison.alpha)


def units_of(design: Design) -> list[Any] | None:
    """Return each conversation's resampling unit, its participant; None if unknown."""
    if not any(person is not None for person in design.people):
        return None
    return [f"alone {i}" if p is None else f"p {p}" for i, p in enumerate(design.people)]


def dimensions_of(
    design: Design | None,
    scores: Mapping[str, Mapping[str, float]],
    dimensions: Mapping[str, Mapping[str, float] | None],
) -> dict[str, dict[str, dict[str, Correlation]]]:
    """Correlate bots' scores with their means of each rating dimension.

    This is step 4 of the paper.

    Args:
        dimensions: means by name; None: the unadjusted means of the ratings.
    """
    if design is None:
        return {}
    correlations: dict[str, dict[str, dict[str, Correlation]]] = {}
    for name, known_means in dimensions.items():
        means = design.means[name] if known_means is None else known_means
        correlations[name] = {}
        for source, predicted in scores.items():
            bots = [bot for bot in predicted if bot in means]
            if bots:
                correlations[name][source] = correlate_all(
                    [predicted[b] for b in bots], [means[b] for b in bots], interval="fisher"
                )
    return correlations


def dimensions_of_conversations(
    rated: Design | None, predictions: Mapping[str, np.ndarray], names: Sequence[str]
) -> dict[str, dict[str, Correlation]]:
    """Correlate predictions of conversations with each dimension.

    Correlations are over all bots and within bots.
    """
    if rated is None or not predictions:
        return {}
    predicted, units = predictions["predicted"], units_of(rated)
    correlations: dict[str, dict[str, Correlation]] = {}
    for name in names:
        values = rated.ratings[name]
        correlations[name] = {
            "spearman": correlate(predicted, values, "spearman", units=units),
            "within_bots": within_groups(predicted, values, [str(bot) for bot in rated.bots], units=units),
        }
    return correlations


N_PERMUTATIONS = 5_000


def bot_levels(
    predicted: Sequence[float] | np.ndarray,
    human: Sequence[float] | np.ndarray,
    *,
    seed: int,
    null: Callable[[], Permuted] | None = None,
    methods: Sequence[Method] = METHODS,
) -> dict[str, BotLevel]:
    """Correlate predicted with human bot means, with Fisher's intervals.

    Nominal 95 % intervals from resampling bots would cover 88 to 91 % with 6 to 12 bots.

    Args:
        null: function that permutes the bots' means and predicts again. By default the bots of `human` are permuted,
            which is valid if the predictions were not learned from these ratings.
    """
    x, y = np.asarray(predicted, dtype=float), np.asarray(human, dtype=float)
    permuted: Permuted = None
    if undefined_reason(x, y) is None:
        permuted = (x, y[permutations(len(y), N_PERMUTATIONS, seed)]) if null is None else null()
    levels: dict[str, BotLevel] = {}
    for method in methods:
        correlation = correlate(x, y, method, interval="fisher")
        draws = np.zeros(0) if permuted is None else rowwise(*permuted, method)
        levels[method] = BotLevel(correlation, null_point(draws), _exceeding(correlation.r, draws))
    return levels


def _exceeding(r: float | None, draws: np.ndarray) -> float | None:
    """Return the one-sided p-value of r among permuted coefficients; None if undefined."""
    defined = draws[np.isfinite(draws)]
    if r is None or len(defined) < FEWEST_DRAWS:
        return None
    return float((1 + (defined >= r - 1e-12).sum()) / (1 + len(defined)))


def permuted_lines(factors: Factors, means: Mapping[str, np.ndarray], *, common: bool, seed: int) -> Permuted:
    """Permute the bots' mean ratings and refit all least-squares folds.

    Every conversation keeps its features and its deviation from the bot's mean; the means are permuted. Predictions are
    linear in the ratings, so permutations need no separate fits.

    Args:
        factors: factors of the rated bots.
        means: (p,) mean features of each bot's predicted conversations.
        common: True if all folds share one intercept.
    """
    indices = [k for k, bot in enumerate(factors.bots) if bot in means]
    if len(indices) < 3:
        return None
    responses = [factors.response(k, means[factors.bots[k]], common=common) for k in indices]
    weights = np.stack([weight for weight, _ in responses])  # (K', K)
    rest = np.array([value for _, value in responses])
    shuffled = factors.bot_means[permutations(len(factors.bots), N_PERMUTATIONS, seed)]  # (P, K)
    return shuffled @ weights.T + rest, shuffled[:, indices]


def pairs_of(predicted: Mapping[str, float], human: Mapping[str, float], significant: SignificantPairs) -> OrderedPairs:
    """Count the pairs of bots and the correctly ordered ones.

    Args:
        significant: pairs with significantly different ratings, and the test.
    """
    significant_sets = {frozenset(pair) for pair in significant.pairs}
    counts = {"all": 0, "ordered": 0, "resolvable": 0, "resolvable_ordered": 0}
    for a, b in combinations([bot for bot in predicted if bot in human], 2):
        right = (human[a] - human[b]) * (predicted[a] - predicted[b]) > 0
        resolvable = frozenset((a, b)) in significant_sets
        counts["all"] += 1
        counts["ordered"] += right
        counts["resolvable"] += resolvable
        counts["resolvable_ordered"] += resolvable and right
    return OrderedPairs(**counts, test=significant.test, units=significant.units, alpha=significant.alpha)


def coefficients_of(
    features: Sequence[str], lines: Sequence[LinearPredictor], scale: np.ndarray
) -> dict[str, FeatureCoefficient]:
    """Return each weight's mean and 90 % interval over folds.

    Only folds with the feature count.
    """
    from scipy import stats

    coefficients: dict[str, FeatureCoefficient] = {}
    for j, name in enumerate(features):
        block = block_of(name)
        if block is not None:
            if block not in coefficients:
                n = sum(block_of(feature) == block for feature in features)
                explanation = f"{n} directions of an embedding, which have no individual meaning"
                reason = Reason("embedding", explanation, n_directions=n)
                coefficients[block] = FeatureCoefficient(None, None, None, None, None, None, reason)
            continue
        weights = np.array([line.slopes[j] for line in lines if line.used[j]])
        if not len(weights):
            dropped = Reason("constant_feature", "constant in every fold: dropped")
            coefficients[name] = FeatureCoefficient(None, None, None, None, None, None, dropped)
            continue
        mean, step = float(weights.mean()), float(scale[j])
        if len(weights) < 2:
            once = Reason("one_fold", "used in one fold only: no interval")
            coefficients[name] = FeatureCoefficient(mean, None, None, mean * step, None, None, once)
            continue
        half = float(stats.t.ppf(0.95, len(weights) - 1) * weights.std(ddof=1) / np.sqrt(len(weights)))
        low, high = mean - half, mean + half
        coefficients[name] = FeatureCoefficient(mean, low, high, mean * step, low * step, high * step)
    return coefficients


def interval_of(
    values: np.ndarray, people: np.ndarray | None, scale: tuple[float, float] | None = None
) -> tuple[float, float] | None:
    """Return the 90 % interval of a mean, clustered by known participants."""
    groups = None
    if people is not None and any(person is not None for person in people):
        groups = [f"alone {i}" if p is None else f"p {p}" for i, p in enumerate(people)]
    interval = mean_interval(values, groups, level=RATING_LEVEL, scale=scale)
    return None if interval.low is None or interval.high is None else (interval.low, interval.high)


def unseen_interval(x: np.ndarray, draws: np.ndarray, seed: int) -> tuple[float, float] | None:
    """Return the 90 % interval of an unrated bot's mean prediction.

    Args:
        x: (n, p) features of its conversations, which are resampled.
        draws: (B, p + 1) intercept and slopes of fits on resampled bots.
    """
    if not len(draws) or not len(x):
        return None
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(x), size=(len(draws), len(x)))
    means = np.stack([x[rows].mean(axis=0) for rows in chosen])
    predicted = draws[:, 0] + np.einsum("bp,bp->b", means, draws[:, 1:])
    low, high = np.quantile(predicted, [0.05, 0.95])
    return float(low), float(high)


def jackknife_interval(
    x: np.ndarray, full_line: LinearPredictor, folds: Sequence[LinearPredictor]
) -> tuple[float, float] | None:
    """Return the 90 % jackknife interval of an unrated bot's mean prediction.

    The jackknife is over the fits without one bot (Efron and Tibshirani 1993, chapter 11); the variance between the
    bot's conversations is added.

    Args:
        x: (n, p) features of its conversations.
    """
    from scipy import stats

    if len(folds) < 3 or not len(x):
        return None
    values = full_line.predict(x)
    means = np.array([line.predict(x).mean() for line in folds])
    variance = (len(folds) - 1) * float(means.var())
    if len(x) > 1:
        variance += float(values.var(ddof=1)) / len(x)
    half = float(stats.t.ppf(0.95, len(folds) - 1)) * float(np.sqrt(variance))
    return float(values.mean()) - half, float(values.mean()) + half


def bootstrap_draws(factors: Factors, n: int, seed: int) -> np.ndarray:
    """Fit n times on resampled bots: (n, p + 1) intercept and slopes."""
    rng = np.random.default_rng(seed)
    n_bots = len(factors.bots)
    draws = np.empty((n, factors.n_features + 1))
    for b in range(n):
        line = factors.line(rng.integers(0, n_bots, size=n_bots).tolist(), check=False)
        draws[b] = [line.intercept, *line.slopes]
    return draws


def features_by_bot(design: Design) -> dict[str, np.ndarray]:
    """Return the (p,) mean features of each bot's conversations."""
    return {str(b): design.x[design.bots == b].mean(axis=0) for b in dict.fromkeys(design.bots)}


def predict_conversations(fit: KeptFit, table: pd.DataFrame) -> np.ndarray:
    """Return (c,) predictions of a table's conversations; NaN for undefined features.

    Args:
        table: `bot` and the fit's features, one row per conversation.

    Raises:
        KeyError: if a feature is not among its columns.
    """
    x = table[list(fit.features)].to_numpy(dtype=float)
    bots = table["bot"].astype(str).to_numpy(dtype=object)
    predictions = np.full(len(table), np.nan)
    defined = np.isfinite(x).all(axis=1)
    for bot in sorted(set(bots.tolist())):
        rows = defined & (bots == bot)
        predictions[rows] = fit.predict(x[rows], bot)
    return predictions


def shifted_interval(expected: Mixture | None, predicted: float | None) -> tuple[float, float] | None:
    """Shift a 90 % interval by the offset of the common intercept."""
    if expected is None or predicted is None:
        return None
    low, high = expected.first_interval(0.90)
    moved = predicted - float(expected.mean[0])
    return low + moved, high + moved


def scored_conversations(fit: KeptFit, design: Design | None, bot: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a mask of scored conversations, (n,), and their predictions."""
    if design is None:
        return np.zeros(0, dtype=bool), np.zeros(0)
    rows = design.bots == bot
    # The score is compared with the human mean of rated conversations, so it uses the same conversations.
    if np.isfinite(design.y[rows]).any():
        rows = rows & np.isfinite(design.y)
    return rows, fit.predict(design.x[rows], bot)


def bot_score(
    fit: KeptFit, design: Design | None, bot: str, seed: int
) -> tuple[float | None, tuple[float, float] | None, int]:
    """Return a bot's mean prediction, its 90 % interval, and n."""
    rows, values = scored_conversations(fit, design, bot)
    if design is None or not len(values):
        return None, None, 0
    ends: tuple[float, float] | None
    if fit.means is not None:
        ends = shifted_interval(fit.means.expected(bot, design.x[rows]), float(values.mean()))
    elif bot in fit.folds:
        ends = interval_of(values, design.people[rows])
    elif len(fit.draws):
        ends = unseen_interval(design.x[rows], fit.draws, seed)
    else:
        ends = jackknife_interval(design.x[rows], fit.full_line, list(fit.folds.values()))
    return float(values.mean()), ends, len(values)
