"""Differences of bots by least squares, against dense algebra, statsmodels and scipy; coverage by simulation."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats

from evaluation.stats.comparisons import pairwise
from evaluation.stats.conditions import BotFit
from evaluation.stats.gls import RaterGls, fit_gls

Columns = tuple[np.ndarray, np.ndarray, np.ndarray]
LEVEL = 0.9
N_STUDIES = 300
LEAST = LEVEL - 2 * math.sqrt(LEVEL * (1 - LEVEL) / N_STUDIES)
TRUE = np.array([0.0, 0.3, 0.6, 0.9])
SPREADS = np.array([0.4, 0.8, 1.6, 2.4])


def uneven(rng: np.random.Generator, n_raters: int = 30, kind: float = 1.0) -> Columns:
    """Draw ratings of four bots that spread differently, by raters who give one to eight of them."""
    rater = np.repeat(np.arange(n_raters), rng.integers(1, 9, n_raters))
    bot = rng.integers(0, 4, len(rater))
    values = TRUE[bot] + rng.normal(0, kind, n_raters)[rater] + rng.normal(0, SPREADS[bot])
    return values, bot, rater


def within(rng: np.random.Generator) -> Columns:
    """Draw ratings of everybody of all four bots, once each."""
    rater, bot = np.divmod(np.arange(4 * 20), 4)
    values = TRUE[bot] + rng.normal(0, 1.5, 20)[rater] + rng.normal(0, SPREADS[bot])
    return values, bot, rater


def apart(rng: np.random.Generator) -> Columns:
    """Draw ratings by raters of their own, few of the bot that spreads most."""
    bot = np.repeat(np.arange(4), [40, 20, 12, 6])
    return TRUE[bot] + rng.normal(0, SPREADS[bot]), bot, np.arange(len(bot))


def few(rng: np.random.Generator) -> Columns:
    """Draw ratings by eight raters, one of whom gave a third of them."""
    rater = np.repeat(np.arange(8), [24, 10, 10, 8, 8, 6, 6, 4])
    bot = rng.integers(0, 4, len(rater))
    values = TRUE[bot] + rng.normal(0, 1.0, 8)[rater] + rng.normal(0, SPREADS[bot])
    return values, bot, rater


def dense(fit: RaterGls, i: int, j: int) -> tuple[float, float, float]:
    """Return error, degrees of freedom and expected variance over the true one, by matrices of all ratings."""
    n, k = len(fit.bot), len(fit.means)
    x = np.eye(k)[fit.bot]
    same = (fit.rater[:, None] == fit.rater[None]).astype(float)
    v = np.eye(n) + fit.share / (1 - fit.share) * same
    w = np.linalg.inv(v)
    m = np.linalg.inv(x.T @ w @ x)
    hat = x @ m @ x.T @ w
    contrast = np.eye(k)[i] - np.eye(k)[j]

    def power(matrix: np.ndarray, exponent: float) -> np.ndarray:
        values, vectors = np.linalg.eigh(matrix)
        kept = values > 1e-9 * values.max()
        raised = np.where(kept, np.where(kept, values, 1.0) ** exponent, 0.0)
        return (vectors * raised) @ vectors.T

    total, expected, rows = 0.0, 0.0, []
    for rater in range(fit.rater.max() + 1):
        mine = np.flatnonzero(fit.rater == rater)
        block = np.ix_(mine, mine)
        root = power(v[block], 0.5)
        left = v[block] - x[mine] @ m @ x[mine].T
        adjust = root @ power(root @ left @ root, -0.5) @ root
        row = contrast @ m @ x[mine].T @ w[block] @ adjust
        total += float(row @ fit.apart[mine]) ** 2
        expected += float(row @ left @ row)
        rows.append(row @ (np.eye(n) - hat)[mine])
    if fit.unsure is not None:
        total += float(contrast @ fit.unsure @ contrast)
    between, own = fit.spread
    spread = np.diag(own[fit.bot]) + between * same
    q = np.array(rows) @ spread @ np.array(rows).T
    return (math.sqrt(total), float(np.trace(q) ** 2 / (q**2).sum()), expected / float(contrast @ m @ contrast))


@pytest.mark.parametrize("design", [uneven, within, few])
def test_errors_and_degrees_of_freedom_are_those_of_dense_algebra(
    design: Callable[[np.random.Generator], Columns],
) -> None:
    fit = fit_gls(*design(np.random.default_rng(3)))
    assert fit.share > 0.05
    for i, j in ((0, 1), (0, 3), (2, 3)):
        result = fit.gap(i, j)
        error, df, bias = dense(fit, i, j)
        assert (result.error, result.df) == pytest.approx((error, df))
        assert bias == pytest.approx(1), "CR2 has no bias under its working model"


def test_means_and_sandwich_are_those_of_statsmodels() -> None:
    values, bot, rater = uneven(np.random.default_rng(4))
    fit = fit_gls(values, bot, rater)
    data = {"y": values, "bot": bot.astype(str), "rater": rater}
    mixed = smf.mixedlm("y ~ 0 + bot", data, groups=rater).fit(reml=True)
    assert mixed.converged
    np.testing.assert_allclose(fit.means, mixed.fe_params, atol=1e-4)
    rater_variance = float(mixed.cov_re.iloc[0, 0])
    assert fit.share == pytest.approx(rater_variance / (rater_variance + mixed.scale), abs=1e-4)
    sigma = np.eye(len(values)) + fit.share / (1 - fit.share) * (rater[:, None] == rater[None])
    robust = sm.GLS(values, np.eye(4)[bot], sigma=sigma).fit(
        cov_type="cluster", cov_kwds={"groups": rater, "use_correction": False}
    )
    np.testing.assert_allclose(fit.means, robust.params)
    covariance, n = BotFit(fit, np.eye(len(fit.means)), fit.bot).clustered(rater)
    factor = np.sqrt(n / (n - 1))
    np.testing.assert_allclose(covariance / np.outer(factor, factor), robust.cov_params())


def test_where_ratings_are_alone_it_is_welchs_test() -> None:
    values, bot, rater = apart(np.random.default_rng(5))
    fit = fit_gls(values, bot, rater)
    for i, j in ((0, 1), (0, 3), (2, 3)):
        test = stats.ttest_ind(values[bot == i], values[bot == j], equal_var=False)
        result = fit.gap(i, j)
        assert (result.difference / result.error, result.df) == pytest.approx((test.statistic, test.df))


def test_a_bot_that_spreads_more_has_larger_errors_which_one_variance_for_all_misses() -> None:
    """The mixed model's own errors are equal for all pairs of a balanced design, and wrong for each."""
    rng = np.random.default_rng(6)
    robust, model, gaps = np.zeros((2, 200)), np.zeros(200), np.zeros((2, 200))
    for k in range(200):
        values, bot, rater = within(rng)
        fit = fit_gls(values, bot, rater)
        result = fit.gap(0, 1), fit.gap(2, 3)
        robust[:, k] = [one.error**2 for one in result]
        gaps[:, k] = [one.difference for one in result]
        data = values.reshape(20, 4)
        left = data - data.mean(axis=0) - data.mean(axis=1, keepdims=True) + data.mean()
        model[k] = 2 * (left**2).sum() / (19 * 3) / 20
    true = gaps.var(axis=1)
    np.testing.assert_allclose(robust.mean(axis=1), true, rtol=0.2)
    assert model.mean() > 2 * true[0]
    assert model.mean() < 0.7 * true[1]


@pytest.mark.slow
@pytest.mark.parametrize("design", [uneven, within, apart, few])
def test_no_interval_of_a_difference_covers_less_than_it_says(design: Callable[[np.random.Generator], Columns]) -> None:
    """300 simulated studies each: bots whose ratings spread by 1 to 6, raters with 1 to 24 ratings."""
    rng = np.random.default_rng(7)
    pairs = [(i, j) for i in range(4) for j in range(i)]
    inside, width = np.zeros(len(pairs)), np.zeros(len(pairs))
    for _ in range(N_STUDIES):
        fit = fit_gls(*design(rng))
        for place, (i, j) in enumerate(pairs):
            gap = fit.gap(i, j)
            half = stats.t.ppf(0.5 + LEVEL / 2, gap.df) * gap.error
            inside[place] += abs(gap.difference - (TRUE[i] - TRUE[j])) <= half
            width[place] += 2 * half
    print(
        f"{design.__name__}: {N_STUDIES} studies, {LEVEL:.0%} intervals cover",
        ", ".join(
            f"{share:.3f} (width {w:.2f})" for share, w in zip(inside / N_STUDIES, width / N_STUDIES, strict=True)
        ),
    )
    assert (inside / N_STUDIES).mean() >= LEAST
    # Six pairs are looked at, so the least may be a little further off by chance.
    assert (inside / N_STUDIES).min() >= LEVEL - 3 * math.sqrt(LEVEL * (1 - LEVEL) / N_STUDIES)


def test_raters_who_rate_several_bots_save_ratings() -> None:
    """The same ratings, with and without knowing who gave them."""
    values, bot, rater = uneven(np.random.default_rng(8), n_raters=200, kind=2.0)
    known, unknown = fit_gls(values, bot, rater), fit_gls(values, bot, np.arange(len(values)))
    assert known.gap(0, 1).error < 0.6 * unknown.gap(0, 1).error


def test_several_people_on_the_same_things_count_as_the_things_do() -> None:
    rng = np.random.default_rng(9)
    thing = np.repeat(np.arange(12), 20)
    bot = (thing % 2).astype(str)
    values = rng.normal(0, 1.5, 12)[thing] + rng.normal(0, 1, 240)
    people = rng.permutation(240).tolist()
    [pair] = pairwise(values, bot, people, thing.tolist()).pairs
    means = [[values[thing == t].mean() for t in range(start, 12, 2)] for start in (0, 1)]
    by_things = stats.ttest_ind(*means)
    assert pair.error == pytest.approx(abs(pair.difference / by_things.statistic), rel=1e-6)
    assert pair.df == 5
    # Where each thing was rated by one person, raters are all there is to it.
    alone = pairwise(values, bot, (thing % 6).tolist(), list(range(240)))
    assert alone == pairwise(values, bot, (thing % 6).tolist())


def test_a_share_of_the_raters_that_few_ratings_leave_open_adds_to_the_variance() -> None:
    """By the likelihood's average over shares, by hand; nothing where everybody rates every bot."""
    rng = np.random.default_rng(12)
    rater = np.repeat(np.arange(8), 2)
    bot = (rater + np.tile([0, 1], 8)) % 4
    values = rng.normal(size=8)[rater] + rng.normal(size=16)
    fit = fit_gls(values, bot, rater)
    x, same = np.eye(4)[bot], (rater[:, None] == rater[None]).astype(float)
    logs, means = [], []
    for share in (np.arange(30) + 0.5) / 30:
        v = np.eye(16) * (1 - share) + share * same
        w = np.linalg.inv(v)
        mean = np.linalg.solve(x.T @ w @ x, x.T @ w @ values)
        left = values - x @ mean
        logs.append(
            -0.5 * np.linalg.slogdet(v)[1] - 0.5 * np.linalg.slogdet(x.T @ w @ x)[1] - 6 * np.log(left @ w @ left)
        )
        means.append(mean - fit.means)
    weights = np.exp(np.array(logs) - max(logs))
    expected = sum(w * np.outer(m, m) for w, m in zip(weights / weights.sum(), means, strict=True))
    np.testing.assert_allclose(fit.unsure, expected, rtol=1e-6)
    known = RaterGls(fit.means, bot, rater, fit.apart, fit.counts, fit.share).gap(0, 2)
    added = expected[0, 0] + expected[2, 2] - 2 * expected[0, 2]
    assert fit.gap(0, 2).error ** 2 == pytest.approx(known.error**2 + added)
    assert added > 1e-3 * known.error**2
    balanced = fit_gls(*within(rng))
    assert balanced.unsure is not None
    assert np.abs(balanced.unsure).max() < 1e-20
