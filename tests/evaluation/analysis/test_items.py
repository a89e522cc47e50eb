"""Means of items, grades by majority, answers beside a reference, and shares of answers of each bot."""

import json
from collections import Counter
from itertools import combinations
from statistics import mean

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import softmax
from statsmodels.stats.proportion import proportion_confint

from evaluation.analysis.answers import approval, dimension_answers, scale_steps, softmax_weights
from evaluation.analysis.correlations import dimension_matrix
from evaluation.analysis.items import Grades, ItemMeans, grades, human_bound, item_means, label_of, majority
from evaluation.analysis.reference_ratings import (
    ReferenceRatings,
    contradicts,
    keeps_rule,
    overall_scores,
    reference_ratings,
)
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.number_format import result_dump, result_load
from evaluation.stats.means import mean_interval


def frame(n_items: int = 12, n_raters: int = 5, high: int = 3, seed: int = 1) -> pd.DataFrame:
    """Make ratings of 0 … `high` by raters who all rate every item, of two models in turn."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(0, high, n_items)
    rows = [
        (f"i{i}", "ab"[i % 2], f"w{w}", float(np.clip(np.rint(level[i] + rng.normal(0, 0.7)), 0, high)))
        for i in range(n_items)
        for w in range(n_raters)
    ]
    return pd.DataFrame(rows, columns=["conversation", "bot", "rater", "overall"])


def read(table: pd.DataFrame, high: int = 3) -> Ratings:
    return Ratings.from_frame(table, ["overall"], scale=(0, high))


def test_means_of_items_have_the_interval_of_every_mean_on_a_scale() -> None:
    table = frame()
    result = item_means(read(table))
    assert (result.n_items, result.fewest, result.most) == (12, 5, 5)
    by_name = {item.item: item for item in result.get_dimension("overall").items}
    assert [item.mean for item in result.dimensions[0].items] == sorted(
        (one.mean for one in by_name.values()), reverse=True
    )
    for name, values in table.groupby("conversation")["overall"]:
        one = by_name[str(name)]
        assert one.mean == pytest.approx(mean(values))
        expected = mean_interval(values, level=0.90, scale=(0, 3))
        assert (one.low, one.high) == pytest.approx((expected.low, expected.high))
    assert any(table.groupby("conversation")["overall"].nunique() == 1)
    json.dumps(result.to_json(), allow_nan=False)
    assert result_load(result_dump(result, ItemMeans), ItemMeans) == result
    assert "i0" in result.summary()


def test_what_one_rater_predicts_of_another_is_pandas_pairwise_correlation() -> None:
    table = frame(n_items=30, seed=4)
    wide = table.pivot(index="conversation", columns="rater", values="overall")
    pairs = wide.corr().where(np.triu(np.ones((5, 5), dtype=bool), k=1)).stack()
    result = human_bound(read(table))
    assert (result.average, result.highest) == pytest.approx((pairs.mean(), pairs.max()))
    assert result.n_pairs == 10


def test_without_raters_in_common_there_is_no_bound_and_a_reason() -> None:
    table = frame(n_items=4)
    result = human_bound(read(table))
    assert result.average is None
    assert result.reason.code == "no_pair_shares"
    nobody = human_bound(read(table.assign(rater=None)))
    assert nobody.reason.code == "nobody_named"


def test_the_grade_is_what_most_gave_and_of_several_the_lowest() -> None:
    assert majority([0, 3, 1, 1]) == (1, False)
    assert majority([0, 2, 1, 2]) == (1, True)
    with pytest.raises(ValueError, match="no item has a grade"):
        majority([0, 0])
    table = frame(n_items=40, seed=9)
    result = grades(read(table))
    n_ties = 0
    for item in result.items:
        given = table.loc[table["conversation"] == item.item, "overall"]
        counts = Counter(given)
        top = max(counts.values())
        winners = sorted(value for value, n in counts.items() if n == top)
        n_ties += len(winners) > 1
        assert (item.grade, item.is_tie) == (winners[0], len(winners) > 1)
        assert item.mean == pytest.approx(mean(given))
    assert result.n_ties == n_ties > 0
    assert result_load(result_dump(result, Grades), Grades) == result
    json.dumps(result.to_json(), allow_nan=False)
    assert "entailment" in result.summary()


def test_labels_are_those_of_the_papers_code() -> None:
    for value, label in ((3, "entailment"), (2, "entailment"), (1.99, "neutral"), (1, "neutral")):
        assert label_of(value, 0) == label
    assert label_of(0.99, 0) == "contradiction"
    assert label_of(3, 1) == "entailment", "a scale that begins at 1"
    table = frame(n_items=40, seed=9)
    result = grades(read(table))
    assert 0 < result.n_same_label < 40
    for bot in result.bots:
        items = [item for item in result.items if item.bot == bot.bot]
        shares = [
            sum(item.by_majority == label for item in items) / len(items)
            for label in ("contradiction", "neutral", "entailment")
        ]
        assert [label.mean for label in bot.labels] == pytest.approx(shares)
        assert sum(bot.grades) == bot.n_items == len(items)


def test_answers_between_grades_are_refused() -> None:
    table = frame()
    table.loc[0, "overall"] = 1.5
    with pytest.raises(ValueError, match="not whole-number grades"):
        grades(read(table))


DIMENSIONS = tuple(RatingDimension(key, key, 1, 5) for key in ("relevance", "fluency", "empathy"))


def referenced() -> tuple[Ratings, np.ndarray, np.ndarray, np.ndarray]:
    """Make five ratings; the question of empathy applies to the first two alone."""
    nan = float("nan")
    ratings = Ratings(
        conversation=np.array(["i0", "i1", "i2", "i3", "i4"]),
        bot=np.array(["a", "b", "a", "b", "a"]),
        rater=np.array(["w0", "w0", "w1", "w1", "w2"]),
        answers={
            "relevance": np.array([5, 2, 4, 3, 1.0]),
            "fluency": np.array([4, 2, 4, 3, 1.0]),
            "empathy": np.array([3, 2, nan, nan, nan]),
        },
        dimensions=DIMENSIONS,
    )
    direction = np.array([1, 1, 0, -1, nan])
    reference = np.array([3, 3, 4, 3, 2.0])
    known = np.array([3, 4, 4, 3, 2.0])
    return ratings, direction, reference, known


def test_the_overall_score_is_the_weighted_mean_of_what_applies() -> None:
    ratings, *_rest = referenced()
    assert overall_scores(ratings).tolist() == [4, 2, 4, 3, 1]
    weights = {"relevance": 0.5, "fluency": 0.25, "empathy": 0.25}
    expected = [5 * 0.5 + 4 * 0.25 + 3 * 0.25, 2, (4 * 0.5 + 4 * 0.25) / 0.75, 3, 1]
    assert overall_scores(ratings, weights).tolist() == pytest.approx(expected)
    with pytest.raises(ValueError, match="no weight for empathy"):
        overall_scores(ratings, {"relevance": 1, "fluency": 1})


def test_what_was_said_is_held_against_the_scores() -> None:
    ratings, direction, reference, known = referenced()
    result = reference_ratings(ratings, direction, reference, known)
    assert result.n_ratings == 4, "one said nothing"
    assert result.n_kept_rule == 2, "better and above, same and equal"
    assert result.n_contradicting == 1, "better and below; worse and equal is neither"
    assert (result.n_revised, result.revised_by) == (1, -1)
    assert result.weights == pytest.approx(dict.fromkeys(("relevance", "fluency", "empathy"), 1 / 3))
    assert [bot.bot for bot in result.bots] == ["a", "b"]
    first = result.bots[0]
    assert (first.n_ratings, first.overall.mean) == (3, 3)
    assert [direction.mean for direction in first.directions] == [0, 0.5, 0.5]
    assert first.above.mean == pytest.approx((1 + 0 - 1) / 3)
    assert result_load(result_dump(result, ReferenceRatings), ReferenceRatings) == result
    json.dumps(result.to_json(), allow_nan=False)
    assert "worse" in result.summary()


@pytest.mark.parametrize(
    ("direction", "overall", "contrary", "kept"),
    [
        (1, 3.25, False, True),
        (1, 3, False, False),
        (1, 2.75, True, False),
        (-1, 2.5, False, True),
        (-1, 3.5, True, False),
        (0, 3.5, False, True),
        (0, 4, False, False),
        (0, 4.25, True, False),
    ],
)
def test_a_direction_and_a_score_agree_contradict_or_are_between(
    direction: int, overall: float, contrary: bool, kept: bool
) -> None:
    assert contradicts(direction, overall, 3) is contrary
    assert keeps_rule(direction, overall, 3) is kept


def two_bots() -> pd.DataFrame:
    """Make ratings of two bots, four conversations each, by one to three of five people, on two questions."""
    rng = np.random.default_rng(3)
    rows = []
    for bot, level in {"a": 5, "b": 3}.items():
        for n in range(4):
            for rater in rng.choice(5, 1 + n % 3, replace=False):
                values = np.clip(level + rng.integers(-2, 3, 2), 1, 7).astype(float)
                rows.append((f"{bot}{n}", bot, f"w{rater}", *values.tolist()))
    return pd.DataFrame(rows, columns=["conversation", "bot", "rater", "quality", "fluency"])


def read_two(table: pd.DataFrame) -> Ratings:
    return Ratings.from_frame(table, ["quality", "fluency"], scale=(1, 7))


def test_counts_are_those_of_the_answers_and_the_best_bot_stands_first() -> None:
    table = two_bots()
    result = dimension_answers(read_two(table), "fluency", ["b", "a", "silent"])
    assert result.steps == (1, 2, 3, 4, 5, 6, 7)
    means = table.groupby("bot")["fluency"].mean()
    assert [bot.bot for bot in result.bots] == [*means.sort_values(ascending=False).index, "silent"]
    for bot in result.bots[:2]:
        fluency = table[table["bot"] == bot.bot]["fluency"]
        assert bot.counts == tuple((fluency == step).sum() for step in result.steps)
        assert bot.mean == pytest.approx(fluency.mean())
        assert bot.n == len(fluency)
    assert (result.bots[2].mean, result.bots[2].n) == (None, 0)


def test_raters_of_one_conversation_differ_by_the_mean_over_their_pairs() -> None:
    table = two_bots()
    result = dimension_answers(read_two(table)).shared
    within = []
    for _name, group in table.groupby("conversation")["quality"]:
        if len(group) > 1:
            within.append(np.mean([abs(x - y) for x, y in combinations(group, 2)]))
    assert result.n_conversations == len(within) == 4
    assert result.difference == pytest.approx(np.mean(within))
    strangers = [abs(x - y) for x, y in combinations(table["quality"], 2)]
    assert result.by_chance == pytest.approx(np.mean(strangers))


def test_without_a_shared_conversation_nothing_is_said() -> None:
    result = dimension_answers(read_two(two_bots().drop_duplicates("conversation"))).shared
    assert (result.n_conversations, result.difference, result.by_chance) == (0, None, None)


def test_steps_are_whole_points_or_the_values_seen_or_equal_distances() -> None:
    seen = np.array([0.5, 0.25, np.nan, 0.5])
    assert scale_steps(RatingDimension("q", "Q", 0, 0.5), seen) == (0.25, 0.5)
    assert scale_steps(RatingDimension("q", "Q", 1, 3), seen) == (1, 2, 3)
    many = np.arange(0, 100.0)
    assert scale_steps(RatingDimension("q", "Q", 0, 100), many) == tuple(float(v) for v in range(0, 101, 10))


def test_what_lies_between_two_steps_counts_for_the_nearer() -> None:
    table = pd.DataFrame({"conversation": ["x", "y"], "bot": "a", "rater": ["u", "v"], "quality": [1.4, 2.6]})
    result = dimension_answers(Ratings.from_frame(table, ["quality"], scale=(1, 3)))
    assert result.bots[0].counts == (1, 0, 1)


def test_dimensions_move_together_as_scipy_says() -> None:
    table = two_bots()
    matrix = dimension_matrix(read_two(table))
    means = table.groupby("conversation")[["quality", "fluency"]].mean()
    cell = matrix.cells[0, 1]
    assert cell.r == pytest.approx(stats.spearmanr(means["quality"], means["fluency"]).statistic)
    assert matrix.n == cell.n == 8


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
    result = approval(table, OPTIONS)
    assert result.n_people == 100
    assert sum(option.approval for option in result.options) == pytest.approx(4), "each chose four"
    for j, one in enumerate(result.options):
        n = int(table[:, j].sum())
        assert (one.option, one.n, one.approval) == (OPTIONS[j], n, n / 100)
        assert (one.low, one.high) == pytest.approx(proportion_confint(n, 100, method="wilson"))
    nobody = approval(np.array([[0.0], [0.0]]), ["a"]).options[0]
    assert nobody.low == 0
    assert nobody.high > 0, "two people who did not choose it prove little"
    assert (nobody.weight_low, nobody.weight_high) == (1, 1), "the only option"


def test_weights_are_the_softmax_of_the_shares() -> None:
    table = choices()
    result = approval(table, OPTIONS)
    expected = softmax(table.mean(axis=0))
    assert list(result.weights.values()) == pytest.approx(expected.tolist())
    assert softmax_weights(dict(zip(OPTIONS, table.mean(axis=0), strict=True))) == pytest.approx(result.weights)
    assert sum(result.weights.values()) == pytest.approx(1)
    assert max(result.weights.values()) / min(result.weights.values()) <= np.e
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
            for option, weight in zip(approval(drawn, OPTIONS).options, true, strict=True):
                assert 0 < option.weight_low <= option.weight <= option.weight_high < 1
                held.append(option.weight_low <= weight <= option.weight_high)
        assert np.mean(held) > 0.93


def test_one_person_has_no_interval_of_weights_and_nobody_a_reason() -> None:
    alone = approval(np.array([[1.0, 0.0]]), ["a", "b"]).options
    assert [one.weight_low for one in alone] == [None, None]
    nobody = approval(np.zeros((0, 2)), ["a", "b"])
    assert nobody.reason.code == "nobody_chose"
    assert "no participant" in nobody.summary()
    with pytest.raises(ValueError, match="0 or 1"):
        approval(np.array([[2.0, 0.0]]), ["a", "b"])
