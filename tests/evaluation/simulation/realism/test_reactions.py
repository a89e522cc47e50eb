"""Slopes of reactions on the bots' mean ratings, against statsmodels and by hand."""

import numpy as np
import pytest
import statsmodels.api as sm

from evaluation.simulation.realism.reactions import by_bot, judge_slope, reaction_slopes, slope_of, within_spread
from evaluation.simulation.realism.result import ReactionSlopes
from evaluation.stats.effect_sizes import Effect
from tests.evaluation.simulation.realism.made import turns_of

RATINGS = {f"b{number}": float(number) for number in range(6)}


def side(slope: float, name: str, seed: int = 0) -> object:
    """Return eighty chats of one turn with each of six bots; the reaction rises by the slope from bot to bot."""
    rng = np.random.default_rng(seed)
    bots = [f"b{number}" for number in range(6) for _ in range(80)]
    values = slope * np.repeat(np.arange(6), 80) + rng.normal(size=480)
    return turns_of(values, np.arange(480), bots, side=name)


def row(result: tuple[ReactionSlopes, ...], reaction: str) -> ReactionSlopes:
    """Return the row of a reaction."""
    return next(one for one in result if one.reaction == reaction)


def test_a_slope_is_statsmodels() -> None:
    rng = np.random.default_rng(0)
    rating = rng.normal(size=7)
    reaction = rating + rng.normal(size=7)
    result = slope_of(reaction, rating)
    fit = sm.OLS(reaction, sm.add_constant(rating / rating.std(ddof=1))).fit()
    assert result.value == pytest.approx(fit.params[1])
    assert (result.low, result.high) == pytest.approx(tuple(fit.conf_int()[1]))


def test_few_bots_have_no_interval_and_fewer_no_slope() -> None:
    assert slope_of(np.array([1.0, 2, 3, 5]), np.arange(4.0)).low is None
    result = slope_of(np.array([1.0, 2, 3, 5]), np.arange(4.0))
    assert result.value is not None
    assert result.reason is not None
    assert result.reason.code == "few_bots_for_slope"
    assert slope_of(np.array([1.0, 2, 3]), np.arange(3.0)).value == pytest.approx(1.0)
    assert slope_of(np.array([1.0, 2]), np.arange(2.0)).value is None
    assert slope_of(np.arange(6.0), np.ones(6)).reason is not None


def test_the_difference_is_that_of_the_slopes_and_paired_by_bot() -> None:
    people, simulated = side(0.5, "p"), side(0.1, "s", seed=1)
    result = row(reaction_slopes(people, simulated, RATINGS), "sentiment")  # type: ignore[arg-type]
    assert result.people.value is not None
    assert result.simulated.value is not None
    assert result.difference.value == pytest.approx(result.simulated.value - result.people.value)
    # The bots' means rise by .5 a bot; six bots' ratings have a standard deviation of √3.5, chats within a bot of 1.
    assert result.people.value == pytest.approx(0.5 * 3.5**0.5, abs=0.2)
    assert result.n_bots == 6
    assert result.standing == "weaker"


def test_participants_that_react_as_people_do_are_found() -> None:
    result = row(reaction_slopes(side(0.5, "p"), side(0.5, "s", seed=2), RATINGS), "sentiment")  # type: ignore[arg-type]
    assert result.standing == "as_people"


def test_leaving_time_is_no_reaction_within_stored_chats() -> None:
    result = reaction_slopes(side(0.5, "p"), side(0.5, "s"), RATINGS, is_within=True)  # type: ignore[arg-type]
    assert "log_turns" not in {one.reaction for one in result}
    # All chats have one turn: nothing to compare.
    whole = reaction_slopes(side(0.5, "p"), side(0.5, "s"), RATINGS)  # type: ignore[arg-type]
    assert row(whole, "log_turns").people.reason is not None


def test_the_unit_is_the_spread_within_bots() -> None:
    values = np.array([0.0, 2.0, 10.0, 12.0, np.nan])
    bots = np.array(["a", "a", "b", "b", "b"], dtype=object)
    assert within_spread(values, bots) == pytest.approx(2**0.5)
    assert by_bot(values, bots) == {"a": 1.0, "b": 11.0}


@pytest.mark.parametrize(
    ("people", "simulated", "difference", "expected"),
    [
        (Effect(1, 0.5, 1.5), Effect(0.9, 0.4, 1.4), Effect(-0.1, -0.5, 0.3), "as_people"),
        (Effect(1, 0.5, 1.5), Effect(3, 2.4, 3.4), Effect(2, 1.5, 2.3), "stronger"),
        (Effect(1, 0.5, 1.5), Effect(0.1, -0.4, 0.6), Effect(-0.9, -1.4, -0.4), "not_as_people"),
        (Effect(1, 0.5, 1.5), Effect(-1, -1.5, -0.5), Effect(-2, -2.5, -1.5), "not_as_people"),
        (Effect(1, 0.5, 1.5), Effect(0.5, -0.4, 1.4), Effect(-0.5, -1.4, 0.4), "not_known"),
        (Effect(0.1, -0.5, 0.7), Effect(0.9, 0.4, 1.4), Effect(0.8, 0.1, 1.5), "people_unclear"),
        (Effect(1), Effect(1), Effect(0), "not_known"),
    ],
)
def test_standings(people: Effect, simulated: Effect, difference: Effect, expected: str) -> None:
    assert judge_slope(people, simulated, difference) == expected
