"""The models of ratings in words: every finding has its sentence, and tables show the result's numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evaluation.analysis.rating_models import RatingModels, rating_models
from evaluation.number_format import figure
from evaluation.ratings import RatingDimension, Ratings
from tests.builders import frame_of
from webapp.dashboard.narrative.models import models_section
from webapp.dashboard.narrative.phrases import NamedTable, Section
from webapp.ratings.selectors import BotInfo

LEVELS = {"a": 5.0, "b": 4.4, "c": 3.9, "d": 3.0}
BOTS = {bot: BotInfo(bot, bot.upper(), slot, False) for slot, bot in enumerate(LEVELS, start=1)}
QUALITY = RatingDimension("quality", "Quality", 1, 7)
FACTORS = {
    "corpus": {"a": "reddit", "b": "reddit", "c": "cornell", "d": "cornell"},
    "EI": {"a": "EI", "b": "plain", "c": "EI", "d": "plain"},
}


def ratings(spread: float = 0.8, seed: int = 7) -> Ratings:
    """Make ratings by twenty-four people of every bot on two questions; they differ in kindness by `spread`."""
    rng = np.random.default_rng(seed)
    rows = []
    for rater in range(24):
        kind = rng.normal(0, spread) if spread else 0.0
        for bot, level in LEVELS.items():
            given = [float(np.clip(np.round(level + kind + rng.normal()), 1, 7)) for _ in range(2)]
            rows.append((f"{rater}-{bot}", bot, f"w{rater}", *given))
    table = pd.DataFrame(rows, columns=["conversation", "bot", "rater", "quality", "fluency"])
    return Ratings.from_frame(table, ["quality", "fluency"], scale=(1, 7))


def told(found: RatingModels) -> Section:
    return models_section(frame_of(BOTS, QUALITY), found)


def table(section: Section, id: str) -> NamedTable:
    return next(one for one in section.tables if one.id == id)


def test_factors_that_take_no_part_say_why() -> None:
    factors: dict[str, Any] = {
        **FACTORS,
        "size": {"a": "big", "b": "small"},
        "language": dict.fromkeys("abcd", "English"),
        "teacher": {"a": "x", "b": "y", "c": "y", "d": "x"},
        "decoder": {"a": "x", "b": "y", "c": "y", "d": "y"},
    }
    section = told(rating_models(ratings(), factors))
    assert section.missing == [
        "Factor “size” is not used: it is unknown for C and D.",
        "Factor “language” is not used: all bots are alike in it.",
        "Factor “decoder” is not used: 3 factors are analysed.",
    ]
    assert "Main effects only" in table(section, "anova").method


def test_effects_shown_and_not_shown_stand_in_one_sentence() -> None:
    found = rating_models(ratings(), FACTORS)
    assert found.factorial is not None
    corpus = found.factorial.table.term("corpus")
    (sentence, *_rest) = told(found).lead
    assert sentence.startswith("The sum of the 2 ratings depends on corpus (F(1, 23) = ")
    assert f"= {figure(corpus.f)}, p < .001)" in sentence
    assert sentence.endswith("; not shown: corpus × EI.")
    assert "All interactions." in table(told(found), "anova").method
    assert table(told(found), "anova").note.startswith("Raters gave several ratings each, so every")
    nameless = table(told(replace(found, n_unnamed=4)), "anova").note
    assert nameless.startswith("There are several ratings by a rater, or of a chat where no rater is")
    flat = replace(
        found,
        factorial=replace(
            found.factorial,
            table=replace(
                found.factorial.table, terms=tuple(replace(term, p=0.5) for term in found.factorial.table.terms)
            ),
        ),
    )
    assert told(flat).lead[0] == (
        "No effect on the sum of the 2 ratings is significant, which does not show that there is none."
    )


def test_factors_that_are_the_same_leave_the_bots_one_by_one() -> None:
    same = {"corpus": FACTORS["corpus"], "again": FACTORS["corpus"]}
    section = told(rating_models(ratings(), same))
    assert section.missing == [
        "Analysis of variance by the factors: 2 of the 4 combinations of levels have no rating: the interactions "
        "cannot be told from the factors."
    ]
    assert table(section, "anova").table.rows[0][0].text == "bot"


def test_models_that_cannot_be_fitted_say_why() -> None:
    every = ratings()
    one = every.where(every.rater == "w3")
    section = told(rating_models(one))
    assert "Mixed model: one rater only: nothing can be said about others." in section.missing
    assert "Ordinal model: 1 rater: too few to judge 4 bots by." in section.missing
    alone = told(rating_models(every.where(every.bot == "a")))
    assert alone.missing[-1] == "Fewer than two bots are rated, so there is nothing to model."
    assert alone.tables == []
