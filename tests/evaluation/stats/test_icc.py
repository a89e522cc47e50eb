"""Intraclass correlations against Shrout and Fleiss (1979) and mean squares of statsmodels."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm

from evaluation.stats.icc import ICC_FORMS, icc
from tests.reference.ratings import SHROUT_FLEISS, SHROUT_FLEISS_ICC

NAN = float("nan")
rng = np.random.default_rng(3)


@pytest.mark.parametrize("form", ICC_FORMS)
def test_published_coefficients_and_intervals(form):
    value, low, high = SHROUT_FLEISS_ICC[form]
    found = icc(SHROUT_FLEISS, form)
    assert found.value == pytest.approx(value, abs=0.005)
    assert found.low == pytest.approx(low, abs=0.0006)
    assert found.high == pytest.approx(high, abs=0.006)
    assert (found.n_items, found.n_ratings) == (6, 24)


def test_one_way_with_gaps_is_the_analysis_of_variance():
    table = rng.normal(0, 1, (25, 1)) + rng.normal(0, 1, (25, 6))
    table[rng.random(table.shape) < 0.4] = NAN
    table = table[np.isfinite(table).sum(axis=1) >= 2]
    rows, columns = np.nonzero(np.isfinite(table))
    data = pd.DataFrame({"y": table[rows, columns], "item": rows})
    squares = anova_lm(smf.ols("y ~ C(item)", data).fit())["mean_sq"]
    sizes = data.groupby("item").size()
    k = (len(data) - (sizes**2).sum() / len(data)) / (len(sizes) - 1)
    b, w = squares["C(item)"], squares["Residual"]
    assert icc(table, "icc1_1").value == pytest.approx((b - w) / (b + (k - 1) * w))
    assert icc(table, "icc1_k").value == pytest.approx((b - w) / b)


def test_intervals_cover():
    """True ICC(2,1) = 1 / (1 + 1 + .5)."""
    inside = 0
    for _ in range(200):
        x = rng.normal(size=(30, 1)) + rng.normal(0, 0.5**0.5, (1, 8)) + rng.normal(size=(30, 8))
        found = icc(x, "icc2_1", level=0.9)
        inside += found.low <= 0.4 <= found.high
    assert 165 <= inside <= 195  # 180 expected


def test_reasons():
    assert "no variance to share" in icc(np.full((5, 3), 2.0), "icc1_1").reason
    assert "all the same" in icc(np.array([[1.0, 2.0], [1.0, 2.0]]), "icc3_k").reason
    gaps = np.array([[1.0, 2.0], [2.0, NAN], [4.0, 5.0]])
    assert "1 of 3 items lack a rating" in icc(gaps, "icc2_1").reason
    assert icc(gaps, "icc1_1").n_items == 2
    assert "1 items" in icc(np.array([[1.0, 2.0]]), "icc1_1").reason
    with pytest.raises(ValueError, match="icc4"):
        icc(gaps, "icc4")


def test_perfect_agreement_is_one():
    same = np.repeat([[1.0], [2.0], [5.0]], 4, axis=1)
    for form in ICC_FORMS:
        found = icc(same, form)
        assert found.value == pytest.approx(1.0)
        assert found.high == pytest.approx(1.0)
