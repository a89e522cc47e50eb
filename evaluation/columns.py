"""`Column`: the meaning of one number. The data dictionary of exports and pages is made of these."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

Level = Literal["turn", "conversation"]
Direction = Literal["higher", "lower", "neither"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a metric's table.

    Args:
        name: unique among all metrics within its level, lower case with underscores, e.g.
            `sentiment_user`. Where a name stands at both levels, the conversation's value is the mean
            over its turns that have one.
        level: a value per turn (stored at the turn it describes) or per conversation.
        title: readable name, e.g. "Sentiment, participant".
        unit: what is counted ("words", "cosine", "1"); 1 for a pure number.
        range: smallest and largest possible value; None where unbounded.
        direction: which way is commonly thought better.
        description: one or two sentences with the formula's source.
    """

    name: str
    level: Level
    title: str
    unit: str
    range: tuple[float | None, float | None]
    direction: Direction
    description: str


def ends_of(range: tuple[float | None, float | None]) -> tuple[float, float] | None:
    """Return the ends that values cannot leave, infinite on an open side; None where both are open."""
    low, high = range
    if low is None and high is None:
        return None
    return -inf if low is None else low, inf if high is None else high


def per_turn(
    name: str,
    title: str,
    *,
    unit: str,
    range: tuple[float | None, float | None],
    direction: Direction,
    description: str,
) -> tuple[Column, Column]:
    """Return a turn-level column and its mean over the defined turns of a conversation, under one name."""
    mean = f"Mean over the turns that have a value. {description}"
    return (
        Column(name, "turn", title, unit, range, direction, description),
        Column(name, "conversation", f"{title}, mean", unit, range, direction, mean),
    )
