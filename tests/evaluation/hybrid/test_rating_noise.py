"""Noise of a bot's mean rating, means adjusted for raters, and the Gaussian process, against exact formulas."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import linalg, stats

from evaluation.data.ratings import Ratings
from evaluation.hybrid.bot_means import BotFeatureMeans, BotSums
from evaluation.hybrid.calibration import combine
from evaluation.hybrid.features import HybridError
from evaluation.hybrid.gaussian_process import (
    BLOCK_VARIANCE_GRID,
    RESIDUAL_VARIANCE_GRID,
    BotGaussianProcess,
    Mixture,
    Noise,
)
from evaluation.hybrid.gaussian_process_folds import FoldMeans, ProcessFolds
from evaluation.hybrid.rating_noise import MOST_RATINGS, RatingNoise, adjusted_means
from evaluation.stats.correlation import permutations
from evaluation.stats.gls import fit_gls
from tests.validation.simulated import simulated, simulated_raters


def rated(seed=0, n_bots=4, n=60, raters=12, per=3, habit=2.0, noise=1.0, talk=1.0):
    """Make ratings = bot + conversation + rater's habit + noise; raters rate all bots."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_bots), n)
    rows = np.repeat(np.arange(len(codes)), per)
    rater = rng.integers(0, raters, len(rows))
    habits = rng.normal(size=raters) * habit
    value = (
        np.arange(n_bots)[codes][rows] * 5.0
        + (rng.normal(size=len(codes)) * talk)[rows]
        + habits[rater]
        + rng.normal(size=len(rows)) * noise
    )
    table = pd.DataFrame({"conversation": rows.astype(str), "rater": rater, "quality": value})
    table["bot"] = codes[rows]
    y = table.groupby(rows)["quality"].mean().to_numpy()
    ids = np.arange(len(codes)).astype(str)
    return RatingNoise.match(ratings_of(table), ["quality"], ids, codes, y), habits, table, codes, y


def ratings_of(table):
    return Ratings.from_frame(table, [key for key in ("quality", "fluency") if key in table])


ALL = np.ones(4, dtype=bool)


def test_reliability_is_the_share_of_the_conversation():
    ratings, *_ = rated(n=800, habit=0.0, noise=2.0, talk=1.0)
    assert ratings.reliability(ALL) == pytest.approx(1 / 5, abs=0.05)
    weights = ratings.precision(ALL)
    rho = ratings.reliability(ALL)
    m = np.arange(1, MOST_RATINGS + 1)
    np.testing.assert_allclose(weights[1:], 1 / (rho + (1 - rho) / m))


def test_without_single_ratings_every_conversation_counts_alike():
    y, codes = np.arange(6.0), np.array([0, 0, 1, 1, 2, 2])
    ratings = RatingNoise.match(None, ["quality"], np.arange(6).astype(str), codes, y)
    assert ratings.counts.tolist() == [1] * 6
    assert ratings.precision(np.ones(3, dtype=bool))[1] == 1.0


def test_a_rating_that_lacks_a_dimension_tells_nothing_about_noise():
    table = pd.DataFrame(
        {
            "conversation": ["0", "0", "1", "elsewhere"],
            "bot": ["a", "a", "b", "b"],
            "quality": [1.0, 2.0, 3.0, 9.0],
            "fluency": [1.0, np.nan, 5.0, 9.0],
        }
    )
    ratings = RatingNoise.match(
        ratings_of(table), ["quality", "fluency"], np.array(["0", "1"]), np.array([0, 1]), np.array([1.25, 4.0])
    )
    assert ratings.value.tolist() == [1.0, 4.0]
    assert ratings.row.tolist() == [0, 1]


N_BOTS = 4


def rated_of_adjusted(per: int, *, seed: int = 1, named: bool = True) -> tuple[np.ndarray, RatingNoise]:
    """Return 80 conversations' bots and ratings: raters with habits, conversations that were good or bad, and noise."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(N_BOTS), [10, 20, 20, 30])
    row = np.repeat(np.arange(len(codes)), per)
    # Each rater rates the bots unevenly, two ratings of a conversation by two people.
    rater = (rng.integers(0, 5, len(codes))[:, None] * 2 + np.arange(per)).ravel() + codes[row] % 2
    value = (
        rng.normal(size=14)[rater] * 2
        + (rng.normal(size=len(codes)) * 1.5)[row]
        + rng.normal(size=len(row))
        + codes[row]
    )
    people = rater if named else np.full(len(row), -1)
    return codes, RatingNoise(value, row, codes[row], people, len(codes), N_BOTS)


def mean_of_rows(ratings: RatingNoise) -> np.ndarray:
    return np.bincount(ratings.row, weights=ratings.value) / np.bincount(ratings.row)


def mixed(ratings: RatingNoise):
    """Fit bots as fixed and raters as random effects by statsmodels."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    bots = np.eye(N_BOTS)[ratings.bot]
    return MixedLM(ratings.value, bots, groups=ratings.rater).fit(reml=True)


def test_of_one_rating_each_they_are_those_of_a_mixed_model() -> None:
    codes, ratings = rated_of_adjusted(1)
    result = adjusted_means(mean_of_rows(ratings), codes, ratings, np.ones(N_BOTS, dtype=bool))
    fit = mixed(ratings)
    assert result.mean == pytest.approx(fit.fe_params, rel=1e-4)
    covariance = np.asarray(fit.cov_params())[:N_BOTS, :N_BOTS]
    assert result.covariance == pytest.approx(covariance, rel=2e-3, abs=1e-3)
    assert result.variance == pytest.approx(fit.scale, rel=1e-3)
    # One definition: comparisons of bots print the same means.
    rater = np.unique(ratings.rater, return_inverse=True)[1]
    assert result.mean == pytest.approx(fit_gls(ratings.value, ratings.bot, rater).means, rel=1e-9)


@pytest.mark.parametrize("unknown", [0, 6])
def test_several_ratings_of_a_conversation_are_as_dense_algebra_has_them(unknown: int) -> None:
    codes, ratings = rated_of_adjusted(2)
    rater = ratings.rater.copy()
    if unknown:
        rater[::unknown] = -1
    ratings = replace(ratings, rater=rater)
    result = adjusted_means(mean_of_rows(ratings), codes, ratings, np.ones(N_BOTS, dtype=bool))
    known = rater >= 0
    fit = mixed(replace(ratings, value=ratings.value[known], bot=ratings.bot[known], rater=rater[known]))  # fmt: skip
    tau, error = float(np.asarray(fit.cov_re).item()), float(fit.scale)
    x = np.eye(N_BOTS)[ratings.bot]
    z = (rater[:, None] == np.unique(rater[known])).astype(float)
    system = np.block(
        [
            [x[known].T @ x[known], x[known].T @ z[known]],
            [z[known].T @ x[known], z[known].T @ z[known] + error / tau * np.eye(z.shape[1])],
        ]
    )
    taken = np.zeros((z.shape[1], len(rater)))
    taken[:, known] = np.linalg.solve(system, np.concatenate([x[known].T, z[known].T]))[N_BOTS:]
    in_row = (ratings.row[:, None] == np.arange(len(codes))).astype(float)
    averaging = (np.eye(N_BOTS)[codes] / np.bincount(codes)).T @ (in_row / in_row.sum(axis=0)).T
    a = averaging @ (np.eye(len(rater)) - z @ taken)
    assert result.mean == pytest.approx(a @ ratings.value, rel=1e-4)
    less = replace(ratings, value=ratings.value - z @ taken @ ratings.value)
    icc = less.reliability(np.ones(N_BOTS, dtype=bool))
    assert 0.2 < icc < 0.9
    # Whoever is unknown has a habit, too, and shares it with nobody.
    habits = z @ z.T + np.diag(~known * 1.0)
    spread = tau * habits + error * (icc * in_row @ in_row.T + (1 - icc) * np.eye(len(rater)))
    assert result.covariance == pytest.approx(a @ spread @ a.T, rel=2e-3, abs=1e-4)


def test_without_names_a_bots_mean_has_the_noise_of_its_conversations() -> None:
    codes, ratings = rated_of_adjusted(2, named=False)
    everybody = np.ones(N_BOTS, dtype=bool)
    result = adjusted_means(mean_of_rows(ratings), codes, ratings, everybody)
    n_eff = 2 * np.bincount(codes) / (1 + ratings.reliability(everybody))
    assert result.covariance == pytest.approx(np.diag(result.variance / n_eff))
    values = pd.Series(ratings.value).groupby(ratings.bot)
    assert result.variance == pytest.approx((values.var() * (values.size() - 1)).sum() / (160 - 4))
    assert result.df == pytest.approx(np.full(N_BOTS, 156))


def test_degrees_of_freedom_fall_with_the_raters() -> None:
    """Six raters who rate all bots ten times give five degrees of freedom of their effects, a mean hardly more."""
    rng = np.random.default_rng(3)
    bot, rater = np.repeat(np.arange(N_BOTS), 60), np.tile(np.repeat(np.arange(6), 10), N_BOTS)
    value = 5 * rng.normal(size=6)[rater] + rng.normal(size=len(bot))
    ratings = RatingNoise(value, np.arange(len(bot)), bot, rater, len(bot), N_BOTS)
    result = adjusted_means(value, bot, ratings, np.ones(N_BOTS, dtype=bool))
    assert result.df == pytest.approx(np.full(N_BOTS, 5), abs=0.2)
    # What all means share is the habit of these six: nothing of it is in a difference.
    shared = result.covariance[0, 1]
    assert shared > 0.9 * result.covariance[0, 0]
    gap = result.covariance[0, 0] + result.covariance[1, 1] - 2 * shared
    assert gap == pytest.approx(2 * result.variance / 60, rel=1e-6)


def test_a_bot_that_takes_no_part_changes_nothing() -> None:
    codes, ratings = rated_of_adjusted(2)
    y, some = mean_of_rows(ratings), np.array([True, False, True, True])
    before = adjusted_means(y, codes, ratings, some)
    value = np.where(ratings.bot == 1, 1e3, ratings.value)
    after = adjusted_means(np.where(codes == 1, 1e3, y), codes, replace(ratings, value=value), some)
    assert after.mean == pytest.approx(before.mean)
    assert after.covariance == pytest.approx(before.covariance)


BLOCKS = [np.array([0, 1, 2]), np.array([3, 4])]


def shared_noise(rng, n_bots):
    """Return the covariance of means of which some have raters in common."""
    loads = rng.uniform(0, 0.1, size=(n_bots, 3))
    return np.diag(1 / rng.uniform(15, 150, size=n_bots)) + loads @ loads.T


def bots(n_bots=7, seed=0, **given):
    rng = np.random.default_rng(seed)
    means = {
        "bots": tuple(f"b{k}" for k in range(n_bots)),
        "x": rng.normal(size=(n_bots, 5)) * 3 + 1,
        "scale": np.array([1.0, 0.5, 2.0, 0.0, 1.5]),
        "rating": 50 + 8 * rng.normal(size=n_bots),
        "n": rng.integers(20, 200, size=n_bots).astype(float),
        "noise": shared_noise(rng, n_bots),
        "df": np.full(n_bots, 100.0),
        "variance": 400.0,
    }
    return BotFeatureMeans(**{**means, **given})


def dense(means, at):
    """Return all grid points as (weight, V, k, c): covariances among the bots, with a bot at `at`, and its own."""
    z = (means.x - means.x.mean(axis=0)) / np.where(means.scale > 0, means.scale, 1)
    z_at = (at - means.x.mean(axis=0)) / np.where(means.scale > 0, means.scale, 1)
    kernels = []
    for columns in ([0, 1, 2], [4]):  # column 3 never varies within bots
        unit = len(z) / np.trace(z[:, columns] @ z[:, columns].T)
        kernels.append(
            (
                unit * z[:, columns] @ z[:, columns].T,
                unit * z[:, columns] @ z_at[columns],
                unit * z_at[columns] @ z_at[columns],
            )
        )
    contrasts = linalg.null_space(np.ones((1, len(z))))
    results = []
    for theta, *taus in product(RESIDUAL_VARIANCE_GRID, BLOCK_VARIANCE_GRID, BLOCK_VARIANCE_GRID):
        parts = list(zip(taus, kernels, strict=True))
        v = theta * np.eye(len(z)) + sum(t * k[0] for t, k in parts) + means.noise
        log = stats.multivariate_normal(cov=means.variance * contrasts.T @ v @ contrasts).logpdf(
            contrasts.T @ means.rating
        )
        log += stats.lognorm(1.5, scale=0.05).logpdf(theta + sum(taus))
        k = sum(t * part[1] for t, part in parts)
        results.append((log, v, k, theta + sum(t * part[2] for t, part in parts), theta, taus))
    weights = np.exp(np.array([result[0] for result in results]) - max(result[0] for result in results))
    return [(weight, *result[1:]) for weight, result in zip(weights / weights.sum(), results, strict=True)]


def kriged(v, k, c, rating):
    """Return the prediction and its variance by the system of ordinary kriging, whose weights sum to 1."""
    n = len(v)
    system = np.block([[v, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    w = np.linalg.solve(system, np.append(k, 1.0))[:n]
    return w @ rating, c - 2 * w @ k + w @ v @ w


def test_every_number_is_that_of_dense_algebra() -> None:
    means = bots()
    at = np.array([2.0, -1.0, 4.0, 9.0, 0.5])
    process = BotGaussianProcess(means, BLOCKS)
    posterior = process.posterior(means.rating[None])
    points = dense(means, at)
    told = [kriged(v, k, c, means.rating) for _, v, k, c, _, _ in points]
    weights = np.array([point[0] for point in points])
    expected = sum(w * value for w, (value, _) in zip(weights, told, strict=True))
    variance = sum(
        w * (means.variance * spread + (value - expected) ** 2)
        for w, (value, spread) in zip(weights, told, strict=True)
    )
    line = process.line(process.answers(posterior), 10, ["one", "two"])
    assert line.predict(at[None])[0] == pytest.approx(expected, rel=1e-11)
    assert line.slopes[3] == 0
    mixture = process.expected(posterior, at)
    assert mixture.mean[0] == pytest.approx(expected, rel=1e-11)
    assert mixture.variance[0] == pytest.approx(variance, rel=1e-10)
    shares = [sum(w * taus[b] / (theta + sum(taus)) for w, *_, theta, taus in points) for b in range(2)]
    assert process.shares(posterior) == pytest.approx(shares, rel=1e-10)

    # The level of all bots: generalised least squares with the bot that was left out, by the same weights.
    rating, noise, shared = 70.0, 1 / 40, np.linspace(0, 0.01, len(means.bots))
    mu = process.mu_with(posterior, at, np.array([rating]), noise, shared)
    by_hand = 0.0
    for w, v, k, c, _, _ in points:
        beside = k + shared
        whole = np.block([[v, beside[:, None]], [beside[None], np.array([[c + noise]])]])
        solved = np.linalg.solve(whole, np.ones(len(whole)))
        level = solved @ np.append(means.rating, rating) / solved.sum()
        by_hand += w * (level + k @ np.linalg.solve(v, means.rating - level))
    common = process.line(process.answers(posterior, mu), 10, ["one", "two"])
    assert common.predict(at[None])[0] == pytest.approx(by_hand, rel=1e-11)


@pytest.mark.slow
def test_intervals_hold_as_often_as_they_say() -> None:
    """Over bots drawn from the model: of the true mean, of further ratings, and with the bot's own ratings."""
    result = simulated(3000, n_ratings=20)
    coverages = result.coverages
    for name in ("true mean", "further ratings", "together", "together, contradicted"):
        assert coverages[name].share >= 0.95 - 2 * coverages[name].error, coverages[name]
        assert coverages[name].share <= 0.95 + 4 * coverages[name].error, coverages[name]
    # Where both contradict each other the ratings' own interval holds less often than it says.
    assert coverages["ratings alone, contradicted"].share < 0.8
    assert coverages["together"].width < 0.7 * coverages["ratings alone"].width
    assert result.gain < 0.5
    assert result.gain_of_differences < 0.5
    # What lies outside the model is not covered, which is why such a mean never stands alone.
    assert coverages["together, a bot unlike the others"].share < 0.8


def test_ratings_by_people_who_rated_the_others_are_combined_as_by_dense_algebra() -> None:
    """Of the joint normal distribution of all means, given those of the others and the bot's own."""
    means = bots()
    at, rating, noise = np.array([2.0, -1.0, 4.0, 9.0, 0.5]), 57.0, 1 / 30
    shared = np.linspace(0.002, 0.012, len(means.bots))
    process = BotGaussianProcess(means, BLOCKS)
    posterior = process.posterior(means.rating[None])
    expected = process.expected(posterior, at)
    own = process.noise_at(posterior, at, noise, shared)
    n, weights, told = len(means.bots), [], []
    for weight, v, k, c, _, _ in dense(means, at):
        # True mean, own mean rating, the others' mean ratings; a level of any size in all of them.
        whole = np.block(
            [
                [np.array([[c, c]]), k[None]],
                [np.array([[c, c + noise]]), (k + shared)[None]],
                [k[:, None], (k + shared)[:, None], v],
            ]
        )
        whole = means.variance * (whole + 1e5)
        gain = np.linalg.solve(whole[2:, 2:], whole[2:, :2]).T
        middle = 50 + gain @ (means.rating - 50)
        left = whole[:2, :2] - gain @ whole[2:, :2]
        weights.append(weight * stats.norm(middle[1], left[1, 1] ** 0.5).pdf(rating))
        mean = middle[0] + left[0, 1] / left[1, 1] * (rating - middle[1])
        told.append((mean, left[0, 0] - left[0, 1] ** 2 / left[1, 1]))
    weights = np.array(weights) / sum(weights)
    means_told, variances = np.array(told).T
    together = expected.updated(rating, own)
    assert n == 7
    assert together.mean[0] == pytest.approx(weights @ means_told, rel=1e-5)
    spread = weights @ (variances + (means_told - weights @ means_told) ** 2)
    assert together.variance[0] == pytest.approx(spread, rel=1e-4)
    # Who shares no rater has a noise of its own.
    apart = process.noise_at(posterior, at, noise, np.zeros(n))
    alone = Noise.alone(means.variance * noise)
    assert expected.updated(rating, apart).mean == pytest.approx(expected.updated(rating, alone).mean)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["six raters of each bot alone, five ratings each", "two bots a rater, five ratings of each"]
)  # fmt: skip
def test_intervals_hold_where_raters_rate_more_than_once(name) -> None:
    for what, simulated_rater in simulated_raters(name, 60, seed=4).items():
        assert simulated_rater.share >= 0.95 - 2 * simulated_rater.error, (what, simulated_rater)


def test_conversations_drawn_again_spread_predictions_as_the_closed_form_says() -> None:
    rng = np.random.default_rng(5)
    means = bots()
    told = FoldMeans({"one": (0, 1, 2), "two": (3, 4)}, means, {})
    x = rng.normal(size=(40, 5)) * means.scale + 1
    process = BotGaussianProcess(means, BLOCKS)
    posterior = process.posterior(means.rating[None])
    line = process.line(process.answers(posterior), 0, ())
    drawn = line.predict(x)[rng.integers(0, 40, size=(20_000, 40))].mean(axis=1)
    added = told.expected("", x).variance[0] - process.expected(posterior, x.mean(axis=0)).variance
    assert added[0] == pytest.approx(drawn.var(), rel=0.03)


def test_weights_of_the_grid_are_defined_for_ratings_far_from_it() -> None:
    """Their logarithms are below −1000 there, and the exponential of each is 0."""
    means = bots()
    far = means.rating * 1e3
    weights = BotGaussianProcess(means, BLOCKS).posterior(far[None]).weights
    assert np.isfinite(weights).all()
    assert weights.sum(axis=(0, 2)) == pytest.approx(1)


def noise_of(values, rows, codes, raters=None):
    values, rows = np.array(values, dtype=float), np.array(rows)
    raters = np.full(len(values), -1) if raters is None else np.array(raters)
    return RatingNoise(values, rows, np.array(codes)[rows], raters, len(codes), max(codes) + 1)


def test_a_mean_is_worth_as_many_ratings_as_worked_out_by_hand() -> None:
    # Two conversations of each of two bots, two ratings of each conversation: (1, 3) and (5, 7).
    codes = np.array([0, 0, 1, 1])
    noise = noise_of([1, 3, 5, 7] * 2, [0, 0, 1, 1, 2, 2, 3, 3], codes)
    x = np.array([[0.0, 5.0], [2.0, 5.0], [1.0, 6.0], [5.0, 6.0]])
    means = BotSums(x, np.array([2.0, 6.0, 2.0, 6.0]), codes, ["a", "b"], noise).compute_means(np.ones(2, dtype=bool))
    # Mean squares: within conversations 2, between them 16; of the latter (16 − 2) / 2 = 7 is theirs: ICC 7 / 9.
    assert means.n.tolist() == [4, 4]
    assert means.n_eff == pytest.approx([4 / (1 + 7 / 9)] * 2)
    assert means.variance == pytest.approx((9 + 1 + 1 + 9) * 2 / 6)
    assert means.rating.tolist() == [4, 4]
    # Within bots the first column has squares 2 and 8 on two degrees of freedom, the second none.
    assert means.scale == pytest.approx([np.sqrt(5), 0])


def test_a_fold_learns_raters_and_means_without_its_bot() -> None:
    rng = np.random.default_rng(2)
    codes = np.repeat(np.arange(5), 12)
    raters = rng.integers(0, 8, size=60)
    x = rng.normal(size=(60, 5)) + rng.normal(size=(5, 5))[codes]
    y = x[:, 0] + rng.normal(size=8)[raters] + rng.normal(size=60)
    names = [f"b{k}" for k in range(5)]
    blocks = {"one": [0, 1], "two": [2, 3, 4]}
    whole = ProcessFolds(x, y, codes, names, blocks, noise_of(y, np.arange(60), codes, raters))
    keep = codes != 4
    part = ProcessFolds(
        x[keep], y[keep], codes[keep], names[:4], blocks, noise_of(y[keep], np.arange(48), codes[keep], raters[keep])
    )
    fold, alone = whole.lines(common=False)["b4"], part.line()
    assert fold.slopes == pytest.approx(alone.slopes, rel=1e-9)
    assert fold.intercept == pytest.approx(alone.intercept)

    # A permutation weighs the grid anew: the same as a process made for its means.
    at = {bot: whole.means.all_bots.x[k] for k, bot in enumerate(names)}
    predicted, shuffled = whole.permuted(at, common=False, seed=3)
    order = permutations(5, len(shuffled), 3)[7]
    assert shuffled[7] == pytest.approx(whole.means.all_bots.rating[order])
    process = BotGaussianProcess(whole.means.folds["b1"], [np.array(c) for c in blocks.values()])
    again = process.answers(process.posterior(np.delete(shuffled[7], 1)[None]))
    line = process.line(again, 48, list(blocks))
    assert predicted[7, 1] == pytest.approx(line.predict(at["b1"][None])[0])


def test_ratings_that_never_differ_within_a_bot_are_refused() -> None:
    codes = np.array([0, 0, 1, 1])
    sums = BotSums(np.eye(4), codes + 1.0, codes, ["a", "b"], noise_of(codes + 1, range(4), codes))
    with pytest.raises(HybridError, match="no bot has two different ratings"):
        sums.compute_means(np.ones(2, dtype=bool))


def normal(mean, variance):
    return Mixture(np.ones((1, 1)), np.array([[mean]]), np.array([[variance]]))


def alone(ratings, variance=1.0):
    """Combine the prediction 10 ± 2 with forty ratings whose noise has nothing to do with it."""
    noise = Noise.alone(variance)
    return combine(normal(10.0, 4.0), ratings, noise, 40, variance=variance, df=1e9)


def test_ratings_and_prediction_weigh_by_their_precision() -> None:
    """By hand: precisions 1 / 4 and 1 / 1 add up to 1.25."""
    result = alone(15.0)
    assert result.together == pytest.approx((10 / 4 + 15) / 1.25)
    assert result.together_interval[1] - result.together == pytest.approx(1.959964 / np.sqrt(1.25))
    assert result.z == pytest.approx(5 / np.sqrt(5))
    assert (result.conflict, result.worth) == (False, pytest.approx(10))
    assert alone(15.6).conflict
    with pytest.raises(ValueError, match="must be above 0"):
        alone(15.0, 0.0)


def test_a_mixture_is_the_posterior_that_integration_finds() -> None:
    mixture = Mixture(np.array([[0.2, 0.5, 0.3]]), np.array([[0.0, 1.0, 4.0]]), np.array([[1.0, 0.2, 3.0]]))
    at = np.linspace(-20, 30, 200_001)
    density = sum(
        w * stats.norm(m, v**0.5).pdf(at)
        for w, m, v in zip(*(a[0] for a in (mixture.weights, mixture.means, mixture.variances)), strict=True)
    ) * stats.norm(3.0, 0.7).pdf(at)
    density /= density.sum()
    given = mixture.updated(3.0, Noise.alone(0.7**2))
    mean = (at * density).sum()
    assert given.mean[0] == pytest.approx(mean, abs=1e-6)
    assert given.variance[0] == pytest.approx(((at - mean) ** 2 * density).sum(), rel=1e-6)
    ends = [at[np.searchsorted(density.cumsum(), share)] for share in (0.025, 0.975)]
    assert given.first_interval(0.95) == pytest.approx(ends, abs=1e-3)
    assert normal(2.0, 9.0).widened(16.0).first_interval(0.95) == pytest.approx(stats.norm(2, 5).interval(0.95))
    with pytest.raises(ValueError, match="between 0 and 1"):
        mixture.quantile(1.0)
