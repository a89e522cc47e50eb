"""How answers spread: counts by pandas, differences of raters by going over all pairs."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluation.analysis.answers import answers, dimension_answers, scale_steps
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
    assert scale_steps(RatingDimension("q", "Q", 0, 100), many) == tuple(
        float(v) for v in range(0, 101, 10)
    )


def test_what_lies_between_two_steps_counts_for_the_nearer() -> None:
    table = pd.DataFrame(
        {"conversation": ["x", "y"], "bot": "a", "rater": ["u", "v"], "quality": [1.4, 2.6]}
    )
    found = dimension_answers(Ratings.from_frame(table, ["quality"], scale=(1, 3)))
    assert found.bots[0].counts == (1, 0, 1)


def test_dimensions_move_together_as_scipy_says() -> None:
    table = frame()
    matrix = dimension_matrix(read(table))
    means = table.groupby("conversation")[["quality", "fluency"]].mean()
    found = matrix.cells[0, 1]
    assert found.r == pytest.approx(stats.spearmanr(means["quality"], means["fluency"]).statistic)
    assert matrix.n == found.n == 8


def test_the_document_has_every_question() -> None:
    found = answers(read(frame()))
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert set(document) == {"quality", "fluency"}
    assert document["quality"]["shared"]["n_conversations"] == 4
    assert "quality" in found.summary()
