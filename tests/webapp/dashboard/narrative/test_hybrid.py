"""What the hybrid page makes of a stored fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evaluation.hybrid.fit import fit_hybrid
from webapp.dashboard.narrative.hybrid import HybridView, hybrid_view, target_in_words


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Make the table of a small study."""
    rng = np.random.default_rng(0)
    bots = np.repeat([f"bot{k}" for k in range(6)], 10)
    mean = np.repeat(np.arange(6.0), 10)
    table = pd.DataFrame(
        rng.normal(size=(60, 3)) + mean[:, None], columns=["words_user", "embedding_user_000", "embedding_user_001"]
    )
    return table.assign(bot=bots, conversation=range(60), quality=mean + rng.normal(size=60), n_turns=8.0)


@pytest.fixture(scope="module")
def result(table: pd.DataFrame) -> dict:
    return fit_hybrid(table, features=["words_user"], preset="strong@2").to_json()


def checks_of(view: HybridView) -> dict[str, tuple[str, str]]:
    """Return what the table of checks says of each."""
    tables = [table.table for table in view.tables if table.id == "checks"]
    return {row[0].text: (row[1].text, row[2].text) for table in tables for row in table.rows}


def test_a_fit_stored_before_there_were_checks_still_shows(result: dict) -> None:
    new = ("verdict", "intercepts", "ceiling", "influence", "within_group", "q2")
    old = {name: value for name, value in result.items() if name not in new}
    old["bot_level_ci95_over_conversations"] = None
    old["folds"] = [{"bot": "bot0", "n": 50, "condition": 2.0}]
    view = hybrid_view(old, {}, lambda bot: "")
    assert view.conclusion == view.caution
    assert not checks_of(view)


def test_a_prediction_beyond_the_scale_is_shown_as_it_is_and_said_to_be_there(result: dict) -> None:
    bot = next(iter(result["bots"]))
    bots = {**result["bots"], bot: {**result["bots"][bot], "predicted": 7.62}}
    caution = {"code": "beyond_scale", "bots": [bot], "low": 1.0, "high": 7.0}
    view = hybrid_view({**result, "bots": bots, "cautions": [caution]}, {}, lambda bot: "")
    rows = {row[0].text: row[4] for row in view.figures["scatter"].table.rows}
    assert (rows[bot].text, rows[bot].why) == ("7.62", "above the scale, whose highest is 7")
    assert "above the scale, whose highest is 7" in view.figures["scatter"].wide
    (said,) = view.notes
    assert said.startswith(f"{bot} is predicted beyond the rating scale of 1 to 7")


def test_bots_that_nobody_rated_have_a_figure_of_their_own(result: dict) -> None:
    assert "predictions" not in hybrid_view(result, {}, lambda bot: "").figures
    nobody = {"human_mean": None, "human_ci90": None, "predicted": None, "predicted_ci90": None}
    played = {"n": 0, "n_selfplay": 7, "predicted_selfplay": 3.0}
    ends = {"predicted_selfplay_ci90": [2.5, 3.5]}
    bots = {**result["bots"], "<new>": {**nobody, **played, **ends}}
    view = hybrid_view({**result, "bots": bots}, {}, lambda bot: "")
    assert "scatter-selfplay" not in view.figures
    unrated = view.figures["predictions"]
    assert [row[0].text for row in unrated.table.rows] == ["<new>"]
    assert "&lt;new&gt;" in unrated.wide
    assert "rated-span" in unrated.wide
    assert "<new>" not in [row[0].text for row in view.figures["scatter"].table.rows]
    assert "only the order counts" not in unrated.method

    why = {"code": "selfplay_unchecked", "n_bots": 2, "needed": 4}
    bots["<new>"] = {**bots["<new>"], "predicted_selfplay_ci90": None, "reasons": [why]}
    view = hybrid_view({**result, "bots": bots}, {}, lambda bot: "")
    assert "only the order counts" in view.figures["predictions"].method
    (table,) = [table for table in view.tables if table.id == "hybrid-expected"]
    (row,) = [row for row in table.table.rows if row[0].text == "<new>"]
    assert row[3].text == "–"
    assert table.note == (
        "<new>: only 2 bots have ratings and self-play to see by how far predictions from self-play err; 4 others are "
        "needed."
    )


@pytest.mark.parametrize(
    ("target", "dimensions", "words"),
    [
        ("quality", ["quality"], "quality"),
        ("quality,topic_fit", ["quality", "topic_fit", "fun"], "quality and topic fit"),
        ("a,b,c", ["a", "b", "c", "d"], "3 dimensions"),
        ("a,b", ["b", "a"], "all dimensions"),
    ],
)
def test_a_target_is_told_in_few_words(target: str, dimensions: list[str], words: str) -> None:
    assert target_in_words(target, dimensions) == words
