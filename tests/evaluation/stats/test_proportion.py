"""The interval of a share is Wilson's; a planned interval is narrower the more raters are planned."""

from __future__ import annotations

import pytest
from statsmodels.stats.proportion import proportion_confint

from evaluation.stats.means import share_interval
from evaluation.stats.sequential import half_planned, mean_always


@pytest.mark.parametrize(("k", "n"), [(0, 7), (1, 4), (11, 128), (30, 30)])
def test_the_interval_of_a_share_is_wilsons(k: int, n: int) -> None:
    assert share_interval(k, n) == pytest.approx(proportion_confint(k, n, method="wilson"))


def test_no_share_without_people_nor_beyond_all_of_them() -> None:
    assert share_interval(0, 0) is None
    with pytest.raises(ValueError, match="5 of 3 is no share"):
        share_interval(5, 3)


def test_a_planned_interval_is_what_as_many_raters_give() -> None:
    few, many = [3.0, 5.0] * 20, [3.0, 5.0] * 80
    now, then = (mean_always(values, low=-1e3, high=1e3) for values in (few, many))
    planned = half_planned(now.high - now.mean, 40, 160)
    assert half_planned(now.high - now.mean, 40, 40) == pytest.approx(now.high - now.mean)
    assert planned < now.high - now.mean
    assert then.high - then.mean < now.high - now.mean
    with pytest.raises(ValueError, match="both must be more than 0"):
        half_planned(1, 0, 10)
