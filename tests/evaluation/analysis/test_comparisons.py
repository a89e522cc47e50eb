"""Comparisons of bots: the numbers of the test, ranks that it leaves open, and groups of conversations over turns."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ttost_ind

from evaluation.analysis.bot_means import bot_means
from evaluation.analysis.comparisons import Comparisons, compare, means_compared
from evaluation.analysis.leaderboard import find_equal_groups, leaderboard, ranking_progress
from evaluation.analysis.planning import plan_raters, prediction_worth
from evaluation.analysis.trajectories import Grouping, TrajectoryGroup, trajectories
from evaluation.data.ratings import Ratings
from evaluation.number_format import result_dump, result_load
from evaluation.stats.comparisons import EQUAL_ALPHA, ORDER_ALPHA, pairwise
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.power import raters_needed
from evaluation.stats.sequential import pairwise_always
from tests.evaluation.stats import simulated_courses


def ratings() -> Ratings:
    """Make ratings by forty raters of two bots alike, one worse, one control, and one with a single conversation."""
    rng = np.random.default_rng(2)
    rows = [
        {
            "conversation": f"{bot}{n}",
            "bot": bot,
            "rater": f"w{n}",
            "quality": float(np.clip(round(level + rng.normal()), 1, 7)),
        }
        for bot, level in {"a": 5.0, "b": 4.9, "c": 3.2, "bad": 1.4}.items()
        for n in range(40)
    ]
    rows.append({"conversation": "x", "bot": "x", "rater": "w0", "quality": 4.0})
    return Ratings.from_frame(pd.DataFrame(rows), ["quality"], scale=(1, 7), controls=["bad"])


def test_pairs_are_those_of_the_test_and_told_apart_has_one_definition() -> None:
    read = ratings()
    result = compare(read)
    tested = pairwise(read.values(), read.bot.tolist(), read.unit.tolist(), level=1 - ORDER_ALPHA)
    expected = tested.pairs
    assert result.pairs == expected
    assert result.means == tested.means
    assert result.told_apart == {(p.a, p.b) for p in expected if p.ordered}
    assert result.told_apart == {("a", "c"), ("b", "c"), ("a", "bad"), ("b", "bad"), ("bad", "c")}
    assert (result.n_told_apart, result.n_pairs) == (5, 6)
    assert result.too_close == [("a", "b")]
    assert [pair.reason.code for pair in result.untested if pair.reason] == ["one_rating"] * 4
    assert set(result.order[:2]) == {"a", "b"}
    assert result.controls == ("bad",)
    assert (result.below("bad"), result.n_raters, result.n_ratings) == (3, 40, 161)
    assert result.as_good_as_best()[0] in {"a", "b"}


def test_equal_is_what_two_one_sided_tests_say_and_statsmodels_too() -> None:
    values = ratings().values()
    bots = ratings().bot.astype(str)
    a, b = values[bots == "a"], values[bots == "b"]
    frame = pd.DataFrame({"conversation": range(80), "bot": ["a"] * 40 + ["b"] * 40, "q": [*a[:40], *b[:40]]})
    results = {}
    for smallest in (0.1, 0.3, 0.5, 0.7, 0.9, 1.5):
        p, *_tests = ttost_ind(a[:40], b[:40], -smallest, smallest, usevar="unequal")
        compared = compare(Ratings.from_frame(frame, scale=(1, 7)), smallest=smallest)
        results[smallest] = compared.is_equal(compared.pairs[0])
        assert results[smallest] is bool(p < EQUAL_ALPHA), smallest
    assert set(results.values()) == {True, False}
    needs = {smallest: compare(ratings(), smallest=smallest) for smallest in (0.6, 0.2, 1e-3)}
    assert [need.need(need.pair("a", "b")) for need in needs.values()] == ["enough", "raters", "too_many"]
    with pytest.raises(ValueError, match="must be above 0"):
        compare(ratings(), smallest=0)


def test_equality_is_tested_only_where_a_smallest_difference_is_known() -> None:
    same = {"conversation": range(200), "bot": ["a", "b"] * 100, "q": [3, 3, 4, 4] * 50}
    known = compare(Ratings.from_frame(pd.DataFrame(same), scale=(1, 7)))
    assert (known.smallest, known.is_equal(known.pairs[0])) == (pytest.approx(0.6), True)
    assert known.need(known.pairs[0]) == "enough"
    assert known.to_json()["pairs"][0]["equal"] is True
    assert "equal" in [line.split()[-1] for line in known.summary().splitlines()]
    guessed = compare(Ratings.from_frame(pd.DataFrame(same)))
    assert (guessed.smallest, guessed.is_equal(guessed.pairs[0])) == (None, None)
    assert (guessed.need(guessed.pairs[0]), guessed.plans[0].reason.code) == ("unknown", "no_smallest")
    assert "the scale is unknown" in guessed.summary()
    assert replace(guessed, smallest=0.6).is_equal(guessed.pairs[0]) is True, "where the researcher names it"
    # Of another question's scale the same share counts.
    wide = Ratings.from_frame(pd.DataFrame(same | {"w": [30, 30, 40, 40] * 50}), scale={"q": (1, 7), "w": (0, 100)})
    assert replace(wide, smallest_share=0.05).smallest_difference("w") == pytest.approx(5)
    collecting = compare(replace(wide, is_collecting=True, headline=("q",)))
    assert collecting.test == "always"
    always = collecting.pairs[0]
    assert collecting.is_equal(always) == (max(-always.low, always.high) < 0.6)


def test_a_scale_is_never_guessed_into_an_interval() -> None:
    frame = pd.DataFrame({"conversation": range(16), "bot": ["a"] * 8 + ["b"] * 8, "q": [6] * 8 + [5, 6] * 4})
    guessed = bot_means(Ratings.from_frame(frame))
    ends = guessed.rows["a", "q"].interval
    assert (ends.low, ends.high, ends.reason.code) == (None, None, "all_alike")
    of_b = guessed.rows["b", "q"].interval
    assert (of_b.low, of_b.high) == pytest.approx(stats.t.interval(0.9, 7, 5.5, stats.sem([5, 6] * 4)))
    assert "unknown scale, so intervals have no limits: q" in guessed.summary()
    known = bot_means(Ratings.from_frame(frame, scale=(1, 7)))
    ends = known.rows["a", "q"].interval
    assert (ends.low, ends.high) == pytest.approx((3.99, 6.77), abs=0.005)
    assert (known.unknown, "scale" in known.summary()) == ((), False)


def test_a_reversed_question_turns_the_comparison_round() -> None:
    frame = ratings().to_frame()
    straight = compare(Ratings.from_frame(frame, ["quality"], scale=(1, 7)))
    turned = compare(Ratings.from_frame(frame, ["quality"], scale=(1, 7), reversed=["quality"]))
    assert turned.told_apart == straight.told_apart
    for pair, other in zip(straight.pairs, turned.pairs, strict=True):
        assert other.difference == pytest.approx(-(pair.difference or 0.0))
    assert turned.order[0] == "bad"


def test_means_are_those_of_the_values() -> None:
    read = ratings()
    result = bot_means(read)
    mine = read.values()[read.bot == "c"]
    row = result.rows["c", "quality"]
    assert row.interval.mean == pytest.approx(mine.mean())
    assert row.sd == pytest.approx(mine.std(ddof=1))
    assert row.quantiles == tuple(np.quantile(mine, [0, 0.25, 0.5, 0.75, 1]))
    assert result.rows["x", "quality"].to_json()["reason"] == {"code": "one_value"}
    assert result.n_ratings["x"] == 1
    json.dumps(result.to_json(), allow_nan=False)
    assert "quality" in result.summary()


def test_there_is_one_order_whichever_test_decides() -> None:
    """A lenient rater who rated one bot only lifts its plain mean, and not its place."""
    table = pd.DataFrame(
        [
            (bot, rater, 3 + (bot == "b") * 0.5 + kind + number % 2)
            for bot in "ab"
            for rater, kind in (("r", 0), ("s", 0), ("t", 1), ("u", 0))
            for number in range(3)
        ]
        + [("a", "kind", 7), ("a", "kind", 6)] * 6,
        columns=["bot", "rater", "quality"],
    ).assign(conversation=lambda rows: np.arange(len(rows)))
    read = Ratings.from_frame(table, ["quality"], scale=(1, 7))
    plain = table.groupby("bot")["quality"].mean()
    assert plain["a"] > plain["b"]
    for ratings_ in (read, replace(read, is_collecting=True)):
        result = compare(ratings_, plans=False)
        assert result.order == ("b", "a")
        assert result.means == pytest.approx(means_compared(ratings_))
    unnamed = replace(read, rater=np.full(len(read), None, dtype=object))
    assert compare(unnamed).to_json()["unit"] == "conversations"


def test_a_plan_holds_for_the_pair_that_spreads_most() -> None:
    read = ratings()
    values = read.values()
    apart = np.concatenate([values[read.bot == b] - values[read.bot == b].mean() for b in read.bots])
    sd = np.sqrt((apart**2).sum() / (len(values) - len(read.bots)))
    result = plan_raters(read, [1.0], power=0.9)
    assert result.sd == pytest.approx(sd)
    assert result.n_comparisons == 6  # a, b, c and x
    names = {(pair.a, pair.b) for pair in result.pairs}
    assert names == {("a", "b"), ("a", "c"), ("b", "c")}, "no control, and nobody rated by one"
    most, least = result.pairs[0], result.pairs[-1]
    for one in result.pairs:
        variances = [values[read.bot == bot].var(ddof=1) for bot in (one.a, one.b)]
        assert one.sd**2 == pytest.approx(np.mean(variances), rel=0.05)
    (row,) = result.rows
    for need, pair in ((row.independent, most), (row.independent_least, least)):
        assert need == raters_needed(1.0, pair.sd, power=0.9, alpha=ORDER_ALPHA, n_comparisons=6)
    assert row.independent.n > row.independent_least.n
    assert (row.share, result.n_fewest, result.detectable) == (pytest.approx(1 / 6), 1, None)
    json.dumps(result.to_json(), allow_nan=False)
    assert f"{row.independent_least.n:,} to {row.independent.n:,}" in result.summary()


def test_while_a_study_collects_the_always_valid_test_decides_and_says_how_many_more() -> None:
    finished = ratings()
    collecting = replace(finished, is_collecting=True)
    fixed, always = compare(finished), compare(collecting)
    assert (fixed.test, always.test) == ("fixed", "always")
    dimension = collecting.leading
    expected = pairwise_always(
        collecting.values(),
        collecting.bot.tolist(),
        collecting.unit.tolist(),
        low=dimension.low,
        high=dimension.high,
        level=1 - ORDER_ALPHA,
    )
    assert always.pairs == tuple(expected)
    assert always.told_apart <= fixed.told_apart, "a look at any time needs a clearer difference"
    assert not fixed.more
    assert set(always.more) == {(p.a, p.b) for p in always.pairs if p.p is not None} - (always.told_apart)
    document = json.loads(json.dumps(always.to_json()))
    assert document["test"] == "always"
    for row in document["pairs"]:
        assert ("raters_more" in row) == ((row["a"], row["b"]) in always.more)
    assert "always valid" in always.summary()
    assert result_load(result_dump(always, Comparisons), Comparisons).more == always.more
    assert collecting.select(collecting.bot == collecting.bot[0]).is_collecting


def test_a_prediction_saves_ratings_of_further_bots_where_its_values_count() -> None:
    fit = {
        "target": "quality",
        "q2": {"value": 0.7, "null95": 0.4},
        "ratings_worth": {"stated": 21.0, "by_error": 30.0, "ci95": [12.0, None]},
        "bots": {"b": {}, "a": {}},
    }
    result = prediction_worth(fit, ("quality",))
    assert (result.ratings, result.bots) == (21.0, ("a", "b"))
    assert (result.count_remaining(64), result.count_remaining(22)) == (43, 2)
    # As the combined mean says: its variance with so many ratings is that of all ratings without a prediction.
    spread, sd = 1.5 / np.sqrt(21), 1.5
    together = 1 / (1 / spread**2 + result.count_remaining(64) / sd**2)
    assert together == pytest.approx(sd**2 / 64)
    assert prediction_worth(fit, ("fun",)) is None
    assert prediction_worth(fit | {"q2": {"value": 0.3, "null95": 0.4}}, ("quality",)) is None
    assert prediction_worth(fit | {"ratings_worth": None}, ("quality",)) is None


def test_the_ranking_has_every_question_once() -> None:
    rows = [{"conversation": f"{n}", "bot": "ab"[n % 2], "quality": n, "fun": -n} for n in range(8)]
    ratings = Ratings.from_frame(pd.DataFrame(rows), ["quality", "fun"], scale=(-10, 10))
    by_fun = ranking_progress(replace(ratings, headline=("fun",)))
    assert by_fun.compared.dimension.key == "fun"
    assert list(by_fun.other_questions) == ["quality"]
    assert by_fun.other_questions["quality"].means["a"].mean == 3
    both = ranking_progress(replace(ratings, headline=("quality", "fun")))
    assert list(both.other_questions) == ["quality", "fun"]


@pytest.mark.parametrize("headline", [("quality",), ("quality", "fun")])
def test_a_scale_read_off_the_answers_bounds_no_interval_while_a_study_collects(headline: tuple[str, ...]) -> None:
    rows = [
        {"conversation": f"{bot}{n}", "bot": bot, "rater": f"w{n}", "quality": value, "fun": value}
        for bot, values in {"a": [5, 5, 5, 4], "b": [2, 2, 3, 2]}.items()
        for n, value in enumerate(values)
    ]
    frame = pd.DataFrame(rows)
    known = Ratings.from_frame(frame, ["quality", "fun"], scale=(2, 5))
    # As where a file tells the scale of one question, and that of the other is read off its answers.
    part = Ratings.from_frame(frame, ["quality", "fun"], scale={"fun": (2, 5)})
    bounded = ranking_progress(replace(known, headline=headline))
    free = ranking_progress(replace(part, headline=headline))
    assert (bounded.means["a"].high, bounded.means["b"].low) == (5, 2)
    assert free.means["a"].mean == bounded.means["a"].mean
    # It imagines raters at the ends of the scale, so that without one nothing is told.
    assert {(mean.high, mean.reason.code) for mean in free.means.values()} == {(None, "no_scale")}
    assert [(pair.p, pair.low, pair.reason.code) for pair in free.compared.pairs] == [(None, None, "no_scale")]


def test_ranks_leave_open_what_the_tests_leave_open() -> None:
    read = ratings()
    compared = compare(read)
    result = leaderboard(bot_means(read), compared)
    places = {place.bot: place for place in result.places}
    assert [place.bot for place in result.places] == [*compared.order, "bad"]
    # x has one rating: nothing is known of its place. c is below a and b, so at least third.
    assert places["x"].ranks == (1, 4)
    assert places["a"].ranks == places["b"].ranks == (1, 3)
    assert places["c"].ranks == (3, 4)
    assert compared.to_json()["ranks"]["a"] == [1, 3]
    assert (places["bad"].ranks, places["bad"].is_control) == (None, True)
    assert set(places["a"].too_close) == {"b", "x"}
    assert (result.n_told_apart, result.n_pairs) == (compared.n_told_apart, compared.n_pairs)
    for place in result.places:
        assert place.compared_mean == compared.means[place.bot]
        assert place.mean == bot_means(read).rows[place.bot, "quality"].interval


def test_groups_join_all_pairs_that_cannot_be_told_apart_and_no_other() -> None:
    compared = compare(ratings())
    result = leaderboard(bot_means(ratings()), compared)
    joined = {tuple(sorted(pair)) for group in result.groups for pair in combinations(group, 2)}
    bots = [place.bot for place in result.places]
    assert joined == {tuple(sorted(pair)) for pair in combinations(bots, 2) if not compared.are_told_apart(*pair)}


def test_groups_of_any_graph_cover_it_and_no_group_is_told_twice() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        bots = [f"b{i}" for i in range(9)]
        close: dict[str, set[str]] = {bot: set() for bot in bots}
        for a, b in combinations(bots, 2):
            if rng.random() < 0.5:
                close[a].add(b)
                close[b].add(a)
        groups = find_equal_groups(close)
        covered = {pair for group in groups for pair in combinations(group, 2)}
        assert covered == {(a, b) for a, b in combinations(bots, 2) if b in close[a]}
        assert len(set(groups)) == len(groups)


def test_groups_of_chosen_bots_know_no_others() -> None:
    close = {"a": ("b", "c"), "b": ("a", "c")}
    assert find_equal_groups(close) == (("a", "b"),)
    assert find_equal_groups({"a": (), "b": ()}) == ()


NAMES = [f"c{k}" for k in range(12)]
GROUPS = Grouping(
    "by-trait", (TrajectoryGroup("x", tuple(NAMES[:6])), TrajectoryGroup("y", tuple(NAMES[6:]))), trait="t"
)
rng = np.random.default_rng(0)
VALUES = {"m": {name: [float(value)] for name, value in zip(NAMES, rng.normal(size=12), strict=True)}}


def test_the_difference_is_welchs_where_everybody_talked_once() -> None:
    x, y = (np.array([VALUES["m"][pk][0] for pk in group.conversations]) for group in GROUPS.groups)
    contrast = trajectories(GROUPS, VALUES, ["m"]).measures[0].contrast
    expected = stats.ttest_ind(x, y, equal_var=False)
    ends = expected.confidence_interval(0.9)
    assert (contrast.low, contrast.high, contrast.p) == pytest.approx((ends.low, ends.high, expected.pvalue))
    assert contrast.difference == pytest.approx(x.mean() - y.mean())


def test_the_difference_is_the_paired_one_where_everybody_met_both() -> None:
    x, y = (np.array([VALUES["m"][pk][0] for pk in group.conversations]) for group in GROUPS.groups)
    people = {name: f"p{k % 6}" for k, name in enumerate(NAMES)}
    result = trajectories(GROUPS, VALUES, ["m"], people).measures[0].contrast
    expected = stats.ttest_rel(x, y)
    ends = expected.confidence_interval(0.9)
    assert (result.low, result.high, result.p) == pytest.approx((ends.low, ends.high, expected.pvalue), rel=1e-6)
    alone = trajectories(GROUPS, VALUES, ["m"], dict.fromkeys(NAMES, "p"))
    contrast = alone.measures[0].contrast
    assert (contrast.low, contrast.p, alone.n_people) == (None, None, 1)


def test_a_scale_makes_the_difference_that_of_the_groups_own_intervals() -> None:
    """Two shares of different people: Newcombe's hybrid score interval (1998, method 10), of Wilson's with t in place
    of z.
    """
    groups = (TrajectoryGroup("x", tuple(NAMES[:5])), TrajectoryGroup("y", tuple(NAMES[5:])))
    laughs = dict(zip(NAMES, [1, 0, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1], strict=True))
    values = {"m": {name: [float(value)] for name, value in laughs.items()}}
    scales = {"m": (0.0, 1.0)}
    told = trajectories(Grouping("by-trait", groups, trait="t"), values, ["m"], scales=scales, people=None)
    contrast = told.measures[0].contrast
    assert told.n_people == 12
    ends = []
    for names in (NAMES[:5], NAMES[5:]):
        share, n = np.mean([laughs[name] for name in names]), len(names)
        z = stats.t.ppf(0.95, n - 1)
        effective = n - 1  # a variance of share (1 − share) / (n − 1)
        middle = (share + z**2 / effective / 2) / (1 + z**2 / effective)
        half = z * np.sqrt(share * (1 - share) / effective + z**2 / effective**2 / 4)
        half /= 1 + z**2 / effective
        ends.append((share, middle - half, middle + half))
    (x, low_x, high_x), (y, low_y, high_y) = ends
    low = x - y - np.hypot(x - low_x, high_y - y)
    high = x - y + np.hypot(high_x - x, y - low_y)
    assert (contrast.low, contrast.high) == pytest.approx((low, high))
    assert low < 0 < high
    assert contrast.p > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("design", ["halves, 60 people", "kinds, 10 people, 4 each"])
def test_intervals_of_courses_and_differences_hold(design: str) -> None:
    """40 studies each, at least as many as claimed less three Monte-Carlo errors."""
    result = simulated_courses.held(design, 40)
    for what, one in result.items():
        if one.of >= 40:
            assert one.inside / one.of >= RATING_LEVEL - 3 * np.sqrt(RATING_LEVEL * (1 - RATING_LEVEL) / 40), what
    assert sum(one.of >= 40 for one in result.values()) >= 12
