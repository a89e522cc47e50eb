"""The verdict and the cautions of a fit, in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.findings import finding
from tests.evaluation.hybrid.test_verdict import BETTER, UNKNOWN, WORSE, evidence, verdict
from webapp.dashboard.narrative.hybrid_verdict import caution_sentences, verdict_text


def told(*args: Any, **options: Any) -> str:
    return verdict_text(verdict(*args, **options).to_json())


@pytest.mark.parametrize(
    ("r", "ratio", "begins", "ends"),
    [
        (0.9, BETTER, "The prediction is clearly better than the length of conversations.", "please the metric."),
        (0.9, UNKNOWN, "The prediction is better than chance; it is not yet known whether", "rate more bots first."),
        (0.9, WORSE, "The prediction is clearly worse than rival0 alone.", "Use the count instead."),
        (0.2, BETTER, "The prediction is not better than chance.", "in place of people’s ratings."),
    ],
)
@pytest.mark.parametrize("played", [None, 0.84, 0.3, -0.2])
def test_the_conclusion_stands_first(r: float, ratio: Any, begins: str, ends: str, played: float | None) -> None:
    selfplay = {} if played is None else {"selfplay": evidence(played), "n_selfplay": 8}
    said = told(evidence(r, ratio), r=r, **selfplay)
    assert said.startswith(begins)
    assert ends in said
    assert ("Its errors are" in said) == (r > 0.5 or played == 0.84)
    better = "From self-play it is clearly better" if played == 0.84 else "From self-play it is not better than chance."
    assert ("From self-play" in said) == (better in said) == (played is not None)
    assert ".." not in said


def test_a_fit_stored_before_rivals_were_compared_claims_nothing_about_lengths() -> None:
    document = verdict(evidence(0.9)).to_json()
    document["findings"] = [one for one in document["findings"] if one["code"] != "rival"]
    assert "not yet known whether it is better than the length" in verdict_text(document)


def test_few_bots_and_older_fits() -> None:
    assert told(evidence(0.9), 4).startswith("Not yet known: only 4 bots rated. So few points")
    assert told(evidence(0.9), selfplay=evidence(0.99), n_selfplay=4) == told(evidence(0.9))
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
