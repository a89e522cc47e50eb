"""Numbers derived from the published tables of Ghandeharioun et al. (2019), arXiv 1906.09308.

Tables 2 and 3 give twelve bots' mean human ratings and automatic metrics. The correlations below were
derived from them independently of this code (three decimals).
"""

import numpy as np
import pytest

from evaluation.stats.bradley_terry import bradley_terry
from evaluation.stats.correlation import correlate, within_groups

CORPUS = ["cornell"] * 6 + ["reddit"] * 6
"""Order of the bots: HRED, HRED-EI, VHRED, VHRED-EI, VHCR, VHCR-EI on Cornell, then on Reddit."""


def row(numbers: str) -> list[float]:
    """Return one row of a table, in the order of the bots."""
    return [float(number) for number in numbers.split()]


HUMAN = {  # Table 2
    "quality": row("2.182 2.347 2.022 2.333 2.132 2.548 2.527 2.714 2.694 2.864 2.615 2.692"),
    "fluency": row("3.909 4.000 3.109 3.949 2.679 3.976 4.436 4.786 4.250 4.477 3.923 4.308"),
    "diversity": row("2.836 2.735 3.565 4.385 3.755 4.238 3.418 3.554 5.00 4.705 4.436 4.231"),
    "contingency": row("2.200 2.469 2.261 2.487 2.189 2.571 2.382 2.536 2.472 2.773 2.077 2.692"),
    "empathy": row("2.673 2.490 2.739 2.564 2.340 2.714 3.018 3.107 3.000 3.341 2.974 3.288"),
}
AUTOMATIC = {  # Table 3
    "ppl": row("52.311 47.636 49.414 50.526 61.000 49.243 41.730 41.245 36.240 35.510 36.736 37.198"),
    "avg": row("0.471 0.560 0.539 0.545 0.532 0.588 0.649 0.651 0.635 0.636 0.619 0.639"),
    "ext": row("0.329 0.383 0.352 0.355 0.345 0.369 0.394 0.398 0.383 0.392 0.371 0.394"),
    "grd": row("0.331 0.400 0.395 0.394 0.382 0.444 0.474 0.482 0.464 0.465 0.448 0.469"),
}


@pytest.mark.parametrize(
    ("metric", "quality", "empathy"),
    [("ppl", -0.854, -0.897), ("avg", 0.866, 0.789), ("ext", 0.820, 0.720), ("grd", 0.855, 0.776)],
)
def test_automatic_metrics_against_mean_ratings(metric, quality, empathy):
    for dimension, expected in (("quality", quality), ("empathy", empathy)):
        result = correlate(AUTOMATIC[metric], HUMAN[dimension], interval="fisher")
        assert result.r == pytest.approx(expected, abs=0.0006)
        assert result.p < 0.05  # |r| > .576 for n = 12


def test_knowing_the_corpus_does_as_well():
    reddit = [float(corpus == "reddit") for corpus in CORPUS]
    assert correlate(reddit, HUMAN["quality"]).r == pytest.approx(0.833, abs=0.0006)
    assert correlate(reddit, HUMAN["empathy"]).r == pytest.approx(0.884, abs=0.0006)


@pytest.mark.parametrize(("metric", "expected"), [("ppl", -0.452), ("avg", 0.502), ("ext", 0.506), ("grd", 0.516)])
def test_within_the_corpora_little_is_left(metric, expected):
    result = within_groups(AUTOMATIC[metric], HUMAN["quality"], CORPUS, interval="fisher")
    assert result.r == pytest.approx(expected, abs=0.0006)
    assert result.p > 0.05


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("quality", "fluency", 0.818),
        ("quality", "diversity", 0.582),
        ("quality", "contingency", 0.643),
        ("quality", "empathy", 0.823),
        ("fluency", "diversity", 0.173),
        ("fluency", "contingency", 0.610),
        ("fluency", "empathy", 0.729),
        ("diversity", "contingency", 0.346),
        ("diversity", "empathy", 0.459),
        ("contingency", "empathy", 0.542),
    ],
)
def test_dimensions_among_themselves(a, b, expected):
    assert correlate(HUMAN[a], HUMAN[b]).r == pytest.approx(expected, abs=0.0006)


def test_the_threshold_of_significance_for_twelve_bots():
    """Two-sided .05 for n = 12: |r| > .576."""
    x = np.arange(12.0)
    noise = np.array([1, -1, -1, 1] * 3, dtype=float)  # little relation to x
    for weight in np.linspace(0.0, 60.0, 400):
        result = correlate(x, x + weight * noise, interval="fisher")
        assert (result.p < 0.05) == (abs(result.r) > 0.576) or abs(abs(result.r) - 0.576) < 0.0005


ONE_TURN_QUALITY = {  # Tables 4 and 6: EI against baseline, wins, losses and ties in %: Cornell, then Reddit
    "HRED": (row("40.8 24.5 34.8"), row("31.3 29.5 39.3")),
    "VHRED": (row("36.9 36.6 26.6"), row("39.0 34.0 27.0")),
    "VHCR": (row("33.0 29.0 38.0"), row("33.7 27.3 39.0")),
}


@pytest.mark.parametrize("model", ONE_TURN_QUALITY)
@pytest.mark.parametrize("corpus", [0, 1])
def test_bradley_terry_with_ties_gives_back_the_one_turn_quality(model, corpus):
    """Of two bots Davidson's model has as many parameters as there are shares: it must fit them exactly."""
    counts = np.round(np.array(ONE_TURN_QUALITY[model][corpus]) * 10).astype(int)  # thousandths
    outcomes = np.repeat([1.0, 0.0, 0.5], counts)
    result = bradley_terry(["EI"] * counts.sum(), ["plain"] * counts.sum(), outcomes)
    assert result.probabilities("EI", "plain") == pytest.approx(tuple(counts / counts.sum()), abs=1e-7)
    (pair,) = result.comparisons
    assert pair.difference == pytest.approx(np.log(counts[0] / counts[1]))
