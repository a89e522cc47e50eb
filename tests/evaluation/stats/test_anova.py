"""Analysis of variance against statsmodels, and the F values of Ghandeharioun et al. (2019)."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.anova import anova_lm

from evaluation.stats.anova import Anova, _analyse, anova, sum_of_ratings
from evaluation.stats.gls import fit_gls
from evaluation.stats.means import ALL_ALIKE, ONE_GROUP, mean_interval
from evaluation.stats.mixed import CONSTANT, ONE_RATER
from tests.reference.test_selfplay_paper import HUMAN, row

rng = np.random.default_rng(1)

N = row("55 49 46 39 53 42 55 56 36 44 39 52")  # Table 8
HALF_WIDTHS = [  # Table 2, quality … empathy
    row(".305 .313 .309 .252 .247 .380 .310 .299 .392 .341 .350 .298"),
    row(".387 .381 .351 .396 .306 .380 .349 .316 .496 .402 .433 .395"),
    row(".374 .380 .442 .371 .340 .421 .386 .374 .468 .353 .455 .382"),
    row(".291 .336 .287 .346 .270 .356 .288 .322 .362 .370 .298 .354"),
    row(".332 .350 .374 .367 .316 .368 .329 .337 .393 .385 .434 .379"),
]
FACTORS = {
    "architecture": ["hred", "hred", "vhred", "vhred", "vhcr", "vhcr"] * 2,
    "ei": ["base", "ei"] * 6,
    "corpus": ["cornell"] * 6 + ["reddit"] * 6,
}


def unbalanced() -> pd.DataFrame:
    """Make ratings of 12 bots, a different number of each."""
    rows = [
        (a, e, c, rng.normal(2 * (e == "ei") + (a == "hred") * (c == "reddit"), 3))
        for a, e, c in zip(*FACTORS.values(), strict=True)
        for _ in range(rng.integers(3, 12))
    ]
    return pd.DataFrame(rows, columns=["a", "e", "c", "y"])


@pytest.mark.parametrize(("max_order", "operator"), [(None, "*"), (1, "+")])
def test_type_three_is_statsmodels(max_order, operator):
    data = unbalanced()
    formula = "y ~ " + operator.join(f"C({name}, Sum)" for name in "aec")
    table = anova_lm(smf.ols(formula, data).fit(), typ=3)
    result = anova(data.y, {name: data[name] for name in "aec"}, max_order=max_order)
    assert result.reason is None
    assert result.residual_df == table.df["Residual"]
    assert result.residual_ss == pytest.approx(table.sum_sq["Residual"])
    assert len(result.terms) == len(table) - 2
    for name, expected in table.iloc[1:-1].iterrows():
        term = result.term(name.replace("C(", "").replace(", Sum)", ""))
        assert term.ss == pytest.approx(expected["sum_sq"])
        assert (term.f, term.p) == pytest.approx((expected["F"], expected["PR(>F)"]))
        assert term.df == expected["df"]


def anova_from_cells(means: np.ndarray, n: np.ndarray, sds: np.ndarray, factors: dict[str, list[str]]) -> Anova:
    """Analyse a published table of cells, whose variance within cells follows from the standard deviations."""
    number = np.asarray(n)
    within = float(((number - 1) * np.asarray(sds) ** 2)[number > 1].sum())
    columns = {name: list(levels) for name, levels in factors.items()}
    return _analyse(columns, np.asarray(means), number, within, None, 0.90, 0)


def test_the_papers_table_gives_its_ratio_and_with_correlation_its_f_values():
    """Sums have variance Σ s² + r Σ s s' for a correlation r between a bot's dimensions."""
    means = sum_of_ratings(np.array(list(HUMAN.values())).T)
    n = np.array(N)
    sds = np.array(HALF_WIDTHS) * np.sqrt(n) / stats.t.ppf(0.95, n - 1)
    for r in (0.0, 0.4, 0.8):
        variance = (1 - r) * (sds**2).sum(axis=0) + r * sds.sum(axis=0) ** 2
        result = anova_from_cells(means, n, np.sqrt(variance), FACTORS)
        assert (result.n, result.residual_df) == (566, 554)
        f = {name: result.term(name).f for name in FACTORS}
        assert f["corpus"] / f["ei"] == pytest.approx(3.41, abs=0.005)
        if r == 0.4:
            assert f["corpus"] == pytest.approx(31.1, abs=0.05)
            assert f["ei"] == pytest.approx(9.1, abs=0.05)
            assert f["architecture"] == pytest.approx(2.3, abs=0.05)
            assert result.term("ei").p < 0.005
            assert result.term("corpus").p < 0.001
            assert result.term("architecture").p > 0.05
            (ei,) = [c for c in result.contrasts if c.factor == "ei"]
            assert ei.high < 0  # base − ei
    assert result.term("architecture").df == 2


def test_cells_and_ratings_give_the_same():
    data = unbalanced()
    cells = data.groupby(["a", "e", "c"]).y.agg(["mean", "size", "std"]).reset_index()
    a = anova(data.y, {name: data[name] for name in "aec"})
    b = anova_from_cells(cells["mean"], cells["size"], cells["std"], {name: cells[name] for name in "aec"})
    assert [t.f for t in a.terms] == pytest.approx([t.f for t in b.terms])


def test_marginal_means_and_contrasts_are_statsmodels():
    data = unbalanced()
    fit = smf.ols("y ~ C(a, Sum) * C(e, Sum) * C(c, Sum)", data).fit()
    cells = data[["a", "e", "c"]].drop_duplicates()
    result = anova(data.y, {name: data[name] for name in "aec"}, level=0.95)
    predicted = fit.predict(cells)
    for marginal in result.marginals:
        expected = predicted[cells[marginal.factor] == marginal.level].mean()
        assert marginal.mean == pytest.approx(expected)
        assert marginal.low < marginal.mean < marginal.high
    # With a two-level factor the contrast is twice the (first level's) coefficient.
    (e,) = [c for c in result.contrasts if c.factor == "e"]
    ends = 2 * fit.conf_int(0.05).loc["C(e, Sum)[S.base]"]
    assert (e.difference, e.low, e.high) == pytest.approx((2 * fit.params["C(e, Sum)[S.base]"], ends[0], ends[1]))
    assert e.p == pytest.approx(result.term("e").p)


def test_with_raters_a_level_of_one_cell_has_the_interval_of_its_mean():
    """Each rater rates one bot; levels of the only factor are the bots, whose means then stand alone."""
    raters = np.repeat(np.arange(18), [1, 2, 3] * 6)
    bots = np.array(list("abc"))[raters % 3]
    own_rng = np.random.default_rng(3)
    spread = np.where(bots == "c", 3, 0.5)
    values = 3 + own_rng.normal(size=18)[raters] + spread * own_rng.normal(size=36)
    result = anova(values, {"bot": bots}, raters, level=0.9)
    for marginal in result.marginals:
        mine = bots == marginal.level
        # Bots of equally many ratings a rater: there the working correlation of raters plays no part.
        own = mean_interval(values[mine], raters[mine], level=0.9)
        assert (marginal.low, marginal.high) == pytest.approx((own.low, own.high))
    assert result.eta_reason.code == "not_independent"
    assert (result.terms[0].low, result.terms[0].high) == (None, None)
    assert result.terms[0].ss == anova(values, {"bot": bots}).terms[0].ss
    once = anova(values, {"bot": bots}, [None] * 36)
    assert once.eta_reason is None
    assert once.terms[0].low == anova(values, {"bot": bots}).terms[0].low


def test_a_level_on_a_scale_has_an_interval_that_stays_on_it():
    raters, bots = np.repeat(np.arange(6), 2), list("abab") * 3
    values = [5, 4, 5, 2, 5, 3, 5, 1, 5, 2, 5, 3.0]
    a, b = anova(values, {"bot": bots}, raters, level=0.9, scale=(1, 5)).marginals
    for one in (a, b):
        mine = np.array(bots) == one.level
        own = mean_interval(np.array(values)[mine], raters[mine], level=0.9, scale=(1, 5))
        assert (one.low, one.high) == pytest.approx((own.low, own.high))
    assert (a.mean, a.high) == (5, 5)
    free = anova(values, {"bot": bots}, raters, level=0.9)
    assert (free.marginals[0].low, free.marginals[0].reason) == (None, ALL_ALIKE)


def test_levels_of_one_rater_have_no_interval():
    result = anova([1.0, 2.0, 4.0, 3.0, 5.0], {"bot": list("aabbb")}, [1, 2, 3, 3, 3])
    a, b = result.marginals
    assert a.low is not None
    assert (b.low, b.reason) == (None, ONE_GROUP)
    assert (result.contrasts[0].p, result.contrasts[0].reason) == (None, ONE_GROUP)


def test_where_everybody_rates_every_bot_the_test_is_hotellings() -> None:
    """T² of differences within raters, made here without the model (Hotelling 1931)."""
    own_rng = np.random.default_rng(8)
    table = own_rng.normal(size=(9, 1)) + own_rng.normal(size=(9, 4)) * [0.3, 1, 2, 1]
    bots, raters = np.tile(list("abcd"), 9), np.repeat(np.arange(9), 4)
    (term,) = anova(table.reshape(-1), {"bot": bots}, raters).terms
    apart = table[:, 1:] - table[:, :1]
    mean, covariance = apart.mean(axis=0), np.cov(apart, rowvar=False) / 9
    f = (9 - 3) / (3 * 8) * mean @ np.linalg.solve(covariance, mean)
    assert (term.f, term.df, term.df2) == (pytest.approx(f), 3, pytest.approx(6, rel=0.05))


def test_the_test_of_a_factor_of_two_levels_is_that_of_their_difference() -> None:
    own_rng = np.random.default_rng(4)
    raters = np.repeat(np.arange(10), own_rng.integers(2, 7, 10))
    bots = own_rng.integers(0, 4, len(raters))
    values = own_rng.normal(size=10)[raters] + own_rng.normal(size=len(raters)) + (bots > 1)
    factors = {"corpus": np.array(list("xxyy"))[bots], "EI": np.array(list("uvuv"))[bots]}
    result = anova(values, factors, raters)
    for pair in result.contrasts:
        assert result.term(pair.factor).p == pytest.approx(pair.p)
    # Bots' means are those by which bots are compared everywhere.
    means = fit_gls(values, bots, raters).means
    level = next(marginal for marginal in result.marginals if marginal.level == "x")
    assert level.mean == pytest.approx(means[:2].mean())


def test_a_term_that_cannot_be_tested_says_why() -> None:
    alone = anova([1.0, 2.0, 4.0, 3.0, 5.0], {"bot": list("aabbb")}, [1, 2, 3, 3, 3])
    assert (alone.terms[0].p, alone.terms[0].reason) == (None, ONE_RATER)
    # Two raters cannot tell three differences at once; a difference alone has a test.
    own_rng = np.random.default_rng(1)
    bots, raters = np.tile(list("abcd"), 4), np.repeat([0, 1, 2, 3], 4)
    (term,) = anova(own_rng.normal(size=16), {"bot": bots}, raters // 2).terms
    assert (term.f, term.df2) == (None, None)
    assert term.reason.code in ("few_raters_for_test", "constant_cells")
    # Everybody finds the one a point better than the other.
    (same,) = anova([1.0, 2.0, 4.0, 5.0], {"bot": list("abab")}, [1, 1, 2, 2]).terms
    assert (same.p, same.reason) == (None, CONSTANT)


def test_interval_of_eta_covers_the_true_effect():
    """Two groups of 40, half a standard deviation apart: λ = 80 · .25² = 5, eta² = λ/(λ + N)."""
    true = 80 * 0.25**2
    inside = 0
    for _ in range(300):
        y = rng.normal(size=80) + np.repeat([0.0, 0.5], 40)
        term = anova(y, {"g": np.repeat(["a", "b"], 40)}, level=0.90).term("g")
        inside += term.low <= true / (true + 80) <= term.high
    assert 250 <= inside <= 288  # 270 expected


def test_interval_of_eta_is_its_definition():
    data = unbalanced()
    result = anova(data.y, {name: data[name] for name in "aec"}, level=0.9)
    term = result.term("e")
    for eta, probability in ((term.low, 0.95), (term.high, 0.05)):
        shift = eta / (1 - eta) * (term.df + result.residual_df + 1)
        at = stats.ncf.cdf(term.f, term.df, result.residual_df, shift)
        assert at == pytest.approx(probability, abs=1e-6)


def test_undefined_values_are_counted_and_left_out():
    values = [1.0, 2.0, float("nan"), 4.0, 6.0, 5.0]
    result = anova(values, {"bot": list("aaabbb")})
    assert (result.n, result.n_dropped) == (5, 1)
    assert result.term("bot").f == pytest.approx(stats.f_oneway([1, 2], [4, 6, 5]).statistic)


def test_reasons():
    assert "one level" in anova([1.0, 2.0], {"bot": ["a", "a"]}).reason
    assert anova([float("nan")], {"bot": ["a"]}).reason == "no rating"
    assert "as many cells as ratings" in anova([1.0, 2.0], {"bot": ["a", "b"]}).reason
    same = anova([1.0, 1.0, 2.0, 2.0], {"bot": list("aabb")})
    assert "do not vary" in same.reason
    assert same.terms[0].f is None
    assert same.contrasts[0].difference == pytest.approx(-1.0)
    missing = anova(rng.normal(size=9), {"a": list("xxxyyyxxx"), "b": list("uuuuuuvvv")})
    assert "1 of the 4 combinations" in missing.reason
    assert missing.terms == ()
    levels = {"a": list("xxxyyyxxx"), "b": list("uuuuuuvvv")}
    assert anova(rng.normal(size=9), levels, max_order=1).reason is None


def test_refusals():
    with pytest.raises(ValueError, match="factor 'bot' has 1"):
        anova([1.0, 2.0], {"bot": ["a"]})
    with pytest.raises(ValueError, match="no factor"):
        anova([1.0, 2.0], {})
    with pytest.raises(KeyError, match="no term 'model'; available"):
        anova([1.0, 2.0, 3.0], {"bot": list("aab")}).term("model")
