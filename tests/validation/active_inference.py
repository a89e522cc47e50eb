"""Coverage and width of intervals with a helper, in simulated studies and on real ratings of replies.

    python -m tests.validation.active_inference simulated [N] [PART PARTS]
    python -m tests.validation.active_inference real [N]

`docs/research/active_inference.md` has the tables.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from scipy import stats
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
SETS = ("grade", "fed_turn", "dailydialog_gupta", "dailydialog_zhao", "persona_zhao", "conture_turn")
HELPERS = {"semantic_similarity": "semantic_similarity_user_bot", "reply_pmi": "reply_pmi_bot"}
SHARED = Path(__file__).resolve().parents[3] / "shared"
FEWEST_REPLIES, MOST_REPLIES = 40, 60
"""Replies of a bot that is included, and those of them that are scored."""


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


Rate = Callable[[Cell, Pools, np.ndarray, np.random.Generator], np.ndarray]
"""Ratings of drawn items, in their shape."""


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


def draw_places(cell: Cell, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return (S, bots, raters, each) items, with the systematic sampling of `draw_items`; q is (S, bots, POOL)."""
    n_starts, laps = POOL // cell.each, []
    for _lap in range(0, cell.raters, n_starts):
        order = rng.permuted(np.broadcast_to(np.arange(POOL), q.shape), axis=-1)
        start = (rng.random((*q.shape[:2], 1)) + order_starts(n_starts)[: cell.raters] / n_starts) % 1
        points = (start[..., None] + np.arange(cell.each)) * (POOL / cell.each)
        ends = np.cumsum(take(q, order), axis=-1)
        ends *= POOL / ends[..., -1:]
        flat = zip(ends.reshape(-1, POOL), points.reshape(len(q) * cell.bots, -1), strict=True)
        places = np.stack([np.searchsorted(row, row_points, side="right") for row, row_points in flat])
        laps.append(take(order, places.clip(max=POOL - 1).reshape(points.shape)))
    return np.concatenate(laps, axis=2)[:, :, : cell.raters]


def take(column: np.ndarray, item: np.ndarray) -> np.ndarray:
    """Return the values of (S, bots, POOL) at (S, bots, …) items."""
    return np.take_along_axis(column, item.reshape(*item.shape[:2], -1), -1).reshape(item.shape)


def rate_simulated(cell: Cell, pools: Pools, item: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return whole numbers from 1 to 7 of raters who have an effect of their own."""
    effect = np.sqrt(RATER) * rng.normal(size=(len(item), 1, cell.raters, 1))
    value = take(pools.item, item) + effect + take(pools.noise, item) * rng.normal(size=item.shape)
    return np.clip(np.round(4 + POINTS * value), *SCALE)


def estimate_samples(
    sample: Sample, pool_predictions: np.ndarray | None, scale: tuple[float, float] = SCALE
) -> Figures:
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
    if y.shape[2] * y.shape[3] > POOL:
        uniform_variance = uniform_variance + _within_items_of((y - overall) * np.sqrt(w) + overall, sample.item)
    variance = of_rater.var(axis=-1, ddof=1) / n_raters + added
    df = (n_raters - 1 - (slope[:, -1] != 0))[:, None]
    low, high = _score_ends(mean, variance, stdtrit(df, 0.5 + RATING_LEVEL / 2), scale)
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


def _score_ends(
    mean: np.ndarray, variance: np.ndarray, t: np.ndarray, scale: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    low, high = scale
    room = (mean - low) * (high - mean)
    reach = t**2 * variance / room
    middle = (mean + reach * (low + high) / 2) / (1 + reach)
    half = np.sqrt(reach * room + (reach * (high - low) / 2) ** 2) / (1 + reach)
    return np.maximum(low, middle - half), np.minimum(high, middle + half)


def simulate_designs(
    cell: Cell, pools: Pools, rng: np.random.Generator, rate: Rate = rate_simulated, scale: tuple[float, float] = SCALE
) -> tuple[dict[str, Sample], dict[str, Figures]]:
    """Return the studies of the pools by design: each variation of the weights, and plain."""
    samples, figures = {}, {}
    for cv in DESIGNS:
        q = weights_of(pools.uncertainty, cv)
        item = draw_places(cell, q, rng)
        sample = Sample(item, rate(cell, pools, item, rng), take(pools.prediction, item), 1 / take(q, item))
        samples[f"{cv:g}"], figures[f"{cv:g}"] = sample, estimate_samples(sample, pools.prediction, scale)
    # The last design draws uniformly, so its ratings are those of a study without a helper.
    figures["plain"] = estimate_samples(sample, None, scale)
    return samples, figures


def _print_headers(*first: str) -> None:
    columns = [*first, "bots", "ratings per bot", "draws", "mean held", "difference held", "width of mean"]
    columns += ["width of difference", "saved (estimated)", "saved (true)"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def _print_rows(first: Sequence[str], cell: Cell, blocks: Sequence[Mapping[str, list[float]]]) -> None:
    """Print a row for each design."""
    plain = np.mean([block["plain"] for block in blocks], axis=0)
    for design in blocks[0]:
        row = np.mean([block[design] for block in blocks], axis=0)
        shown = [*row[:2], *(row[2:4] / plain[2:4]), row[4], 1 - row[5] / plain[5]]
        cells = [*first, str(cell.bots), str(cell.raters * cell.each), design]
        print(f"| {' | '.join([*cells, *(f'{value:.3f}' for value in shown)])} |", flush=True)


def simulate(n: int, part: int = 0, parts: int = 1) -> None:
    """Print a row for each cell and design, from n studies."""
    _print_headers("judge", "r")
    for cell in CELLS[part::parts]:
        rng, blocks = np.random.default_rng([7, CELLS.index(cell)]), []
        for start in range(0, n, BLOCK):
            pools = draw_pools(cell, min(BLOCK, n - start), rng)
            _samples, figures = simulate_designs(cell, pools, rng)
            blocks.append({design: _summarise(pools.truth, row) for design, row in figures.items()})
        _print_rows([cell.judge, f"{cell.r:g}"], cell, blocks)


def _summarise(truth: np.ndarray, row: Figures) -> list[float]:
    """Return shares held of means and differences, their widths, the saving and the squared error."""
    i, j = np.triu_indices(truth.shape[1], 1)
    held = (row.low <= truth) & (truth <= row.high)
    is_gap_held = np.abs(row.gap - (truth[:, :, None] - truth[:, None])) <= row.gap_half
    of_gaps = [is_gap_held[:, i, j].mean(), 2 * row.gap_half[:, i, j].mean()] if len(i) else [np.nan, np.nan]
    return [
        held.mean(),
        of_gaps[0],
        (row.high - row.low).mean(),
        of_gaps[1],
        row.saved.mean(),
        ((row.mean - truth) ** 2).mean(),
    ]


@dataclass(frozen=True)
class RatedReplies:
    """Replies of a set: bot's code, ratings padded with NaN (items, most), scores by helper, and the scale."""

    bot: np.ndarray
    ratings: np.ndarray
    scores: dict[str, np.ndarray]
    scale: tuple[float, float]


def read_rated_replies(path: Path, *, most: int = MOST_REPLIES) -> RatedReplies:
    """Read a set, and score at most so many replies of each bot that has 40; a set without bots counts as one."""
    from evaluation.agreement.metric_agreement import JudgedReplies, judge, judgements_read
    from evaluation.metrics.text_cache import TextCache

    judgements = judgements_read(path)
    target = judgements.target()
    names = [item.model or "" for item in judgements.items]
    shuffled = np.random.default_rng(7).permutation(len(names)).tolist()
    by_bot = {name: [k for k in shuffled if names[k] == name] for name in sorted(set(names))}
    rows = [k for chosen in by_bot.values() if len(chosen) >= FEWEST_REPLIES for k in chosen[:most]]
    items = JudgedReplies(tuple(judgements.items[k] for k in rows))
    values = [[value for _rater, value in item.scores(target)[0]] for item in items.items]
    ratings = np.array([row + [np.nan] * (max(map(len, values)) - len(row)) for row in values])
    results = judge(items, list(HELPERS), target=target, shared=TextCache("cpu"))
    scores = {name: results[name].scores[column] for name, column in HELPERS.items()}
    known = np.all([np.isfinite(column) for column in (ratings[:, 0], *scores.values())], axis=0)
    bots = np.unique(np.array([names[k] for k in rows])[known], return_inverse=True)[1]
    scores = {name: column[known] for name, column in scores.items()}
    low, high = next(item.scales.get(target) or item.scale for item in items.items)
    return RatedReplies(bots, ratings[known], scores, (float(low), float(high)))


def simulate_real(replies: RatedReplies, n: int) -> Iterator[tuple[str, float, Cell, list[dict[str, list[float]]]]]:
    """Yield results by helper and number of ratings, from n studies whose items are drawn from a set.

    A rater's answer is one of the item's ratings. Uncertainty is the difference of both helpers' standardised scores.
    """
    n_bots, means = int(replies.bot.max()) + 1, np.nanmean(replies.ratings, axis=1)
    counts, of_bot = np.isfinite(replies.ratings).sum(axis=1), [replies.bot == bot for bot in range(n_bots)]
    truth = np.array([means[rows].mean() for rows in of_bot])
    ranked = [stats.zscore(column) for column in replies.scores.values()]
    uncertainty = np.abs(ranked[0] - ranked[1])

    def rate(_cell: Cell, pools: Pools, item: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        row = take(pools.item, item)
        return np.asarray(replies.ratings[row, (rng.random(row.shape) * counts[row]).astype(int)])

    single = np.concatenate([np.full(count, k) for k, count in enumerate(counts)])
    y = replies.ratings[np.isfinite(replies.ratings)] - truth[replies.bot[single]]
    for (name, column), (raters, each) in product(replies.scores.items(), ((20, 1), (50, 2))):
        f = column[single] - np.array([column[rows].mean() for rows in of_bot])[replies.bot[single]]
        cell, rng, blocks = Cell(name, 0.0, n_bots, raters, each), np.random.default_rng(7), []
        for _start in range(0, n, BLOCK):
            drawn = np.stack([rng.choice(np.flatnonzero(rows), (BLOCK, POOL)) for rows in of_bot], axis=1)
            pools = Pools(drawn, drawn, column[drawn], uncertainty[drawn], np.tile(truth, (BLOCK, 1)))
            _samples, figures = simulate_designs(cell, pools, rng, rate, replies.scale)
            blocks.append({design: _summarise(pools.truth, row) for design, row in figures.items()})
        yield name, float(np.corrcoef(y, f)[0, 1]), cell, blocks


def simulate_sets(n: int) -> None:
    """Print a row for each set, helper and design; computing `reply_pmi` takes minutes."""
    _print_headers("set", "helper", "r")
    for name in SETS:
        replies = read_rated_replies(SHARED / "data" / "turn_level" / f"{name}.jsonl.gz")
        for helper, r, cell, blocks in simulate_real(replies, n):
            _print_rows([name, helper, f"{r:.2f}"], cell, blocks)


if __name__ == "__main__":
    kind, *numbers = sys.argv[1:] or ["simulated"]
    run = {"simulated": simulate, "real": simulate_sets}[kind]
    run(*([int(number) for number in numbers] or [200]))
