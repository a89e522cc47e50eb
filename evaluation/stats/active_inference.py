"""Active inference: draws by a helper's uncertainty, and bot means weighted by them.

A helper (a judge or metric) predicts each item's rating f and states its uncertainty. A rater gets m of a bot's N
items, item i with probability m q_i / N. The q_i have mean 1 within the bot and a coefficient of variation of at most
`MAX_CV`. If they are unrelated to the ratings, they multiply variances by 1 + MAX_CV² at most (Kish 1965). With
w = 1 / q, a rating y becomes

    z = w (y − lambda d − c) + c,  d = f − mean of f over the bot's N items,

which is unbiased for the bot's mean over the items, however poor the helper is (active inference: Zrnic and Candès
2024, arXiv 2403.03208; lambda: PPI++, arXiv 2311.01453). Lambda is one for all bots, the slope of y on d within bots,
multiplied by 1 − 1 / F (but at least 0), so that useless predictions add hardly any noise. Lambda and the centre c of
a rater's ratings are estimated from the other raters, so z stays unbiased.

The z are analysed as ratings: means by `means`, differences by `gls`, both clustered by rater. As in studies without a
helper, conclusions reach beyond the N items. So the variance of f over items is added, (2 lambda b − lambda²) S² / N
with b the slope before shrinkage, and the correlation of ratings within items if items have several raters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count
from math import gcd
from typing import Annotated, Any

import numpy as np

from chatbots import derive_seed
from evaluation.data.tables import number_or_reason, to_plain
from evaluation.findings import Reason
from evaluation.number_format import BY_TUPLE
from evaluation.stats.comparisons import holm
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.gls import fit_gls, label_codes
from evaluation.stats.means import ALL_ALIKE, NO_VALUE, ONE_GROUP, MeanSpread, interval_ends, mean_spread

MIN_RATERS = 15
"""Minimum number of raters for using the helper."""
MAX_CV = 0.1
"""Coefficient of variation of the draw weights of a bot's items (docs/research/active_inference.md compares others)."""
_WINSORISED = 2.0
"""Standard deviations from the mean at which uncertainties are cut off."""
FEW_RATERS = Reason("few_raters_for_helper", f"fewer than {MIN_RATERS} raters: the helper is not used")
CONSTANT = Reason("constant_prediction", "the predictions do not vary within bots")
NOT_PREDICTED = Reason("no_prediction", "no item is predicted")


@dataclass(frozen=True, slots=True)
class DrawnItem:
    """Item of a rater's task.

    Attributes:
        index: position in the pool.
        probability: probability that the task contains it, given the number of the bot's items in the task.
        weight: 1 / q, the weight of its rating.
    """

    index: int
    probability: float
    weight: float


def draw_weights(
    uncertainty: Sequence[float] | np.ndarray, bots: Sequence[Any], *, max_cv: float = MAX_CV
) -> np.ndarray:
    """Return (N,) draw weights q of the items.

    They are linear in the standardised uncertainty, with mean 1 within each bot.

    Args:
        uncertainty: (N,) on any scale; NaN if unknown, which counts as the bot's mean.
        bots: (N,) bot of each item.
        max_cv: coefficient of variation within a bot; 0 to 0.3, which keeps weights above 0.

    Raises:
        ValueError: if lengths differ or `max_cv` is out of range.
    """
    values, codes = np.asarray(uncertainty, dtype=float), label_codes(np.asarray(bots, dtype=object).astype(str))
    if len(values) != len(codes) or not 0 <= max_cv <= 0.3:
        raise ValueError(f"{len(values)} uncertainties of {len(codes)} items, and a variation of {max_cv:g} (0 to 0.3)")
    weights = np.ones(len(values))
    for bot in range(int(codes.max(initial=-1)) + 1):
        of_bot = (codes == bot) & np.isfinite(values)
        z = _standardise(values[of_bot])
        weights[of_bot] += max_cv * _standardise(np.clip(z, -_WINSORISED, _WINSORISED)).clip(-2.4, 2.4)
        weights[of_bot] += 1 - weights[of_bot].mean() if of_bot.any() else 0.0
    return weights


def _standardise(values: np.ndarray) -> np.ndarray:
    sd = values.std() if len(values) else 0.0
    return (values - values.mean()) / sd if sd > 1e-9 * np.abs(values).max(initial=0.0) else np.zeros(len(values))


def draw_items(
    weights: Sequence[float] | np.ndarray, bots: Sequence[Any], n: int, *, seed: int, ordinal: int
) -> list[DrawnItem]:
    """Draw a task's items; the same arguments give the same items.

    Each bot has n / B of the items, rounded down or up in turn. They are a systematic sample of the bot's shuffled
    items with known probabilities. Successive tasks start at evenly spread points, so that items are used evenly.

    Args:
        weights: (N,) from `draw_weights`; ones draw uniformly. In a small pool, their variation is reduced.
        bots: (N,) bot of each item.
        n: number of items.
        seed: a new one for each pool and version of the weights.
        ordinal: 0, 1, 2 …, number of the task among those with this seed.

    Raises:
        ValueError: if a bot has too few items, or lengths differ.
    """
    q, names = np.asarray(weights, dtype=float), np.asarray(bots, dtype=object).astype(str)
    order = np.unique(names)
    if not len(order) or len(q) != len(names):
        raise ValueError(f"{len(q)} weights of {len(names)} items")
    np.random.default_rng(derive_seed(seed, "bots")).shuffle(order)
    least, n_extra = divmod(n, len(order))
    extra = {str(order[k % len(order)]): k // len(order) for k in range(ordinal * n_extra, (ordinal + 1) * n_extra)}
    drawn_items = []
    for bot in sorted(order.tolist() if least else extra):
        items, size, most = np.flatnonzero(names == bot), least + (bot in extra), least + (n_extra > 0)
        if most > len(items):
            raise ValueError(f"bot {bot} has {len(items)} items, fewer than the {most} of a task")
        shares = _cap_weights(q[items], len(items) / most)
        places = _draw_systematic(shares, most, (seed, bot), ordinal if least else extra[bot])
        rng = np.random.default_rng(derive_seed(seed, bot, "size", ordinal))
        for place in rng.permutation(places)[:size].tolist():
            share = float(shares[place])
            drawn_items.append(DrawnItem(int(items[place]), size * share / len(items), 1 / share))
    np.random.default_rng(derive_seed(seed, "order", ordinal)).shuffle(drawn_items)  # type: ignore[arg-type]
    return drawn_items


def _cap_weights(q: np.ndarray, most: float) -> np.ndarray:
    """Return the weights with mean 1, moved towards 1 until none exceeds `most`."""
    q = q / q.mean()
    largest = float(q.max())
    return q if largest <= most else 1 + (q - 1) * ((most - 1) / (largest - 1))


def _draw_systematic(q: np.ndarray, size: int, path: tuple[int, str], ordinal: int) -> np.ndarray:
    """Return `size` different positions; each has probability size q / len(q)."""
    n_starts = len(q) // size
    lap, place = divmod(ordinal, n_starts)
    rng = np.random.default_rng(derive_seed(*path, lap))
    shuffled, step = rng.permutation(len(q)), len(q) / size
    points = ((rng.random() + order_starts(n_starts)[place] / n_starts) % 1 + np.arange(size)) * step
    ends = np.cumsum(q[shuffled])
    return np.asarray(shuffled[np.searchsorted(ends * (len(q) / ends[-1]), points, side="right").clip(max=len(q) - 1)])


def order_starts(n: int) -> np.ndarray:
    """Return 0 … n − 1 in an order whose beginnings are spread evenly: steps of the golden section."""
    stride = next(step for step in count(round(0.618 * n)) if gcd(step, n) == 1)
    return np.arange(n) * stride % n


@dataclass(frozen=True, slots=True)
class ActiveMean:
    """Mean rating of a bot with a helper.

    Attributes:
        mean, low, high: with predictions and weights; None with a reason.
        plain_mean, plain_low, plain_high: weighted, without predictions.
        saved: share of the variance that a study without helper would have and this one has not; negative if the helper
            costs precision.
        effective_ratings: ratings that a study without helper would need.
        n: number of ratings.
    """

    mean: float | None
    low: float | None
    high: float | None
    plain_mean: float | None
    plain_low: float | None
    plain_high: float | None
    saved: float | None
    effective_ratings: float | None
    n: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class ActiveDifference:
    """Difference of two bots' means; `p_holm` is corrected over all pairs."""

    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None = None


@dataclass(frozen=True, slots=True)
class ActiveMeans:
    """Means and differences of bots with a helper.

    Attributes:
        slope: lambda; 0 if the predictions are not used.
        saved: share of the bots' total variance that the helper saves.
        reason: reason why predictions are not used.
    """

    level: float
    bots: Mapping[str, ActiveMean]
    differences: Annotated[Mapping[tuple[str, str], ActiveDifference], BY_TUPLE]
    slope: float
    saved: float | None
    n_raters: int
    n_ratings: int
    reason: Reason | None = None

    @property
    def effective_ratings(self) -> float | None:
        """Ratings that a study without helper would need for this precision."""
        return None if self.saved is None or self.saved >= 1 else self.n_ratings / (1 - self.saved)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined ones are null, with a reason."""
        return {
            "level": self.level,
            "slope": self.slope,
            "saved": self.saved,
            "effective_ratings": self.effective_ratings,
            "n_raters": self.n_raters,
            "n_ratings": self.n_ratings,
            "bots": to_plain(self.bots),
            "differences": [{"a": a, "b": b, **to_plain(pair)} for (a, b), pair in self.differences.items()],
            **number_or_reason(self.reason),
        }


def estimate_active_means(
    values: Sequence[float] | np.ndarray,
    raters: Sequence[Any],
    bots: Sequence[Any],
    items: Sequence[Any],
    predictions: Sequence[float] | np.ndarray,
    weights: Sequence[float] | np.ndarray,
    pool_bots: Sequence[Any],
    pool_predictions: Sequence[float] | np.ndarray,
    *,
    level: float = RATING_LEVEL,
    scale: tuple[float, float] | None = None,
) -> ActiveMeans:
    """Estimate means and differences of bots from weighted ratings and predictions.

    Args:
        values, raters, bots, items: (k,) rating, rater, bot and item; ratings that are NaN are ignored.
        predictions: (k,) helper's score of the rated item, on any scale; NaN if unknown.
        weights: (k,) `DrawnItem.weight`; 1 for ratings of uniform draws.
        pool_bots, pool_predictions: (N,) all items that could be drawn, including rated ones.
        scale: ends of the rating scale, if any.

    Raises:
        ValueError: if lengths differ, or a weight is not positive.
    """
    y, w, f = (np.asarray(column, dtype=float) for column in (values, weights, predictions))
    labels = [np.asarray(column, dtype=object).astype(str) for column in (raters, bots, items)]
    pool_names, pool_scores = np.asarray(pool_bots, dtype=object).astype(str), np.asarray(pool_predictions, dtype=float)
    if len({len(column) for column in (y, w, f, *labels)}) > 1 or len(pool_names) != len(pool_scores):
        raise ValueError("the columns of ratings must have equal lengths, and those of the pool too")
    is_rated = np.isfinite(y)
    y, w, f = y[is_rated], w[is_rated], f[is_rated]
    rater, bot, item = (label_codes(column[is_rated]) for column in labels)
    if not len(y):
        return ActiveMeans(level, {}, {}, 0.0, None, 0, 0, NO_VALUE)
    if not (np.isfinite(w).all() and (w > 0).all()):
        raise ValueError("weights of ratings must be positive")
    names, n_raters = np.unique(labels[1][is_rated]).tolist(), int(rater.max()) + 1
    pools = [pool_scores[(pool_names == name) & np.isfinite(pool_scores)] for name in names]
    d = np.nan_to_num(f - np.array([pool.mean() if len(pool) else np.nan for pool in pools])[bot])
    reason = FEW_RATERS if n_raters < MIN_RATERS else _prediction_problem(f, d, bot)
    full, slope = (np.zeros(n_raters + 1),) * 2 if reason else _slopes(y, d, w, rater, bot)
    z, plain = (_pseudo_ratings(y, d, w, rater, bot, slopes) for slopes in (slope, np.zeros(n_raters)))
    centre = np.bincount(bot, w * y) / np.bincount(bot, w)
    uniform = (y - centre[bot]) * np.sqrt(w) + centre[bot]  # squares have their expectation under uniform draws
    over_pool = max(2 * slope[-1] * full[-1] - slope[-1] ** 2, 0.0)
    added = np.array([over_pool * pool.var() / len(pool) if len(pool) else 0.0 for pool in pools])
    n_lost, before, after = float(slope[-1] != 0), 0.0, 0.0
    means: dict[str, ActiveMean] = {}
    for code, name in enumerate(names):
        rows = bot == code
        units = label_codes(rater[rows])
        spread, plain_spread, uniform_spread = (mean_spread(column[rows], units) for column in (z, plain, uniform))
        n, mean, plain_mean = int(rows.sum()), float(z[rows].mean()), float(plain[rows].mean())
        if spread is None or plain_spread is None or uniform_spread is None:
            means[name] = ActiveMean(mean, None, None, plain_mean, None, None, None, None, n, ONE_GROUP)
            continue
        within, within_plain, within_uniform = (
            _within_items(column[rows], item[rows]) for column in (z, plain, uniform)
        )
        added[code] += within
        variance, uniform_variance = float(spread.variance + added[code]), uniform_spread.variance
        if n > (pool_names == name).sum():  # uniform draws rate no item twice before
            uniform_variance += within_uniform
        before, after = before + uniform_variance, after + variance
        low, high = _interval(mean, replace(spread, variance=variance, df=max(spread.df - n_lost, 1.0)), level, scale)
        plain_spread = replace(plain_spread, variance=plain_spread.variance + within_plain)
        means[name] = ActiveMean(
            *(mean, low, high, plain_mean, *_interval(plain_mean, plain_spread, level, scale)),
            1 - variance / uniform_variance if uniform_variance > 0 else None,
            n * uniform_variance / variance if variance > 0 else None,
            *(n, ALL_ALIKE if low is None else None),
        )
    differences = _compare_bots(z, bot, rater, names, added, n_lost, level)
    saved = 1 - after / before if before > 0 else None
    return ActiveMeans(level, means, differences, float(slope[-1]), saved, n_raters, len(y), reason)


def _prediction_problem(f: np.ndarray, d: np.ndarray, bot: np.ndarray) -> Reason | None:
    """Return the reason why predictions cannot be used, or None."""
    if not np.isfinite(f).any():
        return NOT_PREDICTED
    within = d - (np.bincount(bot, d) / np.bincount(bot))[bot]
    return None if np.abs(within).max() > 1e-9 * max(1.0, float(np.nanmax(np.abs(f)))) else CONSTANT


def _slopes(
    y: np.ndarray, d: np.ndarray, w: np.ndarray, rater: np.ndarray, bot: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes of y on d within bots, before and after shrinkage.

    Each is (R + 1,): without the ratings of each rater, and of all ratings. Squared weights minimise the variance.
    """
    n_raters, n_bots = int(rater.max()) + 1, int(bot.max()) + 1
    v, y = w**2, y - (np.bincount(bot, y) / np.bincount(bot))[bot]
    columns = (v, v * y, v * d, v * y * d, v * d * d, v * y * y, np.ones(len(y)))
    cell = rater * n_bots + bot
    sums = np.stack([np.bincount(cell, c, minlength=n_raters * n_bots).reshape(n_raters, n_bots) for c in columns])
    total = sums.sum(axis=1, keepdims=True)
    weight, sum_y, sum_d, yd, dd, yy, n = np.concatenate([total - sums, total], axis=1)
    divisor = np.where(n > 0.5, weight, np.inf)
    sxy = (yd - sum_y * sum_d / divisor).sum(axis=1)
    sxx = (dd - sum_d**2 / divisor).sum(axis=1)
    syy = (yy - sum_y**2 / divisor).sum(axis=1)
    is_known = sxx > 1e-9 * dd.sum(axis=1)
    full = np.where(is_known, sxy / np.where(is_known, sxx, 1.0), 0.0)
    free = np.maximum(n.sum(axis=1) - (n > 0.5).sum(axis=1) - 1, 1.0)
    error = (syy - full * sxy).clip(min=0) / free / np.where(is_known, sxx, 1.0)
    f = full**2 / np.where(error > 0, error, 1.0)
    shrinkage = np.where(error > 0, 1 - 1 / np.where(f > 1, f, 1.0), 1.0)
    return full, shrinkage * full


def _pseudo_ratings(
    y: np.ndarray, d: np.ndarray, w: np.ndarray, rater: np.ndarray, bot: np.ndarray, slope: np.ndarray
) -> np.ndarray:
    """Return z of each rating, centred at the mean of its bot's other raters."""
    cell = rater * (int(bot.max()) + 1) + bot

    def sum_without_rater(column: np.ndarray) -> np.ndarray:
        return np.asarray(np.bincount(bot, column)[bot] - np.bincount(cell, column)[cell])

    weight = sum_without_rater(w)
    is_alone = weight <= 1e-9 * w
    y_centre, d_centre = (
        np.where(is_alone, column, sum_without_rater(w * column) / np.where(is_alone, 1.0, weight)) for column in (y, d)
    )
    slopes = slope[rater]
    centre = y_centre - slopes * d_centre
    return np.asarray(w * (y - slopes * d - centre) + centre)


def _within_items(z: np.ndarray, item: np.ndarray) -> float:
    """Return the part of a mean's variance due to the correlation of ratings of the same item."""
    items = label_codes(item)
    if items.max() + 1 == len(z):
        return 0.0
    over_items, over_ratings = mean_spread(z, items), mean_spread(z, np.arange(len(z)))
    return max(over_items.variance - over_ratings.variance, 0.0) if over_items and over_ratings else 0.0


def _interval(
    mean: float, spread: MeanSpread, level: float, scale: tuple[float, float] | None
) -> tuple[float | None, float | None]:
    """Return the ends of the interval; without the scale if the estimate is not inside it."""
    is_inside = scale is not None and scale[0] < mean < scale[1]
    return interval_ends(mean, spread, level, scale if is_inside else None) or (None, None)


def _compare_bots(
    z: np.ndarray, bot: np.ndarray, rater: np.ndarray, names: list[str], added: np.ndarray, n_lost: float, level: float
) -> dict[tuple[str, str], ActiveDifference]:
    """Return the differences of all pairs; `added` is each bot's variance that raters do not show."""
    from scipy.special import stdtr, stdtrit

    fit, pairs = fit_gls(z, bot, rater), {}
    for i, j in combinations(range(len(names)), 2):
        gap = fit.gap(i, j)
        error, df = float(np.sqrt(gap.error**2 + added[i] + added[j])), max(gap.df - n_lost, 1.0)
        half = float(stdtrit(df, 0.5 + level / 2)) * error
        p = 2 * float(stdtr(df, -abs(gap.difference) / error)) if error > 0 else None
        low, high = (None, None) if p is None else (gap.difference - half, gap.difference + half)
        pairs[names[i], names[j]] = ActiveDifference(gap.difference, low, high, p)
    corrected = holm([pair.p for pair in pairs.values()])
    return {key: replace(pair, p_holm=p) for (key, pair), p in zip(pairs.items(), corrected, strict=True)}
