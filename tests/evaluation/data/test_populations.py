"""Tables of shares, and groups that are too small to be shown."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.data.populations import (
    NO_ANSWER,
    OTHER_ANSWERS,
    label_people,
    published_groups,
    read_margins,
    validate_margin_answers,
    withhold_combinations,
)

HEAD = "question,answer,share\n"


def test_shares_are_read_by_question_and_rounding_is_divided_out() -> None:
    table = HEAD + 'sex,Woman,0.51\nsex, Man ,0.49\n\nage,"Under 30, or 30",0.333\nage,31+,0.333\nage,Other,0.333\n'
    read = read_margins(table)
    assert read["sex"] == {"Woman": 0.51, "Man": 0.49}
    assert read["age"]["Under 30, or 30"] == pytest.approx(1 / 3)
    assert read_margins(" \n") == {}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("sex,share\n", "first line is 'sex,share'; it must be question,answer,share"),
        (HEAD + "sex,Woman\n", "row 2 is 'sex,Woman'; it must have a question, an answer and a share"),
        (HEAD + "sex,Woman,half\n", "share in row 2 is 'half'; it must be above 0"),
        (HEAD + "sex,Woman,0\n", "share in row 2 is '0'"),
        (HEAD + "sex,Woman,nan\n", "share in row 2 is 'nan'"),
        (HEAD + "sex,Woman,1e9\n", "share in row 2 is '1e9'"),
        (HEAD + "sex,Woman,.5\nsex,Woman,.5\n", "row 3 repeats the answer 'Woman' to sex"),
        (HEAD + "sex,Woman,51\nsex,Man,49\n", "shares of sex sum to 100; they must sum to 1: write 0.4 for 40 %"),
        (HEAD + "sex,Woman,.5\nsex,Man,.4\n", "shares of sex sum to 0.9; they must sum to 1: add the missing"),
    ],
)
def test_a_wrong_table_is_refused_with_the_value(table: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_margins(table)


def test_unknown_questions_and_answers_are_named() -> None:
    possible = {"sex": ["Woman", "Man"]}
    assert validate_margin_answers({"sex": {"Woman": 1.0}}, possible) == ""
    assert "no question 'age'" in validate_margin_answers({"age": {"30": 1.0}}, possible)
    assert "'Women' is not an answer to sex" in validate_margin_answers({"sex": {"Women": 1.0}}, possible)


def test_one_small_group_takes_the_next_smallest_with_it() -> None:
    labels = ["a"] * 30 + ["b"] * 12 + ["c"] * 3
    assert published_groups(labels, 10) == {"a": "a", "b": OTHER_ANSWERS, "c": OTHER_ANSWERS}
    assert published_groups(["a"] * 30 + ["b"] * 12, 10) == {"a": "a", "b": "b"}
    several = published_groups(["a"] * 30 + ["b"] * 12 + ["c"] * 6 + ["d"] * 5, 10)
    assert [several[label] for label in "abcd"] == ["a", "b", OTHER_ANSWERS, OTHER_ANSWERS]


@given(st.lists(st.sampled_from("abcdefg"), max_size=80), st.integers(2, 12))
def test_no_published_group_is_small_and_none_follows_from_the_total(labels: list[str], fewest: int) -> None:
    groups = published_groups(labels, fewest)
    counts = Counter(groups[label] for label in labels)
    assert len(counts) <= 1 or min(counts.values()) >= fewest
    merged = [label for label, group in groups.items() if group == OTHER_ANSWERS]
    assert len(counts) <= 1 or len(merged) != 1


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), max_size=60))
def test_no_rare_combination_is_left(rows: list[tuple[str, str]]) -> None:
    shown = withhold_combinations(rows, 5)
    counts = Counter(shown)
    assert len(counts) <= 1 or min(counts.values()) >= 5


def test_answers_outside_the_population_are_no_answer() -> None:
    answers = {"a": "Woman", "b": "Prefer not to say", "c": ""}
    assert label_people("abcd", answers, {"Woman": 0.5}) == ["Woman", *[NO_ANSWER] * 3]
    assert label_people("abcd", answers) == ["Woman", "Prefer not to say", NO_ANSWER, NO_ANSWER]
