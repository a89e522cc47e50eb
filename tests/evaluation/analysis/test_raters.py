"""What is known of raters: numbers recomputed with pandas and scipy, and nobody named unless asked for."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluation.analysis.raters import RaterAnalysis, analyse_raters
from evaluation.ratings import Ratings
from evaluation.result_json import result_dump, result_load

LEVELS = {"a": 5.5, "b": 4.5, "c": 3.5, "d": 3.0, "bad": 1.5}


def frame() -> pd.DataFrame:
    """Make ratings by twelve careful raters of five bots, twice each, and one who clicks the middle everywhere."""
    rng = np.random.default_rng(5)
    rows = []
    for rater in range(12):
        kind = rng.normal(0, 0.5)
        for bot, level in LEVELS.items():
            for time in range(2):
                given = np.clip(np.round(level + kind + rng.normal(0, 0.8, 3)), 1, 7)
                rows.append((f"{rater}-{bot}-{time}", bot, f"w{rater}", *given.tolist()))
    rows += [(f"x-{bot}", bot, "idle", 4.0, 4.0, 4.0) for bot in LEVELS]
    columns = ["conversation", "bot", "rater", "quality", "fluency", "fun"]
    return pd.DataFrame(rows, columns=columns)


def read(table: pd.DataFrame) -> Ratings:
    keys = ["quality", "fluency", "fun"]
    return Ratings.from_frame(table, keys, scale=(1, 7), controls=["bad"])


def test_scores_on_own_scales_are_those_of_pandas() -> None:
    table = frame()
    found = analyse_raters(read(table)).own_scales
    keys = ["quality", "fluency", "fun"]
    long = table[table["rater"] != "idle"].melt(["conversation", "bot", "rater"], keys)
    by_rater = long.groupby("rater")["value"]
    long["z"] = (long["value"] - by_rater.transform("mean")) / by_rater.transform("std")
    expected = long.groupby("bot")["z"].mean()
    plain_means = table.groupby("bot")["quality"].mean()
    assert [bot.bot for bot in found.bots] == plain_means.sort_values(ascending=False).index.tolist()
    for bot in found.bots:
        assert bot.own.mean == pytest.approx(expected[bot.bot])
        assert bot.mean == pytest.approx(plain_means[bot.bot])
    real = [bot for bot in LEVELS if bot != "bad"]
    rho = stats.spearmanr(plain_means[real], expected[real]).statistic
    assert found.order is not None
    assert found.order.r == pytest.approx(rho)
    assert (found.n_raters, found.n_left_out, found.n_used) == (12, 1, 120)


def test_leaving_the_flagged_out_is_what_pandas_gives_without_them() -> None:
    table = frame()
    found = analyse_raters(read(table)).screening
    assert [verdict.rater for verdict in found.flagged] == ["idle"]
    assert found.n_raters == 13
    codes = {reason.code for reason in found.flagged[0].reasons}
    assert {"one_answer_to_all", "spread_of_answers", "control_not_lower"} <= codes
    kept = table[table["rater"] != "idle"].groupby("bot")["quality"]
    for bot in found.bots:
        assert bot.kept.mean == pytest.approx(kept.mean()[bot.bot])
        assert (bot.kept.n, bot.flagged, bot.n_flagged) == (24, 4.0, 1)
        assert bot.n == 25
    rules = {rule.rule: rule for rule in found.rules}
    assert (rules["flat"].n_flagged, rules["flat"].n_passed) == (1, 12)
    assert rules["too_fast"].n_undecided == 13
    assert rules["too_fast"].reason is not None
    assert rules["too_fast"].reason.code == "no_times"


def test_times_make_the_fast_known() -> None:
    table = frame()
    seconds = {row.conversation: 5.0 if row.rater == "w3" else 100.0 + i for i, row in enumerate(table.itertuples())}
    found = analyse_raters(read(table), seconds=seconds).screening
    assert {verdict.rater for verdict in found.flagged} == {"w3", "idle"}


def test_a_dimension_that_came_turned_is_judged_as_it_was_worded() -> None:
    table = frame()
    rules = {r.rule: r for r in analyse_raters(read(table)).screening.rules}
    assert rules["contradicts"].n_undecided == 13
    turned = analyse_raters(read(table), turned=["fun"]).screening
    assert {r.rule: r for r in turned.rules}["contradicts"].n_undecided == 0


def test_what_cannot_be_said_has_a_reason() -> None:
    table = frame()
    unnamed = analyse_raters(read(table.assign(rater=None)))
    few = analyse_raters(read(table[table["conversation"].str.endswith("a-0")]))
    assert [str(found.reason.code) for found in (unnamed.own_scales, unnamed.screening) if found.reason] == [
        "nobody_named",
        "nobody_named",
    ]
    assert few.own_scales.reason is not None
    assert few.own_scales.reason.to_json() == {"code": "no_rater_with", "needed": 10}
    mixed = Ratings.from_frame(table.assign(fun=table["fun"] * 10), ["quality", "fluency", "fun"])
    assert analyse_raters(mixed).screening.reason == "the questions have different scales"


def test_a_result_is_plain_comes_back_and_names_nobody_unless_asked() -> None:
    found = analyse_raters(read(frame()))
    document = json.dumps(found.to_json(), allow_nan=False)
    assert "idle" not in document
    assert json.loads(document)["screening"]["n_flagged"] == 1
    assert "idle" in json.dumps(found.to_json(names=True), allow_nan=False)
    again = result_load(result_dump(found, RaterAnalysis), RaterAnalysis)
    assert again == found
    assert again.to_json(names=True) == found.to_json(names=True)
    assert "would flag 1 of 13 raters" in found.summary()
