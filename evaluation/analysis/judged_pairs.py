"""Judgements of pairs, as columns: each rater's better one of two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class Judgements:
    """Judgements of pairs as columns of one length.

    Attributes:
        item: (k,) what was compared: a context, or two conversations.
        first, second: (k,) the bots.
        rater: (k,) rater of each; None for an unnamed rater.
        answers: per question (k,): 1 the first is better, 0 they are the same, -1 the second; NaN without an answer.
        titles: per question, for people; the first one is what bots are ranked by.
        controls: by name (k,) how much more the first has of something that is not the bot's merit, as
            `evaluation.analysis.style` makes them; empty where texts are not known.
        is_collecting: whether more are still coming and people look at them meanwhile, as `Ratings.is_collecting`.
    """

    item: np.ndarray
    first: np.ndarray
    second: np.ndarray
    rater: np.ndarray
    answers: Mapping[str, np.ndarray]
    titles: Mapping[str, str]
    controls: Mapping[str, np.ndarray] = field(default_factory=dict)
    is_collecting: bool = False

    def __post_init__(self) -> None:
        columns = {"first": self.first, "second": self.second, "rater": self.rater}
        columns |= {**self.answers, **self.controls}
        for name, values in columns.items():
            if len(values) != len(self.item):
                raise ValueError(f"{name} has {len(values)} values for {len(self.item)} judgements")
        if set(self.titles) != set(self.answers):
            raise ValueError(
                f"titles for {', '.join(self.titles)} and answers to {', '.join(self.answers)}; they must be the same"
            )
        for key, values in self.answers.items():
            odd = set(values[np.isfinite(values)].tolist()) - {-1.0, 0.0, 1.0}
            if odd:
                raise ValueError(f"an answer to {key} is {min(odd):g}; it must be 1, 0 or -1")

    def __len__(self) -> int:
        return len(self.item)

    @property
    def leading(self) -> str:
        """The question that bots are ranked by."""
        return next(iter(self.titles))
