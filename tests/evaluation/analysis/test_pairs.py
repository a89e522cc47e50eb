"""Judgements of pairs, against other programs: shares, kappa, and bots ranked by them with style held equal."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import confab
from evaluation.analysis.comparisons import compare
from evaluation.analysis.leaderboard import pair_ranking_progress
from evaluation.analysis.pairs import MOST_EXCHANGES, judge_pairs
from evaluation.analysis.pairwise_preference import (
    CONTROLS,
    PairJudgements,
    Ranking,
    n_markup,
    rank,
    sign_of,
    style_controls,
)
from evaluation.analysis.single_turn import compare_protocols
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.number_format import result_dump, result_load
from evaluation.stats.agreement import cohen_kappa
from evaluation.stats.means import mean_interval
from tests.conftest import ROOT
from tests.reference import ratings as published

QUALITY = {"quality": "Quality"}


def judgements(rows: list[tuple[str, str, str, str, float]]) -> PairJudgements:
    item, first, second, rater, score = zip(*rows, strict=True) if rows else ([],) * 5
    column = [np.array(values, dtype=object) for values in (item, first, second, rater)]
    return PairJudgements(*column, {"quality": np.array(score, dtype=float)}, QUALITY)


def drawn(n_raters: int = 12, n_items: int = 10, p_win: float = 0.6, seed: int = 0) -> PairJudgements:
    """Draw judgements in which bot a wins so often; the order of the bots changes from item to item."""
    rng = np.random.default_rng(seed)
    rows = []
    for item in range(n_items):
        first, second = ("a", "b") if item % 2 else ("b", "a")
        for rater in range(n_raters):
            score = rng.choice([1.0, 0.0, -1.0], p=[p_win, 0.2, 0.8 - p_win])
            rows.append((f"i{item}", first, second, f"r{rater}", score if first == "a" else -score))
    return judgements(rows)


def test_shares_are_of_the_bots_whatever_stood_first() -> None:
    result = judge_pairs(judgements([("i", "a", "b", "r", 1), ("j", "b", "a", "s", -1), ("k", "b", "a", "t", 0)]))
    [outcome] = result.outcomes
    assert (outcome.a, outcome.b) == ("a", "b")
    assert outcome.wins.mean == pytest.approx(2 / 3)
    assert (outcome.ties.mean, outcome.losses.mean) == (pytest.approx(1 / 3), 0)
    assert outcome.ahead.mean == pytest.approx(2 / 3)
    assert (result.n, result.n_items, result.n_raters) == (3, 3, 3)
    counts = {"n_pairs": 1, "n_told_apart": 0, "n_equal": 0, "n_not_yet_known": 1}
    assert result.to_json()["counts"] == {"quality": counts}


def test_items_with_two_most_frequent_answers_are_ambiguous() -> None:
    rows = [("i", "a", "b", f"r{n}", score) for n, score in enumerate([1, 1, -1, -1, 0])]
    rows += [("j", "a", "b", f"r{n}", score) for n, score in enumerate([1, 1, 0, 1, -1])]
    [outcome] = judge_pairs(judgements(rows)).outcomes
    assert outcome.n_ambiguous == 1
    assert outcome.wins.mean == pytest.approx(5 / 10)
    assert outcome.clear.mean == pytest.approx(3 / 5)
    assert outcome.clear_ties.mean == pytest.approx(1 / 5)


def test_intervals_are_over_whole_raters() -> None:
    """Twelve people who each always say the same are twelve judgements, however many items they saw."""
    same = [
        (f"i{item}", "a", "b", f"r{rater}", 1.0 if rater < 7 else -1.0) for item in range(40) for rater in range(12)
    ]
    once = [row for row in same if row[0] == "i0"]
    [many], [few] = judge_pairs(judgements(same)).outcomes, judge_pairs(judgements(once)).outcomes
    assert many.wins.mean == few.wins.mean == pytest.approx(7 / 12)
    assert many.wins.low == pytest.approx(few.wins.low)
    assert many.wins.high == pytest.approx(few.wins.high)
    assert many.sign == 0


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    inside = 0
    for seed in range(120):
        [outcome] = judge_pairs(drawn(seed=seed)).outcomes
        inside += outcome.wins.low <= 0.6 <= outcome.wins.high
    assert 0.8 < inside / 120 < 0.97


def test_kappa_is_the_median_over_pairs_of_raters() -> None:
    judged = drawn(n_raters=3, n_items=30)
    table = {r: {} for r in ("r0", "r1", "r2")}
    turned = np.where(judged.first == "a", 1, -1) * judged.answers["quality"]
    for item, rater, score in zip(judged.item, judged.rater, turned, strict=True):
        table[rater][item] = score
    items = sorted(table["r0"])
    kappas = [
        cohen_kappa([table[a][i] for i in items], [table[b][i] for i in items]).value
        for a, b in (("r0", "r1"), ("r0", "r2"), ("r1", "r2"))
    ]
    [kappa] = judge_pairs(judged).kappas
    assert kappa.found.value == pytest.approx(float(np.median(kappas)))
    assert kappa.n_pairs == 3
    [more] = judge_pairs(judged, shared=len(items)).kappas
    assert more.n_pairs == 3
    [none] = judge_pairs(judged, shared=len(items) + 1).kappas
    assert (none.n_pairs, none.found.reason.code) == (0, "no_pair_shares")


def test_without_judgements_everything_is_undefined_with_a_reason() -> None:
    result = judge_pairs(judgements([]))
    assert (result.n, result.outcomes) == (0, ())
    assert result.kappas[0].found.value is None
    assert result.kappas[0].found.reason.code == "no_value"
    assert result.strengths.reason is not None
    json.dumps(result.to_json(), allow_nan=False)


def test_one_rater_gives_shares_without_an_interval() -> None:
    [outcome] = judge_pairs(judgements([("i", "a", "b", "r", 1), ("j", "a", "b", "r", 0)])).outcomes
    assert outcome.wins.mean == 0.5
    assert outcome.wins.low is None
    assert outcome.wins.reason.code == "one_group"
    assert outcome.sign == 0


def test_answers_beyond_the_scale_are_refused() -> None:
    with pytest.raises(ValueError, match="an answer to quality is 2; it must be 1, 0 or -1"):
        judgements([("i", "a", "b", "r", 2)])


def chats(means: dict[str, float], n_people: int = 30, seed: int = 1) -> Ratings:
    """Rate every bot once by each person."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"{person}-{bot}", bot, f"p{person}", float(np.clip(round(rng.normal(mean, 1)), 1, 7)))
        for person in range(n_people)
        for bot, mean in means.items()
    ]
    conversation, bot, rater, value = zip(*rows, strict=True)
    return Ratings(
        conversation=np.array(conversation, dtype=object),
        bot=np.array(bot, dtype=object),
        rater=np.array(rater, dtype=object),
        answers={"quality": np.array(value)},
        dimensions=(RatingDimension("quality", "Quality", 1, 7),),
    )


@pytest.mark.parametrize(("means", "where"), [({"a": 5, "b": 3}, "same"), ({"a": 3, "b": 5}, "contrary")])
def test_both_protocols_beside_each_other(means: dict[str, float], where: str) -> None:
    result = compare_protocols(drawn(), chats(means), {"quality": "quality"})
    [row] = result.rows
    assert result.bots == ("a", "b")
    assert row.one_turn.low > 0
    assert row.difference == pytest.approx(means["a"] - means["b"], abs=0.6)
    assert result.count() == {**dict.fromkeys(("same", "contrary", "one_turn", "interactive", "neither"), 0), where: 1}
    json.dumps(result.to_json(), allow_nan=False)
    assert "a" in result.summary()


def test_the_interactive_kappa_is_that_of_preferences_of_people_who_rated_both() -> None:
    result = compare_protocols(drawn(), chats({"a": 6, "b": 4, "c": 2}, n_people=8), {"quality": "quality"})
    [kappa] = result.interactive
    assert kappa.found.n_items == 3
    assert kappa.found.n_ratings == 24
    assert kappa.n_pairs == 28
    assert [one.question for one in result.one_turn] == ["quality"]
    assert len(result.rows) == 1, "only pairs that both protocols have"


def test_only_the_same_questions_and_bots_of_both_protocols_are_compared() -> None:
    judged = judgements([("i", "a", "b", "r", 1), ("j", "a", "b", "s", -1), ("k", "a", "unrated", "t", 1)])
    judged = replace(
        judged, answers={**judged.answers, "other": -judged.answers["quality"]}, titles={**QUALITY, "other": "Other"}
    )
    rows = compare_protocols(judged, chats({"a": 6, "b": 4}), {"quality": "quality"}).rows
    assert [(row.question, row.a, row.b) for row in rows] == [("quality", "a", "b")]


def test_strengths_between_equal_styles_stand_beside_the_plain_ones():
    own = np.random.default_rng(2)
    n = 1200
    first = np.array([own.permutation(["brief", "wordy"])[0] for _ in range(n)], dtype=object)
    second = np.where(first == "brief", "wordy", "brief").astype(object)
    length = np.where(first == "wordy", 1.0, -1.0) + own.normal(size=n)
    better = np.where(own.random(n) < 1 / (1 + np.exp(-1.2 * length)), 1.0, -1.0)
    columns = {
        "item": np.arange(n).astype(object),
        "first": first,
        "second": second,
        "rater": np.array([f"r{i % 60}" for i in range(n)], dtype=object),
        "answers": {"quality": better},
        "titles": QUALITY,
    }
    result = judge_pairs(PairJudgements(**columns, controls={"length": length, "markup": np.zeros(n)}))
    assert result.strengths.comparisons[0].ordered
    assert [effect.name for effect in result.held.controls] == ["length"]  # markup never differs
    assert not result.held.comparisons[0].ordered
    assert judge_pairs(PairJudgements(**columns)).held is None
    with pytest.raises(ValueError, match="length has 3 values"):
        PairJudgements(**columns, controls={"length": length[:3]})


def test_while_more_are_to_come_shares_and_preferences_are_those_of_the_live_room() -> None:
    collecting = replace(drawn(), is_collecting=True)
    result, settled = judge_pairs(collecting), pair_ranking_progress(collecting)
    [one], [live] = result.outcomes, settled.preferred.found
    assert result.is_collecting
    assert (one.ahead.mean, one.ahead.low, one.ahead.high) == pytest.approx(
        (live.pair.difference, live.pair.low, live.pair.high)
    )
    [fixed] = judge_pairs(drawn()).outcomes
    for name in ("wins", "ties", "losses", "ahead"):
        part, before = getattr(one, name), getattr(fixed, name)
        assert part.mean == pytest.approx(before.mean)
        assert part.high - part.low > before.high - before.low
    # Six people who agree settle nothing at any look, whatever one look says.
    few = replace(drawn(n_raters=6, n_items=4, p_win=0.8), is_collecting=True)
    assert (judge_pairs(replace(few, is_collecting=False)).outcomes[0].sign, judge_pairs(few).outcomes[0].sign) == (
        1,
        0,
    )
    [alone] = judge_pairs(replace(judgements([("i", "a", "b", "r", 1)]), is_collecting=True)).outcomes
    assert (alone.ahead.low, alone.wins.low) == (None, None)
    assert alone.ahead.reason.code == "one_judgement"


def of_many_bots(n_bots: int = 6, n_raters: int = 10, seed: int = 0) -> PairJudgements:
    """Draw judgements of bots of which no two differ, each two judged once by everybody."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"{a}{b}-{rater}", f"bot{a}", f"bot{b}", f"r{rater}", float(rng.choice([1, 0, -1])))
        for a in range(n_bots)
        for b in range(a)
        for rater in range(n_raters)
    ]
    return judgements(rows)


def test_who_is_preferred_is_corrected_for_all_pairs() -> None:
    """A wrong verdict among fifteen pairs of equal bots comes in one study of ten at most, not in every second."""
    wrong = alone = 0
    for seed in range(60):
        result = judge_pairs(of_many_bots(seed=seed))
        wrong += any(outcome.sign for outcome in result.outcomes)
        alone += any(outcome.p < 0.1 for outcome in result.outcomes)
        for one in result.outcomes:
            # The interval is that of the test: at one level both leave 0 out, or neither.
            assert (one.p < 0.1) == (not one.ahead.low <= 0 <= one.ahead.high)
            assert bool(one.sign) == (one.p_holm < 0.1)
    assert wrong <= 10
    assert alone > 3 * wrong


def test_both_protocols_are_told_apart_as_each_tells_it_alone() -> None:
    judged, rated = of_many_bots(seed=1), chats({f"bot{n}": 4 + n / 5 for n in range(6)})
    result = compare_protocols(judged, rated, {"quality": "quality"})
    alone = {(outcome.a, outcome.b): outcome.sign for outcome in judge_pairs(judged).outcomes}
    by_chats = compare(rated, plans=False)
    for row in result.rows:
        gap = by_chats.pair(row.a, row.b)
        assert row.signs == (alone[row.a, row.b], sign_of(gap))
    uncorrected = sum(not row.low <= 0 <= row.high for row in result.rows)
    assert 0 < sum(bool(row.signs[1]) for row in result.rows) < uncorrected
    assert result.tests == ("fixed", "fixed")


def test_chats_beside_are_compared_at_any_look_too_while_they_are_collected() -> None:
    rated = chats({"a": 5, "b": 3})
    [fixed] = compare_protocols(drawn(), rated, {"quality": "quality"}).rows
    [now] = compare_protocols(drawn(), replace(rated, is_collecting=True), {"quality": "quality"}).rows
    assert now.difference == pytest.approx(fixed.difference)
    assert now.low < fixed.low
    assert now.high > fixed.high
    assert now.one_turn == fixed.one_turn


CASES = ROOT / "tests" / "cases"


def puddings() -> pd.DataFrame:
    """Return Davidson's (1970) chocolate puddings, one row per judgement."""
    rows = [
        (f"p{i}", f"p{j}", preferred)
        for i, j, *numbers in published.PUDDINGS
        for preferred, number in zip(("first", "second", "tie"), numbers, strict=True)
        for _ in range(number)
    ]
    return pd.DataFrame(rows, columns=["first", "second", "preferred"])


def decided(n: int = 300) -> pd.DataFrame:
    """Make judgements of three bots without ties, by twenty people."""
    rng = np.random.default_rng(8)
    strength = {"a": 0.0, "b": 0.5, "c": 1.2}
    rows = []
    for k in range(n):
        first, second = (str(bot) for bot in rng.choice(list("abc"), 2, replace=False))
        wins = rng.random() < 1 / (1 + np.exp(strength[second] - strength[first]))
        rows.append((first, second, first if wins else second, f"w{k % 20}"))
    return pd.DataFrame(rows, columns=["first", "second", "preferred", "rater"])


def test_published_strengths_with_ties() -> None:
    result = confab.rank(puddings())
    worth = {bot.bot: bot.worth for bot in result.fit.bots}
    expected = {f"p{i}": value for i, value in enumerate(published.PUDDING_WORTH, start=1)}
    assert worth == pytest.approx(expected, abs=3e-5)
    assert result.order == tuple(sorted(expected, key=lambda bot: -expected[bot]))


def test_strengths_are_those_of_a_logistic_regression(tmp_path: Path) -> None:
    table = decided()
    table.to_csv(tmp_path / "pairs.csv", index=False)
    result = confab.rank(tmp_path / "pairs.csv")
    design = np.array(
        [[(row.first == bot) - (row.second == bot) for bot in "bc"] for row in table.itertuples()], dtype=float
    )
    wins = (table["preferred"] == table["first"]).to_numpy(dtype=float)
    fit = sm.Logit(wins, design).fit(disp=False)
    effects = np.array([0.0, *fit.params])
    expected = dict(zip("abc", effects - effects.mean(), strict=True))
    assert {b.bot: b.strength for b in result.fit.bots} == pytest.approx(expected, abs=1e-6)
    assert result.fit.n_raters == 20
    assert result.order == ("c", "b", "a")
    assert ("a", "c") in result.told_apart


def test_nobodys_judgements_are_left_out_and_unnamed_raters_are_nobody() -> None:
    table = decided()
    blank = pd.DataFrame([{"first": "a", "second": "b", "preferred": None, "rater": "x"}])
    more = rank(pd.concat([table, blank], ignore_index=True))
    assert more.to_json() == rank(table).to_json()
    assert rank(table.assign(rater="unknown")).fit.n_raters == len(table)


def test_the_place_is_told_where_asked_for() -> None:
    result = rank(decided(), place=True)
    assert result.fit.first is not None
    assert "being shown first adds" in result.summary()


def test_what_is_wrong_with_a_table_is_named() -> None:
    with pytest.raises(ValueError, match="no column 'preferred'; it has first, second"):
        rank(pd.DataFrame({"first": ["a"], "second": ["b"]}))
    odd = pd.DataFrame({"first": ["a"], "second": ["b"], "preferred": ["c"]})
    with pytest.raises(ValueError, match="row 1, column preferred is 'c'; it must be 'a' or 'b'"):
        rank(odd)


def test_without_a_fit_the_reason_is_told() -> None:
    result = rank(pd.DataFrame({"first": ["a"], "second": ["b"], "preferred": ["tie"]}))
    assert result.to_json()["reason"] == {"code": "only_ties"}
    assert result.order == ()
    assert "every comparison is a tie" in result.summary()
    with pytest.raises(ValueError, match="nothing to draw: every comparison is a tie"):
        result.plot()


def test_a_ranking_is_plain_comes_back_and_is_drawn() -> None:
    result = rank(puddings(), level=0.95)
    document = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert document["bots"][0]["wins"] == 84
    assert result_load(result_dump(result, Ranking), Ranking) == result
    svg = result.plot().svg
    assert all(f">{bot}<" in svg for bot in result.order)
    assert "Bots by preference" in repr(result)


def test_a_blank_cell_makes_no_other_names() -> None:
    result = rank(CASES / "rank_numeric_bots_one_blank.csv")
    assert result.fit.n == 7
    assert sorted(result.order) == ["1", "2"]
    assert sorted(rank(pd.read_csv(CASES / "rank_numeric_bots_one_blank.csv")).order) == ["1", "2"]


def test_names_are_texts_as_they_are_written(tmp_path: Path) -> None:
    assert {bot.bot for bot in rank(CASES / "rank_bots_007_and_7.csv").fit.bots} == {"007", "7"}
    assert sorted(rank(CASES / "rank_escaped_names.csv").order) == ["-base", "big"]
    names = ["1", "007", "1.10", "1.1", "NA", "None", "null", "nan", "true", "1e3"]
    rows = [
        {"first": a, "second": b, "preferred": chosen, "rater": f"r{place}{chosen}"}
        for place, (a, b) in enumerate(zip(names, names[1:] + names[:1], strict=True))
        for chosen in (a, b, "tie")
    ]
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "pairs.csv", index=False)
    frame.to_csv(tmp_path / "pairs_utf16.csv", index=False, sep=";", encoding="utf-16")
    frame.to_json(tmp_path / "pairs.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "pairs.parquet")
    for path in sorted(tmp_path.iterdir()):
        result = rank(path)
        assert sorted(result.order) == sorted(names), path.name
        assert result.fit.n == 30
        assert result.fit.n_raters == 30


def test_outcomes_are_told_in_the_words_of_arenas_too() -> None:
    result = rank(CASES / "rank_arena_words.csv")
    assert result.fit.n == 4
    assert [bot.ties for bot in result.fit.bots] == [2, 2]
    shouted = pd.DataFrame({"first": ["a"] * 2, "second": ["b"] * 2, "preferred": ["FIRST", "Tie"]})
    assert rank(shouted).fit.n == 2
    for missing in ("", None, np.nan, pd.NA):
        nobody = shouted.assign(first=["a", missing])
        with pytest.raises(ValueError, match="row 2, column first is empty"):
            rank(nobody)


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("Plain words, 2 * 3 and snake_case - nothing else.", 0),
        ("# Plan\n\n- first\n- second\n1. third", 4),
        ("This is **bold**, `code` and a [link](https://example.org).", 3),
        ("| a | b |\n|---|---|\n| 1 | 2 |", 3),
        ("```\nx = 1\n```", 2),
        ("#hashtag", 0),
        ("", 0),
    ],
)
def test_markup_is_counted(text: str, n: int) -> None:
    assert n_markup(text) == n


def test_picks_of_late_exchanges_share_a_row_and_ties_are_halves() -> None:
    judged = drawn(n_raters=4, n_items=30)
    number = np.array([int(name[1:]) + 1 for name in judged.item])
    picks = judge_pairs(replace(judged, exchange=number)).picks
    assert {pick.exchange for pick in picks} == {None, *range(1, MOST_EXCHANGES + 2)}
    won = (judged.answers["quality"] * np.where(judged.first == "a", 1, -1) + 1) / 2
    late = next(pick for pick in picks if (pick.bot, pick.exchange) == ("a", MOST_EXCHANGES + 1))
    assert late.share.mean == pytest.approx(won[number > MOST_EXCHANGES].mean())
    # Whole raters are the units: the standard error of four means, with three degrees of freedom.
    whole = next(pick for pick in picks if (pick.bot, pick.exchange) == ("b", None))
    assert (whole.share.mean, whole.share.n) == (pytest.approx(1 - won.mean()), 120)
    assert whole.share == mean_interval(1 - won, judged.rater, 0.90, scale=(0, 1))
    assert judge_pairs(judged).picks == ()


def test_a_unit_is_a_doubling() -> None:
    result = style_controls([["a" * 31], ["ab", "c"], [""]], [["b" * 15], ["abc"], ["- a\n- b\n- c"]])
    assert set(result) == set(CONTROLS)
    assert result["length"] == pytest.approx([1.0, 0.0, -np.log2(12)])
    assert result["markup"] == pytest.approx([0.0, 0.0, -2.0])


def test_turned_around_the_sign_turns() -> None:
    first, second = [["one **two**", "three"]], [["four"]]
    there, back = style_controls(first, second), style_controls(second, first)
    for name in CONTROLS:
        assert there[name] == pytest.approx(-back[name])
