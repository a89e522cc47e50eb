"""Prediction-powered means against simulations."""

import math

import numpy as np
import pandas as pd
import pytest

from evaluation.analysis.prediction_powered import powered_mean, powered_means
from evaluation.data.ratings import Ratings

LEVEL = 0.9


def test_the_mean_is_that_of_ppi_python() -> None:
    """`ppi_mean_pointestimate` and `ppi_mean_ci` of these numbers; its interval is the normal's with divisor n."""
    i = np.arange(40)
    predicted = (i * 7 % 11) / 2.0
    values = 3 + 0.6 * predicted + ((i * 5) % 7) / 3.0
    unrated = ((np.arange(200) * 3) % 13) / 2.0
    result = powered_mean(values, predicted, unrated, level=LEVEL)
    assert result.mean == pytest.approx(5.68625355)
    assert (result.low, result.high) == pytest.approx((5.47414199, 5.8983651), abs=0.02)
    assert result.high - result.low > 5.8983651 - 5.47414199
    assert result.saved > 0.4


def test_intervals_cover_and_predictions_save_what_they_explain() -> None:
    """400 studies of 30 raters with two ratings each and 300 unrated conversations; r within the bot .7, and 0."""
    rng = np.random.default_rng(3)
    n_studies = 400
    for slope in (1.0, 0.0):
        inside, width, saved = 0, 0.0, 0.0
        for _ in range(n_studies):
            f = rng.normal(2, 1, 60)
            y = 4 + slope * (f - 2) + np.repeat(rng.normal(0, 0.5, 30), 2) + rng.normal(0, 0.87, 60)
            result = powered_mean(y, f, rng.normal(2, 1, 300), np.repeat(np.arange(30), 2).tolist(), level=LEVEL)
            inside += result.low <= 4 <= result.high
            width += (result.high - result.low) / n_studies
            saved += result.saved / n_studies
        print(
            f"slope {slope}: {n_studies} studies, {inside / n_studies:.3f} covered, width {width:.2f}, saved "
            f"{saved:.2f}"
        )
        assert inside / n_studies >= LEVEL - 2 * math.sqrt(LEVEL * (1 - LEVEL) / n_studies)
        assert saved == pytest.approx(0.33 if slope else -0.04, abs=0.08)


def test_what_cannot_be_estimated_says_why() -> None:
    many = list(range(20))
    assert powered_mean([1.0, 2.0], [1.0, 2.0], many).reason.code == "few_raters_for_weight"
    assert powered_mean(many, many, []).reason.code == "no_unrated"
    assert powered_mean(many, [1.0] * 20, [1.0] * 9).reason.code == "constant_prediction"
    assert powered_mean(many, many, []).ratings == pytest.approx(9.5)
    with pytest.raises(ValueError, match="2 ratings, 1 predictions"):
        powered_mean([1.0, 2.0], [1.0], [1.0])


def test_a_study_tells_what_predictions_gain_or_that_they_gain_nothing() -> None:
    rng = np.random.default_rng(2)
    bots = np.repeat(["a", "b"], 150)
    names = [f"c{k}" for k in range(300)]
    good = rng.normal(0, 1, 300)
    values = np.clip(4 + good + rng.normal(0, 0.5, 300), 1, 7)
    rated = np.arange(300) % 5 == 0
    frame = pd.DataFrame({"conversation": names, "bot": bots, "rater": names, "quality": values})
    ratings = Ratings.from_frame(frame[rated], ["quality"], scale=(1, 7))
    result = powered_means(ratings, names, bots.tolist(), good, predictor="a metric")
    assert result.saved > 0.4
    assert "as 149% more" in result.sentence
    assert result.bots["a"].n_unrated == 120
    assert {"mean", "saved"} <= result.to_json()["bots"]["b"].keys()
    assert result.sentence in result.summary()
    useless = powered_means(ratings, names, bots.tolist(), rng.normal(0, 1, 300), predictor="chance")
    assert useless.saved < 0.05
    constant = powered_means(ratings, names, bots.tolist(), np.ones(300), predictor="nothing")
    assert "cannot be used: the predictions do not vary" in constant.sentence
