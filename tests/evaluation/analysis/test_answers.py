"""Shares of answers of each bot, and of approving ones."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import softmax
from statsmodels.stats.proportion import proportion_confint

from evaluation.analysis.answers import approval, dimension_answers, scale_steps, softmax_weights
from evaluation.analysis.correlations import dimension_matrix
from evaluation.ratings import RatingDimension, Ratings


def frame() -> pd.DataFrame:
    """Make ratings of two bots, four conversations each, by one to three of five people, on two questions."""
    rng = np.random.default_rng(3)
    rows = []
    for bot, level in {"a": 5, "b": 3}.items():
        for n in range(4):
            for rater in rng.choice(5, 1 + n % 3, replace=False):
                given = np.clip(level + rng.integers(-2, 3, 2), 1, 7).astype(float)
                rows.append((f"{bot}{n}", bot, f"w{rater}", *given.tolist()))
    return pd.DataFrame(rows, columns=["conversation", "bot", "rater", "quality", "fluency"])


def read(table: pd.DataFrame) -> Ratings:
    return Ratings.from_frame(table, ["quality", "fluency"], scale=(1, 7))


def test_counts_are_those_of_the_answers_and_the_best_bot_stands_first() -> None:
    table = frame()
    found = dimension_answers(read(table), "fluency", ["b", "a", "silent"])
    assert found.steps == (1, 2, 3, 4, 5, 6, 7)
    means = table.groupby("bot")["fluency"].mean()
    assert [bot.bot for bot in found.bots] == [*means.sort_values(ascending=False).index, "silent"]
    for bot in found.bots[:2]:
        given = table[table["bot"] == bot.bot]["fluency"]
        assert bot.counts == tuple((given == step).sum() for step in found.steps)
        assert bot.mean == pytest.approx(given.mean())
        assert bot.n == len(given)
    assert (found.bots[2].mean, found.bots[2].n) == (None, 0)


def test_raters_of_one_conversation_differ_by_the_mean_over_their_pairs() -> None:
    table = frame()
    found = dimension_answers(read(table)).shared
    within = []
    for _name, group in table.groupby("conversation")["quality"]:
        if len(group) > 1:
            within.append(np.mean([abs(x - y) for x, y in combinations(group, 2)]))
    assert found.n_conversations == len(within) == 4
    assert found.difference == pytest.approx(np.mean(within))
    strangers = [abs(x - y) for x, y in combinations(table["quality"], 2)]
    assert found.by_chance == pytest.approx(np.mean(strangers))


def test_without_a_shared_conversation_nothing_is_said() -> None:
    found = dimension_answers(read(frame().drop_duplicates("conversation"))).shared
    assert (found.n_conversations, found.difference, found.by_chance) == (0, None, None)


def test_steps_are_whole_points_or_the_values_seen_or_equal_distances() -> None:
    seen = np.array([0.5, 0.25, np.nan, 0.5])
    assert scale_steps(RatingDimension("q", "Q", 0, 0.5), seen) == (0.25, 0.5)
    assert scale_steps(RatingDimension("q", "Q", 1, 3), seen) == (1, 2, 3)
    many = np.arange(0, 100.0)
    assert scale_steps(RatingDimension("q", "Q", 0, 100), many) == tuple(float(v) for v in range(0, 101, 10))


def test_what_lies_between_two_steps_counts_for_the_nearer() -> None:
    table = pd.DataFrame({"conversation": ["x", "y"], "bot": "a", "rater": ["u", "v"], "quality": [1.4, 2.6]})
    found = dimension_answers(Ratings.from_frame(table, ["quality"], scale=(1, 3)))
    assert found.bots[0].counts == (1, 0, 1)


def test_dimensions_move_together_as_scipy_says() -> None:
    table = frame()
    matrix = dimension_matrix(read(table))
    means = table.groupby("conversation")[["quality", "fluency"]].mean()
    found = matrix.cells[0, 1]
    assert found.r == pytest.approx(stats.spearmanr(means["quality"], means["fluency"]).statistic)
    assert matrix.n == found.n == 8


OPTIONS = ("relevance", "engagingness", "fluency", "understandability", "empathy", "persona")


def choices(n: int = 100, k: int = 4, seed: int = 2) -> np.ndarray:
    """Make people who choose exactly k options, the first ones more often."""
    rng = np.random.default_rng(seed)
    table = np.zeros((n, len(OPTIONS)))
    for row in table:
        row[rng.choice(len(OPTIONS), k, replace=False, p=np.array([6, 5, 4, 3, 2, 1]) / 21)] = 1
    return table


def test_shares_have_the_intervals_of_statsmodels() -> None:
    table = choices()
    found = approval(table, OPTIONS)
    assert found.n_people == 100
    assert sum(one.approval for one in found.options) == pytest.approx(4), "each chose four"
    for j, one in enumerate(found.options):
        n = int(table[:, j].sum())
        assert (one.option, one.n, one.approval) == (OPTIONS[j], n, n / 100)
        assert (one.low, one.high) == pytest.approx(proportion_confint(n, 100, method="wilson"))
    nobody = approval(np.array([[0.0], [0.0]]), ["a"]).options[0]
    assert nobody.low == 0
    assert nobody.high > 0, "two people who did not choose it prove little"
    assert (nobody.weight_low, nobody.weight_high) == (1, 1), "the only option"


def test_weights_are_the_softmax_of_the_shares() -> None:
    table = choices()
    found = approval(table, OPTIONS)
    expected = softmax(table.mean(axis=0))
    assert list(found.weights.values()) == pytest.approx(expected.tolist())
    assert softmax_weights(dict(zip(OPTIONS, table.mean(axis=0), strict=True))) == pytest.approx(found.weights)
    assert sum(found.weights.values()) == pytest.approx(1)
    assert max(found.weights.values()) / min(found.weights.values()) <= np.e
    assert softmax_weights({"a": 0.5, "b": 0.5}) == {"a": 0.5, "b": 0.5}
    assert softmax_weights({}) == {}


def test_the_interval_of_a_weight_covers_what_other_people_say() -> None:
    """Of samples of a known population 95 in 100 intervals and more hold its weight, of few people, too, who may all
    choose alike.
    """
    population = choices(n=4000, seed=7)
    true = softmax(population.mean(axis=0))
    for n_people, n_samples in ((4, 100), (8, 100), (60, 200)):
        rng = np.random.default_rng(0)
        held = []
        for _sample in range(n_samples):
            drawn = population[rng.choice(len(population), n_people)]
            for one, weight in zip(approval(drawn, OPTIONS).options, true, strict=True):
                assert one.weight_low is not None
                assert one.weight_high is not None
                assert 0 < one.weight_low <= one.weight <= one.weight_high < 1
                held.append(one.weight_low <= weight <= one.weight_high)
        assert np.mean(held) > 0.93


def test_one_person_has_no_interval_of_weights_and_nobody_a_reason() -> None:
    alone = approval(np.array([[1.0, 0.0]]), ["a", "b"]).options
    assert [one.weight_low for one in alone] == [None, None]
    nobody = approval(np.zeros((0, 2)), ["a", "b"])
    assert nobody.reason is not None
    assert nobody.reason.code == "nobody_chose"
    assert "no participant" in nobody.summary()
    with pytest.raises(ValueError, match="0 or 1"):
        approval(np.array([[2.0, 0.0]]), ["a", "b"])
