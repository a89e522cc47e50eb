"""Bots weighted to a population and by group, against means by hand, and what small groups may not give away."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import confab
from evaluation.analysis.population import FEW_IN_GROUP, PopulationResult, population_result
from evaluation.data.populations import NO_ANSWER, OTHER_ANSWERS
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.number_format import result_dump, result_load

GROUPS = {"young": 40, "old": 20, "oldest": 6, "": 4}
MEANS = {
    "a": {"young": 5.0, "old": 3.0, "oldest": 1.37, "": 4.0},
    "b": {"young": 3.6, "old": 4.4, "oldest": 4.83, "": 4.0},
}


def sample(*, without: str = "nobody") -> tuple[Ratings, dict[str, dict[str, str]]]:
    """Return ratings of two bots by 70 raters of four groups, and the raters' ages.

    Args:
        without: a group that did not rate bot b, apart from two raters.
    """
    rng, rows, ages = np.random.default_rng(3), [], {}
    for group, n in GROUPS.items():
        noise = rng.normal(size=(2, n)) * 0.4
        noise -= noise.mean(axis=1, keepdims=True)
        for i in range(n):
            ages[f"{group}{i}"] = group
            rows += [
                (bot, f"{group}{i}", MEANS[bot][group] + noise[k, i])
                for k, bot in enumerate("ab")
                if not (bot == "b" and group == without and i > 1)
            ]
    bots, raters, values = zip(*rows, strict=True)
    scale = RatingDimension("quality", "Quality", 0, 7, reversed=False, inferred=False)
    named = np.array(raters, dtype=object)
    chats = np.array([f"{bot} {rater}" for bot, rater, _value in rows], dtype=object)
    ratings = Ratings(chats, np.array(bots, dtype=object), named, {"quality": np.array(values)}, (scale,))
    return ratings, {"age": ages}


@pytest.fixture(scope="module")
def result() -> PopulationResult:
    ratings, ages = sample()
    return population_result(ratings, ages, {"age": {"young": 0.2, "old": 0.5, "oldest": 0.2, "unborn": 0.1}})


def test_weighted_means_are_those_of_the_published_groups(result: PopulationResult) -> None:
    """The oldest and those without an answer are ten together: their share is that of the population and the raters."""
    groups = {group.group: group for group in result.groups}
    assert {name: group.n_raters for name, group in groups.items()} == {"young": 40, "old": 20, OTHER_ANSWERS: 10}
    assert groups[OTHER_ANSWERS].answers == (NO_ANSWER, "oldest")
    assert groups["young"].target == pytest.approx(0.2 / 0.9)  # nobody is unborn
    assert result.absent == {"age": ("unborn",)}
    silent = 4 / 70
    shares = np.array([0.2, 0.5]) / 0.9 * (1 - silent)
    for entry in result.bots:
        means = MEANS[entry.bot]
        other = (6 * means["oldest"] + 4 * means[""]) / 10
        expected = shares @ [means["young"], means["old"]] + (1 - shares.sum()) * other
        assert entry.weighted.mean == pytest.approx(expected, abs=1e-9)
        assert entry.mean == pytest.approx(sum(GROUPS[group] * mean for group, mean in means.items()) / 70)


def test_the_order_turns_with_the_weights(result: PopulationResult) -> None:
    assert (result.plain_order, result.order) == (["a", "b"], ["b", "a"])
    assert [entry.weighted_ranks for entry in result.bots] == [(1, 1), (2, 2)]
    assert result.n_effective is not None
    assert result.n_effective < 70


def test_the_groups_differ_as_the_interaction_says(result: PopulationResult) -> None:
    """With both bots rated by everyone, bot × group is the analysis of variance of the differences by group."""
    ratings, ages = sample()
    differences: dict[str, list[float]] = {}
    values = dict(zip(zip(ratings.bot, ratings.rater, strict=True), ratings.values(), strict=True))
    for rater, age in ages["age"].items():
        group = OTHER_ANSWERS if age in ("", "oldest") else age
        differences.setdefault(group, []).append(values["a", rater] - values["b", rater])
    by_hand = stats.f_oneway(*differences.values())
    [test] = result.tests
    assert by_hand.pvalue < 1e-9
    assert test.p is not None
    assert test.p < 1e-6
    cells = {
        (bot, level.level): level.interval(bot, "quality").mean for level in result.by_group.levels for bot in "ab"
    }
    assert cells["a", "old"] == pytest.approx(3.0)
    assert cells["b", OTHER_ANSWERS] == pytest.approx((6 * 4.83 + 4 * 4.0) / 10)
    shuffled = {
        "age": dict(zip(ages["age"], np.random.default_rng(1).permutation(list(ages["age"].values())), strict=True))
    }
    [again] = population_result(ratings, shuffled).tests
    assert again.p is not None
    assert again.p > 0.01


def numbers(document: Any) -> list[float]:
    if isinstance(document, dict):
        return [number for value in document.values() for number in numbers(value)]
    if isinstance(document, list | tuple):
        return [number for value in document for number in numbers(value)]
    return [float(document)] if isinstance(document, int | float) and not isinstance(document, bool) else []


def test_nothing_tells_of_the_small_groups(result: PopulationResult) -> None:
    document = json.loads(json.dumps(result.to_json()))
    assert not {6.0, 4.0} & set(numbers([document["groups"], document["by_group"]])), "their numbers"
    assert not [n for n in numbers(document) if abs(n - 1.37) < 1e-6 or abs(n - 4.83) < 1e-6], "their means"
    assert all(group["n_raters"] >= 10 for group in document["groups"])
    assert all(n >= 10 for level in document["by_group"]["levels"] for n in level["n_conversations"].values())
    assert "Groups of fewer than 10 raters are merged (age: No answer, oldest)." in result.tables()[0].note
    assert result_load(result_dump(result, PopulationResult), PopulationResult) == result


def test_a_bot_with_a_small_cell_has_no_group_and_no_weighted_mean() -> None:
    ratings, ages = sample(without="old")
    found = population_result(ratings, ages, {"age": {"young": 0.5, "old": 0.5}})
    entries = {entry.bot: entry for entry in found.bots}
    assert entries["b"].weighted.reason == FEW_IN_GROUP
    assert (entries["b"].weighted.mean, entries["b"].weighted_ranks) == (None, None)
    assert entries["a"].weighted.mean is not None
    assert {bot for level in found.by_group.levels for bot in level.n_conversations} == {"a"}
    assert found.tests[0].hidden_bots == ("b",)
    assert found.tests[0].reason == FEW_IN_GROUP


def test_without_a_population_only_groups_are_compared() -> None:
    ratings, ages = sample()
    found = population_result(ratings, ages)
    assert found.reason is not None
    assert (found.reason.code, found.bots) == ("no_margins", ())
    assert len(found.tests) == 1
    assert population_result(ratings, {}).groups == ()
    few = population_result(ratings, ages, {"age": {"young": 1.0}}, smallest=71)
    assert [(group.group, group.n_raters) for group in few.groups] == [(OTHER_ANSWERS, 70)]
    assert few.reason is not None
    assert few.reason.code == "no_groups_to_weight"
    assert few.by_group.levels == ()


def test_a_notebook_weights_a_file_of_ratings(tmp_path: Path) -> None:
    ratings, ages = sample()
    turns = [{"speaker": "human", "text": "hello"}, {"speaker": "bot", "text": "hi"}]
    rows = zip(ratings.conversation, ratings.bot, ratings.rater, ratings.values(), strict=True)
    records = [
        {"dialogue_id": chat, "bot": bot, "turns": turns, "ratings": [{"rater": rater, "quality": value}]}
        for chat, bot, rater, value in rows
    ]
    (tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, records)))
    study = confab.read(tmp_path / "chats.jsonl", scale=(0, 7), higher=["quality"])
    background = pd.DataFrame({"rater": list(ages["age"]), "age": [age or None for age in ages["age"].values()]})
    (tmp_path / "shares.csv").write_text("question,answer,share\nage,young,0.3\nage,old,0.7\n")
    found = confab.population(study, background, str(tmp_path / "shares.csv"))
    assert found.to_json() == population_result(ratings, ages, {"age": {"young": 0.3, "old": 0.7}}).to_json()
    assert "count like" in found.summary()
    with pytest.raises(ValueError, match="the background has no question 'sex'"):
        confab.population(study, background, {"sex": {"Woman": 1.0}})
