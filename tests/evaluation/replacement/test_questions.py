"""The three questions about a candidate, compared with independent code."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from evaluation.data.ratings import Ratings
from evaluation.hybrid.levels import SignificantPairs, bot_levels, pairs_of
from evaluation.hybrid.rivals import Rival, error_ratio
from evaluation.replacement.compare import compare_candidates
from evaluation.replacement.equality import compare_values, paired_differences, separate_differences
from evaluation.replacement.ranking import NO_OWN_TURNS, OWN_TURNS, BotPredictions, rank_bots
from evaluation.replacement.ratings_worth import worth_of_scores
from evaluation.replacement.result import Settlement
from tests.validation.replacement import BIASED, PERFECT, USELESS, Cell, exact_interval, simulate_study

rng = np.random.default_rng(48)


def test_the_p_value_of_a_ratio_is_that_of_an_uncentred_correlation() -> None:
    """Errors are equal if their sum and difference are uncorrelated (Pitman 1939, Morgan 1939)."""
    human, predicted, rival = rng.normal(size=(3, 9))
    e, f = human - predicted, human - rival
    r = ((e + f) @ (e - f)) / np.sqrt(((e + f) @ (e + f)) * ((e - f) @ (e - f)))
    t = abs(r) * np.sqrt(6 / (1 - r * r))
    ratio = error_ratio(predicted, rival, human)
    assert ratio.p_value(9) == pytest.approx(2 * stats.t.sf(t, 6), rel=1e-6)
    assert error_ratio(predicted, predicted, human).p_value(9) == pytest.approx(1.0)
    assert error_ratio(predicted[:4], rival[:4], human[:4]).p_value(4) is None


def test_the_p_value_of_r_counts_permutations_that_reach_it() -> None:
    x, y = np.array([1.0, 2, 3, 4, 6]), np.array([1.0, 2.5, 2, 5, 4])
    r = np.corrcoef(x, y)[0, 1]
    reached = sum(np.corrcoef(x, order)[0, 1] >= r - 1e-12 for order in permutations(y))
    assert bot_levels(x, y, seed=0)["pearson"].p == pytest.approx((reached + 1) / 121)


def test_paired_values_are_tested_as_statsmodels_tests_them() -> None:
    people, scores = rng.normal(3, 1, 60), rng.normal(3.1, 0.7, 60)
    names = np.array([f"c{k}" for k in range(60)], dtype=object)
    [difference] = paired_differences(people, scores, np.full(60, "a", dtype=object), names, names, 0.5)
    p, _low, _high = ttost_paired(scores, people, -0.5, 0.5)
    assert difference.p_within == pytest.approx(p)
    ends = stats.t.interval(0.9, 59, (scores - people).mean(), stats.sem(scores - people))
    assert (difference.difference.low, difference.difference.high) == pytest.approx(ends)


def test_separate_values_are_tested_by_welch() -> None:
    people, scores = rng.normal(3, 1, 40), rng.normal(3.1, 0.5, 25)
    names = np.array([f"c{k}" for k in range(40)], dtype=object)
    [difference] = separate_differences(
        people, np.full(40, "a", dtype=object), names, names, {"a": scores, "unrated": scores}, 0.5
    )
    assert difference.p_within == pytest.approx(ttost_ind(scores, people, -0.5, 0.5, usevar="unequal")[0])


def test_an_error_is_never_smaller_than_that_of_the_raters_or_of_the_chats() -> None:
    people, scores = rng.normal(3, 1, 60), np.full(60, 3.0)
    bots, single = np.full(60, "a", dtype=object), np.array([f"c{k}" for k in range(60)], dtype=object)
    of_six = np.array([f"r{k // 10}" for k in range(60)], dtype=object)
    people += np.repeat(rng.normal(0, 2, 6), 10)

    def width(raters: np.ndarray, chats: np.ndarray) -> float:
        effect = paired_differences(people, scores, bots, raters, chats, None)[0].difference
        return effect.high - effect.low

    assert width(of_six, single) == width(single, of_six) > 2 * width(single, single)


def values_of(*gaps: float, n: int = 50, margin: float | None = 0.5) -> object:
    """Compare bots whose values differ from people's by these gaps."""
    noise = rng.normal(0, 1, n)
    noise -= noise.mean()
    bots = np.repeat([f"b{k}" for k in range(len(gaps))], n).astype(object)
    people = np.concatenate([3 + noise for _gap in gaps])
    scores = np.concatenate([np.full(n, 3 + gap) for gap in gaps])
    names = np.array([f"c{k}" for k in range(len(people))], dtype=object)
    return compare_values(paired_differences(people, scores, bots, names, names, margin), margin)


def test_every_bot_must_be_within_the_margin() -> None:
    near, one_unclear, one_beyond = values_of(0.1, -0.1), values_of(0.1, 0.4), values_of(0.1, 1.5)
    assert near.p <= 0.05
    assert (near.n_within, near.settled_by) == (2, None)
    assert (one_unclear.answer, one_unclear.n_within) == ("not_known", 1)
    assert one_unclear.settled_by.by == "ratings"
    assert one_unclear.settled_by.n > 50
    assert (one_beyond.answer, one_beyond.bots[0].bot) == ("no", "b1")
    assert values_of(0.1, 0.55).settled_by == Settlement("better_candidate")
    unknown = values_of(0.1, margin=None)
    assert (unknown.answer, unknown.settled_by, unknown.reason.code) == ("not_known", Settlement("margin"), "no_margin")


def test_the_number_of_ratings_that_would_settle_it_does() -> None:
    needed = values_of(0.1, 0.4).settled_by.n
    assert values_of(0.1, 0.4, n=round(1.1 * needed)).p <= 0.05 < values_of(0.1, 0.4, n=round(0.8 * needed)).p


def predictions_of(human: list[float], noise: float, **rival_noise: float) -> BotPredictions:
    """Return predictions of bots with these errors, and rivals with theirs."""
    bots = [f"b{k}" for k in range(len(human))]
    means = np.array(human)
    predicted = means + rng.normal(0, noise, len(human))
    rivals = {
        name: Rival(None, 0.0, 0.0, error_ratio(predicted, means + rng.normal(0, size, len(human)), means))
        for name, size in rival_noise.items()
    }
    return BotPredictions(
        bot_levels(predicted, means, seed=0)["pearson"],
        pairs_of(dict(zip(bots, predicted, strict=True)), dict(zip(bots, human, strict=True)), SignificantPairs()),
        dict(zip(bots, predicted.tolist(), strict=True)),
        dict(zip(bots, human, strict=True)),
        rivals,
    )


LENGTHS = {"log_turns": 1.0, "log_words": 1.0, "log_turns_and_words": 1.0}
MEANS = rng.normal(0, 1, 10).tolist()


def own_turns(size: float) -> dict[str, float]:
    return {f"b{k}": value + float(rng.normal(0, size)) for k, value in enumerate(MEANS)}


def test_the_weakest_of_all_tests_decides_about_the_order() -> None:
    ranking = rank_bots(predictions_of(MEANS, 0.05, **LENGTHS), own_turns(1.0), is_own_turns=False)
    of_rivals = {rival.rival: rival.p for rival in ranking.rivals}
    assert set(of_rivals) == {*LENGTHS, OWN_TURNS}
    assert ranking.p == max(*of_rivals.values(), ranking.p) < 0.05
    tied = rank_bots(predictions_of(MEANS, 0.05, **LENGTHS), own_turns(0.05), is_own_turns=False)
    assert tied.p > 0.05
    assert tied.answer == "not_known"
    alone = rank_bots(predictions_of(MEANS, 0.05, **LENGTHS), own_turns(0.05), is_own_turns=True)
    assert OWN_TURNS not in {rival.rival for rival in alone.rivals}
    assert alone.p < 0.05


def test_a_candidate_worse_than_a_rival_or_with_a_low_r_is_refused() -> None:
    worse = rank_bots(predictions_of(MEANS, 0.8, **LENGTHS | {"log_turns": 0.01}), own_turns(1.0), is_own_turns=False)
    assert (worse.answer, worse.settled_by) == ("no", None)
    means = rng.normal(0, 1, 60)
    noise = predictions_of(means.tolist(), 0.0, **LENGTHS)
    shuffled = rng.permutation(means)
    level = bot_levels(shuffled, means, seed=0)["pearson"]
    low = rank_bots(BotPredictions(level, noise.pairs, noise.folds, noise.human, noise.rivals), None, is_own_turns=True)
    assert low.answer == "no"
    assert low.r.high < 0.5


def test_what_is_missing_leaves_the_order_open() -> None:
    few = rank_bots(predictions_of(MEANS[:4], 0.1, **LENGTHS), None, is_own_turns=False)
    assert (few.reason.code, few.settled_by, few.p) == ("few_bots_for_values", Settlement("bots", 5), None)
    without_lengths = rank_bots(predictions_of(MEANS, 0.1), own_turns(1.0), is_own_turns=False)
    assert without_lengths.settled_by == Settlement("metrics")
    without_own = rank_bots(predictions_of(MEANS, 0.1, **LENGTHS), None, is_own_turns=False)
    assert (without_own.reason, without_own.settled_by) == (NO_OWN_TURNS, Settlement("selfplay"))


def ratings_of(n_bots: int, n: int, r: float, *, raters: int | None = None) -> tuple[Ratings, np.ndarray]:
    """Return ratings of bots and scores that correlate with them by r within bots."""
    bot = np.repeat(np.arange(n_bots), n)
    score = rng.normal(size=len(bot))
    rating = 50 + 5 * bot + 5 * (r * score + np.sqrt(1 - r * r) * rng.normal(size=len(bot)))
    table = pd.DataFrame({"conversation": [f"c{k}" for k in range(len(bot))], "bot": [f"b{k}" for k in bot]})
    who = [None if raters is None else f"r{k % raters}" for k in range(len(bot))]
    return Ratings.from_frame(table.assign(rater=who, quality=rating), ["quality"], scale=(0, 100)), score


def worth(ratings: Ratings, scores: np.ndarray, extra: np.ndarray | None = None) -> object:
    extra = np.zeros(0) if extra is None else extra
    chats = [*ratings.conversation.tolist(), *(f"u{k}" for k in range(len(extra)))]
    bots = [*ratings.bot.tolist(), *(f"b{k % len(ratings.bots)}" for k in range(len(extra)))]
    return worth_of_scores(ratings, scores, chats, bots, np.concatenate([scores, extra]))


def test_the_saving_is_that_of_a_regression_within_bots() -> None:
    ratings, scores = ratings_of(5, 80, 0.6)
    values, bot = ratings.values(), ratings.bot
    rest_y, rest_f = (
        np.concatenate([column[bot == name] - column[bot == name].mean() for name in ratings.bots])
        for column in (values, scores)
    )
    slope = (rest_y @ rest_f) / (rest_f @ rest_f)
    free = len(values) - 5
    left = ((rest_y - slope * rest_f) ** 2).sum() / (rest_y**2).sum() * free / (free - 1)
    result = worth(ratings, scores)
    assert result.saved.value == pytest.approx(100 * (1 - left))
    assert result.saved.low < 36 < result.saved.high
    assert result.p < 0.001
    assert (result.effective, result.effective_reason.code) == (None, "no_unrated")


def test_the_effective_number_is_that_of_ppi() -> None:
    ratings, scores = ratings_of(4, 50, 0.7)
    result = worth(ratings, scores, rng.normal(size=4000))
    assert result.n_unrated == 4000
    assert result.effective == pytest.approx(200 / (1 - 0.49), rel=0.2)


def test_the_interval_of_the_saving_holds() -> None:
    """95 % intervals of savings by r = .5 hold, by chats and by raters."""
    for raters in (None, 25):
        result = [worth(*ratings_of(4, 50, 0.5, raters=raters)).saved for _study in range(120)]
        inside = sum(saved.low <= 25 <= saved.high for saved in result)
        assert 106 <= inside <= 119, raters


def test_chats_that_a_judge_was_built_on_do_not_test_it() -> None:
    data = simulate_study(Cell(5, 6, 2), 1)
    rated = set(data.ratings.conversation.tolist())
    learned = frozenset(sorted(rated)[:10])
    by_name = {
        verdict.name: verdict
        for verdict in compare_candidates(replace(data, built_on={PERFECT: learned}), margin=0.5).candidates
        if verdict.kind in ("judge", "panel")
    }
    assert {name: verdict.n_left_out for name, verdict in by_name.items()} == {
        PERFECT: 10,
        BIASED: 0,
        USELESS: 0,
        "mean": 10,
    }
    n_ratings = {name: sum(bot.n_ratings for bot in verdict.equality.bots) for name, verdict in by_name.items()}
    assert n_ratings == {PERFECT: len(rated) - 10, BIASED: len(rated), USELESS: len(rated), "mean": len(rated) - 10}


def test_useless_scores_save_nothing() -> None:
    results = [worth(*ratings_of(4, 40, 0.0)) for _study in range(200)]
    assert sum(result.p <= 0.05 for result in results) <= 17
    assert abs(np.mean([result.saved.value for result in results])) < 0.5
    assert all(result.answer == "no" or result.settled_by is not None or result.p <= 0.05 for result in results)


def test_the_answer_and_the_interval_of_the_saving_have_one_level() -> None:
    results = [worth(*ratings_of(4, 25, 0.4)) for _study in range(40)]
    assert {result.p <= 0.05 for result in results} == {True, False}
    assert all((result.p <= 0.05) == (result.saved.low > 0) for result in results)


def test_monte_carlo_intervals_are_exact() -> None:
    """Clopper and Pearson by the beta distribution."""
    low, high = exact_interval(3, 40)
    assert (low, high) == pytest.approx((stats.beta.ppf(0.025, 3, 38), stats.beta.ppf(0.975, 4, 37)))
    assert exact_interval(0, 40)[0] == 0.0


def test_a_saving_without_error_or_spread_has_a_reason() -> None:
    ratings, _scores = ratings_of(3, 30, 0.5)
    constant = worth(ratings, np.full(90, 2.0))
    assert constant.reason.code == "constant_within_bots"
    few, few_scores = ratings_of(3, 10, 0.5, raters=4)
    assert worth(few, few_scores).reason.code == "few_raters_for_weight"
    assert worth(ratings, np.full(90, np.nan)).reason.code == "few_raters_for_weight"
