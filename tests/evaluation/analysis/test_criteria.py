"""Criteria with points: the score, and agreement of people and judges, against code of their own."""

import json
import random
from collections import defaultdict
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from chatbots.validation import ValuesError
from evaluation.analysis.criteria import CriterionAnswer, criteria_results, criteria_score
from evaluation.data.items import ReplyItem, item_read
from evaluation.stats.agreement import gwet_ac
from tests.documents import blocks_tested

CRITERIA = [("Names a next step.", 5), ("Is kind.", 3), ("Gives a wrong dose.", -8)]


def make_answers(n_items: int = 14, raters: str = "abc", seed: int = 1) -> list[CriterionAnswer]:
    """Make answers of raters who mostly agree; some leave an item out."""
    rng = random.Random(seed)
    answers = []
    for item in range(n_items):
        # The last criterion is of a few items alone.
        for text, points in CRITERIA if item < 3 else CRITERIA[:2]:
            truth = rng.random() < 0.7
            for rater in raters:
                if rng.random() < 0.9:
                    is_met = truth if rng.random() < 0.8 else not truth
                    answers.append(CriterionAnswer(f"item-{item}", rater, text, points, is_met))
    return answers


def by_place(answers: list[CriterionAnswer]) -> dict[tuple[Any, ...], list[bool]]:
    places = defaultdict(list)
    for one in answers:
        places[one.item, one.text, one.points].append(one.is_met)
    return places


def ac1(places: list[list[bool]]) -> float:
    """Gwet's AC1 of two categories, by its definition, in exact numbers."""
    several = [met for met in places if len(met) > 1]
    same = [Fraction(sum(a == b for a, b in combinations(met, 2)), len(met) * (len(met) - 1) // 2) for met in several]
    observed = sum(same) / len(several)
    share = sum(Fraction(sum(met), len(met)) for met in places) / len(places)
    chance = 2 * share * (1 - share)
    return float((observed - chance) / (1 - chance))


@pytest.mark.parametrize(
    ("ticks", "points", "score"),
    [
        ([1, 1, 0], [5, 3, -8], 1.0),
        ([1, 0, 0], [5, 3, -8], 0.625),
        ([1, 1, 1], [5, 3, -8], 0.0),
        ([0, 1, 1], [5, 3, -8], 0.0),  # below nothing
        ([0, 0, 0], [5, 3, -8], 0.0),
        ([1, 1, 1], [2, -1, 1], 2 / 3),
    ],
)
def test_the_score_is_the_share_of_possible_points(ticks: list[int], points: list[int], score: float) -> None:
    assert criteria_score(ticks, points) == pytest.approx(score)


def test_agreement_of_people_is_as_defined() -> None:
    answers = make_answers()
    results = criteria_results(answers)
    differing = [row.differing for row in results.criteria]
    assert differing == sorted(differing, reverse=True)
    assert {(row.text, row.points) for row in results.criteria} == set(CRITERIA)
    for row in (results.overall, *results.criteria):
        own = [one for one in answers if not row.text or (one.text, one.points) == (row.text, row.points)]
        places = list(by_place(own).values())
        pairs = [a != b for met in places for a, b in combinations(met, 2)]
        assert row.differing == pytest.approx(np.mean(pairs))
        assert row.met.mean == pytest.approx(np.mean([one.is_met for one in own]))
        assert row.gwet.value == pytest.approx(ac1(places))
        assert (row.n_items, row.n_raters) == (len({one.item for one in own}), 3)
    rare = next(row for row in results.criteria if row.points == -8)
    assert rare.gwet.low is None
    assert rare.gwet.n_items < 4
    assert "items; 10 are needed" in str(rare.gwet.reason)


def test_intervals_over_all_criteria_leave_out_whole_items() -> None:
    """Criteria that repeat each other on every item tell no more than one of them."""
    answers = [one for one in make_answers(30) if one.points == 5]
    copies = [
        CriterionAnswer(one.item, one.rater, f"{one.text} {k}", 5, one.is_met) for one in answers for k in range(4)
    ]
    once, repeated = (criteria_results(some).overall.gwet for some in (answers, copies))
    assert repeated.value == pytest.approx(once.value)
    assert (repeated.low, repeated.high) == pytest.approx((once.low, once.high), abs=1e-9)
    assert repeated.interval == once.interval == "jackknife over 30 items"
    table = np.array([[1, 1], [0, 1], [0, 0], [1, 0]] * 10)
    naive, by_item = gwet_ac(table), gwet_ac(table, units=np.arange(40) // 2)
    assert naive.value == by_item.value
    assert (naive.low, naive.high) != (by_item.low, by_item.high)


def test_a_judge_is_compared_with_each_rater_and_with_their_majority() -> None:
    answers, rng = make_answers(raters="abcd"), random.Random(3)
    places = by_place(answers)
    judged = {place: rng.random() < 0.6 for place in places if place[0] != "item-5"}
    rows = [CriterionAnswer(item, "judge", text, points, met) for (item, text, points), met in judged.items()]
    results = criteria_results(answers, [*rows, CriterionAnswer("unknown", "judge", "Is kind.", 3, True)])
    overall, *each = results.judges
    assert [row.same.mean for row in each] == sorted(row.same.mean for row in each)
    for row in (overall, *each):
        own = {
            place: met for place, met in places.items() if place in judged and (not row.text or place[1] == row.text)
        }
        same = [judged[place] == one for place, met in own.items() for one in met]
        assert row.same.mean == pytest.approx(np.mean(same))
        assert row.same.n == len(same)
        clear = {place: sum(met) * 2 > len(met) for place, met in own.items() if sum(met) * 2 != len(met)}
        assert row.n_ties == len(own) - len(clear)
        if row.kappa.value is not None:
            known = cohen_kappa_score([judged[place] for place in clear], list(clear.values()))
            assert row.kappa.value == pytest.approx(known)
        assert row.n_items == len({place[0] for place in own})
    assert overall.kappa.interval == "jackknife over 13 items"
    others = [CriterionAnswer(item, "another", text, points, True) for item, text, points in places]
    both = criteria_results(answers, [*rows, *others]).judges
    assert [(row.judge, row.text) for row in both[:2]] == [("another", ""), ("judge", "")]
    assert {row for row in both if row.judge == "judge"} == {overall, *each}


def test_one_rater_alone_agrees_with_nobody() -> None:
    answers = [CriterionAnswer("a", "x", "Is kind.", 1, True), CriterionAnswer("b", "x", "Is kind.", 1, False)]
    [row] = criteria_results(answers).criteria
    assert row.differing is None
    assert row.gwet.value is None
    assert "two or more ratings" in str(row.gwet.reason)


LINE = {"id": "1", "response": "Drink water."}


@pytest.mark.parametrize(
    ("criteria", "words"),
    [
        ([{"text": "Is kind.", "points": 0}], ["criteria[0].points is 0", "must not be 0"]),
        ([{"text": "Is kind.", "points": 101}], ["criteria[0].points is 101", "100"]),
        ([{"text": "Is kind.", "points": 1.5}], ["criteria[0].points is 1.5", "whole number"]),
        ([{"text": "Is kind."}], ["criteria[0].points"]),
        ([{"text": " ", "points": 1}], ["criteria[0].text", "blank"]),
        ([{"text": "a\0b", "points": 1}], ["criteria[0].text", "U+0000"]),
        ([{"text": "x" * 501, "points": 1}], ["criteria[0].text", "500"]),
        ([{"text": "Rude.", "points": -1}, {"text": "Wrong.", "points": -2}], ["(-1, -2)", "add one"]),
        ([{"text": "Is kind.", "points": 1}] * 2, ["'Is kind.' twice", "once"]),
        ([{"text": f"{n}", "points": 1} for n in range(41)], ["41 criteria", "at most 40"]),
        ([{"text": "Is kind.", "points": 1, "weight": 2}], ["weight", "unknown"]),
    ],
)
def test_wrong_criteria_are_named_with_the_right_form(criteria: list[dict[str, Any]], words: list[str]) -> None:
    with pytest.raises(ValuesError) as error:
        item_read(ReplyItem, {**LINE, "criteria": criteria})
    for part in words:
        assert part in str(error.value)


def test_criteria_are_read_in_their_order() -> None:
    plain = [{"text": text, "points": points} for text, points in CRITERIA]
    item = item_read(ReplyItem, {**LINE, "criteria": plain})
    assert [(one.text, one.points) for one in item.criteria] == CRITERIA
    assert item_read(ReplyItem, LINE).criteria == ()


def test_the_item_of_the_guide_is_read() -> None:
    [block] = blocks_tested("tests/evaluation/analysis/test_criteria.py::test_the_item_of_the_guide_is_read")
    assert [one.points for one in item_read(ReplyItem, json.loads(block.text)).criteria] == [5, -8]
