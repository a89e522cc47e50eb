"""`Ratings`: who is one rater, which way a question counts, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evaluation.ratings import MEAN_KEY, Dimension, Ratings, headline, rater_named

FLUENT = Dimension("fluent", "Fluent", 1, 7)
REPETITIVE = Dimension("repetitive", "Repetitive", 1, 7, reversed=True)


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "conversation": ["c1", "c1", "c2", "c3", "c3"],
            "bot": ["a", "a", "a", "b", "b"],
            "rater": ["ann", "bob", "slot 1", "ann", None],
            "fluent": [6, 5, 4, 2, np.nan],
            "repetitive": [1, 2, 7, 6, 4],
        }
    )


def read() -> Ratings:
    return Ratings.from_frame(table(), [FLUENT, REPETITIVE], controls=["b"])


@pytest.mark.parametrize("name", ["slot1", "Slot_2", "slot-3", "unknown", "MEAN", "", None, np.nan])
def test_names_that_are_nobody(name: object) -> None:
    assert rater_named(name) is None


def test_one_name_is_one_rater_and_nobody_is_a_conversation() -> None:
    ratings = read()
    assert rater_named("slotter") == "slotter"
    assert ratings.n_raters == 2
    assert ratings.unit.tolist() == ["p ann", "p bob", "c c2", "p ann", "c c3"]
    assert ratings.n_conversations == 3
    assert ratings.ranked.tolist() == [True, True, True, False, False]


def test_a_reversed_question_counts_the_other_way_and_keeps_its_answers() -> None:
    ratings = read()
    assert ratings.values("repetitive").tolist() == [7, 6, 1, 2, 4]
    assert ratings.answers["repetitive"].tolist() == [1, 2, 7, 6, 4]
    assert ratings.table()[:, 1].tolist() == [7, 6, 1, 2, 4]
    assert ratings.to_frame()["repetitive"].tolist() == [7, 6, 1, 2, 4]
    assert ratings.per_conversation()["repetitive"].tolist() == [6.5, 1, 3]


def test_the_mean_of_several_is_undefined_where_one_is_missing() -> None:
    ratings = read()
    assert ratings.headline == ("fluent", "repetitive")
    assert ratings.leading is not None
    assert ratings.leading.key == MEAN_KEY
    expected = [6.5, 5.5, 2.5, 2, np.nan]
    for key in (None, MEAN_KEY, ["fluent", "repetitive"]):
        np.testing.assert_equal(ratings.values(key), expected)
    assert ratings.per_conversation()[MEAN_KEY].tolist() == [6, 2.5, 2]


def test_a_persons_further_ratings_of_one_conversation_are_no_other_rater() -> None:
    frame = pd.concat([table(), table().iloc[[0]].assign(fluent=1)], ignore_index=True)
    ratings = Ratings.from_frame(frame, [FLUENT, REPETITIVE])
    assert len(ratings.once()) == 5
    assert ratings.once().values("fluent")[0] == 6
    assert ratings.n_raters == 2


def test_a_conversations_rater_is_known_where_it_has_just_one() -> None:
    assert read().per_conversation()["rater"].tolist() == [None, None, None]
    alone = Ratings.from_frame(table().iloc[[0, 2, 3]], [FLUENT])
    assert alone.per_conversation()["rater"].tolist() == ["ann", None, "ann"]


@pytest.mark.parametrize(
    ("keys", "ordered", "expected"),
    [
        (["fun", "quality"], False, ("quality",)),
        (["fun", "flow"], True, ("fun",)),
        (["fun", "flow"], False, ("fun", "flow")),
        ([], False, ()),
    ],
)
def test_what_bots_are_ranked_by(keys: list[str], ordered: bool, expected: tuple[str, ...]) -> None:
    assert headline([Dimension(key, key, 1, 7) for key in keys], ordered=ordered) == expected


def test_several_scales_have_no_common_mean() -> None:
    found = [Dimension("fun", "Fun", 1, 7), Dimension("flow", "Flow", 0, 100)]
    assert headline(found, ordered=False) == ("fun",)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="an answer to fluent is 9; its scale is 1 … 7"):
        Ratings.from_frame(table().assign(fluent=9), [FLUENT])
    with pytest.raises(ValueError, match="no dimension 'fluency'; did you mean fluent"):
        read().values("fluency")
    with pytest.raises(ValueError, match="no column 'bot'"):
        Ratings.from_frame(table().drop(columns="bot"))
    with pytest.raises(ValueError, match=r"rater has shape \(1,\) for 5 ratings"):
        Ratings(
            table()["conversation"].to_numpy(),
            table()["bot"].to_numpy(),
            np.array(["ann"], dtype=object),
            {"fluent": table()["fluent"].to_numpy()},
            (FLUENT,),
        )
    with pytest.raises(ValueError, match="its lowest value must come first"):
        Dimension("fun", "Fun", 7, 1)


def test_columns_cannot_be_changed_and_a_table_gives_its_own_scales() -> None:
    ratings = Ratings.from_frame(table())
    assert [(d.key, d.low, d.high) for d in ratings.dimensions] == [
        ("fluent", 2, 6),
        ("repetitive", 1, 7),
    ]
    with pytest.raises(ValueError, match="read-only"):
        ratings.answers["fluent"][0] = 1
