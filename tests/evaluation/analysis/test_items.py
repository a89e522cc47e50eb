"""Means of items, grades by majority and what raters said beside a reference, recomputed in another way."""

from __future__ import annotations

import json
from collections import Counter
from statistics import mean

import numpy as np
import pandas as pd
import pytest

from evaluation.analysis.items import Grades, ItemMeans, grades, human_bound, item_means, label_of, majority
from evaluation.analysis.reference_ratings import (
    ReferenceRatings,
    contradicts,
    keeps_rule,
    overall_scores,
    reference_ratings,
)
from evaluation.ratings import RatingDimension, Ratings
from evaluation.result_json import result_dump, result_load
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
    found = item_means(read(table))
    assert (found.n_items, found.fewest, found.most) == (12, 5, 5)
    by_name = {one.item: one for one in found.of("overall").items}
    assert [one.mean for one in found.dimensions[0].items] == sorted(
        (one.mean for one in by_name.values()), reverse=True
    )
    for name, values in table.groupby("conversation")["overall"]:
        one = by_name[str(name)]
        assert one.mean == pytest.approx(mean(values))
        expected = mean_interval(values, level=0.90, scale=(0, 3))
        assert (one.low, one.high) == pytest.approx((expected.low, expected.high))
    assert any(table.groupby("conversation")["overall"].nunique() == 1)
    json.dumps(found.to_json(), allow_nan=False)
    assert result_load(result_dump(found, ItemMeans), ItemMeans) == found
    assert "i0" in found.summary()


def test_what_one_rater_predicts_of_another_is_pandas_pairwise_correlation() -> None:
    table = frame(n_items=30, seed=4)
    wide = table.pivot(index="conversation", columns="rater", values="overall")
    pairs = wide.corr().where(np.triu(np.ones((5, 5), dtype=bool), k=1)).stack()
    found = human_bound(read(table))
    assert (found.average, found.highest) == pytest.approx((pairs.mean(), pairs.max()))
    assert found.n_pairs == 10


def test_without_raters_in_common_there_is_no_bound_and_a_reason() -> None:
    table = frame(n_items=4)
    found = human_bound(read(table))
    assert found.average is None
    assert found.reason is not None
    assert found.reason.code == "no_pair_shares"
    nobody = human_bound(read(table.assign(rater=None)))
    assert nobody.reason is not None
    assert nobody.reason.code == "nobody_named"


def test_the_grade_is_what_most_gave_and_of_several_the_lowest() -> None:
    assert majority([0, 3, 1, 1]) == (1, False)
    assert majority([0, 2, 1, 2]) == (1, True)
    with pytest.raises(ValueError, match="no item has a grade"):
        majority([0, 0])
    table = frame(n_items=40, seed=9)
    found = grades(read(table))
    n_ties = 0
    for one in found.items:
        given = table.loc[table["conversation"] == one.item, "overall"]
        counted = Counter(given)
        top = max(counted.values())
        winners = sorted(value for value, n in counted.items() if n == top)
        n_ties += len(winners) > 1
        assert (one.grade, one.is_tie) == (winners[0], len(winners) > 1)
        assert one.mean == pytest.approx(mean(given))
    assert found.n_ties == n_ties > 0
    assert result_load(result_dump(found, Grades), Grades) == found
    json.dumps(found.to_json(), allow_nan=False)
    assert "entailment" in found.summary()


def test_labels_are_those_of_the_papers_code() -> None:
    for value, label in ((3, "entailment"), (2, "entailment"), (1.99, "neutral"), (1, "neutral")):
        assert label_of(value, 0) == label
    assert label_of(0.99, 0) == "contradiction"
    assert label_of(3, 1) == "entailment", "a scale that begins at 1"
    table = frame(n_items=40, seed=9)
    found = grades(read(table))
    assert 0 < found.n_same_label < 40
    for bot in found.bots:
        own = [one for one in found.items if one.bot == bot.bot]
        shares = [
            sum(one.by_majority == label for one in own) / len(own)
            for label in ("contradiction", "neutral", "entailment")
        ]
        assert [one.mean for one in bot.labels] == pytest.approx(shares)
        assert sum(bot.grades) == bot.n_items == len(own)


def test_answers_between_grades_are_refused() -> None:
    table = frame()
    table.loc[0, "overall"] = 1.5
    with pytest.raises(ValueError, match="no whole grades"):
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
    found = reference_ratings(ratings, direction, reference, known)
    assert found.n_ratings == 4, "one said nothing"
    assert found.n_kept_rule == 2, "better and above, same and equal"
    assert found.n_contradicting == 1, "better and below; worse and equal is neither"
    assert (found.n_revised, found.revised_by) == (1, -1)
    assert found.weights == pytest.approx(dict.fromkeys(("relevance", "fluency", "empathy"), 1 / 3))
    assert [bot.bot for bot in found.bots] == ["a", "b"]
    first = found.bots[0]
    assert (first.n_ratings, first.overall.mean) == (3, 3)
    assert [one.mean for one in first.directions] == [0, 0.5, 0.5]
    assert first.above.mean == pytest.approx((1 + 0 - 1) / 3)
    assert result_load(result_dump(found, ReferenceRatings), ReferenceRatings) == found
    json.dumps(found.to_json(), allow_nan=False)
    assert "worse" in found.summary()


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
