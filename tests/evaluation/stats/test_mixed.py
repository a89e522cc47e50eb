"""Mixed models and proportional odds against other programs and published fits, and their coverage by simulation."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.miscmodels.ordinal_model import OrderedModel
from statsmodels.stats.anova import AnovaRM

from evaluation.stats.means import ONE_GROUP, mean_interval
from evaluation.stats.mixed import mixed_model
from evaluation.stats.ordinal import ordinal_model
from tests.evaluation.stats import simulated_models as simulated
from tests.reference.ratings import CHEESE, ERGO_STOOL

rng = np.random.default_rng(4)


def ergo_stool() -> pd.DataFrame:
    rows = [(effort, stool, subject) for stool, efforts in ERGO_STOOL.items() for subject, effort in enumerate(efforts)]
    return pd.DataFrame(rows, columns=["y", "bot", "rater"])


def unbalanced(n_raters: int = 40, rater_sd: float = 1.2) -> pd.DataFrame:
    """Make ratings by raters who rate two to six bots of four, some twice."""
    rows = []
    for rater in range(n_raters):
        kind = rng.normal(0, rater_sd)
        for bot in rng.choice(list("abcd"), rng.integers(2, 7)):
            rows.append((kind + rng.normal("abcd".index(bot) * 0.4, 1), bot, rater))
    return pd.DataFrame(rows, columns=["y", "bot", "rater"])


def test_published_fit():
    data = ergo_stool()
    result = mixed_model(data.y, data.bot, data.rater)
    assert result.converged
    assert result.rater_sd == pytest.approx(1.332465, abs=2e-6)
    assert result.residual_sd == pytest.approx(1.100295, abs=2e-6)
    assert (result.df1, result.df2) == (3, 24)
    assert result.f == pytest.approx(22.356, abs=5e-4)
    assert result.bots[1].mean - result.bots[0].mean == pytest.approx(3.888889, abs=1e-6)
    assert result.bots[0].mean == pytest.approx(8.555556, abs=1e-6)


def test_balanced_f_is_repeated_measures():
    data = ergo_stool()
    table = AnovaRM(data, "y", "rater", within=["bot"]).fit().anova_table
    result = mixed_model(data.y, data.bot, data.rater)
    assert result.f == pytest.approx(table["F Value"].iloc[0])
    assert result.p == pytest.approx(table["Pr > F"].iloc[0])


def test_unbalanced_is_statsmodels():
    data = unbalanced()
    fit = smf.mixedlm("y ~ 0 + bot", data, groups=data.rater).fit(reml=True, method="lbfgs")
    assert fit.converged
    result = mixed_model(data.y, data.bot, data.rater, level=0.95)
    np.testing.assert_allclose([b.mean for b in result.bots], fit.fe_params, atol=1e-5)
    assert result.rater_sd**2 == pytest.approx(fit.cov_re.iloc[0, 0], rel=1e-4)
    assert result.residual_sd**2 == pytest.approx(fit.scale, rel=1e-4)
    # The raw mean of a bot depends on who happened to rate it; the model's does so less.
    assert any(abs(b.mean - b.raw_mean) > 0.01 for b in result.bots)


def test_where_everybody_rates_every_bot_once_a_mean_has_students_interval_over_raters():
    data = ergo_stool()
    result = mixed_model(data.y, data.bot, data.rater, level=0.9)
    for bot in result.bots:
        own = data.y[data.bot == bot.bot]
        half = stats.t.ppf(0.95, 8) * own.std(ddof=1) / 3
        assert (bot.low, bot.high) == pytest.approx((bot.mean - half, bot.mean + half))


def test_a_bot_that_spreads_more_has_a_wider_interval():
    """Each bot has raters of its own, so its interval is that of the mean of its ratings alone."""
    rater = np.repeat(np.arange(24), 3)
    bot = np.where(rater < 12, "calm", "wild")
    spread = np.where(bot == "calm", 0.3, 3.0)
    own_rng = np.random.default_rng(6)
    values = 3 + 0.3 * own_rng.normal(size=24)[rater] + spread * own_rng.normal(size=72)
    calm, wild = mixed_model(values, bot, rater, level=0.9).bots
    assert wild.high - wild.low > 2 * (calm.high - calm.low)
    for result in (calm, wild):
        own = mean_interval(values[bot == result.bot], rater[bot == result.bot], level=0.9)
        assert (result.low, result.high) == pytest.approx((own.low, own.high), rel=1e-3)


def test_an_interval_stays_on_the_scale_and_one_rater_gives_none():
    rater = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4])
    bots = np.array([*"ababababab", "c"])
    values = np.array([5, 4, 5, 2, 5, 3, 4, 1, 5, 2, 3.0])
    a, b, c = mixed_model(values, bots, rater, level=0.9, scale=(1.0, 5.0)).bots
    assert 1 < a.low < a.mean < a.high <= 5
    assert 1 <= b.low < b.mean < b.high < 5
    assert (c.low, c.high, c.reason) == (None, None, ONE_GROUP)
    free = mixed_model(values, bots, rater, level=0.9).bots[0]
    assert free.high > 5


def test_the_raters_share_has_the_interval_of_the_f_distribution():
    """Everybody rates every bot once: mean squares of raters and of what is left, by hand (Searle, Casella and
    McCulloch 1992).
    """
    data = ergo_stool()
    result = mixed_model(data.y, data.bot, data.rater, level=0.9)
    table = data.pivot_table(index="rater", columns="bot", values="y").to_numpy()
    of_raters = 4 * table.mean(axis=1).var(ddof=1)
    left = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    f = of_raters / ((left**2).sum() / (8 * 3))
    ratios = [(f / stats.f.ppf(end, 8, 24) - 1) / 4 for end in (0.95, 0.05)]
    assert (result.share_low, result.share_high) == pytest.approx([ratio / (1 + ratio) for ratio in ratios], rel=1e-5)


def test_interval_of_the_raters_share_covers():
    """True share .5, raters who give two to six ratings."""
    inside = 0
    for _ in range(100):
        data = unbalanced(25, 1.0)
        result = mixed_model(data.y, data.bot, data.rater, level=0.9)
        assert result.share_low <= result.rater_share <= result.share_high
        inside += result.share_low <= 0.5 <= result.share_high
    assert 84 <= inside <= 98


def test_raters_and_bots_that_cannot_be_told_apart_leave_every_share_open():
    """Each bot has one rater, so what raters add is not seen."""
    bots, raters = np.repeat(["a", "b"], 6), np.repeat([0, 1], 6)
    result = mixed_model(rng.normal(size=12), [*bots, "a", "b"][:12], raters)
    assert not result.converged
    both = mixed_model(rng.normal(size=16), np.tile(["a", "b", "a", "b"], 4), np.repeat(np.arange(4), 4))
    assert 0 <= both.share_low <= both.rater_share <= both.share_high < 1


def test_no_variance_between_raters():
    bots = ["a", "b"] * 20
    raters = np.repeat(np.arange(20), 2)
    # Each rater's two ratings lean to opposite sides: the variance between raters is below chance.
    lean = np.repeat(np.arange(20) - 9.5, 2) * np.tile([1, -1], 20)
    values = lean + np.tile([0.0, 1.0], 20) + rng.normal(0, 0.01, 40)
    result = mixed_model(values, bots, raters)
    assert result.rater_sd == 0
    assert result.share_low == 0
    # As if raters differed by just as much as chance makes them: F with 19 and 19 degrees of freedom, two ratings each.
    ratio = (1 / stats.f.ppf(0.025, 19, 19) - 1) / 2
    assert result.share_high == pytest.approx(ratio / (1 + ratio), rel=1e-5)
    assert result.raters_are_alike
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = smf.mixedlm("y ~ 0 + b", pd.DataFrame({"y": values, "b": bots}), groups=raters).fit()
    assert result.residual_sd**2 == pytest.approx(fit.scale, rel=1e-3)


def test_each_rater_one_bot_is_judged_between_raters():
    """With m ratings each the test is that of the raters' means."""
    raters = np.repeat(np.arange(16), 5)
    bots = np.where(raters < 8, "a", "b")
    values = np.repeat(rng.normal(size=16), 5) + rng.normal(size=80)
    result = mixed_model(values, bots, raters)
    means = values.reshape(16, 5).mean(axis=1)
    expected = stats.ttest_ind(means[:8], means[8:])
    assert result.df2 == 14
    assert result.p == pytest.approx(expected.pvalue, rel=1e-5)


def test_many_ratings():
    n = 100_000
    raters, bots = rng.integers(0, 5000, n), rng.integers(0, 12, n).astype(str)
    kind = rng.normal(0, 2, 5000)
    result = mixed_model(kind[raters] + rng.normal(0, 1, n), bots, raters)
    assert result.rater_sd == pytest.approx(2, abs=0.06)
    assert result.residual_sd == pytest.approx(1, abs=0.01)


def test_undefined_values_and_unknown_raters():
    data = ergo_stool()
    plain = mixed_model(data.y, data.bot, data.rater)
    values = [*data.y, float("nan")]
    assert mixed_model(values, [*data.bot, "T1"], [*data.rater, 99]) == plain
    more = mixed_model([*data.y, 9.0, 9.0], [*data.bot, "T1", "T1"], [*data.rater, None, None])
    assert more.n_raters == plain.n_raters + 2


def test_reasons():
    assert "only 1 bot with ratings;" in mixed_model([1.0, 2.0], ["a", "a"], [1, 2]).reason
    assert "every rater gave one" in mixed_model([1.0, 2.0], ["a", "b"], [1, 2]).reason
    assert "only one rater" in mixed_model([1.0, 2.0], ["a", "b"], [1, 1]).reason
    same = mixed_model([1.0, 2.0] * 6, ["a", "b"] * 6, np.repeat(np.arange(6), 2))
    assert "do not vary" in same.reason
    assert not same.converged
    few = mixed_model([1.0, 2.0, 4.0], ["a", "b", "c"], [1, 1, 2])
    assert "are too few to compare" in few.reason
    with pytest.raises(ValueError, match="2 values, 1 bots"):
        mixed_model([1.0, 2.0], ["a"], [1, 2])


N_STUDIES = 100
LEAST = simulated.LEVEL - 2 * math.sqrt(simulated.LEVEL * (1 - simulated.LEVEL) / N_STUDIES)
ODDS = simulated.of_odds(simulated.apart)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "drawn", "design", "n_raters"),
    [
        (simulated.of_mixed, "bots spread by .4 to 2.4", simulated.everything, 16),
        (simulated.of_mixed, "points around 4.3", simulated.uneven, 12),
        (simulated.of_mixed, "bots spread alike", simulated.two, 8),
        (simulated.of_anova, "bots spread by .4 to 2.4", simulated.apart, 16),
        (simulated.of_anova, "bots spread alike", simulated.uneven, 8),
        (simulated.of_tests, "bots spread by .4 to 2.4", simulated.apart, 12),
        (simulated.of_tests, "points of equal bots", simulated.everything, 12),
        (ODDS, "points around 3", simulated.apart, 8),
    ],
)
def test_intervals_hold_as_often_as_they_say(
    of: Callable[..., Any], drawn: str, design: simulated.Design, n_raters: int
) -> None:
    """100 studies each; of the bot that spreads most the model's own errors held in 75 to 85 % of 90, and with the
    likelihood's χ² the raters' share of eight raters in 88. Tests that took the ratings as independent found
    something in 20 to 29 % of 10 where each rates one bot, and that of odds by chi-squared in 17 to 24 where all rate
    all."""
    result = simulated.held(of, drawn, design, n_raters, N_STUDIES)
    shares = {what: one.inside / one.of for what, one in result.items() if one.of > N_STUDIES / 2}
    assert len(shares) >= 4
    assert sum(shares.values()) / len(shares) > LEAST
    assert min(shares.values()) > LEAST - 0.04


ordinal_rng = np.random.default_rng(5)


def cheese() -> tuple[list[int], list[str]]:
    values = [p for row in CHEESE.values() for p, n in enumerate(row, 1) for _ in range(n)]
    return values, [name for name, row in CHEESE.items() for _ in range(sum(row))]


def ratings(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Make ratings of four bots on seven points."""
    bots = ordinal_rng.choice(list("abcd"), n)
    effects = np.array([0, 0.3, 0.9, 1.5])
    latent = ordinal_rng.logistic(size=n) + effects[np.searchsorted(list("abcd"), bots)]
    return np.digitize(latent, [-2, -1, 0, 0.7, 1.6, 3]) + 1.0, bots


def test_published_fit_of_the_cheese_data():
    result = ordinal_model(*cheese())
    assert result.converged
    pairs = {(c.a, c.b): c for c in result.comparisons}
    for name, (log_odds, error) in {"A": (1.6128, 0.3778), "B": (4.9645, 0.4741), "C": (3.3227, 0.4251)}.items():
        pair = pairs[name, "D"]
        assert pair.difference == pytest.approx(-log_odds, abs=2e-4)
        assert pair.high - pair.difference == pytest.approx(1.959964 * error, abs=2e-4)
    assert result.deviance == pytest.approx(20.31, abs=0.005)
    assert result.deviance_df == 21
    assert result.deviance_p > 0.4
    assert sum(bot.effect for bot in result.bots) == pytest.approx(0)
    assert [bot.bot for bot in sorted(result.bots, key=lambda bot: bot.effect)] == list("BCAD")


def test_statsmodels_finds_the_same():
    values, bots = ratings()
    exog = pd.get_dummies(bots, dtype=float).iloc[:, 1:]
    fit = OrderedModel(values, exog, distr="logit").fit(method="bfgs", disp=False, gtol=1e-7)
    result = ordinal_model(values, bots)
    pairs = {(c.a, c.b): c for c in result.comparisons}
    for i, name in enumerate("bcd"):
        pair = pairs["a", name]
        assert -pair.difference == pytest.approx(fit.params.iloc[i], abs=1e-4)
        # Expected information here, observed there.
        half = 1.959964 * fit.bse.iloc[i]
        assert pair.high - pair.difference == pytest.approx(half, rel=0.05)
    expected = fit.predict(np.eye(3)[[0]])[0]
    np.testing.assert_allclose(result.bots[1].probabilities, expected, atol=1e-4)


def test_two_points_are_a_logistic_regression():
    values, bots = [0] * 12 + [1] * 8 + [0] * 5 + [1] * 15, ["a"] * 20 + ["b"] * 20
    (pair,) = ordinal_model(values, bots).comparisons
    assert pair.difference == pytest.approx(np.log(8 / 12) - np.log(15 / 5))
    error = np.sqrt(1 / 12 + 1 / 8 + 1 / 5 + 1 / 15)
    assert pair.high - pair.difference == pytest.approx(1.959964 * error, rel=1e-5)
    assert ordinal_model(values, bots).deviance == pytest.approx(0, abs=1e-6)
    # Forty raters with one rating each: each bot's variance with 19 in place of 20 ratings, as Welch's test has it.
    (pair,) = ordinal_model(values, bots, range(40)).comparisons
    parts = np.array([1 / 12 + 1 / 8, 1 / 5 + 1 / 15])
    df = parts.sum() ** 2 / (parts**2 / 19).sum()
    half = stats.t.ppf(0.975, df) * error * np.sqrt(20 / 19)
    assert pair.high - pair.difference == pytest.approx(half, rel=1e-5)


def test_probability_of_a_higher_rating_is_that_of_pairs():
    values, bots = cheese()
    result = ordinal_model(values, bots)
    a = np.array(values)[np.array(bots) == "A"]
    c = np.array(values)[np.array(bots) == "C"]
    observed = (a[:, None] > c[None]).mean() + (a[:, None] == c[None]).mean() / 2
    assert result.probability_higher("A", "C") == pytest.approx(observed, abs=0.02)
    assert result.probability_higher("C", "A") == pytest.approx(1 - result.probability_higher("A", "C"))
    with pytest.raises(KeyError, match="'E'"):
        result.probability_higher("A", "E")


def test_raters_with_one_rating_each_change_little_and_doubled_ones_nothing():
    values, bots = ratings()
    plain = ordinal_model(values, bots)
    alone = ordinal_model(values, bots, [None] * len(values))
    doubled = ordinal_model(np.tile(values, 2), np.tile(bots, 2), np.tile(np.arange(len(values)), 2))
    halves = [[c.high - c.difference for c in result.comparisons] for result in (plain, alone, doubled)]
    np.testing.assert_allclose(halves[1], halves[0], rtol=0.15)
    # Everybody asked twice with the same answers: no more is known than before.
    np.testing.assert_allclose(halves[2], halves[1], rtol=1e-4)
    naive = ordinal_model(np.tile(values, 2), np.tile(bots, 2))
    assert naive.comparisons[0].high < doubled.comparisons[0].high
    assert doubled.n_raters == 400


def test_sandwich_is_that_of_the_jackknife_over_raters():
    """Leaving one rater out at a time gives nearly the same errors (Efron and Stein)."""
    values, bots = ratings(240)
    raters = np.repeat(np.arange(60), 4)
    values = np.clip(values + ordinal_rng.integers(-1, 2, 60)[raters], 1, 7)
    result = ordinal_model(values, bots, raters)

    def gap(keep: np.ndarray) -> float:
        return ordinal_model(values[keep], bots[keep]).comparisons[0].difference

    draws = np.array([gap(raters != r) for r in range(60)])
    error = np.sqrt(59 / 60 * ((draws - draws.mean()) ** 2).sum())
    pair = result.comparisons[0]
    half = stats.t.ppf(0.975, 59) * error
    assert pair.high - pair.difference == pytest.approx(half, rel=0.1)


def test_the_test_of_two_bots_is_that_of_their_difference():
    values, bots = ratings(240)
    raters = np.repeat(np.arange(20), 12)
    two = np.isin(bots, np.unique(bots)[:2])
    result = ordinal_model(values[two], bots[two], raters[two])
    assert (result.df, result.p) == (1, pytest.approx(result.comparisons[0].p))
    alone = ordinal_model(values, bots)
    assert (alone.f, alone.p) == (None, stats.chi2.sf(alone.chi2, alone.df))


def test_too_few_raters_for_a_test_are_told():
    """Two raters a bot, with 3 ratings each: pairs have intervals, but three differences at once have no test."""
    raters = np.repeat(np.arange(8), 3)
    bots = np.array(list("abcd"))[raters % 4]
    result = ordinal_model(np.random.default_rng(2).integers(1, 5, 24), bots, raters)
    assert result.converged
    assert (result.p, result.f, result.test_reason.code) == (None, None, "few_raters_for_test")
    assert np.isfinite(result.comparisons[0].high)


def test_errors_are_those_of_dense_algebra():
    """Residuals of every rating's points beside their multinomial covariance, and the matrices of all of them."""
    values, bots = ratings(30)
    raters = np.random.default_rng(2).integers(0, 9, len(values))
    result = ordinal_model(values, bots, raters, level=0.9)
    points = np.array(result.points)
    thresholds = np.array(result.thresholds)
    names = [bot.bot for bot in result.bots]
    place = np.array([names.index(bot) for bot in bots])
    effects = np.array([bot.effect for bot in result.bots])

    def chances(at: np.ndarray) -> np.ndarray:
        below = 1 / (1 + np.exp(-(at[: len(thresholds)] - np.r_[0, at[len(thresholds) :]][:, None])))
        return np.diff(np.hstack([np.zeros((len(names), 1)), below]))  # without the last point

    at = np.r_[thresholds - effects[0], effects[1:] - effects[0]]
    step = 1e-6
    slopes = np.stack(
        [(chances(at + step * one) - chances(at - step * one)) / (2 * step) for one in np.eye(len(at))], axis=-1
    )  # (bots, points − 1, parameters)
    p = chances(at)
    inverse = [np.linalg.inv(np.diag(row) - np.outer(row, row)) for row in p]
    size = p.shape[1]
    x = np.concatenate([slopes[b] for b in place])
    weight = np.zeros((len(x), len(x)))
    for k, b in enumerate(place):
        weight[k * size : (k + 1) * size, k * size : (k + 1) * size] = inverse[b]
    residual = ((np.asarray(values)[:, None] == points[:-1]) - p[place]).ravel()
    whose = np.repeat(raters, size)
    m = np.linalg.inv(x.T @ weight @ x)
    hat = x @ m @ x.T @ weight
    contrast = np.r_[np.zeros(len(thresholds)), np.eye(len(names) - 1)[0]]  # the second bot less the first
    rows = []
    for rater in np.unique(raters):
        mine = whose == rater
        values_, vectors = np.linalg.eig(np.eye(mine.sum()) - hat[np.ix_(mine, mine)])
        adjust = (vectors / np.sqrt(values_) @ np.linalg.inv(vectors)).real
        row = np.zeros(len(x))
        row[mine] = contrast @ m @ x[mine].T @ weight[np.ix_(mine, mine)] @ adjust
        rows.append(row)
    p_g = np.array(rows)
    variance = ((p_g @ residual) ** 2).sum()
    left = np.eye(len(x)) - hat
    q = p_g @ left @ np.linalg.inv(weight) @ left.T @ p_g.T
    half = stats.t.ppf(0.95, np.trace(q) ** 2 / (q**2).sum()) * np.sqrt(variance)
    pair = result.comparisons[0]
    assert (pair.a, pair.b) == (names[0], names[1])
    assert pair.high - pair.difference == pytest.approx(half, rel=1e-4)


def test_a_bot_of_one_rater_gives_no_odds():
    result = ordinal_model([1, 2, 3, 2, 1, 3, 2], list("ababaab"), [1, 1, 2, 1, 3, 4, 1])
    assert "b was rated by one rater only" in result.reason


def test_two_raters_who_answer_alike_tell_nothing_of_how_far_a_bot_can_be_off():
    values = [1, 2, 3, 1, 2, 3, 2, 3, 3, 1, 1, 2]
    raters = [1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5]
    result = ordinal_model(values, list("aaaaaabbbbbb"), raters)
    assert result.reason is None  # the raters of the other bot differ
    alike = ordinal_model([1, 2, 3] * 4, list("aaaaaabbbbbb"), np.repeat([1, 2, 3, 4], 3))
    assert "agree completely" in alike.reason


def test_reasons_of_ordinal_fits():
    assert "only 1 bot with ratings;" in ordinal_model([1, 2], ["a", "a"]).reason
    assert "every rating is 3" in ordinal_model([3, 3], ["a", "b"]).reason
    assert "rating of a is the lowest" in ordinal_model([1, 1, 2, 3], list("aabb")).reason
    apart = ordinal_model([1, 2, 1, 2, 3, 4, 3, 4], list("aaaabbbb"))
    assert apart.reason.endswith("their difference is infinite")
    assert not apart.converged
    assert "too few" in ordinal_model([1, 2, 1, 2], list("abba"), [1, 1, 2, 2]).reason
    with pytest.raises(ValueError, match="2 values"):
        ordinal_model([1, 2], ["a"])


def test_undefined_ratings_are_left_out():
    values, bots = cheese()
    again = ordinal_model([*values, float("nan")], [*bots, "A"])
    assert again == ordinal_model(values, bots)


def test_bots_whose_ratings_share_one_point_at_most_have_no_finite_difference():
    """Scoring would stop somewhere on the way to infinity, with an interval that is none."""
    counts = {"a": [0, 0, 0, 4, 2], "b": [0, 0, 0, 3, 9], "c": [1, 2, 8, 5, 0]}
    values = [point for row in counts.values() for point, n in enumerate(row) for _ in range(n)]
    bots = [bot for bot, row in counts.items() for _ in range(sum(row))]
    result = ordinal_model(values, bots)
    assert not result.converged
    assert result.reason == ("no rating of a, b is below 3 and none of c above, so their difference is infinite")
    values[0] = 2  # one rating of a below the shared point: now they overlap
    overlapping = ordinal_model(values, bots)
    assert overlapping.converged
    assert all(np.isfinite([bot.low, bot.high]).all() for bot in overlapping.bots)
