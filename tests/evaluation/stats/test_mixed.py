"""The mixed model against statsmodels' MixedLM and the ergoStool fit of Pinheiro and Bates (2000)."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.anova import AnovaRM

from evaluation.stats.means import ONE_GROUP, mean_interval
from evaluation.stats.mixed import mixed_model
from tests.reference.ratings import ERGO_STOOL

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
    found = mixed_model(data.y, data.bot, data.rater)
    assert found.converged
    assert found.rater_sd == pytest.approx(1.332465, abs=2e-6)
    assert found.residual_sd == pytest.approx(1.100295, abs=2e-6)
    assert (found.df1, found.df2) == (3, 24)
    assert found.f == pytest.approx(22.356, abs=5e-4)
    assert found.bots[1].mean - found.bots[0].mean == pytest.approx(3.888889, abs=1e-6)
    assert found.bots[0].mean == pytest.approx(8.555556, abs=1e-6)


def test_balanced_f_is_repeated_measures():
    data = ergo_stool()
    table = AnovaRM(data, "y", "rater", within=["bot"]).fit().anova_table
    found = mixed_model(data.y, data.bot, data.rater)
    assert found.f == pytest.approx(table["F Value"].iloc[0])
    assert found.p == pytest.approx(table["Pr > F"].iloc[0])


def test_unbalanced_is_statsmodels():
    data = unbalanced()
    fit = smf.mixedlm("y ~ 0 + bot", data, groups=data.rater).fit(reml=True, method="lbfgs")
    assert fit.converged
    found = mixed_model(data.y, data.bot, data.rater, level=0.95)
    np.testing.assert_allclose([b.mean for b in found.bots], fit.fe_params, atol=1e-5)
    assert found.rater_sd**2 == pytest.approx(fit.cov_re.iloc[0, 0], rel=1e-4)
    assert found.residual_sd**2 == pytest.approx(fit.scale, rel=1e-4)
    # The raw mean of a bot depends on who happened to rate it; the model's does so less.
    assert any(abs(b.mean - b.raw_mean) > 0.01 for b in found.bots)


def test_where_everybody_rates_every_bot_once_a_mean_has_students_interval_over_raters():
    data = ergo_stool()
    found = mixed_model(data.y, data.bot, data.rater, level=0.9)
    for bot in found.bots:
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
    for found in (calm, wild):
        own = mean_interval(values[bot == found.bot], rater[bot == found.bot], level=0.9)
        assert (found.low, found.high) == pytest.approx((own.low, own.high), rel=1e-3)


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
    found = mixed_model(data.y, data.bot, data.rater, level=0.9)
    table = data.pivot_table(index="rater", columns="bot", values="y").to_numpy()
    of_raters = 4 * table.mean(axis=1).var(ddof=1)
    left = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    f = of_raters / ((left**2).sum() / (8 * 3))
    ratios = [(f / stats.f.ppf(end, 8, 24) - 1) / 4 for end in (0.95, 0.05)]
    assert (found.share_low, found.share_high) == pytest.approx([ratio / (1 + ratio) for ratio in ratios], rel=1e-5)


def test_interval_of_the_raters_share_covers():
    """True share .5, raters who give two to six ratings."""
    inside = 0
    for _ in range(100):
        data = unbalanced(25, 1.0)
        found = mixed_model(data.y, data.bot, data.rater, level=0.9)
        assert found.share_low <= found.rater_share <= found.share_high
        inside += found.share_low <= 0.5 <= found.share_high
    assert 84 <= inside <= 98


def test_raters_and_bots_that_cannot_be_told_apart_leave_every_share_open():
    """Each bot has one rater, so what raters add is not seen."""
    bots, raters = np.repeat(["a", "b"], 6), np.repeat([0, 1], 6)
    found = mixed_model(rng.normal(size=12), [*bots, "a", "b"][:12], raters)
    assert not found.converged
    both = mixed_model(rng.normal(size=16), np.tile(["a", "b", "a", "b"], 4), np.repeat(np.arange(4), 4))
    assert 0 <= both.share_low <= both.rater_share <= both.share_high < 1


def test_no_variance_between_raters():
    bots = ["a", "b"] * 20
    raters = np.repeat(np.arange(20), 2)
    # Each rater's two ratings lean to opposite sides: the variance between raters is below chance.
    lean = np.repeat(np.arange(20) - 9.5, 2) * np.tile([1, -1], 20)
    values = lean + np.tile([0.0, 1.0], 20) + rng.normal(0, 0.01, 40)
    found = mixed_model(values, bots, raters)
    assert found.rater_sd == 0
    assert found.share_low == 0
    # As if raters differed by just as much as chance makes them: F with 19 and 19 degrees of freedom, two ratings each.
    ratio = (1 / stats.f.ppf(0.025, 19, 19) - 1) / 2
    assert found.share_high == pytest.approx(ratio / (1 + ratio), rel=1e-5)
    assert found.raters_are_alike
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = smf.mixedlm("y ~ 0 + b", pd.DataFrame({"y": values, "b": bots}), groups=raters).fit()
    assert found.residual_sd**2 == pytest.approx(fit.scale, rel=1e-3)


def test_each_rater_one_bot_is_judged_between_raters():
    """With m ratings each the test is that of the raters' means."""
    raters = np.repeat(np.arange(16), 5)
    bots = np.where(raters < 8, "a", "b")
    values = np.repeat(rng.normal(size=16), 5) + rng.normal(size=80)
    found = mixed_model(values, bots, raters)
    means = values.reshape(16, 5).mean(axis=1)
    expected = stats.ttest_ind(means[:8], means[8:])
    assert found.df2 == 14
    assert found.p == pytest.approx(expected.pvalue, rel=1e-5)


def test_many_ratings():
    n = 100_000
    raters, bots = rng.integers(0, 5000, n), rng.integers(0, 12, n).astype(str)
    kind = rng.normal(0, 2, 5000)
    found = mixed_model(kind[raters] + rng.normal(0, 1, n), bots, raters)
    assert found.rater_sd == pytest.approx(2, abs=0.06)
    assert found.residual_sd == pytest.approx(1, abs=0.01)


def test_undefined_values_and_unknown_raters():
    data = ergo_stool()
    plain = mixed_model(data.y, data.bot, data.rater)
    values = [*data.y, float("nan")]
    assert mixed_model(values, [*data.bot, "T1"], [*data.rater, 99]) == plain
    more = mixed_model([*data.y, 9.0, 9.0], [*data.bot, "T1", "T1"], [*data.rater, None, None])
    assert more.n_raters == plain.n_raters + 2


def test_reasons():
    assert "ratings of 1 bot;" in mixed_model([1.0, 2.0], ["a", "a"], [1, 2]).reason
    assert "every rater gave one" in mixed_model([1.0, 2.0], ["a", "b"], [1, 2]).reason
    assert "one rater only" in mixed_model([1.0, 2.0], ["a", "b"], [1, 1]).reason
    same = mixed_model([1.0, 2.0] * 6, ["a", "b"] * 6, np.repeat(np.arange(6), 2))
    assert "do not vary" in same.reason
    assert not same.converged
    few = mixed_model([1.0, 2.0, 4.0], ["a", "b", "c"], [1, 1, 2])
    assert "nothing left" in few.reason
    with pytest.raises(ValueError, match="2 values, 1 bots"):
        mixed_model([1.0, 2.0], ["a"], [1, 2])
