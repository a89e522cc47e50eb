"""Coverage and width of intervals with a helper, in simulated studies and on real ratings of replies.

    python -m tests.validation.active_inference simulated [N] [PART PARTS]
    python -m tests.validation.active_inference real [N]

`docs/research/active_inference.md` has the tables.
"""

import sys
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import ndtr, stdtrit

from evaluation.stats.active_inference import _within_items, order_starts
from evaluation.stats.constants import RATING_LEVEL

USELESS, MISLEADING, BIASED, GOOD = "useless", "misleading", "biased", "good"
ITEM, RATER, NOISE = 0.5, 0.1, 0.4
"""Shares of a single rating's variance within a bot."""
POINTS, SPREAD = 1.3, 0.4
"""Standard deviation of single ratings in points, and of bots' means in such deviations."""
CV = 0.7
"""Coefficient of variation of the part of an item's variance that the judge does not explain."""
POOL = 200
"""Items of each bot."""
SCALE = (1.0, 7.0)
DESIGNS = (0.2, 0.1, 0.0)
"""Coefficients of variation of the draw weights; 0 draws uniformly."""
BLOCK = 100
"""Studies that are in memory at once; n is a multiple of it."""


@dataclass(frozen=True)
class Cell:
    """Judge, its correlation with single ratings within bots, and the numbers of bots, raters and items each."""

    judge: str
    r: float
    bots: int
    raters: int
    each: int


CELLS = [
    Cell(judge, r, bots, *raters)
    for judge, bots, raters in product((USELESS, MISLEADING, BIASED, GOOD), (3, 6, 12), ((20, 1), (50, 2)))
    for r in ((0.0,) if judge in (USELESS, MISLEADING) else (0.3, 0.5, 0.7))
]


@dataclass(frozen=True)
class Pools:
    """Items of many studies: mean, noise, prediction and uncertainty, (S, bots, POOL) each; true means (S, bots)."""

    item: np.ndarray
    noise: np.ndarray
    prediction: np.ndarray
    uncertainty: np.ndarray
    truth: np.ndarray


@dataclass(frozen=True)
class Sample:
    """Ratings of many studies, (S, bots, raters, each): position in the pool, rating, prediction and weight."""

    item: np.ndarray
    y: np.ndarray
    prediction: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class Figures:
    """Means with ends of intervals, (S, bots); differences of bots likewise, (S, bots, bots); savings (S,)."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    gap: np.ndarray
    gap_half: np.ndarray
    saved: np.ndarray


def draw_pools(cell: Cell, n: int, rng: np.random.Generator) -> Pools:
    """Draw the items of n studies.

    The useless judge's predictions and uncertainties are noise. The good judge knows where it errs. Uncertainties of
    the misleading and the biased judge are high for bad items and where ratings vary least; the biased judge also
    favours some bots, and its scale is compressed.
    """
    shape, r = (n, cell.bots, POOL), cell.r
    tau = np.sqrt(np.log(1 + CV**2))
    known, eta, other = rng.normal(size=(3, *shape))
    sd = np.exp((tau * eta - tau**2 / 2) / 2)
    item = r * known + np.sqrt(ITEM - r**2) * sd * rng.normal(size=shape)
    quality = rng.normal(0, SPREAD, shape[:2])
    prediction, uncertainty = known, 0.7 * eta + 0.7 * other
    if cell.judge in (MISLEADING, BIASED):
        uncertainty = -0.6 * item / np.sqrt(ITEM) - 0.5 * eta + 0.6 * other
    if cell.judge in (USELESS, MISLEADING):
        prediction = rng.normal(size=shape)
        uncertainty = other if cell.judge == USELESS else uncertainty
    if cell.judge == BIASED:
        prediction = np.tanh(known) + rng.normal(size=(*shape[:2], 1))
    nodes, masses = np.polynomial.hermite_e.hermegauss(31)
    variances = r**2 + RATER + (ITEM - r**2 + NOISE) * np.exp(tau * nodes - tau**2 / 2)
    ends = (np.arange(1.5, 7) - 4) / POINTS - quality[..., None, None]
    above = (ndtr(-ends / np.sqrt(variances)[:, None]) * (masses / masses.sum())[:, None]).sum(axis=(-2, -1))
    return Pools(item + quality[..., None], np.sqrt(NOISE) * sd, prediction, uncertainty, 1 + above)


def weights_of(uncertainty: np.ndarray, cv: float) -> np.ndarray:
    """Return the weights of `draw_weights`; items of a bot are along the last axis."""

    def standardise(values: np.ndarray) -> np.ndarray:
        return (values - values.mean(-1, keepdims=True)) / values.std(-1, keepdims=True)

    q = 1 + cv * standardise(standardise(uncertainty).clip(-2, 2)).clip(-2.4, 2.4)
    return q + 1 - q.mean(-1, keepdims=True)


def draw_sample(cell: Cell, pools: Pools, q: np.ndarray, rng: np.random.Generator) -> Sample:
    """Draw ratings by weights q, (S, bots, POOL), with the systematic sampling of `draw_items`."""
    n_starts, laps = POOL // cell.each, []
    for _lap in range(0, cell.raters, n_starts):
        order = rng.permuted(np.broadcast_to(np.arange(POOL), q.shape), axis=-1)
        start = (rng.random((*q.shape[:2], 1)) + order_starts(n_starts)[: cell.raters] / n_starts) % 1
        points = (start[..., None] + np.arange(cell.each)) * (POOL / cell.each)
        ends = np.cumsum(np.take_along_axis(q, order, -1), axis=-1)
        ends *= POOL / ends[..., -1:]
        flat = zip(ends.reshape(-1, POOL), points.reshape(len(q) * cell.bots, -1), strict=True)
        places = np.stack([np.searchsorted(row, row_points, side="right") for row, row_points in flat])
        places = places.clip(max=POOL - 1).reshape(*q.shape[:2], -1)
        laps.append(np.take_along_axis(order, places, -1).reshape(points.shape))
    item = np.concatenate(laps, axis=2)[:, :, : cell.raters]

    def at(column: np.ndarray) -> np.ndarray:
        return np.take_along_axis(column, item.reshape(*q.shape[:2], -1), -1).reshape(item.shape)

    effect = np.sqrt(RATER) * rng.normal(size=(len(q), 1, cell.raters, 1))
    value = at(pools.item) + effect + at(pools.noise) * rng.normal(size=item.shape)
    return Sample(item, np.clip(np.round(4 + POINTS * value), *SCALE), at(pools.prediction), 1 / at(q))


def estimate_samples(sample: Sample, pool_predictions: np.ndarray | None) -> Figures:
    """Estimate as `estimate_active_means` does, for equal numbers of ratings; None: without predictions."""
    y, w, n_raters = sample.y, sample.weight, sample.y.shape[2]
    slope, full, d, pool_variance = np.zeros((len(y), n_raters + 1)), np.zeros((len(y), n_raters + 1)), 0 * y, 0.0
    if pool_predictions is not None:
        d = sample.prediction - pool_predictions.mean(axis=-1)[..., None, None]
        slope, full = _slopes_of(y, d, w)
        factor = (2 * slope[:, -1] * full[:, -1] - slope[:, -1] ** 2).clip(min=0)
        pool_variance = factor[:, None] * pool_predictions.var(axis=-1) / POOL
    slopes = slope[:, None, :-1, None]

    def centre(column: np.ndarray) -> np.ndarray:
        total = (w * column).sum(axis=-1)
        weight = w.sum(axis=-1)
        return ((total.sum(-1, keepdims=True) - total) / (weight.sum(-1, keepdims=True) - weight))[..., None]

    middle = centre(y) - slopes * centre(d)
    z = w * (y - slopes * d - middle) + middle
    overall = ((w * y).sum((2, 3)) / w.sum((2, 3)))[..., None, None]
    mean, of_rater = z.mean(axis=(2, 3)), z.mean(axis=3)
    uniform_variance = ((y - overall) * np.sqrt(w)).mean(axis=3).var(axis=-1, ddof=1) / n_raters
    added = _within_items_of(z, sample.item) + pool_variance
    uniform_variance = uniform_variance + _within_items_of((y - overall) * np.sqrt(w) + overall, sample.item)
    variance = of_rater.var(axis=-1, ddof=1) / n_raters + added
    df = (n_raters - 1 - (slope[:, -1] != 0))[:, None]
    low, high = _score_ends(mean, variance, stdtrit(df, 0.5 + RATING_LEVEL / 2))
    gap = of_rater[:, :, None] - of_rater[:, None]
    gap_variance = gap.var(axis=-1, ddof=1) / n_raters + added[:, :, None] + added[:, None]
    half = stdtrit(df[..., None], 0.5 + RATING_LEVEL / 2) * np.sqrt(gap_variance)
    return Figures(mean, low, high, gap.mean(axis=-1), half, 1 - variance.sum(axis=1) / uniform_variance.sum(axis=1))


def _slopes_of(y: np.ndarray, d: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return slopes with and without shrinkage, (S, raters + 1) each: without every rater, and of all."""
    v, y = w**2, y - y.mean(axis=(2, 3), keepdims=True)
    sums = [column.sum(axis=-1) for column in (v, v * y, v * d, v * y * d, v * d * d, v * y * y)]
    totals = [column.sum(axis=-1, keepdims=True) for column in sums]
    left = [np.concatenate([total - column, total], axis=-1) for column, total in zip(sums, totals, strict=True)]
    weight, sum_y, sum_d, yd, dd, yy = left
    sxy, sxx = (yd - sum_y * sum_d / weight).sum(1), (dd - sum_d**2 / weight).sum(1)
    full = sxy / sxx
    each, n_raters, n_bots = y.shape[3], y.shape[2], y.shape[1]
    free = n_bots * (each * np.append(np.full(n_raters, n_raters - 1), n_raters) - 1) - 1
    error = ((yy - sum_y**2 / weight).sum(1) - full * sxy) / free / sxx
    return full * (1 - error / full**2).clip(min=0), full


def _within_items_of(z: np.ndarray, item: np.ndarray) -> np.ndarray:
    added = np.zeros(z.shape[:2])
    for study, bot in zip(*np.nonzero((np.diff(np.sort(item.reshape(*z.shape[:2], -1))) == 0).any(-1)), strict=True):
        added[study, bot] = _within_items(z[study, bot].ravel(), item[study, bot].ravel())
    return added


def _score_ends(mean: np.ndarray, variance: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = SCALE
    room = (mean - low) * (high - mean)
    reach = t**2 * variance / room
    middle = (mean + reach * (low + high) / 2) / (1 + reach)
    half = np.sqrt(reach * room + (reach * (high - low) / 2) ** 2) / (1 + reach)
    return np.maximum(low, middle - half), np.minimum(high, middle + half)


def simulate_designs(
    cell: Cell, n: int, rng: np.random.Generator
) -> tuple[Pools, dict[str, Sample], dict[str, Figures]]:
    """Return n studies by design: each variation of the weights, and plain."""
    pools = draw_pools(cell, n, rng)
    samples, figures = {}, {}
    for cv in DESIGNS:
        q = weights_of(pools.uncertainty, cv)
        samples[f"{cv:g}"] = draw_sample(cell, pools, q, rng)
        figures[f"{cv:g}"] = estimate_samples(samples[f"{cv:g}"], pools.prediction)
    # The last design draws uniformly, so its ratings are those of a study without a helper.
    figures["plain"] = estimate_samples(samples[f"{cv:g}"], None)
    return pools, samples, figures


def simulate(n: int, part: int = 0, parts: int = 1) -> None:
    """Print a row for each cell and design, from n studies."""
    columns = ["judge", "r", "bots", "ratings per bot", "draws", "mean held", "difference held", "width of mean"]
    columns += ["width of difference", "saved (estimated)", "saved (true)"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for cell in CELLS[part::parts]:
        rng, blocks = np.random.default_rng([7, CELLS.index(cell)]), []
        for start in range(0, n, BLOCK):
            pools, _samples, figures = simulate_designs(cell, min(BLOCK, n - start), rng)
            blocks.append({design: _summarise(pools.truth, row) for design, row in figures.items()})
        for design in blocks[0]:
            row = np.mean([block[design] for block in blocks], axis=0)
            plain = np.mean([block["plain"] for block in blocks], axis=0)
            shown = [*row[:2], *(row[2:4] / plain[2:4]), row[4], 1 - row[5] / plain[5]]
            cells = [cell.judge, f"{cell.r:g}", str(cell.bots), str(cell.raters * cell.each), design]
            print(f"| {' | '.join([*cells, *(f'{value:.3f}' for value in shown)])} |", flush=True)


def _summarise(truth: np.ndarray, row: Figures) -> list[float]:
    """Return shares held of means and differences, their widths, the saving and the squared error."""
    i, j = np.triu_indices(truth.shape[1], 1)
    held = (row.low <= truth) & (truth <= row.high)
    is_gap_held = np.abs(row.gap - (truth[:, :, None] - truth[:, None])) <= row.gap_half
    widths = [(row.high - row.low).mean(), 2 * row.gap_half[:, i, j].mean()]
    return [held.mean(), is_gap_held[:, i, j].mean(), *widths, row.saved.mean(), ((row.mean - truth) ** 2).mean()]


if __name__ == "__main__":
    kind, *numbers = sys.argv[1:] or ["simulated"]
    simulate(*([int(number) for number in numbers] or [200]))
