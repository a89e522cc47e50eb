"""Ranking of bots by choices between two, with style held equal."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import confab
from evaluation.analysis.pairwise_preference import CONTROLS, Ranking, n_markup, rank, style_controls
from evaluation.result_json import result_dump, result_load
from tests.conftest import ROOT
from tests.reference import ratings as published

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
    found = confab.rank(puddings())
    worth = {bot.bot: bot.worth for bot in found.fit.bots}
    expected = {f"p{i}": value for i, value in enumerate(published.PUDDING_WORTH, start=1)}
    assert worth == pytest.approx(expected, abs=3e-5)
    assert found.order == tuple(sorted(expected, key=lambda bot: -expected[bot]))


def test_strengths_are_those_of_a_logistic_regression(tmp_path: Path) -> None:
    table = decided()
    table.to_csv(tmp_path / "pairs.csv", index=False)
    found = confab.rank(tmp_path / "pairs.csv")
    design = np.array(
        [[(row.first == bot) - (row.second == bot) for bot in "bc"] for row in table.itertuples()], dtype=float
    )
    wins = (table["preferred"] == table["first"]).to_numpy(dtype=float)
    fit = sm.Logit(wins, design).fit(disp=False)
    effects = np.array([0.0, *fit.params])
    expected = dict(zip("abc", effects - effects.mean(), strict=True))
    assert {b.bot: b.strength for b in found.fit.bots} == pytest.approx(expected, abs=1e-6)
    assert found.fit.n_raters == 20
    assert found.order == ("c", "b", "a")
    assert ("a", "c") in found.told_apart


def test_nobodys_judgements_are_left_out_and_unnamed_raters_are_nobody() -> None:
    table = decided()
    blank = pd.DataFrame([{"first": "a", "second": "b", "preferred": None, "rater": "x"}])
    more = rank(pd.concat([table, blank], ignore_index=True))
    assert more.to_json() == rank(table).to_json()
    assert rank(table.assign(rater="unknown")).fit.n_raters == len(table)


def test_the_place_is_told_where_asked_for() -> None:
    found = rank(decided(), place=True)
    assert found.fit.first is not None
    assert "being shown first adds" in found.summary()


def test_what_is_wrong_with_a_table_is_named() -> None:
    with pytest.raises(ValueError, match="no column 'preferred'; it has first, second"):
        rank(pd.DataFrame({"first": ["a"], "second": ["b"]}))
    odd = pd.DataFrame({"first": ["a"], "second": ["b"], "preferred": ["c"]})
    with pytest.raises(ValueError, match="row 1, column preferred is 'c'; it must be 'a' or 'b'"):
        rank(odd)


def test_without_a_fit_the_reason_is_told() -> None:
    found = rank(pd.DataFrame({"first": ["a"], "second": ["b"], "preferred": ["tie"]}))
    assert found.to_json()["reason"] == {"code": "only_ties"}
    assert found.order == ()
    assert "every judgement is a tie" in found.summary()
    with pytest.raises(ValueError, match="nothing to draw: every judgement is a tie"):
        found.plot()


def test_a_ranking_is_plain_comes_back_and_is_drawn() -> None:
    found = rank(puddings(), level=0.95)
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["bots"][0]["wins"] == 84
    assert result_load(result_dump(found, Ranking), Ranking) == found
    svg = found.plot().svg
    assert all(f">{bot}<" in svg for bot in found.order)
    assert "Bots by preference" in repr(found)


def test_a_blank_cell_makes_no_other_names() -> None:
    found = rank(CASES / "rank_numeric_bots_one_blank.csv")
    assert found.fit.n == 7
    assert sorted(found.order) == ["1", "2"]
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
        found = rank(path)
        assert sorted(found.order) == sorted(names), path.name
        assert found.fit.n == 30
        assert found.fit.n_raters == 30


def test_outcomes_are_told_in_the_words_of_arenas_too() -> None:
    found = rank(CASES / "rank_arena_words.csv")
    assert found.fit.n == 4
    assert [bot.ties for bot in found.fit.bots] == [2, 2]
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


def test_a_unit_is_a_doubling() -> None:
    found = style_controls([["a" * 31], ["ab", "c"], [""]], [["b" * 15], ["abc"], ["- a\n- b\n- c"]])
    assert set(found) == set(CONTROLS)
    assert found["length"] == pytest.approx([1.0, 0.0, -np.log2(12)])
    assert found["markup"] == pytest.approx([0.0, 0.0, -2.0])


def test_turned_around_the_sign_turns() -> None:
    first, second = [["one **two**", "three"]], [["four"]]
    there, back = style_controls(first, second), style_controls(second, first)
    for name in CONTROLS:
        assert there[name] == pytest.approx(-back[name])
