"""Distances in traits against SciPy's, and how often equal sides seem different."""

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from evaluation.simulation.realism.result import TraitDistance
from evaluation.simulation.realism.traits import (
    CONSTANT,
    NOT_WITHIN,
    half_samples,
    shares_of,
    trait_distances,
    wasserstein,
)
from evaluation.stats.effect_sizes import Effect
from tests.evaluation.simulation.realism.made import person_side, random_side, turns_of


def row(result: tuple[TraitDistance, ...], quantity: str, level: str = "turn") -> TraitDistance:
    """Return the row of a quantity at a level."""
    return next(one for one in result if (one.quantity, one.level) == (quantity, level))


def test_wasserstein_is_scipy_s() -> None:
    rng = np.random.default_rng(0)
    grid = np.sort(rng.normal(size=7))
    first, second = rng.dirichlet(np.ones(7), size=(2, 3))
    expected = [wasserstein_distance(grid, grid, a, b) for a, b in zip(first, second, strict=True)]
    assert wasserstein(first, second, grid) == pytest.approx(expected)


def test_shares_weigh_bots_alike() -> None:
    counts = np.array([[2, 0], [1, 1], [0, 4]], dtype=np.float32)
    bots = np.array([0, 0, 1])
    # Bot 0 has 3 of 4 at the first value, bot 1 none of 4.
    assert shares_of(counts, bots, np.ones((1, 3), bool))[0] == pytest.approx([0.375, 0.625])
    assert shares_of(counts, bots, np.array([[True, False, False]]))[0] == pytest.approx([1, 0])


def test_halves_are_disjoint_and_as_many_of_each_bot() -> None:
    people, simulated = np.array([0] * 9 + [1] * 6), np.array([0] * 5 + [1] * 20)
    half, rest, drawn = half_samples(people, simulated, 50, np.random.default_rng(0), np.arange(40))
    assert not (half & rest).any()
    for bot, n in ((0, 2), (1, 3)):
        for chosen, of in ((half, people), (rest, people), (drawn, simulated)):
            assert (chosen[:, of == bot].sum(axis=1) == n).all()
    assert (half.any(axis=0) & rest.any(axis=0)).all()


def test_nobody_is_in_both_halves() -> None:
    person = np.array([*np.repeat(np.arange(10), 3), *np.arange(10, 40)])
    bots = np.tile([0, 1, 2], 10)
    half, rest, drawn = half_samples(bots, bots, 50, np.random.default_rng(0), person)
    for split in range(50):
        assert set(person[:30][half[split]]).isdisjoint(person[:30][rest[split]])
        assert half[split].sum() == rest[split].sum() == drawn[split].sum() > 9
    # Simulated chats within stored ones are compared with other persons' chats.
    half, _rest, drawn = half_samples(bots, bots, 50, np.random.default_rng(0), np.tile(person[:30], 2))
    assert not (half & drawn).any()


def test_a_distance_of_many_chats_is_that_of_the_populations() -> None:
    rng = np.random.default_rng(1)
    bots = ["a"] * 400
    people = turns_of(rng.normal(size=400), np.arange(400), bots)
    simulated = turns_of(rng.normal(size=400) * 0.5 + 1, np.arange(400), bots, side="s")
    result = row(trait_distances(people, simulated, n_splits=100), "log_words")
    expected = wasserstein_distance(people.values["log_words"], simulated.values["log_words"])
    assert result.distance.value == pytest.approx(expected / people.values["log_words"].std(), abs=0.05)
    assert result.distance.low is not None
    assert result.distance.low > (result.halves95 or 0)
    assert result.standing == "different"
    assert result.people == pytest.approx(people.values["log_words"].mean(), abs=0.01)


def test_equal_populations_seem_different_no_more_often_than_claimed() -> None:
    rng = np.random.default_rng(2)
    different, n_studies = 0, 60
    for seed in range(n_studies):
        sides = [random_side(rng, n_bots=3, n_chats=12, side=side) for side in ("p", "s")]
        result = row(trait_distances(*sides, n_splits=60, seed=seed), "log_words", "conversation")
        different += result.standing == "different"
    # 2.5 % are expected, and six of 60 or more then have a chance below 1 %.
    assert different < 6


def test_two_groups_of_people_do_not_seem_different_for_being_other_persons() -> None:
    rng = np.random.default_rng(3)
    n_studies, different = 25, 0
    for seed in range(n_studies):
        sides = [person_side(rng, side=side) for side in ("p", "s")]
        different += row(trait_distances(*sides, n_splits=60, seed=seed), "log_words").standing == "different"
    assert different < 4


def test_what_cannot_be_measured_says_why() -> None:
    people = turns_of(np.zeros(20), np.arange(20), ["a"] * 20)
    result = trait_distances(people, people, is_within=True, n_splits=10)
    assert row(result, "emoji").distance == Effect(reason=CONSTANT)
    assert row(result, "log_turns", "conversation").distance == Effect(reason=NOT_WITHIN)
    # People who never use emoji, and participants who do, are different all the same.
    some = turns_of(np.tile([0.0, 1.0], 10), np.arange(20), ["a"] * 20, side="s")
    assert row(trait_distances(people, some, n_splits=50), "emoji").standing == "different"
    nothing = turns_of(np.full(20, np.nan), np.arange(20), ["a"] * 20)
    assert row(trait_distances(people, nothing, n_splits=10), "emoji").distance.reason is not None
