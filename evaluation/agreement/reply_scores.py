"""Scores of each reply by metrics and people, and the replies on which they disagree most.

Metrics and people use different scales, so they are compared by position: the rank of a reply among those of its data
set, from 0 for the lowest to 100 for the highest, where equal values share the mean of their ranks. Papers print such
replies as cases (Huang et al. 2020, Figure 5; Lan et al. 2020, Tables 4 and 6; Shi et al. 2023, Tables 10 to 14).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.stats import rankdata

from evaluation.agreement.agreement_by_group import HumanScores
from evaluation.agreement.metric_agreement import JudgedReplies, JudgementSource, judge, read_judgements
from evaluation.data.items import JudgedItem, detokenise_reply
from evaluation.metrics.base import Metric
from evaluation.metrics.explanations import Explanation
from evaluation.metrics.registry import Progress, metric_and_columns
from evaluation.metrics.text_cache import TextCache

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from evaluation.agreement.metric_agreement import MetricAgreement

ColumnType = Literal["text", "integer", "number", "json"]

FIXED_COLUMNS: dict[str, tuple[ColumnType, str]] = {
    "id": ("text", "Id of the reply in its data set."),
    "data_set": ("text", "Data set; empty if the file names none."),
    "model": ("text", "Dialogue model that gave the reply; empty if unknown."),
    "context_length": ("integer", "Number of utterances before the reply."),
    "reply_words": ("integer", "Number of words of the reply."),
    "human_mean": ("number", "Mean human rating on the compared dimension; higher is better."),
    "n_ratings": ("integer", "Number of these ratings."),
    "human_means": ("json", "Mean human rating by dimension."),
    "reasons": ("json", "Reason for each missing score, by column."),
}
"""Type and description of the columns before those of the metrics."""

MAX_OTHERS = 500
"""Maximum number of other replies of the data set that an explanation compares with."""


@dataclass(frozen=True)
class Disagreement:
    """A reply with its positions, from 0 to 100, according to a metric and to people.

    Attributes:
        index: number of the reply in the data.
        difference: position by the metric minus position by people; positive if the metric ranks the reply higher.
    """

    index: int
    score: float
    human_mean: float
    metric_position: float
    human_position: float

    @property
    def difference(self) -> float:
        return self.metric_position - self.human_position


@dataclass(frozen=True)
class ReplyScores:
    """Scores of rated replies by metrics and people.

    Attributes:
        items: the replies.
        target: compared dimension.
        human_means: (N,) mean rating on it, NaN if none; `n_ratings`: (N,) number of ratings.
        scores: by metric column (N,), NaN if undefined.
        signs: by column, −1 if lower scores are better, otherwise 1.
        reasons: by column, why each reply is not compared; empty if it is.
        unavailable: reasons by metric that cannot be computed here.
    """

    items: tuple[JudgedItem, ...]
    target: str
    human_means: np.ndarray
    n_ratings: np.ndarray
    scores: Mapping[str, np.ndarray]
    signs: Mapping[str, float]
    reasons: Mapping[str, Sequence[str]]
    unavailable: Mapping[str, str]

    @classmethod
    def from_agreements(cls, judgements: JudgedReplies, agreements: Mapping[str, MetricAgreement]) -> ReplyScores:
        """Collect what `judge` has computed for these replies."""
        target = next(iter(agreements.values())).target
        humans = HumanScores.from_items(judgements.items, judgements.skipped, target)
        return cls(
            items=judgements.items,
            target=target,
            human_means=humans.means,
            n_ratings=np.array([len(scores) for scores in humans.scores_by_item]),
            scores={name: x for agreement in agreements.values() for name, x in agreement.scores.items()},
            signs={name: x for agreement in agreements.values() for name, x in agreement.signs.items()},
            reasons={name: x for agreement in agreements.values() for name, x in agreement.reasons.items()},
            unavailable={n: agreement.unavailable for n, agreement in agreements.items() if agreement.unavailable},
        )

    @property
    def columns(self) -> list[tuple[str, ColumnType, str]]:
        """Name, type and description of each column of `rows`."""
        columns = [(name, kind, text) for name, (kind, text) in FIXED_COLUMNS.items()]
        for name in self.scores:
            columns.append((name, "number", f"Score by the metric column {name}."))
        return columns

    def rows(self) -> Iterator[list[Any]]:
        """Yield the values of each reply, in the order of `columns`; None for missing numbers."""
        for k, item in enumerate(self.items):
            missing = {
                name: self.reasons[name][k] for name, values in self.scores.items() if not math.isfinite(values[k])
            }
            yield [
                item.id,
                item.source,
                item.model,
                len(item.context),
                len(item.response.split()),
                _plain(self.human_means[k]),
                int(self.n_ratings[k]),
                human_means_by_dimension(item),
                missing,
                *(_plain(values[k]) for values in self.scores.values()),
            ]

    def table(self) -> pd.DataFrame:
        """Return a data frame with a row for each reply."""
        import pandas as pd

        return pd.DataFrame(list(self.rows()), columns=[name for name, _kind, _text in self.columns])

    def disagreements(self, column: str, *, model: str = "") -> list[Disagreement]:
        """Return the replies with both scores, those with the largest difference in position first.

        Positions are always among all replies of the data set.

        Args:
            column: a column of a metric.
            model: of this dialogue model only; empty for all.

        Raises:
            KeyError: if there is no such column.
        """
        sources = [item.source for item in self.items]
        ordered = rank_disagreements(self.signs.get(column, 1.0) * self.scores[column], self.human_means, sources)
        return [row for row in ordered if not model or self.items[row.index].model == model]

    def explain(self, index: int, metric: str, *, shared: TextCache | None = None) -> Explanation | None:
        """Return the explanation of a score, such as keywords; None if the metric has none."""
        return explain_reply(metric_and_columns(metric)[0], self.items[index], self.items, shared or TextCache())


def explain_reply(
    metric: Metric, item: JudgedItem, items: Sequence[JudgedItem], shared: TextCache
) -> Explanation | None:
    """Return a metric's explanation of its score of a reply; None if it has none.

    Args:
        items: the data set; at most `MAX_OTHERS` of its other replies are compared, evenly sampled.
    """
    explain = getattr(metric, "explain", None)
    if explain is None or metric.unavailable_reason() is not None or not item.response.strip():
        return None
    others = [other for other in items if other is not item and other.source == item.source]
    places = np.unique(np.linspace(0, len(others) - 1, MAX_OTHERS).astype(int)).tolist() if others else []
    replies = [item.reply, *(others[k].reply for k in places)]
    if not getattr(metric, "reads_tokens", False):
        replies = [detokenise_reply(reply) for reply in replies]
    explanation: Explanation | None = explain(replies[0], replies[1:], shared)
    return explanation


def human_means_by_dimension(item: JudgedItem) -> dict[str, float]:
    """Return a reply's mean rating on each dimension with ratings inside its scale."""
    values = {name: [score for _rater, score in item.scores(name)[0]] for name in item.dimensions}
    return {name: float(np.mean(scores)) for name, scores in values.items() if scores}


def positions_in_sets(values: Sequence[float] | np.ndarray, sources: Sequence[str]) -> np.ndarray:
    """Return each value's position among those of its data set, (N,) from 0 to 100.

    NaN for missing values, and in a data set with a single value.
    """
    values, places = np.asarray(values, dtype=float), np.asarray(sources, dtype=object)
    positions = np.full(len(values), np.nan)
    for source in dict.fromkeys(sources):
        rows = np.flatnonzero((places == source) & np.isfinite(values))
        if len(rows) > 1:
            positions[rows] = 100 * (rankdata(values[rows]) - 1) / (len(rows) - 1)
    return positions


def rank_disagreements(
    scores: Sequence[float] | np.ndarray, human_means: Sequence[float] | np.ndarray, sources: Sequence[str]
) -> list[Disagreement]:
    """Compare the positions of replies by a metric and by people, largest difference first.

    Args:
        scores: (N,) of a metric, higher is better; NaN if undefined.
        human_means: (N,), NaN for none.
        sources: (N,) data set of each reply.
    """
    scores, human_means = np.asarray(scores, dtype=float), np.asarray(human_means, dtype=float)
    is_comparable = np.isfinite(scores) & np.isfinite(human_means)
    by_metric = positions_in_sets(np.where(is_comparable, scores, np.nan), sources)
    by_people = positions_in_sets(np.where(is_comparable, human_means, np.nan), sources)
    rows = [
        Disagreement(k, float(scores[k]), float(human_means[k]), float(by_metric[k]), float(by_people[k]))
        for k in np.flatnonzero(np.isfinite(by_metric)).tolist()
    ]
    return sorted(rows, key=lambda row: (-abs(row.difference), row.index))


def score_replies(
    judgements: JudgedReplies | JudgementSource | Path | str,
    metrics: Sequence[Metric | str],
    *,
    target: str = "",
    shared: TextCache | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> ReplyScores:
    """Score each rated reply by each metric; arguments and errors as in `judge`."""
    replies = read_judgements(judgements)
    agreements = judge(replies, metrics, target=target, shared=shared, progress=progress)
    return ReplyScores.from_agreements(replies, agreements)


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
