"""Bots ranked by preference: a table read as people write it, against statsmodels and published strengths."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import confab
from evaluation.analysis.ranking import Ranking, rank
from evaluation.storing import result_dump, result_load
from tests.reference import ratings as published


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
        [[(row.first == bot) - (row.second == bot) for bot in "bc"] for row in table.itertuples()],
        dtype=float,
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
    with pytest.raises(ValueError, match="row 1: preferred is 'c'; it must be 'first'"):
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
