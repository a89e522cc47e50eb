"""Mean intervals against SciPy's bootstrap and Student's t."""

import numpy as np
import pytest
from scipy import stats

from evaluation.stats.bootstrap import Interval, expanded, mean_interval

rng = np.random.default_rng(0)


def test_agrees_with_scipys_bootstrap_between_the_expanded_percentiles():
    values = rng.gamma(2.0, size=15)
    found = mean_interval(values, level=0.9, n=20_000)
    tail = stats.norm.cdf(np.sqrt(15 / 14) * stats.t.ppf(0.05, 14))
    expected = stats.bootstrap(
        (values,),
        np.mean,
        confidence_level=1 - 2 * tail,
        n_resamples=20_000,
        method="percentile",
        rng=1,
    ).confidence_interval
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(expected.low, abs=0.03)
    assert found.high == pytest.approx(expected.high, abs=0.03)
    assert found.n == 15


def test_many_units_need_no_expansion():
    assert expanded(0.9, 2_500) == pytest.approx((0.05, 0.95), abs=1e-4)


@pytest.mark.parametrize(("n_raters", "claims"), [(5, 0.88), (12, 0.9), (20, 0.9)])
def test_few_raters_cover_the_mean(n_raters: int, claims: float):
    """Raters with three ratings each: 300 studies, at least as many as it claims less two Monte-Carlo errors.

    With five raters it claims .88: resamples of so few have no far tails.
    """
    rng = np.random.default_rng(5)
    raters = np.repeat(np.arange(n_raters), 3)
    hits = 0
    for trial in range(300):
        values = rng.normal(0, 0.7, n_raters)[raters] + rng.normal(0, 0.7, len(raters))
        found = mean_interval(values, raters, n=500, seed=trial)
        hits += found.low <= 0.0 <= found.high
    assert hits / 300 >= claims - 2 * np.sqrt(claims * (1 - claims) / 300)


def test_groups_are_resampled_whole():
    people = rng.normal(size=50)
    alone = mean_interval(people, n=10_000)
    copies = mean_interval(np.repeat(people, 20), np.repeat(np.arange(50), 20), n=10_000)
    assert copies.mean == pytest.approx(alone.mean)
    assert copies.low == pytest.approx(alone.low, abs=0.02)
    assert copies.high == pytest.approx(alone.high, abs=0.02)


def test_groups_of_unequal_size_cover_the_mean():
    """Over many samples a 90 % interval of 60 unequal groups holds the true mean about 90 % of times."""
    hits = 0
    for trial in range(200):
        sizes = rng.integers(1, 6, size=60)
        groups = np.repeat(np.arange(60), sizes)
        values = np.repeat(rng.normal(size=60), sizes) + rng.normal(size=len(groups))
        found = mean_interval(values, groups, n=400, seed=trial)
        hits += found.low <= 0.0 <= found.high
    assert 165 <= hits <= 195


@pytest.mark.parametrize(
    ("values", "groups", "expected"),
    [
        ([], None, Interval(None, None, None, 0, "no value")),
        ([np.nan, np.inf], None, Interval(None, None, None, 0, "no value")),
        ([2.0, np.nan], None, Interval(2.0, None, None, 1, "one value: no interval")),
        (
            [2.0, 4.0],
            ["p", "p"],
            Interval(3.0, None, None, 2, "all values of one group: no interval"),
        ),
    ],
)
def test_undefined_has_a_reason(values, groups, expected):
    assert mean_interval(values, groups) == expected


def test_constant_values_have_an_interval_of_no_width():
    assert mean_interval([3.0, 3.0, 3.0]) == Interval(3.0, 3.0, 3.0, 3)


def test_same_seed_same_interval():
    values = rng.normal(size=20)
    assert mean_interval(values, seed=1) == mean_interval(values, seed=1)
    assert mean_interval(values, seed=1) != mean_interval(values, seed=2)


def test_with_many_units_the_interval_is_what_resampling_gives(monkeypatch):
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(2_600), rng.integers(1, 4, 2_600))
    values = rng.normal(size=2_600)[groups] + rng.normal(size=len(groups)) + 0.3 * (groups % 3)
    quick = mean_interval(values, groups.tolist())
    monkeypatch.setattr("evaluation.stats.bootstrap.BOOTSTRAP_LIMIT", 10_000)
    resampled = mean_interval(values, groups.tolist(), n=4000)
    assert quick.mean == resampled.mean
    width = resampled.high - resampled.low
    assert quick.low == pytest.approx(resampled.low, abs=0.05 * width)
    assert quick.high == pytest.approx(resampled.high, abs=0.05 * width)
