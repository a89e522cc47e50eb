"""Kappas, alpha and intraclass correlations against published examples, other programs and plain loops."""

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats import inter_rater
from statsmodels.stats.anova import anova_lm

from evaluation.stats.agreement import (
    cohen_kappa,
    fleiss_kappa,
    gwet_ac,
    krippendorff_alpha,
    pairwise_kappa,
    rating_table,
)
from evaluation.stats.icc import ICC_FORMS, icc
from tests.reference import ratings as published
from tests.reference.ratings import SHROUT_FLEISS, SHROUT_FLEISS_ICC

NAN = float("nan")
rng = np.random.default_rng(2)


def from_counts(table: np.ndarray) -> tuple[list[int], list[int]]:
    """Return two raters' codes with this table of counts."""
    pairs = [(i, j) for i, j in np.ndindex(table.shape) for _ in range(table[i, j])]
    first, second = zip(*pairs, strict=True)
    return list(first), list(second)


def labels_from_counts(counts: np.ndarray) -> np.ndarray:
    return np.array([np.repeat(np.arange(counts.shape[1]), row) for row in counts], dtype=float)


# Cohen's kappa


def test_cohens_kappa_as_published_and_its_error_is_the_asymptotic_one():
    result = cohen_kappa(*from_counts(published.COHEN_TABLE))
    assert result.value == pytest.approx(published.COHEN_KAPPA, abs=0.0005)
    asymptotic = inter_rater.cohens_kappa(published.COHEN_TABLE)
    assert asymptotic.var_kappa == pytest.approx(published.COHEN_VARIANCE, abs=1e-6)
    assert result.low == pytest.approx(asymptotic.kappa_low, abs=0.01)
    assert result.high == pytest.approx(asymptotic.kappa_upp, abs=0.01)
    assert (result.n_items, result.n_ratings) == (200, 400)


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_cohens_kappa_is_scikit_learns(weights):
    first = rng.integers(1, 6, 80)
    second = np.clip(first + rng.integers(-2, 3, 80), 1, 5)
    result = cohen_kappa(first, second, weights)
    assert result.value == pytest.approx(cohen_kappa_score(first, second, weights=weights))
    assert result.low < result.value < result.high


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_kappas_of_one_pair_and_of_all_pairs_are_statsmodels(weights):
    """The value of one pair is made by statsmodels; those of many pairs and of the jackknife by a matrix product."""
    first, second = np.random.default_rng(5).integers(1, 6, size=(2, 40))
    second[:15] = first[:15]
    counts = np.zeros((5, 5))
    np.add.at(counts, (first - 1, second - 1), 1)
    expected = inter_rater.cohens_kappa(counts, wt=weights, return_results=False)
    assert cohen_kappa(first, second, weights).value == pytest.approx(expected, abs=1e-12)
    ((_i, _j, many),) = pairwise_kappa(np.column_stack([first, second]).astype(float), weights=weights).kappas
    assert many == pytest.approx(expected, abs=1e-12)


def test_weights_keep_the_place_of_points_nobody_used():
    first, second = [1, 2, 7, 7, 1, 2], [1, 7, 7, 2, 2, 1]
    expected = cohen_kappa_score(first, second, weights="linear", labels=list(range(1, 8)))
    assert cohen_kappa(first, second, "linear").value == pytest.approx(expected)


def test_certain_agreement_is_undefined_not_one():
    result = cohen_kappa([5, 5, 5], [5, 5, 5])
    assert (result.value, result.low) == (None, None)
    assert result.reason == "both raters gave only 5, so agreement is certain"
    # One rater who varies makes chance agreement uncertain: kappa is 0, as it should be.
    assert cohen_kappa([5, 5, 5, 5], [5, 4, 5, 4]).value == pytest.approx(0.0)


def test_items_that_one_rater_left_out_are_left_out():
    result = cohen_kappa(["a", None, "b", "a"], ["a", "b", "b", "b"])
    assert result.n_items == 3
    assert result.value == pytest.approx(cohen_kappa_score(list("aba"), list("abb")))
    assert "1 items rated by both" in cohen_kappa([1.0, NAN], [2.0, 3.0]).reason


def test_label_weights_are_refused():
    with pytest.raises(ValueError, match="need numbers"):
        cohen_kappa(["a", "b"], ["b", "a"], "linear")


def test_pairwise_kappas_and_their_median():
    truth = rng.integers(0, 3, 60)
    columns = [np.where(rng.random(60) < p, rng.integers(0, 3, 60), truth) for p in (0.1, 0.4, 0.7, 0.2)]
    table = np.array(columns, dtype=float).T
    table[:50, 3] = NAN
    result = pairwise_kappa(table, min_items=20)
    expected = {(i, j): cohen_kappa_score(table[:, i], table[:, j]) for i, j in itertools.combinations(range(3), 2)}
    assert {(i, j): pytest.approx(kappa) for i, j, kappa in result.kappas} == expected
    assert result.median == pytest.approx(np.median(list(expected.values())))
    assert result.low < result.median < result.high
    assert "shares 61 items" in pairwise_kappa(table, min_items=61).reason


# Fleiss' kappa


def test_fleiss_kappa_as_published():
    result = fleiss_kappa(labels_from_counts(published.FLEISS_COUNTS))
    assert result.value == pytest.approx(published.FLEISS_KAPPA, abs=0.0005)
    assert result.low < result.value < result.high


def test_fleiss_kappa_is_statsmodels():
    counts = rng.multinomial(5, [0.2, 0.5, 0.3], size=40)
    expected = inter_rater.fleiss_kappa(counts)
    assert fleiss_kappa(labels_from_counts(counts)).value == pytest.approx(expected)


def test_fleiss_kappa_needs_two_items():
    counts = np.array([[3, 1], [1, 3]])
    assert fleiss_kappa(labels_from_counts(counts)).value == pytest.approx(inter_rater.fleiss_kappa(counts))
    alone = fleiss_kappa(labels_from_counts(counts[:1]))
    assert alone.value is None
    assert alone.reason


def test_fleiss_kappa_where_all_agree():
    assert "agreement is certain" in fleiss_kappa(np.full((6, 3), 4.0)).reason
    two = np.repeat([[1.0], [2.0]], 3, axis=1)
    assert fleiss_kappa(np.vstack([two, two])).value == pytest.approx(1.0)


# Krippendorff's alpha


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
def test_alpha_as_published(scale):
    result = krippendorff_alpha(published.KRIPPENDORFF, scale)
    assert result.value == pytest.approx(published.KRIPPENDORFF_ALPHA[scale], abs=0.0005)
    assert (result.n_items, result.n_ratings) == (11, 40)
    assert result.low < result.value < result.high


def test_alpha_of_the_two_observer_examples():
    binary = krippendorff_alpha(published.KRIPPENDORFF_BINARY, "nominal")
    assert binary.value == pytest.approx(published.KRIPPENDORFF_BINARY_ALPHA, abs=0.0005)
    nominal = krippendorff_alpha(published.KRIPPENDORFF_NOMINAL, "nominal")
    assert nominal.value == pytest.approx(published.KRIPPENDORFF_NOMINAL_ALPHA, abs=0.0005)


def plain_alpha(table: np.ndarray, scale: str) -> float:
    """Compute alpha by its definition, pair by pair."""
    units = [row[np.isfinite(row)] for row in table]
    units = [unit for unit in units if len(unit) > 1]
    pool = np.concatenate(units)

    def apart(a: float, b: float) -> float:
        if scale == "nominal":
            return float(a != b)
        if scale == "interval":
            return (a - b) ** 2
        low, high = min(a, b), max(a, b)
        between = ((pool >= low) & (pool <= high)).sum()
        return (between - ((pool == low).sum() + (pool == high).sum()) / 2) ** 2 * (a != b)

    observed = sum(apart(a, b) / (len(unit) - 1) for unit in units for a, b in itertools.permutations(unit, 2)) / len(
        pool
    )
    expected = sum(apart(a, b) for a, b in itertools.permutations(pool, 2))
    return 1 - observed / (expected / (len(pool) * (len(pool) - 1)))


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
def test_alpha_is_its_definition(scale):
    table = np.round(rng.normal(5, 1, (12, 1)) + rng.normal(0, 1, (12, 4)))
    table[rng.random(table.shape) < 0.3] = NAN
    assert krippendorff_alpha(table, scale).value == pytest.approx(plain_alpha(table, scale))


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
def test_the_interval_is_the_jackknifes_on_fishers_scale(scale):
    n, m = 14, 3
    table = np.round(rng.normal(4, 1, (n, 1)) + rng.normal(0, 0.8, (n, m)))
    result = krippendorff_alpha(table, scale)
    without = [plain_alpha(np.delete(table, i, axis=0), scale) for i in range(n)]
    # z, its slope by small differences, and the degrees of freedom of a variance with this excess.
    z = lambda k: np.log((1 + (m - 1) * k) / (1 - k)) / 2  # noqa: E731
    slope = (z(result.value + 1e-6) - z(result.value - 1e-6)) / 2e-6
    error = np.sqrt((n - 1) / n * np.sum((without - np.mean(without)) ** 2))
    df = min(n - 1, 2 * n / (stats.kurtosis(without, bias=False) + 2))
    half = stats.t.ppf(0.975, df) * error * slope
    assert z(result.low) == pytest.approx(z(result.value) - half, abs=1e-4)
    assert z(result.high) == pytest.approx(z(result.value) + half, abs=1e-4)
    assert result.interval == "jackknife over 14 items"


def test_of_very_many_items_groups_are_left_out():
    truth = rng.integers(0, 3, (5000, 1))
    table = np.where(rng.random((5000, 2)) < 0.4, rng.integers(0, 3, (5000, 2)), truth)
    result = cohen_kappa(table[:, 0], table[:, 1])
    counts, _ = np.histogramdd(table, bins=[3, 3], range=[(-0.5, 2.5)] * 2)
    expected = inter_rater.cohens_kappa(counts)
    assert result.low == pytest.approx(expected.kappa_low, abs=0.003)
    assert result.high == pytest.approx(expected.kappa_upp, abs=0.003)


def test_what_tells_too_little_has_no_interval_and_says_why():
    two = np.repeat([[1.0], [2.0]], 3, axis=1)
    for table, code in (
        (np.vstack([two] * 4), "few_items_for_interval"),
        (np.vstack([two] * 8), "no_disagreement"),
        (np.vstack([two[:1]] * 30 + [[[1.0, 1.0, 2.0]]]), "few_other_answers"),
    ):
        for result in (fleiss_kappa(table), krippendorff_alpha(table, "nominal")):
            assert result.value is not None
            assert (result.low, result.high, result.reason.code) == (None, None, code)
    few = np.round(rng.normal(4, 1, (19, 1)) + rng.normal(0, 0.8, (19, 3)))
    assert pairwise_kappa(few, min_items=5).reason.code == "few_items_for_interval"


@pytest.mark.parametrize(("n_raters", "level"), [(2, 0.3), (4, 0.6), (2, 0.9)])
def test_intervals_of_ten_items_hold_what_they_claim(n_raters, level):
    """Raters know the answer, or guess with the same frequencies; 300 studies, three Monte-Carlo standard errors."""
    own = np.random.default_rng(4)
    held, of = 0, 0
    for _ in range(300):
        truth = own.choice(3, size=(10, 1), p=[0.5, 0.3, 0.2])
        guess = own.choice(3, size=(10, n_raters), p=[0.5, 0.3, 0.2])
        table = np.where(own.random((10, n_raters)) < 1 - level**0.5, guess, truth)
        for result in (fleiss_kappa(table), krippendorff_alpha(table, "nominal")):
            if result.low is not None:
                held, of = held + (result.low <= level <= result.high), of + 1
    assert of > 100
    assert held / of > 0.95 - 3 * (0.95 * 0.05 / (of / 2)) ** 0.5


# Gwet's example of four raters and twelve items, of which R's irrCAC gives AC1 = .77544.
_FOUR_RATERS = np.array(
    [
        *([1, 1, NAN, 1], [2, 2, 3, 2], [3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2], [1, 2, 3, 4]),
        *([4, 4, 4, 4], [1, 1, 2, 1], [2, 2, 2, 2], [NAN, 5, 5, 5], [NAN, NAN, 1, 1], [NAN, NAN, 3, NAN]),
    ]
)


@pytest.mark.parametrize(("weights", "power"), [(None, 0), ("linear", 1), ("quadratic", 2)])
def test_gwets_coefficient_is_that_of_its_formula(weights, power):
    categories = [1, 2, 3, 4, 5, 6]  # nobody gave the last

    def alike(a, b):
        return float(a == b) if not power else 1 - (abs(a - b) / 5) ** power

    items = [[one for one in row if one == one] for row in _FOUR_RATERS]
    shares = [np.mean([row.count(k) / len(row) for row in items]) for k in categories]
    pairs = [[alike(a, b) for i, a in enumerate(row) for j, b in enumerate(row) if i != j] for row in items]
    observed = np.mean([np.mean(pair) for pair in pairs if pair])
    total = sum(alike(a, b) for a in categories for b in categories)
    by_chance = total / (6 * 5) * sum(share * (1 - share) for share in shares)
    result = gwet_ac(_FOUR_RATERS, weights, categories=categories)
    assert result.value == pytest.approx((observed - by_chance) / (1 - by_chance))
    assert (result.n_items, result.n_ratings) == (11, 41)
    assert result.low < result.value < result.high


def test_gwets_coefficient_as_published_and_where_nearly_all_answers_are_the_same():
    assert gwet_ac(_FOUR_RATERS).value == pytest.approx(0.77544, abs=5e-6)
    table = np.ones((40, 2))
    table[:2, 0] = table[1:3, 1] = 0
    assert fleiss_kappa(table).value < 0.5
    result = gwet_ac(table)
    assert result.value > 0.9
    assert result.low is not None, "skewed answers leave it an interval"
    assert gwet_ac(np.ones((40, 2)), categories=[0, 1]).value == 1
    assert gwet_ac(np.ones((40, 2))).reason == "all ratings are equal, so agreement is certain"
    assert gwet_ac(_FOUR_RATERS[:3]).reason.code == "few_items_for_interval"


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
def test_alpha_where_all_raters_agreed(scale):
    result = krippendorff_alpha(np.full((8, 3), 7.0), scale)
    assert result.value is None
    assert result.reason == "all ratings are equal, so agreement is certain"
    assert "1 items" in krippendorff_alpha([[1.0, 2.0], [3.0, NAN]], scale).reason


# Tables


def test_rating_table():
    table = rating_table([1, 2, 3], ["x", "y", "x"], ["b", "a", "a"])
    np.testing.assert_array_equal(table, [[3, 1], [2, NAN]])
    places = rating_table([1, 2, 3], ["x", "y", "x"])
    np.testing.assert_array_equal(places, [[1, 3], [2, NAN]])
    with pytest.raises(ValueError, match="item 'x' is rated twice by 'a'"):
        rating_table([1, 2], ["x", "x"], ["a", "a"])


def test_of_very_many_pairs_of_raters_a_sample_is_compared() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 5, size=(30, 1))
    table = np.clip(truth + rng.integers(-1, 2, size=(30, 60)), 0, 4).astype(float)
    every = pairwise_kappa(table, most_pairs=10_000, n_bootstrap=50)
    drawn = pairwise_kappa(table, n_bootstrap=50)
    assert len(every.kappas) == 60 * 59 // 2
    assert len(drawn.kappas) == len(set(drawn.kappas)) == 1000
    assert set(drawn.kappas) < set(every.kappas)
    assert drawn.median == pytest.approx(every.median, abs=0.02)
    alone = np.full((100, 6000), np.nan)
    alone[np.arange(100), np.arange(100)] = 1
    assert pairwise_kappa(alone, n_bootstrap=5).reason is not None


icc_rng = np.random.default_rng(3)


@pytest.mark.parametrize("form", ICC_FORMS)
def test_published_coefficients_and_intervals(form):
    value, low, high = SHROUT_FLEISS_ICC[form]
    result = icc(SHROUT_FLEISS, form)
    assert result.value == pytest.approx(value, abs=0.005)
    assert result.low == pytest.approx(low, abs=0.0006)
    assert result.high == pytest.approx(high, abs=0.006)
    assert (result.n_items, result.n_ratings) == (6, 24)


def test_one_way_with_gaps_is_the_analysis_of_variance():
    table = icc_rng.normal(0, 1, (25, 1)) + icc_rng.normal(0, 1, (25, 6))
    table[icc_rng.random(table.shape) < 0.4] = NAN
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
        x = icc_rng.normal(size=(30, 1)) + icc_rng.normal(0, 0.5**0.5, (1, 8)) + icc_rng.normal(size=(30, 8))
        result = icc(x, "icc2_1", level=0.9)
        inside += result.low <= 0.4 <= result.high
    assert 165 <= inside <= 195  # 180 expected


def test_reasons():
    assert "so there is no variance" in icc(np.full((5, 3), 2.0), "icc1_1").reason
    assert "all items have the same mean" in icc(np.array([[1.0, 2.0], [1.0, 2.0]]), "icc3_k").reason
    gaps = np.array([[1.0, 2.0], [2.0, NAN], [4.0, 5.0]])
    assert "1 of 3 items lack a rating" in icc(gaps, "icc2_1").reason
    assert icc(gaps, "icc1_1").n_items == 2
    assert "1 items" in icc(np.array([[1.0, 2.0]]), "icc1_1").reason
    with pytest.raises(ValueError, match="icc4"):
        icc(gaps, "icc4")


def test_perfect_agreement_is_one():
    same = np.repeat([[1.0], [2.0], [5.0]], 4, axis=1)
    for form in ICC_FORMS:
        result = icc(same, form)
        assert result.value == pytest.approx(1.0)
        assert result.high == pytest.approx(1.0)
