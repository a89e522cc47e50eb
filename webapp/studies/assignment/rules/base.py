"""Contract of an assignment rule, its registry, and three rules."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from chatbots import Identity
from chatbots.registry import C, Registry


@dataclass(frozen=True, slots=True)
class Candidate:
    """Bot, with its condition, that a participant can get next.

    Attributes:
        bot: its id.
        condition: levels by factor; empty without conditions.
        load: rank by tasks, completed or open; candidates come fewest first.
        need: number of further ratings that it needs; None if unknown.
    """

    bot: str
    condition: Mapping[str, str]
    load: int
    need: float | None


@dataclass(frozen=True, slots=True)
class EarlierTask:
    """Task that the participant had before.

    Attributes:
        outcome: a value of `Outcome`; empty if it has none.
        part: key of the study's part; empty without parts.
        bots: ids in their order, each with its condition.
    """

    outcome: str
    part: str
    bots: Sequence[tuple[str, Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class AssignmentCase:
    """Input of a rule: the candidates, the study's bots, and the participant.

    Attributes:
        bots: all bots of the study, in its order.
        parameters: parameters of the participant's link.
        answers: answers by question, of earlier tasks: bots are drawn before a task's own questions are asked.
    """

    candidates: Sequence[Candidate]
    bots: Sequence[str]
    participant: UUID
    parameters: Mapping[str, str]
    answers: Mapping[str, Any]
    earlier: Sequence[EarlierTask]


class AssignmentRule(Protocol):
    """Choice of a participant's next bot or item.

    A rule may have a method `choose_for(case, rng)`: for bots it gets an `AssignmentCase` and returns an index in its
    candidates. Items and conversations, and bots of rules without it, are chosen by `choose`, from counts alone. With
    `sets_order = True` bots in a row come in the order in which the rule chose them, whatever `bot_order` says.

    Attributes:
        reads_needs: True if it uses the number of further ratings that bots need. A job then computes it from new
            ratings and stores it (`OrderState`); a draw only reads it. A subclass of a rule must set it again.
    """

    name: str
    title: str
    description: str
    reads_needs: bool = False

    @property
    def identity(self) -> Identity: ...

    def choose(self, loads: Sequence[int], rng: random.Random, needs: Sequence[float] | None = None) -> int:
        """Return the index in `loads` of the candidate to assign.

        The default balances.

        Args:
            loads: number of tasks of each candidate, completed or open, fewest first; never empty. Candidates are
                available and new to this participant.
            needs: number of further ratings that each needs, in the same order; None if unknown.
        """
        return rng.randrange(bisect_right(loads, loads[0]))


rules: Registry[AssignmentRule] = Registry("assignment rule", "webapp.studies.assignment.rules")


def register_rule(cls: C) -> C:
    """Make one rule of the decorated class and list it."""
    rules.register(cls)
    return cls


@register_rule
class Balanced:
    """Rule that balances the numbers of completed and open tasks.

    Ties are drawn by the study's seed.
    """

    name = "balanced"
    title = "Balanced"
    description = "Each participant gets the bot with the fewest conversations so far."
    identity = Identity("balanced", "1")
    reads_needs = False

    def choose(self, loads: Sequence[int], rng: random.Random, needs: Sequence[float] | None = None) -> int:
        return rng.randrange(bisect_right(loads, loads[0]))


@register_rule
class Uniform:
    """Draw uniformly at random by the study's seed."""

    name = "uniform"
    title = "Random"
    description = "Each participant gets a random bot; numbers per bot will differ."
    identity = Identity("uniform", "1")
    reads_needs = False

    def choose(self, loads: Sequence[int], rng: random.Random, needs: Sequence[float] | None = None) -> int:
        return rng.randrange(len(loads))


FLOOR = 0.2
"""Fraction of draws that ignore the needs, so that every bot keeps getting ratings."""


@register_rule
class Resolve:
    """Rule that draws bots by the ratings they need to differ significantly.

    Probabilities depend only on the stored state, so the anytime-valid intervals stay valid. Without a state, or if no
    bot needs ratings, it balances.
    """

    name = "resolve"
    title = "Where the order is least settled"
    description = (
        "Bots that do not yet differ significantly from others are assigned more often; one participant in five gets "
        "a bot at random. Requires a worker, which analyses new ratings. Items are balanced."
    )
    identity = Identity("resolve", "1", {"floor": FLOOR})
    reads_needs = True

    def choose(self, loads: Sequence[int], rng: random.Random, needs: Sequence[float] | None = None) -> int:
        if needs is None or not any(needs):
            return Balanced().choose(loads, rng)
        if rng.random() < FLOOR:
            return rng.randrange(len(loads))
        return rng.choices(range(len(loads)), weights=needs)[0]
