"""The verdict and the cautions of a fit, in sentences."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from evaluation.findings import finding
from evaluation.hybrid.calibration import prediction_accuracy
from evaluation.stats.correlation import Correlation
from tests.evaluation.hybrid.test_verdict import evidence, verdict
from webapp.dashboard.narrative.hybrid_verdict import caution_sentences, verdict_text


def told(*args: Any, **options: Any) -> str:
    return verdict_text(verdict(*args, **options).to_json())


def test_the_paragraph_names_every_number_and_by_which_intercept() -> None:
    said = told(evidence(0.9, 0.4))
    assert said.startswith(
        "Over 8 bots, each predicted without its own ratings and with one intercept for all folds, r is .90 "
        "(95 % interval over bots .70 to .95, over conversations .80 to .92). Ratings dealt out to the bots at random "
        "pass .50 once in twenty times, so this is more than chance. Predicting from the number of turns alone gives "
        ".40, which is less. Of 10 pairs of bots that differ significantly (fixed-sample test, Holm, p < .10), 9 "
        "are in the order of the ratings. Much hangs on one bot: without a, r is .60. "
    )
    assert "self-play" not in said
    fold = told(evidence(0.38), r=0.56, intercept="fold")
    assert "with an intercept for each fold, as in the paper, r is .38 (" in fold
    assert "With one intercept for all folds r is .56 and chance passes .50." in fold


@pytest.mark.parametrize(
    ("people", "played"),
    list(product([0.9, 0.2, -0.59], [None, 0.84, 0.3, -0.2])),
)
def test_every_standing_ends_in_one_sentence(people: float, played: float | None) -> None:
    selfplay = {} if played is None else {"selfplay": evidence(played), "n_selfplay": 8}
    said = told(evidence(people), r=people, **selfplay)
    last = said.split("The numbers ")[-1]
    assert last.startswith("support ranking" if people == 0.9 else "do not support using")
    assert said.endswith(".")
    assert ".." not in said
    if played is not None:
        assert "From self-play, the same fits over 8 bots, r is " in said


def test_few_bots_and_older_fits() -> None:
    assert told(evidence(0.9), 4).startswith("Only 4 bots rated. So few points")
    few = told(evidence(0.9), selfplay=evidence(0.99), n_selfplay=4)
    assert "4 rated bots have self-play, too few to judge that by." in few
    assert ".99" not in few
    assert verdict_text("A paragraph stored by an earlier version.").startswith("A paragraph")
    assert verdict_text(None) == ""


def test_cautions_are_sentences() -> None:
    cautions = [
        finding("few_bots", n_bots=1),
        finding("fold_intercept"),
        finding("constant_features", features=["a", "b"]),
        finding("collinear", condition=41.6),
        finding("collinear", condition=None),
        finding("partly_rated", n_conversations=1),
        finding("undefined_features", n_conversations=1200),
        finding("extrapolation", bot="eliza", features=["words_user"], deviations=3),
        finding("beyond_scale", bots=["eliza", "parrot"], low=1.0, high=7.0),
    ]
    said = caution_sentences([found.to_json() for found in cautions])
    assert len(said) == len(cautions)
    assert said[0].startswith("Only 1 bot rated")
    assert "“a” and “b”" in said[2]
    assert "up to 42" in said[3]
    assert "1 conversation." in said[5]
    assert "1,200 conversations." in said[6]
    assert "eliza is an extrapolation: its mean “Words, participant, mean” is more than 3" in said[7]
    assert said[8].startswith("eliza and parrot are predicted beyond the rating scale of 1 to 7")
    assert caution_sentences(["stored as a sentence"]) == ["stored as a sentence"]


@pytest.mark.parametrize(
    ("q2", "partial", "expected"),
    [
        (
            0.2,
            0.4,
            "so their order could be chance, too. Given the lengths of conversations r is .40.",
        ),
        (
            0.5,
            -0.1,
            "Nothing is left of it when the lengths of conversations are taken into account",
        ),
    ],
)
def test_what_keeps_a_fit_from_ranking_is_said(q2: float, partial: float, expected: str) -> None:
    human = {bot: float(place) for place, bot in enumerate("abcdef")}
    given = Correlation(partial, 0.5, None, None, 6)
    values = replace(prediction_accuracy(human, human, {}), q2=q2, q2_null95=0.3, partial=given)
    assert expected in told(replace(evidence(0.9), values=values))
