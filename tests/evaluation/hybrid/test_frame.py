"""Ceiling, influence and intervals against what they estimate, and the paragraph made of them."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.hybrid.frame import (
    Ceiling,
    Frame,
    ceiling_of,
    influence_of,
    interval_over_conversations,
    most_influential,
    within_groups_of,
)
from evaluation.hybrid.results import BotLevel, Pairs
from evaluation.hybrid.verdict import Evidence, verdict_of
from evaluation.printing import share
from evaluation.stats.correlation import Correlation


def test_the_ceiling_is_the_reliability_of_the_means():
    rng = np.random.default_rng(0)
    n, n_bots = 40, 60
    ratings = {f"b{k}": rng.normal() * 0.5 + rng.normal(size=n) * 2 for k in range(n_bots)}
    found = ceiling_of(ratings, seed=0)
    true = 0.25 / (0.25 + 4 / n)  # variance of the true means over that of the observed ones
    assert found.reliability == pytest.approx(true, abs=0.12)
    assert found.low < true < found.high
    assert found.best_r == pytest.approx(np.sqrt(found.reliability))


def test_without_true_differences_there_is_nothing_to_predict():
    rng = np.random.default_rng(1)
    ratings = {f"b{k}": rng.normal(size=30) for k in range(40)}
    assert ceiling_of(ratings, seed=0).reliability < 0.5
    few = ceiling_of({"a": np.arange(4.0), "b": np.arange(1.0)}, seed=0)
    assert few.reliability is None
    assert "1 bot with two" in few.reason


def test_influence_is_r_without_the_bot_minus_r():
    x, y = [1.0, 2.0, 3.0, 9.0], [1.0, 3.0, 2.0, 9.0]
    found = influence_of(x, y, ["a", "b", "c", "d"])
    whole = np.corrcoef(x, y)[0, 1]
    for k, bot in enumerate("abcd"):
        rest = np.corrcoef(np.delete(x, k), np.delete(y, k))[0, 1]
        assert found[bot] == pytest.approx(rest - whole)
    assert influence_of([1, 2, 3], [1, 2, 3], ["a", "b", "c"]) == dict.fromkeys("abc")


def test_the_interval_over_conversations_is_that_of_drawing_them():
    rng = np.random.default_rng(2)
    bots = []
    for k in range(6):
        predicted = k * 0.3 + rng.normal(size=40)
        bots.append((predicted, k * 0.3 + 0.4 * predicted + rng.normal(size=40)))
    low, high = interval_over_conversations(bots, seed=0)
    draws = []
    for _ in range(2000):
        rows = [rng.integers(0, 40, 40) for _ in bots]
        means = [(p[r].mean(), t[r].mean()) for (p, t), r in zip(bots, rows, strict=True)]
        draws.append(np.corrcoef(np.array(means).T)[0, 1])
    assert [low, high] == pytest.approx(list(np.quantile(draws, [0.025, 0.975])), abs=0.04)


def test_a_difference_between_groups_alone_vanishes_within_them():
    predicted = {"a": 1.0, "b": 1.1, "c": 5.0, "d": 5.1, "e": 1.05}
    human = {"a": 2.1, "b": 2.0, "c": 6.1, "d": 6.0, "e": 2.05}
    groups = {"a": "x", "b": "x", "c": "y", "d": "y", "e": "x"}
    assert np.corrcoef(list(predicted.values()), list(human.values()))[0, 1] > 0.99
    assert within_groups_of(predicted, human, groups).r < -0.9
    assert within_groups_of(predicted, human, {}) is None


def level(r, null95=0.5):
    return BotLevel(Correlation(r, 0.01, r - 0.2, r + 0.05, 8), null95)


def frame(r, **changed):
    found = {
        "intercepts": {
            "fold": (level(r - 0.3), Pairs(28, 20, 10, 8)),
            "common": (level(r), Pairs(28, 24, 10, 9)),
        },
        "ceiling": Ceiling(0.81, 0.5, 0.9, 0.9),
        "influence": {},
        "over_conversations": (r - 0.1, r + 0.02),
        "within_group": None,
    }
    return Frame(**{**found, **changed})


def evidence(r, rival=0.1, *, null95=0.5, pairs=(28, 24, 10, 9), influence=None):
    return Evidence(
        level(r, null95),
        Pairs(*pairs),
        {"number_of_turns": {"pearson": level(rival)}},
        influence or {"a": -0.3, "b": 0.01},
    )


def verdict(found, n_bots=8, *, r=0.9, intercept="common", **played):
    return verdict_of(frame(r), found, n_bots, intercept=intercept, **played)


@pytest.mark.parametrize(
    ("r", "rival", "says", "ends"),
    [
        (0.9, 0.4, "so this is more than chance", "support ranking further bots"),
        (0.3, 0.1, "so this could be chance", "do not support using"),
        (0.8, 0.93, "the fit adds nothing to it", "no more than the simple count"),
    ],
)
def test_the_verdict_follows_the_numbers(r, rival, says, ends):
    said = verdict(evidence(r, rival), r=r)
    assert says in said
    assert ends in said
    assert f"with one intercept for all folds, r is {share(r)} (" in said
    assert f"the number of turns alone gives {share(rival)}" in said
    assert f"Much hangs on one bot: without a, r is {share(r - 0.3)}" in said
    assert (
        "Of 10 pairs of bots that people can tell apart (p < .10 by Holm’s correction), 9" in said
    )
    assert "self-play" not in said


def test_a_verdict_by_the_folds_intercepts_names_them_and_tells_the_other_one_too():
    said = verdict(evidence(0.38), r=0.56, intercept="fold")
    assert "with an intercept for each fold, as in the paper, r is .38 (" in said
    assert "With one intercept for all folds r is .56 and chance passes .50." in said


def test_much_hangs_on_the_bot_whose_leaving_changes_r_most_whichever_way():
    influence = {"vhred": -0.2, "retrieval": 0.4, "c": None}
    assert most_influential(influence) == "retrieval"
    said = verdict(evidence(0.5, influence=influence))
    assert "without retrieval, r is .90" in said
    assert "vhred" not in said
    assert "Much hangs" not in verdict(evidence(0.5, influence={"a": 0.05, "b": -0.01}))
    assert most_influential({"a": None}) is None


@pytest.mark.parametrize(
    ("left_out", "played", "ends"),
    [
        (evidence(0.9), evidence(0.84), "from conversations with people and from self-play; they"),
        (evidence(0.9), evidence(0.3), "with people but not from self-play; they do not"),
        (evidence(0.9), evidence(0.6, 0.7), "self-play supports no more than a simple count; they"),
        (evidence(0.2), evidence(0.3), "from self-play either, in place of people’s ratings."),
        (evidence(-0.59), evidence(0.84), "fail on the conversations they were made from."),
        (evidence(0.6, 0.8), evidence(0.84), "than the simple count does, from self-play either."),
    ],
)
def test_the_verdict_speaks_of_self_play(left_out, played, ends):
    said = verdict(left_out, selfplay=played, n_selfplay=8)
    assert f"From self-play, the same fits over 8 bots, r is {share(played.r)} (" in said
    assert said.count("Ratings dealt out to the bots at random pass .50") == 2
    assert said.count("Predicting from the number of turns alone gives") == 2
    assert ends in said


def test_self_play_of_few_bots_is_named_and_not_judged():
    said = verdict(evidence(0.9), selfplay=evidence(0.99), n_selfplay=4)
    assert "4 rated bots have self-play, too few to judge that by" in said
    assert ".99" not in said
    assert "and from self-play" not in said


def test_the_verdict_on_few_bots_and_without_a_correlation():
    assert "Only 4 bots rated" in verdict(evidence(0.9), 4)
    none = BotLevel(Correlation(None, None, None, None, 2, reason="only 2 of 3"), None)
    assert "only 2 of 3" in verdict(Evidence(none, Pairs(1, 0, 0, 0), {}, {}))
