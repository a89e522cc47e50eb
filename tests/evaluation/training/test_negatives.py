"""False replies, on cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.training.negatives import (
    _bucket,
    embedding_negatives,
    lexical_negatives,
    random_negatives,
)

REPLIES = ["tea", "tea tea milk", "tea milk sugar", "tea milk sugar cream and more", "rain", "snow"]


def test_a_lexical_negative_stands_in_the_middle_of_what_is_found() -> None:
    # "tea" finds the three others that hold it; the one that says it twice comes first, then the shorter.
    found = lexical_negatives(REPLIES, 0)
    assert found[0] == "tea milk sugar"
    # "rain" finds nothing, so one is drawn.
    assert found[4] in set(REPLIES) - {"rain"}
    assert all(false != true for false, true in zip(found, REPLIES, strict=True))
    assert (
        lexical_negatives([*REPLIES, "tea"], 0)[-1] == "tea milk sugar"
    )  # duplicates do not count


def test_the_reply_itself_is_none_of_the_hits_whose_middle_is_taken() -> None:
    words = ["tea", "milk", "sugar", "cream", "oats"]
    replies = [*(" ".join(words[:n]) for n in range(1, 6)), "rain", "snow"]
    # Four others share words with the last; those with more of them stand before, so the third of four has two.
    assert lexical_negatives(replies, 0)[4] == "tea milk"


def test_the_released_table_gives_the_reply_itself_for_few_hits() -> None:
    assert lexical_negatives(REPLIES, 0, middle_rule="lucene_buckets")[4] == "rain"
    assert lexical_negatives(["?", "rain"], 0, middle_rule="lucene_buckets")[0] == ""
    assert [_bucket(n) for n in (600_000, 10_001, 10_000, 1_001, 1_000, 201, 101, 51, 21, 20, 1)] == [
        299_995, 6_995, 695, 695, 195, 95, 45, 15, 10, 0, 0,
    ]  # fmt: skip


def test_an_embedding_negative_is_one_of_the_five_nearest() -> None:
    angles = np.arange(12) / 10
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    names = [f"reply {k}" for k in range(12)]
    drawn = {embedding_negatives(names, vectors, seed)[0] for seed in range(60)}
    assert drawn == {f"reply {k}" for k in range(1, 6)}
    assert {embedding_negatives(names, vectors, seed)[6] for seed in range(60)} <= {
        f"reply {k}" for k in (3, 4, 5, 7, 8, 9)
    }


def test_a_random_negative_is_another_reply() -> None:
    drawn = [random_negatives(["a", "b", "c", "a"], seed) for seed in range(60)]
    assert {row[0] for row in drawn} == {"b", "c"}
    assert {row[1] for row in drawn} == {"a", "c"}
    with pytest.raises(ValueError, match="1 different replies"):
        random_negatives(["a", "a"], 0)
