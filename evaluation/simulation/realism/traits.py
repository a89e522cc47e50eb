"""Distances of simulated participants from people in eight traits.

Wasserstein distance on half-samples within bots, relative to the distance of two halves of people.
`docs/background/simulated_participants.md` gives the reasons.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from evaluation.findings import Reason
from evaluation.simulation.realism.chats import LEAVING, LEAVING_TITLE, QUANTITIES, ChatTurns
from evaluation.simulation.realism.persons import deal_persons, person_codes
from evaluation.simulation.realism.result import Standing, Trait, TraitDistance
from evaluation.stats.constants import SCORE_LEVEL
from evaluation.stats.effect_sizes import Effect

_Names = tuple[Trait, str, str, Literal["turn", "conversation"]]
LEAVING_NAMES: _Names = ("leaving", LEAVING, LEAVING_TITLE, "conversation")
CLOSE = 0.2
"""Maximum excess over the distance of two halves, in people's standard deviations, for "close" (Cohen 1988)."""
N_SPLITS = 400
N_LEVELS = 512
"""Maximum number of distinct values of a distribution; more are replaced by means of quantiles."""
CONSTANT = Reason("people_constant", "all values are equal, so there is no unit of distance")
UNDEFINED = Reason("no_values", "one side has no values")
NOT_WITHIN = Reason("not_within_chats", "not measured: the turns belong to stored chats of fixed length")


def trait_distances(
    people: ChatTurns, simulated: ChatTurns, *, is_within: bool = False, n_splits: int = N_SPLITS, seed: int = 0
) -> tuple[TraitDistance, ...]:
    """Compare every quantity, over turns and over conversations.

    Args:
        people, simulated: chats with the same bots, at least two per bot on each side.
        is_within: True if the simulated turns are inside stored chats, so participants do not leave.
    """
    codes = np.unique(np.concatenate([people.bots, simulated.bots]).astype(str), return_inverse=True)[1]
    bots = codes[: len(people.bots)], codes[len(people.bots) :]
    splits = half_samples(*bots, n_splits, np.random.default_rng(seed), person_codes(people, simulated))
    names: list[_Names] = []
    for quantity, (trait, title) in QUANTITIES.items():
        names += [(trait, quantity, title, "turn"), (trait, quantity, title, "conversation")]
    distances = []
    for names_of_trait in [*names, LEAVING_NAMES]:
        if names_of_trait is LEAVING_NAMES and is_within:
            distances.append(TraitDistance(*names_of_trait, None, None, Effect(reason=NOT_WITHIN)))
        else:
            distances.append(
                _distance(names_of_trait, [_values(side, names_of_trait) for side in (people, simulated)], bots, splits)
            )
    return tuple(distances)


def _values(side: ChatTurns, names: _Names) -> tuple[np.ndarray, np.ndarray]:
    """Return defined values with the chat number of each."""
    _trait, quantity, _title, level = names
    is_turn = level == "turn"
    values = side.values[quantity] if is_turn else side.means(quantity)
    is_defined = np.isfinite(values)
    return values[is_defined], (side.chat if is_turn else np.arange(len(side.chats)))[is_defined]


def half_samples(
    people: np.ndarray, simulated: np.ndarray, n_splits: int, rng: np.random.Generator, person: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw two halves of the persons, and simulated chats, for each bot.

    The samples have equal size. No person is in both halves. Simulated chats of persons who also have chats of their
    own are those of the other half, so that no comparison is within persons.

    Args:
        people, simulated: (C,) bot numbers of the chats.
        person: person numbers of all chats, people's first.

    Returns:
        (splits, C) masks of the first half, the second half and the simulated chats.
    """
    bots = np.concatenate([people, simulated])
    is_simulated = np.arange(len(bots)) >= len(people)
    stratum = 2 * bots + (is_simulated & ~np.isin(person, person[~is_simulated]))
    is_first = deal_persons(person, stratum, 2, n_splits, rng) == 0
    chosen = np.zeros((3, n_splits, len(bots)), dtype=bool)
    for bot in np.unique(people):
        members = [(bots == bot) & mask for mask in (~is_simulated & is_first, ~is_simulated & ~is_first)]
        members.append((bots == bot) & is_simulated & ~is_first)
        n = np.min([each.sum(axis=1) for each in members], axis=0)
        for mask, each in zip(chosen, members, strict=True):
            keys = np.where(each, rng.random(each.shape), np.inf)
            mask |= each & (keys.argsort(axis=1).argsort(axis=1) < n[:, None])
    half, other_half, simulated_half = chosen
    return half[:, : len(people)], other_half[:, : len(people)], simulated_half[:, len(people) :]


def wasserstein(first: np.ndarray, second: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return the Wasserstein distances of pairs of distributions.

    It is the area between their cumulative shares.

    Args:
        first, second: (B, U) shares.
        grid: (U,) the values, in order.
    """
    return np.asarray(np.abs(np.cumsum(first - second, axis=1)[:, :-1]) @ np.diff(grid))


def shares_of(counts: np.ndarray, bots: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return (B, U) shares of values in selected chats.

    Bots are weighted equally.

    Args:
        counts: (C, U) counts of the values in each chat.
        bots: (C,) numbers.
        chosen: (B, C).
    """
    of_chat, of_bot = counts.sum(axis=1), np.eye(int(bots.max()) + 1, dtype=np.float32)[bots]
    total = (chosen * of_chat) @ of_bot
    weight = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    weight /= np.maximum((total > 0).sum(axis=1, keepdims=True), 1)
    return np.asarray((chosen * (weight @ of_bot.T)) @ counts, dtype=float)


def _distance(
    names: _Names,
    sides: list[tuple[np.ndarray, np.ndarray]],
    bots: tuple[np.ndarray, np.ndarray],
    splits: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> TraitDistance:
    n = len(sides[0][0])
    if not n or not len(sides[1][0]):
        return TraitDistance(*names, None, None, Effect(reason=UNDEFINED))
    grid, level = _levels(np.concatenate([values for values, _chat in sides]))
    counts = []
    for (_values, chat), codes, bot in zip(sides, (level[:n], level[n:]), bots, strict=True):
        counts.append(np.zeros((len(bot), len(grid)), dtype=np.float32))
        np.add.at(counts[-1], (chat, codes), 1)
    half, other_half, simulated_half = splits
    everybody = [shares_of(each, bot, np.ones((1, len(bot)), bool))[0] for each, bot in zip(counts, bots, strict=True)]
    mean, simulated_mean = (float(distribution @ grid) for distribution in everybody)
    # If people's values are all equal, use the unit of both sides together.
    smallest = 1e-9 * max(1.0, float(np.abs(grid).max()))
    units = [_spread(distribution, grid) for distribution in (everybody[0], np.mean(everybody, axis=0))]
    unit = next((spread for spread in units if spread > smallest), None)
    if unit is None:
        return TraitDistance(*names, mean, simulated_mean, Effect(reason=CONSTANT))
    shares = shares_of(counts[0], bots[0], half)
    apart = wasserstein(shares, shares_of(counts[1], bots[1], simulated_half), grid) / unit
    halves = wasserstein(shares, shares_of(counts[0], bots[0], other_half), grid) / unit
    low, high = np.quantile(apart, [(1 - SCORE_LEVEL) / 2, (1 + SCORE_LEVEL) / 2]).tolist()
    usual, rare = float(halves.mean()), float(np.quantile(halves, SCORE_LEVEL))
    distance = Effect(float(apart.mean()), low, high)
    return TraitDistance(*names, mean, simulated_mean, distance, usual, rare, judge_distance(low, high, usual))


def _spread(shares: np.ndarray, grid: np.ndarray) -> float:
    return float(np.sqrt(shares @ (grid - shares @ grid) ** 2))


def judge_distance(low: float, high: float, halves: float) -> Standing:
    """Judge the interval of a distance relative to that of two halves."""
    if low > halves:
        return "different"
    return "close" if high < halves + CLOSE else "not_known"


def _levels(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values in order, and their numbers.

    If there are many, they are means of quantiles.
    """
    levels, codes = np.unique(values, return_inverse=True)
    if len(levels) > N_LEVELS:
        edges = np.quantile(values, np.arange(1, N_LEVELS) / N_LEVELS)
        codes = np.unique(np.searchsorted(edges, values), return_inverse=True)[1]
        levels = np.bincount(codes, values) / np.bincount(codes)
    return levels, codes
