"""Metrics whose values come from files of scores (`evaluation/data/scores.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from chatbots import Identity
from evaluation.data.items import JudgedItem
from evaluation.data.scores import MatchedMetric, Place
from evaluation.data.tables import Column, Direction, per_turn
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.text_cache import TextCache

NO_VALUE = "the imported file has no value here"
_FROM_FILE = "its values come from files; import a file of scores that contains these conversations"


class ScoreFileMetric(MetricDefaults):
    """Metric of another program, read from a file.

    A conversation's value is that of the file, or else the mean over its replies.

    Args:
        direction: better direction.
        values: score by conversation or item, and turn; None if they are stored elsewhere.
    """

    default = False
    languages = ()
    needs = ("a file of scores",)
    seen_sets = ()

    def __init__(
        self,
        name: str,
        title: str,
        *,
        direction: Direction = "higher",
        version: str = "1",
        project: str = "",
        licence: str = "",
        values: Mapping[Place, float] | None = None,
    ) -> None:
        self.name, self.title, self.version, self.licence = name, title, version, licence
        self.project, self.values = project, values
        self.columns: tuple[Column, ...] = per_turn(
            name,
            title,
            unit="1",
            range=(None, None),
            direction=direction,
            description="Imported score, computed by another program.",
        )

    @property
    def identity(self) -> Identity:
        """Version and project: the values are not computed here."""
        return Identity(self.name, self.version, {"imported": self.project})

    def unavailable_reason(self) -> str | None:
        return _FROM_FILE if self.values is None else None

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        values = self.values or {}
        ids = [conversation.id for conversation in layout.conversations]
        places = zip(layout.conversation_of.tolist(), layout.turn_of.tolist(), strict=True)
        turns = np.array([values.get((ids[owner], turn), np.nan) for owner, turn in places], dtype=float)
        file_scores = np.array([values.get((name, None), np.nan) for name in ids], dtype=float)
        conversations = np.where(np.isfinite(file_scores), file_scores, layout.mean(turns))
        reasons = missing(conversations, NO_VALUE) or missing(turns, NO_VALUE)
        return Measured({self.name: turns}, {self.name: conversations}, {self.name: reasons})

    def score_items(self, items: Sequence[JudgedItem]) -> np.ndarray:
        """Return the scores of rated items (N,); NaN if there is none.

        The id of a reply of a chat is `CONVERSATION/TURN`.
        """
        return np.array([self._score_item(item.id) for item in items], dtype=float)

    def _score_item(self, name: str) -> float:
        values = self.values or {}
        conversation, _, turn = name.rpartition("/")
        reply_score = values.get((conversation, int(turn)), math.nan) if turn.isdecimal() else math.nan
        return values.get((name, None), reply_score)


def imported_metrics(metrics: Mapping[str, MatchedMetric]) -> dict[str, ScoreFileMetric]:
    """Return the metrics of a file, by name."""
    return {name: ScoreFileMetric(name, metric.title, values=metric.values) for name, metric in metrics.items()}
