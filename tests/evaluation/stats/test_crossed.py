"""Crossed random effects against statsmodels, R's published figures, brute force and numerical integration."""

import mixedlm
import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import integrate, optimize
from scipy.special import expit
from statsmodels.stats.anova import AnovaRM

from evaluation.stats.crossed import _Laplace, fit_linear, fit_ordinal
from tests.evaluation.stats.simulated_crossed import FACTOR_ROW, RaterDesign, draw_any_study, draw_ratings, fit_study

# Bitterness of wine (Randall 1989, the data `wine` of R's ordinal): judges in rows, of two bottles each cold without
# contact, cold with contact, warm without and warm with.
WINE = np.array(
    [
        [2, 3, 3, 4, 4, 4, 5, 5],
        [1, 2, 1, 3, 2, 3, 5, 4],
        [2, 3, 3, 2, 5, 5, 4, 4],
        [3, 2, 3, 2, 3, 2, 5, 3],
        [2, 3, 4, 3, 3, 3, 3, 3],
        [3, 2, 3, 2, 2, 4, 5, 4],
        [1, 1, 2, 2, 2, 3, 2, 3],
        [2, 2, 2, 3, 3, 3, 3, 4],
        [1, 2, 3, 2, 3, 2, 4, 4],
    ]
)
JUDGE, BOTTLE = np.repeat(np.arange(9), 8), np.tile(np.arange(8), 9)
TREATMENTS = np.stack([BOTTLE >= 4, BOTTLE // 2 % 2], axis=1).astype(float)


def crossed(n: int = 300):
    rng = np.random.default_rng(0)
    rater, item, bot = rng.integers(0, 20, n), rng.integers(0, 12, n), rng.integers(0, 3, n)
    y = 0.4 * bot + rng.normal(0, 1, 20)[rater] + rng.normal(0, 0.5, 12)[item] + rng.normal(0, 1, n)
    return y, np.stack([np.ones(n), bot == 1, bot == 2], axis=1).astype(float), rater, item


def test_linear_is_statsmodels_with_variance_components():
    y, x, rater, item = crossed()
    linear = fit_linear(y, x, [rater, item])
    frame = pd.DataFrame({"y": y, "a": x[:, 1], "b": x[:, 2], "rater": rater, "item": item, "one": 1})
    parts = {"rater": "0 + C(rater)", "item": "0 + C(item)"}
    model = smf.mixedlm("y ~ a + b", frame, groups="one", re_formula="0", vc_formula=parts).fit()
    assert linear.converged
    np.testing.assert_allclose(linear.beta, model.fe_params, rtol=1e-4)
    variances = dict(zip(sorted(parts), np.sqrt(model.vcomp), strict=True))
    np.testing.assert_allclose(linear.tau, [variances["rater"], variances["item"]], rtol=1e-4)
    assert linear.sigma == pytest.approx(np.sqrt(model.scale), rel=1e-4)
    assert linear.log_likelihood == pytest.approx(model.llf, abs=1e-5)
    np.testing.assert_allclose(np.sqrt(np.diag(linear.covariance)), model.bse_fe, rtol=3e-3)


def test_a_balanced_design_has_the_exact_test_of_repeated_measures():
    rng = np.random.default_rng(3)
    rater, bot = np.repeat(np.arange(9), 4), np.tile(np.arange(4), 9)
    y = rng.normal(0, 1, 9)[rater] + 0.3 * bot + rng.normal(0, 1, 36)
    x = np.column_stack([np.ones(36), *(bot == k for k in (1, 2, 3))]).astype(float)
    f, df2, p = fit_linear(y, x, [rater]).test(np.eye(4)[1:])
    frame = pd.DataFrame({"y": y, "rater": rater, "bot": bot})
    exact = AnovaRM(frame, "y", "rater", within=["bot"]).fit().anova_table.iloc[0]
    assert (f, df2, p) == pytest.approx((exact["F Value"], exact["Den DF"], exact["Pr > F"]), rel=1e-5)


def test_raters_of_one_bot_each_leave_the_degrees_of_freedom_of_raters():
    rng = np.random.default_rng(5)
    rater = np.repeat(np.arange(10), 6)
    bot = (rater >= 5).astype(float)
    y = bot + rng.normal(0, 1, 10)[rater] + rng.normal(0, 0.5, 60)
    fit = fit_linear(y, np.stack([np.ones(60), bot], axis=1), [rater])
    means = y.reshape(10, 6).mean(axis=1)
    variance = means[:5].var(ddof=1) / 5 + means[5:].var(ddof=1) / 5
    assert fit.covariance[1, 1] == pytest.approx(variance, rel=1e-5)
    assert fit.freedom(np.array([0.0, 1.0])) == pytest.approx(8, rel=1e-4)


def test_ordinal_has_the_published_figures_of_clmm_for_the_wine():
    """`summary(clmm(rating ~ temp + contact + (1|judge), data = wine))`, as the package's tutorial prints it."""
    ordinal = fit_ordinal(WINE.ravel() - 1, TREATMENTS, [JUDGE])
    assert ordinal.converged
    np.testing.assert_allclose(ordinal.beta, [3.0630, 1.8349], atol=1e-4)
    np.testing.assert_allclose(ordinal.thresholds, [-1.6237, 1.5134, 4.2285, 6.0888], atol=1e-4)
    assert ordinal.tau[0] ** 2 == pytest.approx(1.279, abs=1e-3)
    assert ordinal.log_likelihood == pytest.approx(-81.57, abs=5e-3)
    np.testing.assert_allclose(np.sqrt(np.diag(ordinal.covariance)), [0.5954, 0.5125], atol=2e-4)
    # Bottles of one treatment do not differ.
    both = fit_ordinal(WINE.ravel() - 1, TREATMENTS, [JUDGE, BOTTLE])
    np.testing.assert_allclose(both.beta, ordinal.beta, atol=1e-4)
    assert (both.tau[1], both.converged) == (0.0, True)


def log_likelihood(eta: np.ndarray, point: np.ndarray, cuts: np.ndarray) -> float:
    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    return float(np.log(expit(ends[point + 1] - eta) - expit(ends[point] - eta)).sum())


def brute_laplace(parameters: np.ndarray, point: np.ndarray, x: np.ndarray, groups: list[np.ndarray]) -> float:
    """Approximate the likelihood with a general optimiser and a numerical second derivative."""
    n_cuts, p = int(point.max()), x.shape[1]
    cuts = np.cumsum([parameters[0], *np.exp(parameters[1:n_cuts])])
    beta, tau = parameters[n_cuts : n_cuts + p], parameters[n_cuts + p :]
    sizes = np.cumsum([0, *(int(codes.max()) + 1 for codes in groups)])

    def minus(b: np.ndarray) -> float:
        moved = sum(t * b[s:][codes] for t, s, codes in zip(tau, sizes, groups, strict=False))
        return b @ b / 2 - log_likelihood(x @ beta + moved, point, cuts)

    mode = optimize.minimize(minus, np.zeros(sizes[-1]), method="BFGS", options={"gtol": 1e-8}).x
    step, k = 1e-4, sizes[-1]
    unit = step * np.eye(k)
    second = np.array(
        [
            [
                minus(mode + unit[i] + unit[j])
                - minus(mode + unit[i] - unit[j])
                - minus(mode - unit[i] + unit[j])
                + minus(mode - unit[i] - unit[j])
                for j in range(k)
            ]
            for i in range(k)
        ]
    ) / (4 * step**2)
    return -minus(mode) - np.linalg.slogdet(second)[1] / 2


def test_the_approximation_is_that_of_brute_force_for_crossed_effects():
    parameters = np.array([-1.4, 0.9, 0.8, 0.6, 2.5, 1.4, 0.9, 0.4])
    point = WINE.ravel() - 1
    value, gradient = _Laplace(point, TREATMENTS, [JUDGE, BOTTLE])(parameters)
    assert -value == pytest.approx(brute_laplace(parameters, point, TREATMENTS, [JUDGE, BOTTLE]), abs=1e-5)
    model = _Laplace(point, TREATMENTS, [JUDGE, BOTTLE])
    np.testing.assert_allclose(gradient, optimize.approx_fprime(parameters, lambda at: model(at)[0], 1e-6), atol=1e-3)


def test_the_approximation_is_near_the_integral_for_one_effect():
    fit = fit_ordinal(WINE.ravel() - 1, TREATMENTS, [JUDGE])
    whole = 0.0
    for judge in range(9):
        point, eta = WINE[judge] - 1, TREATMENTS[:8] @ fit.beta

        def density(b: float, point: np.ndarray = point, eta: np.ndarray = eta) -> float:
            return float(np.exp(log_likelihood(eta + fit.tau[0] * b, point, fit.thresholds) - b * b / 2))

        whole += np.log(integrate.quad(density, -8, 8)[0] / np.sqrt(2 * np.pi))
    assert fit.log_likelihood == pytest.approx(whole, abs=0.1)


def test_what_cannot_be_fitted_is_not_called_converged():
    point, x = np.repeat([0, 1], 20), np.repeat([0.0, 1.0], 20)[:, None]
    assert not fit_ordinal(point, x, [np.tile(np.arange(5), 8)]).converged


@pytest.mark.filterwarnings("ignore:Model is singular")
def test_linear_models_find_the_optimum_of_mixedlm_on_300_random_studies():
    rng = np.random.default_rng(1)
    n_compared = n_zero = 0
    for _ in range(310):
        y, level, groups = study = draw_any_study(rng)
        fit = fit_study(study)
        names = ["rater", "item"][: len(groups)]
        columns = {name: [f"{name}{code}" for code in codes] for name, codes in zip(names, groups, strict=True)}
        frame = pd.DataFrame({"y": y, "level": [f"l{code}" for code in level], **columns})
        oracle = mixedlm.lmer("y ~ level + " + " + ".join(f"(1|{name})" for name in names), frame, REML=True)
        if oracle.sigma < 1e-3 * y.std():
            assert not fit.converged, "raters explain every rating, so there is no optimum"
            continue
        n_compared += 1
        assert fit.converged
        assert fit.log_likelihood == pytest.approx(oracle.logLik().value, abs=1e-4)
        np.testing.assert_allclose(fit.tau / fit.sigma, oracle.theta, atol=5e-3)
        n_zero += int((fit.tau == 0).any())
    assert n_compared >= 300
    assert 0 < n_zero < 150


def test_a_factor_between_raters_keeps_its_level_where_raters_differ_little():
    rng = np.random.default_rng(7)
    p_values = [
        fit_study(draw_ratings(rng, RaterDesign(n_raters, 6, 0.5))).test(FACTOR_ROW[None])[2]
        for n_raters in (6, 8, 12)
        for _ in range(200)
    ]
    assert np.mean([p is not None and p < 0.05 for p in p_values]) < 0.065


def test_a_standard_deviation_of_0_needs_a_falling_likelihood(monkeypatch: pytest.MonkeyPatch):
    y, x, rater, _item = crossed()

    class Stuck:
        x = np.zeros(1)

    assert fit_linear(y, x, [rater]).converged
    monkeypatch.setattr("evaluation.stats.crossed.optimize.minimize", lambda *_args, **_options: Stuck)
    assert not fit_linear(y, x, [rater]).converged
