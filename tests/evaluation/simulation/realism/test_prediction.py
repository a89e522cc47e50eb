"""Predictions of bots from simulated chats: rows are the hybrid metric's own, and the swap of features is honest."""

import numpy as np
import pandas as pd
import pytest

from evaluation.hybrid.calibration import others_mean, q_squared
from evaluation.hybrid.fit import fit_hybrid
from evaluation.simulation.realism.prediction import (
    FEATURES,
    FITS,
    bot_predictions,
    q2_of,
    with_features_of,
    with_lengths,
)
from evaluation.simulation.realism.result import BotPrediction

BOTS = [f"b{number}" for number in range(7)]


def table(seed: int, *, relation: float, n: int = 20, rated: bool = True) -> pd.DataFrame:
    """Return chats of seven bots, whose features rise with the bot's number as the relation says."""
    rng = np.random.default_rng(seed)
    number = np.repeat(np.arange(7), n)
    values = rng.normal(size=(7 * n, len(FEATURES))) + relation * number[:, None]
    frame = pd.DataFrame(values, columns=list(FEATURES))
    frame["words_user"] = np.exp(rng.normal(size=7 * n) * 0.1 + 1)
    frame["n_turns"] = rng.integers(6, 20, size=7 * n)
    frame.insert(0, "conversation", [f"{seed}-{row}" for row in range(7 * n)])
    frame.insert(1, "bot", np.array(BOTS)[number])
    if rated:
        frame["quality"] = number + rng.normal(size=7 * n)
    return frame


HUMAN, LIKE_PEOPLE = table(0, relation=0.5), table(1, relation=0.5, rated=False)


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str, str], BotPrediction]:
    """Return the rows by fit, what it is fitted on, and what it is applied to."""
    blind = table(2, relation=0.0, rated=False)
    result = bot_predictions(HUMAN, LIKE_PEOPLE, targets=("quality",), selfplay=blind)
    return {(one.fit, one.fitted_on, one.applied_to): one for one in result}


def test_each_fit_has_each_kind_of_chats(rows: dict[tuple[str, str, str], BotPrediction]) -> None:
    kinds = [("people", "people"), ("people", "simulated"), ("people", "selfplay"), ("simulated", "simulated")]
    assert set(rows) == {(fit, *kind) for fit in FITS for kind in kinds}


@pytest.mark.parametrize("preset", ["paper", "strong"])
def test_rows_are_the_hybrid_metric_s(rows: dict[tuple[str, str, str], BotPrediction], preset: str) -> None:
    fit = fit_hybrid(HUMAN, preset=preset, targets=("quality",), selfplay=LIKE_PEOPLE)
    assert fit.selfplay is not None
    people, simulated = rows[preset, "people", "people"], rows[preset, "people", "simulated"]
    for row, levels, values, pairs in (
        (people, fit.bot_level, fit.values, fit.pairs),
        (simulated, fit.selfplay.bot_level, fit.selfplay.values, fit.selfplay.pairs),
    ):
        assert row.r.value == levels["pearson"].correlation.r
        assert row.r_null95 == levels["pearson"].null95
        assert row.accuracy.value == pairs.ordered / pairs.all
        if values is not None:
            assert row.q2.value == pytest.approx(values.q2)
            assert row.q2_null95 == values.q2_null95
        tau = levels["kendall"].correlation.r
        assert tau is not None
        assert row.accuracy.value == pytest.approx((1 + tau) / 2)


def test_chats_like_people_s_predict_and_blind_ones_do_not(rows: dict[tuple[str, str, str], BotPrediction]) -> None:
    for kind in (("people", "people"), ("people", "simulated"), ("simulated", "simulated")):
        assert rows[("strong", *kind)].beats_chance, kind
        assert (rows[("strong", *kind)].q2.value or 0) > 0.5
    assert not rows["strong", "people", "selfplay"].beats_chance
    assert not rows["log_turns", "people", "people"].beats_chance


def test_q2_and_its_interval_are_of_errors_paired_by_bot() -> None:
    human = dict(zip(BOTS, [1.0, 2.0, 3.0, 5.0, 4.0, 6.0, 8.0], strict=True))
    predicted = {bot: value * 0.8 + 0.5 for bot, value in human.items()}
    result = q2_of(predicted, human)
    x, y = (np.array(list(side.values())) for side in (predicted, human))
    assert result.value == pytest.approx(q_squared(x[None], y[None])[0])
    assert result.low is not None
    assert result.high is not None
    assert result.low < (result.value or 0) < result.high < 1
    equal = q2_of(dict(zip(BOTS, others_mean(y[None])[0], strict=True)), human)
    assert equal.value == pytest.approx(0)
    assert q2_of(predicted, {bot: human[bot] for bot in BOTS[:4]}).low is None
    assert q2_of(predicted, {bot: human[bot] for bot in BOTS[:2]}).value is None


def test_a_fit_on_simulated_chats_has_their_features_and_people_s_ratings() -> None:
    human, simulated = with_lengths(HUMAN), with_lengths(LIKE_PEOPLE)
    twice = with_features_of(pd.concat([human] * 2), simulated, seed=0)  # two raters of each
    assert (twice.groupby("conversation")[FEATURES[0]].nunique() == 1).all()
    result = with_features_of(human, simulated, seed=0)
    assert sorted(result["conversation"]) == sorted(human["conversation"])
    ratings = human.set_index("conversation")["quality"]
    assert (result.set_index("conversation")["quality"] == ratings[result["conversation"]]).all()
    name = FEATURES[0]
    for bot in BOTS:
        # As many simulated as rated chats: each is used once.
        assert sorted(result.loc[result["bot"] == bot, name]) == sorted(simulated.loc[simulated["bot"] == bot, name])
        lengths = simulated.loc[simulated["bot"] == bot, "log_turns"]
        assert result.loc[result["bot"] == bot, "log_turns"].isin(lengths).all()


def test_undefined_simulated_chats_are_left_out_and_few_used_again() -> None:
    simulated = with_lengths(LIKE_PEOPLE).copy()
    simulated.loc[simulated["bot"] == "b0", FEATURES[3]] = np.nan
    one = simulated.index[simulated["bot"] == "b1"][1:]
    simulated.loc[one, FEATURES[0]] = np.nan
    result = with_features_of(with_lengths(HUMAN), simulated, seed=0)
    assert "b0" not in set(result["bot"])
    assert result.loc[result["bot"] == "b1", FEATURES[1]].nunique() == 1


def test_few_bots_give_rows_with_a_reason() -> None:
    few = HUMAN[HUMAN["bot"].isin(["b0", "b1"])]
    result = bot_predictions(few, LIKE_PEOPLE, targets=("quality",))
    assert {one.reason.code for one in result if one.reason} == {"no_fit"}
    assert len(result) == 3 * len(FITS)
    # Within stored chats the number of turns is not the participant's.
    within = bot_predictions(few, LIKE_PEOPLE, targets=("quality",), is_within=True)
    assert {one.fit for one in within} == set(FITS) - {"log_turns"}
