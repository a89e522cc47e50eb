"""Raters in words: every outcome of the own scales and the filters has its sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluation.analysis.raters import RaterAnalysis, analyse_raters
from evaluation.number_format import figure
from evaluation.ratings import RatingDimension, Ratings
from tests.builders import frame_of
from webapp.dashboard.narrative.phrases import NamedTable, Section
from webapp.dashboard.narrative.raters import raters_section
from webapp.ratings.selectors import BotInfo

LEVELS = {"a": 5.5, "b": 4.5, "c": 3.5, "d": 3.0, "bad": 1.5}
BOTS = {bot: BotInfo(bot, bot.upper(), slot, bot == "bad") for slot, bot in enumerate(LEVELS, start=1)}
DIMENSIONS = [RatingDimension(key, key.capitalize(), 1, 7) for key in ("quality", "fluency", "fun")]


def frame(raters: int = 12, per: int = 1) -> pd.DataFrame:
    """Make ratings by careful raters of five bots, `per` of them for each conversation, and one who clicks the
    middle.
    """
    rng = np.random.default_rng(5)
    rows = []
    for rater in range(raters):
        for bot, level in LEVELS.items():
            for time in range(2):
                given = np.clip(np.round(level + rng.normal(0, 0.8, 3)), 1, 7).tolist()
                rows.append((f"{rater // per}-{bot}-{time}", bot, f"w{rater}", *given))
    rows += [(f"x-{bot}", bot, "idle-idle-idle", 4.0, 4.0, 4.0) for bot in LEVELS]
    return pd.DataFrame(rows, columns=["conversation", "bot", "rater", "quality", "fluency", "fun"])


def analysed(table: pd.DataFrame) -> RaterAnalysis:
    keys = [dimension.key for dimension in DIMENSIONS]
    return analyse_raters(Ratings.from_frame(table, keys, scale=(1, 7), controls=["bad"]))


@pytest.fixture(scope="module")
def found() -> RaterAnalysis:
    return analysed(frame())


def told(found: RaterAnalysis, *, names: bool = True) -> Section:
    return raters_section(frame_of(BOTS, *DIMENSIONS), found, names=names)


def table(section: Section, id: str) -> NamedTable:
    return next(one for one in section.tables if one.id == id)


def test_a_negative_reliability_has_two_digits_and_a_true_minus(found: RaterAnalysis) -> None:
    agreement = replace(
        found.agreement,
        coefficients=tuple(
            replace(one, found=replace(one.found, value=-0.7793)) if one.code == "icc_mean" else one
            for one in found.agreement.coefficients
        ),
    )
    assert told(replace(found, agreement=agreement)).lead[1].endswith("raters of a bot has −.78.")


@pytest.mark.parametrize(
    ("rho", "words"),
    [
        (None, "on their own scales the order of the bots cannot be compared."),
        (1.0, "on their own scales the bots come out in the same order."),
        (0.9, "on their own scales the bots come out in nearly the same order (ρ = .90)."),
        (0.2, "on their own scales the bots come out in another order (ρ = .20)."),
    ],
)
def test_every_order_on_own_scales_has_its_sentence(found: RaterAnalysis, rho: float | None, words: str) -> None:
    assert found.own_scales.order is not None
    scales = replace(found.own_scales, order=replace(found.own_scales.order, r=rho))
    sentence = told(replace(found, own_scales=scales)).lead[2]
    assert sentence == f"12 raters gave at least 10 ratings, 120 of 125 in all; {words}"


def test_the_flagged_are_named_with_their_reasons_or_only_counted(found: RaterAnalysis) -> None:
    section = told(found)
    assert section.lead[-1] == ("Rater filters would flag 1 of 13 raters; no rater is excluded from any number here.")
    (row,) = table(section, "flagged").table.rows
    assert (row[0].text, row[1].text) == ("idle-idl", "5")
    reasons = row[2].text.split("; ")
    assert "one answer to all questions in 100 % of 5 conversations" in reasons
    assert "answers vary by 0.0 % of the scale (standard deviation)" in reasons
    assert any(why.startswith("control rated 4.00, real bots 4.00: not clearly lower (p = ") for why in reasons)
    rules = {row[0].text: row for row in table(section, "filters").table.rows}
    assert rules["Faster than reading allows"][3].text == "13"
    assert rules["Faster than reading allows"][3].why == "no times given"
    bots = {row[0].text: row for row in table(section, "unflagged").table.rows}
    assert bots["A"][6].text == figure(4.0)
    assert [one.id for one in told(found, names=False).tables] == [*("agreement", "zscores", "filters", "unflagged")]


def test_without_names_there_are_neither_scales_nor_filters() -> None:
    section = told(analysed(frame().assign(rater=None)))
    assert section.missing == [
        "Scores on each rater’s own scale: no rater is named in the data.",
        "Rater filters: no rater is named in the data.",
    ]
