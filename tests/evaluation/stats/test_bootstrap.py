"""Mean intervals against SciPy's bootstrap and Student's t."""

import numpy as np
import pytest
from scipy import stats

from evaluation.stats.bootstrap import Interval, mean_interval

rng = np.random.default_rng(0)


def test_agrees_with_scipys_percentile_bootstrap():
    values = rng.gamma(2.0, size=80)
    found = mean_interval(values, level=0.9, n=20_000)
    expected = stats.bootstrap(
        (values,), np.mean, confidence_level=0.9, n_resamples=20_000, method="percentile", rng=1
    ).confidence_interval
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(expected.low, abs=0.015)
    assert found.high == pytest.approx(expected.high, abs=0.015)
    assert found.n == 80


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
