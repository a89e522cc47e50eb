"""Choices that order replies to one context, and the interface of their results.

A choice orders all or some pairs of the replies that a rater read. Each kind of choice subclasses `OrderedChoices`, and
its results `ChoiceResults`. A study protocol names the kind in its `ReplyOrder`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evaluation.stats.means import Interval


@dataclass(frozen=True, slots=True)
class BotTable:
    """Table with one row per bot.

    Attributes:
        id: name of its CSV file.
        columns: titles of the columns after the bot.
        rows: bot id, then an interval or count per column.
        method: explanation below the table.
    """

    id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, *tuple[Interval | int, ...]], ...]
    method: str


class ChoiceResults(ABC):
    """Results of one kind of choices; subclasses are frozen dataclasses.

    Attributes:
        key: field of the results in JSON.
        activity: verb phrase for people's task; `{n}` is the number of choices.
        method: sentences on what a choice implies.
        n: number of choices.
        n_replies: number of distinct replies.
        reliability: reliability of the reply scores, by Spearman and Brown; its `n` counts replies.
        model: name of the model of `strengths`, or empty.
        model_method: sentence about the model.
    """

    __slots__ = ()
    key: ClassVar[str]
    activity: ClassVar[str]
    method: ClassVar[str]
    model: ClassVar[str] = ""
    model_method: ClassVar[str] = ""
    n: int
    n_replies: int
    reliability: Interval

    def strengths(self) -> Mapping[str, Interval]:
        """Return the log strength of each bot relative to the average bot.

        Empty without a separate model; strengths then come from the implied pairs.
        """
        return {}

    @abstractmethod
    def table(self, level: float) -> BotTable:
        """Return the table of bots, with intervals at confidence `level`."""


@dataclass(frozen=True, eq=False)
class OrderedChoices(ABC):
    """Choices as columns of equal length, with replies in stored order.

    Attributes:
        reply: (k, n) names of the replies.
        bot: (k, n) their bots.
        rater: (k,) rater, None if unnamed.
        texts: the n replies of each choice, if known.
    """

    reply: np.ndarray
    bot: np.ndarray
    rater: np.ndarray
    texts: Sequence[Sequence[str]] = ()
    implied: ClassVar[tuple[tuple[int, int], ...]]
    """Pairs of columns ordered by a choice, the better one first."""

    def __post_init__(self) -> None:
        shape = (len(self.rater), self.n_shown())
        if self.reply.shape != shape or self.bot.shape != shape:
            raise ValueError(f"replies {self.reply.shape} and bots {self.bot.shape}; both must be {shape}")

    def __len__(self) -> int:
        return len(self.rater)

    @classmethod
    def n_shown(cls) -> int:
        """Return the number of replies per choice."""
        return 1 + max(column for pair in cls.implied for column in pair)

    @abstractmethod
    def results(self, *, level: float, seed: int = 0) -> ChoiceResults:
        """Return results with intervals at confidence `level`; `seed` is for resampling."""
