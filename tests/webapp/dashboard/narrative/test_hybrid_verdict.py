"""The verdict and the cautions of a fit, in sentences."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from evaluation.findings import finding
from tests.evaluation.hybrid.test_verdict import evidence, verdict
from webapp.dashboard.narrative.hybrid_verdict import caution_sentences, verdict_text


def told(*args: Any, **options: Any) -> str:
    return verdict_text(verdict(*args, **options).to_json())


def test_the_correlation_stands_with_its_interval_and_intercept() -> None:
    said = told(evidence(0.9, 0.4))
    assert said.startswith(
        "Over 8 bots, each predicted without its own ratings, r is .90 (95 % interval .70 to .95; one intercept for "
        "all folds). The numbers support ranking further bots of the same kind, "
    )
    assert "self-play" not in said
    assert "an intercept for each fold)" in told(evidence(0.38), r=0.56, intercept="fold")


@pytest.mark.parametrize(("people", "played"), list(product([0.9, 0.2, -0.59], [None, 0.84, 0.3, -0.2])))
def test_every_standing_ends_in_one_sentence(people: float, played: float | None) -> None:
    selfplay = {} if played is None else {"selfplay": evidence(played), "n_selfplay": 8}
    said = told(evidence(people), r=people, **selfplay)
    last = said.split("The numbers ")[-1]
    assert last.startswith("support ranking" if people == 0.9 else "do not support using")
    assert said.endswith(".")
    assert ".." not in said
    assert ("self-play" in last) == (played is not None)


def test_few_bots_and_older_fits() -> None:
    assert told(evidence(0.9), 4).startswith("Only 4 bots rated. So few points")
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
