"""Raking against ipfn, and its errors against Taylor's formula by hand and a bootstrap that rakes every resample."""

import numpy as np
import pytest
from ipfn.ipfn import ipfn

from evaluation.stats.conditions import fit_bots
from evaluation.stats.raking import RakingMargin, WeightedMeans, design_effect, rake, weighted_means

SHARES = (np.array([0.3, 0.5, 0.2]), np.array([0.55, 0.45]))
N = 120


def margins_of(labels: list[np.ndarray]) -> list[RakingMargin]:
    """Return margins of answers by number; −1 is no answer, whose share is that of the raters."""
    margins = []
    for codes, shares in zip(labels, SHARES, strict=True):
        silent = (codes < 0).astype(float)
        f, n = silent.mean(), len(shares)
        if f:
            group = np.where(codes < 0, n, codes)
            margins.append(RakingMargin(group, np.r_[shares * (1 - f), f], silent, np.r_[-shares, 1.0]))
        else:
            margins.append(RakingMargin(codes, shares, silent, np.zeros(n)))
    return margins


class Sample:
    """120 raters of two of three bots, whose answers depend on their groups."""

    def __init__(self, *, silent: float = 0.0) -> None:
        rng = np.random.default_rng(5)
        shares = [0.5, 0.35 - silent, 0.15, silent]
        self.labels = [rng.choice([0, 1, 2, -1], N, p=shares), rng.choice([0, 1], N, p=[0.7, 0.3])]
        self.bot = np.array([rng.choice(3, 2, replace=False) for _ in range(N)])
        strict = rng.normal(size=(N, 1)) * 0.7
        self.y = 3 + 0.5 * self.bot * (1 + self.labels[0][:, None]) + strict + rng.normal(size=(N, 2))

    def means(self, who: np.ndarray) -> WeightedMeans:
        margins = margins_of([labels[who] for labels in self.labels])
        y, rater = self.y[who].ravel(), np.repeat(np.arange(len(who)), 2)
        fit = fit_bots(y, self.bot[who].ravel(), rater)
        return weighted_means(fit, y, rake(margins, most=np.inf), margins)


def test_weights_are_those_of_ipfn() -> None:
    labels = Sample().labels
    raked = rake(margins_of(labels), most=np.inf)
    cells = np.zeros((3, 2))
    np.add.at(cells, tuple(labels), 1.0)
    fitted = ipfn(cells.copy(), [share * N for share in SHARES], [[0], [1]], convergence_rate=1e-12).iteration()
    np.testing.assert_allclose(raked.weights, (fitted / cells)[tuple(labels)], rtol=1e-6)
    assert raked.is_converged
    assert (raked.n_trimmed, raked.weights.mean()) == (0, pytest.approx(1))
    assert raked.design_effect == pytest.approx(1 + np.var(raked.weights))  # Kish: 1 + the squared variation


def test_equal_shares_change_nothing() -> None:
    sample = Sample()
    margins = [
        RakingMargin(codes, np.bincount(codes) / N, np.zeros(N), np.zeros(len(shares)))
        for codes, shares in zip(sample.labels, SHARES, strict=True)
    ]
    raked, rater = rake(margins), np.repeat(np.arange(N), 2)
    np.testing.assert_allclose(raked.weights, 1)
    fit = fit_bots(sample.y.ravel(), sample.bot.ravel(), rater)
    np.testing.assert_allclose(weighted_means(fit, sample.y.ravel(), raked, margins).means, fit.means)


def test_large_weights_are_cut_and_told() -> None:
    group = np.repeat([0, 1], [98, 2])
    raked = rake([RakingMargin(group, np.array([0.5, 0.5]), np.zeros(100), np.zeros(2))], most=5.0)
    assert raked.n_trimmed == 2
    assert raked.weights.max() == 5
    assert raked.gap == pytest.approx(0.5 - np.average(group, weights=raked.weights))


def test_groups_without_raters_or_shares_are_refused() -> None:
    margin = RakingMargin(np.zeros(3, dtype=int), np.array([0.5, 0.5]), np.zeros(3), np.zeros(2))
    for margins in ([], [margin]):
        with pytest.raises(ValueError, match="question"):
            rake(margins)
    other = RakingMargin(np.array([0, 1, 1]), np.array([0.2, 0.8]), np.zeros(3), np.zeros(2))
    opposite = RakingMargin(np.array([0, 1, 1]), np.array([0.7, 0.3]), np.zeros(3), np.zeros(2))
    assert not rake([other, opposite]).is_converged


def test_one_bot_has_the_error_of_a_poststratified_mean() -> None:
    """Ratings of one bot, one question: Taylor's formula is the sum over strata of p² s² / n, here by hand."""
    rng = np.random.default_rng(2)
    group, shares = np.repeat([0, 1], [60, 20]), np.array([0.4, 0.6])
    y = rng.normal(group, 1.0 + group)
    margin = RakingMargin(group, shares, np.zeros(80), np.zeros(2))
    result = weighted_means(fit_bots(y, np.zeros(80, dtype=int), np.arange(80)), y, rake([margin]), [margin])
    strata = [y[group == g] for g in (0, 1)]
    assert result.means[0] == pytest.approx(sum(p * each.mean() for p, each in zip(shares, strata, strict=True)))
    by_hand = sum(p**2 * each.var() / len(each) for p, each in zip(shares, strata, strict=True))
    assert result.spread(np.ones(1))[0] == pytest.approx(by_hand * 80 / 78)


def test_errors_are_those_of_a_bootstrap_that_rakes_again() -> None:
    sample, rng = Sample(silent=0.1), np.random.default_rng(0)
    result = sample.means(np.arange(N))
    draws = np.array([sample.means(rng.integers(0, N, N)).means for _ in range(200)])
    for toward in (*np.eye(3), np.array([1.0, -1.0, 0.0])):
        variance, df = result.spread(toward)
        assert np.sqrt(variance) == pytest.approx((draws @ toward).std(ddof=1), rel=0.13)
        assert 10 < df < N


def test_design_effect_of_two_kinds_of_weights() -> None:
    assert design_effect(np.array([1.0, 1.0, 1.0])) == 1
    assert design_effect(np.array([1.0, 3.0])) == pytest.approx(1.25)
