"""Summary and plot of a fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluation.hybrid.calibration import Combined
from evaluation.hybrid.fit import fit_hybrid
from evaluation.hybrid.results import HybridResult
from evaluation.hybrid.summary import points_of
from tests.evaluation.hybrid.test_fit import FEATURES, selfplay, study


@pytest.fixture(scope="module")
def found() -> HybridResult:
    return fit_hybrid(study(n_bots=4), features=FEATURES, selfplay=selfplay(n_bots=5))


def test_bots_stand_by_their_human_means_and_unrated_ones_last(found: HybridResult) -> None:
    points = points_of(found.to_json(), "predicted_selfplay")
    assert [point.human is None for point in points] == [False] * 4 + [True]
    rated = [point.human for point in points[:4]]
    assert rated == sorted(rated, reverse=True)
    assert {p.title: p.predicted for p in points} == {
        bot: of_bot.predicted_selfplay for bot, of_bot in found.bots.items()
    }


def test_the_mean_that_is_compared_takes_the_place_of_the_plain_one(found: HybridResult) -> None:
    """Less the habits of its raters, with the 90 % of the normal distribution whose 95 % the document has."""
    bot, one = next((bot, one) for bot, one in found.bots.items() if one.human_mean is not None)
    adjusted = Combined(2.0, (2 - 1.959964, 2 + 1.959964), 2.5, (2.0, 3.0), 0.5, 3.0)
    changed = replace(one, adjusted_mean=2.0, combined=adjusted)
    (point,) = points_of({"bots": {bot: changed.to_json()}}, "predicted")
    assert point.human == changed.target == 2.0 != one.human_mean
    assert point.human_span == pytest.approx((2 - 1.644854, 2 + 1.644854), abs=1e-5)
    assert "human mean 2.00" in point.says


def test_what_cannot_be_drawn_is_explained() -> None:
    alone = fit_hybrid(study(n_bots=4), features=FEATURES)
    with pytest.raises(ValueError, match="no rated bot is predicted from selfplay"):
        alone.plot("selfplay")
    with pytest.raises(ValueError, match="it must be one of conversations, selfplay"):
        alone.plot("chats")  # type: ignore[arg-type]
