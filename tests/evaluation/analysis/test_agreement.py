"""Agreement of raters: the coefficients of `evaluation.stats` on the tables that `Ratings` gives."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from evaluation.analysis.agreement import rater_agreement
from evaluation.ratings import Ratings
from evaluation.stats.agreement import krippendorff_alpha
from evaluation.stats.icc import icc


def frame(per: int) -> pd.DataFrame:
    """Make ratings of three bots, six conversations each, rated by `per` of five people."""
    rng = np.random.default_rng(1)
    rows = []
    for bot, level in {"a": 5, "b": 3, "bad": 1}.items():
        for n in range(6):
            for rater in rng.choice(5, per, replace=False):
                value = float(np.clip(level + rng.integers(-1, 2), 1, 7))
                rows.append((f"{bot}{n}", bot, f"w{rater}", value))
    return pd.DataFrame(rows, columns=["conversation", "bot", "rater", "quality"])


def read(table: pd.DataFrame) -> Ratings:
    return Ratings.from_frame(table, ["quality"], scale=(1, 7), controls=["bad"])


def test_shared_conversations_give_alpha_over_items() -> None:
    table = frame(3)
    found = rater_agreement(read(table))
    places = table.assign(place=table.groupby("conversation").cumcount())
    items = places.pivot(index="conversation", columns="place", values="quality").to_numpy()
    assert found.same_conversation == krippendorff_alpha(items, "ordinal")
    codes = [(one.about, one.code) for one in found.coefficients]
    assert ("conversation", "fleiss") in codes
    assert ("conversation", "cohen_median") in codes


def test_controls_take_no_part_in_agreement_about_bots() -> None:
    table = frame(2)
    found = rater_agreement(read(table))
    real = table[table["bot"] != "bad"].groupby(["bot", "rater"])["quality"].mean().reset_index()
    places = real.assign(place=real.groupby("bot").cumcount())
    by_bot = places.pivot(index="bot", columns="place", values="quality").to_numpy()
    assert found.reliability_of_bots.value == pytest.approx(icc(by_bot, "icc1_k").value)
    assert found.reliability_of_bots.n_items == 2


def test_one_persons_two_ratings_of_a_conversation_are_no_agreement() -> None:
    table = frame(1)
    twice = pd.concat([table, table], ignore_index=True)
    for given in (table, twice):
        found = rater_agreement(read(given)).same_conversation
        assert found.value is None
        assert found.reason is not None
        assert found.reason.to_json() == {
            "code": "few_shared",
            "n_shared": 0,
            "n_conversations": 18,
        }


def test_a_result_is_plain_json_and_a_table() -> None:
    found = rater_agreement(read(frame(1)))
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["coefficients"][0]["value"] is None
    assert document["coefficients"][0]["reason"]["code"] == "few_shared"
    assert "0 of 18 conversations rated by more than one" in found.summary()
