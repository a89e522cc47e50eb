"""The alternative-annotator test against a direct loop over the paper's definition, and what it cannot be made of."""

import numpy as np
import pytest
from scipy import stats

from evaluation.agreement.judges.alternative_test import ClusteredMean, alternative_test
from tests.evaluation.agreement.judges.fake_judge import crowd, gold_of


def direct(ratings, scores, epsilon, score):
    """Return (ρ^f, p) of each annotator, and ω, by loops over annotators and instances, as the paper has it."""
    results = []
    for j in range(ratings.shape[1]):
        judge, own = [], []
        for i in range(len(ratings)):
            others = [ratings[i, k] for k in range(ratings.shape[1]) if k != j and np.isfinite(ratings[i, k])]
            if not others or not np.isfinite(ratings[i, j]):
                continue
            s_f, s_j = score(scores[i], others), score(ratings[i, j], others)
            judge.append(float(s_f >= s_j))
            own.append(float(s_j >= s_f))
        p = stats.ttest_1samp(np.subtract(own, judge), epsilon, alternative="less").pvalue
        results.append((np.mean(judge), p))
    order = np.argsort([p for _rho, p in results])
    m = len(results)
    harmonic = sum(1 / k for k in range(1, m + 1))
    passing = [k for k in range(m) if results[order[k]][1] <= (k + 1) * 0.05 / (m * harmonic)]
    wins = (max(passing) + 1 if passing else 0) / m
    return results, wins


def rmse(own, others):
    return -round(float(np.sqrt(np.mean([(own - other) ** 2 for other in others]))), 9)


def accuracy(own, others):
    return float(np.mean([own == other for other in others]))


@pytest.mark.parametrize("error", [0.3, 0.9, 2.5])
def test_it_is_the_definition_of_the_paper_with_gaps_in_the_ratings(error):
    rng = np.random.default_rng(3)
    truth, ratings = crowd(80, 5, rng)
    ratings[rng.random(ratings.shape) < 0.2] = np.nan
    scores = np.clip(truth + rng.normal(0, error, 80), 1, 5)
    result = alternative_test(gold_of(ratings), scores, 0.15)
    expected, wins = direct(ratings, scores, 0.15, rmse)
    assert [annotator.advantage for annotator in result.annotators] == pytest.approx([rho for rho, _p in expected])
    assert [annotator.p for annotator in result.annotators] == pytest.approx([p for _rho, p in expected])
    assert result.winning_rate == pytest.approx(wins)
    assert result.advantage == pytest.approx(np.mean([rho for rho, _p in expected]))
    assert result.passes is (wins >= 0.5)
    assert result.passes is (error < 0.5)
    assert result.fails is (error > 1)
    reverse = [1 - annotator.p for annotator in result.annotators]
    assert [annotator.p_worse for annotator in result.annotators] == pytest.approx(reverse)


def test_on_a_scale_of_two_points_equal_answers_are_counted():
    rng = np.random.default_rng(4)
    truth, ratings = crowd(60, 4, rng)
    ratings = np.where(ratings > 3, 5.0, 1.0)
    scores = np.where(truth + rng.normal(0, 0.4, 60) > 3.4, 4.6, 1.2)
    result = alternative_test(gold_of(ratings), scores, 0.1)
    expected, wins = direct(ratings, np.where(scores > 3, 5.0, 1.0), 0.1, accuracy)
    assert [annotator.p for annotator in result.annotators] == pytest.approx([p for _rho, p in expected])
    assert result.winning_rate == pytest.approx(wins)


def test_too_few_raters_or_instances_leave_it_undefined_with_the_reason():
    rng = np.random.default_rng(5)
    truth, ratings = crowd(40, 3, rng)
    two = alternative_test(gold_of(ratings[:, :2]), truth, 0.1)
    assert (two.passes, two.winning_rate) == (None, None)
    assert "only 2 of 2 raters rated 30 instances together with others; 3 are needed" in two.reason
    few = alternative_test(gold_of(ratings[:29]), truth[:29], 0.1)
    assert few.passes is None
    assert few.annotators[0].reason.startswith("29 instances from 29 contexts")
    assert all(annotator.p is None for annotator in few.annotators)
    alone = np.full((90, 3), np.nan)
    alone[np.arange(90), np.arange(90) % 3] = 4
    assert alternative_test(gold_of(alone), np.full(90, 4.0), 0.1).n_tested == 0


def test_instances_of_one_context_count_as_one():
    values = np.repeat(np.random.default_rng(6).normal(0, 1, 12), 20)
    groups = np.repeat(np.arange(12), 20)
    expected = stats.ttest_1samp(values[::20], 0.4, alternative="less").pvalue
    assert ClusteredMean.from_groups(values, groups).p_below(0.4) == pytest.approx(expected)
    assert ClusteredMean.from_groups(np.zeros(40), np.arange(40)).p_below(0.1) == 0
    assert ClusteredMean.from_groups(np.ones(40), np.arange(40)).p_below(0.1) == 1


def test_a_judge_that_is_worse_by_epsilon_wins_rarely():
    rng = np.random.default_rng(7)
    n_won = 0
    for _ in range(200):  # d is 1, 0, −1 with a mean of ε: the hypothesis at its edge
        d = rng.choice([1.0, 0.0, -1.0], 60, p=[0.4, 0.35, 0.25])
        n_won += ClusteredMean.from_groups(d, np.arange(60)).p_below(0.15) <= 0.05
    assert n_won <= stats.binom.ppf(0.999, 200, 0.05)
    assert n_won >= stats.binom.ppf(0.001, 200, 0.05)
