"""Correlations between people's answers, metrics of their chats, and known properties of the bots.

The three correlation matrices of Ghandeharioun et al. (2019, Figures 5, 6 and 8), each corrected by Holm (1979) over
all its cells. Two of them contain the hybrid metric, with the very numbers of its fit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from evaluation.findings import Reason, reason_read
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import BY_TUPLE, probability, share, span
from evaluation.ratings import Ratings
from evaluation.stats.comparisons import false_discovery_rates, holm
from evaluation.stats.correlation import Correlation, Method, correlate, within_groups
from evaluation.stats.zscores import rater_codes

if TYPE_CHECKING:
    import pandas as pd

ALPHA = 0.05
NOT_TOLD = Reason("not_told", "not told by this fit")
FEWEST = 3
"""Values that a row must have."""
_SPEAKER = re.compile(r", (?:participant and bot|bot and answer|participant|bot)(?= \(|$)")
"""Whose words a column of a metric is about, in its title."""

Cells = Annotated[Mapping[tuple[int, int], Correlation], BY_TUPLE]
"""By (row, column)."""
Source = Literal["dimension", "chats", "selfplay", "bot", "hybrid_chats", "hybrid_selfplay"]


@dataclass(frozen=True, slots=True)
class CorrelationRow:
    """Variable that is correlated with the columns of a matrix.

    Attributes:
        name: a dimension, a metric's column, a column of the table of bots, or `hybrid`.
        source: where its values come from: rated conversations, self-play, known properties of the bots, or a fit.
        speaker: whether it is about one speaker's words; in self-play both are the bot.
    """

    name: str
    source: Source
    speaker: bool = True


@dataclass(frozen=True, slots=True, repr=False)
class CorrelationMatrix:
    """Correlations of some rows with some columns.

    Attributes:
        kind: dimensions among themselves, metrics with dimensions over conversations, or anything known of a bot
            with its mean ratings over bots.
        columns: keys of dimensions.
        cells: coefficient by (row, column).
        within: Pearson's r within bots of the same cells; none over bots.
        survives: cells whose p-value stays below `ALPHA` after Holm's correction over all but the hybrid's rows,
            whose null is another one.
        q: the false discovery rate at which each of the same cells is found.
        n: conversations or bots.
    """

    kind: Literal["dimensions", "metrics", "bots"]
    method: Method
    rows: tuple[CorrelationRow, ...]
    columns: tuple[str, ...]
    cells: Cells
    n: int
    within: Cells = field(default_factory=dict)
    survives: frozenset[tuple[int, int]] = frozenset()
    q: Annotated[Mapping[tuple[int, int], float | None], BY_TUPLE] = field(default_factory=dict)

    @property
    def n_discovered(self) -> int:
        """Correlations found at a false discovery rate of `ALPHA`."""
        return sum(q is not None and q < ALPHA for q in self.q.values())

    @property
    def n_corrected(self) -> int:
        """Correlations that the correction counts."""
        return sum(not self._is_hybrid(i) for i, _j in self.cells)

    def _is_hybrid(self, row: int) -> bool:
        return self.rows[row].source.startswith("hybrid")

    def strongest(self, column: int, limit: int = 3) -> list[tuple[CorrelationRow, Correlation]]:
        """Return the surviving relations with a column, strongest first."""
        correlations = [(i, value) for (i, j), value in self.cells.items() if j == column]
        correlations = [(i, value) for i, value in correlations if (i, column) in self.survives]
        correlations.sort(key=lambda item: -abs(item[1].r or 0))
        return [(self.rows[i], value) for i, value in correlations[:limit]]

    def first_rows(self, limit: int = 10) -> list[int]:
        """Return the indices of the hybrid metric's rows, then of those most correlated with the first column.

        Args:
            limit: number of rows besides the hybrid metric's; rows without a coefficient are left out.
        """
        hybrid = [i for i in range(len(self.rows)) if self._is_hybrid(i)]
        size = {i: abs(r) for (i, j), value in self.cells.items() if j == 0 and (r := value.r) is not None}
        other_rows = sorted((i for i in size if i not in hybrid), key=lambda i: (-size[i], i))
        return [*hybrid, *other_rows[:limit]]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values: a list of cells."""
        cells = []
        for (i, j), value in self.cells.items():
            within = self.within.get((i, j))
            cells.append(
                {
                    "row": self.rows[i].name,
                    "source": self.rows[i].source,
                    "column": self.columns[j],
                    **value.to_json(),
                    "n": value.n,
                    "survives": (i, j) in self.survives,
                    "q": self.q.get((i, j)),
                    **({"within_bots": within.to_json()} if within is not None else {}),
                }
            )
        return {
            "kind": self.kind,
            "method": self.method,
            "n": self.n,
            "n_corrected": self.n_corrected,
            "alpha": ALPHA,
            "cells": cells,
        }

    def summary(self) -> str:
        """Return a line for each cell; a star where it survives the correction."""
        lines = [f"Correlations, {self.kind}: {self.method}, n = {self.n:,}"]
        for (i, j), value in self.cells.items():
            row, star = self.rows[i], "*" if (i, j) in self.survives else ""
            lines.append(
                f"  {row.name:32} {row.source:16} {self.columns[j]:20} {share(value.r):>6}{star:1} "
                f"{span(value.low, value.high, shares=True):>14}  {probability(value.p)}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()


def dimension_matrix(ratings: Ratings) -> CorrelationMatrix:
    """Correlate the dimensions among themselves over conversations, the ratings of one averaged.

    Returns:
        Spearman's ρ of each pair, the first one's place first; what one person rated belongs together.
    """
    means = ratings.per_conversation()
    keys = tuple(dimension.key for dimension in ratings.dimensions)
    people = rater_codes(means["rater"].tolist())
    cells = {
        (i, j): correlate(means[keys[i]].to_numpy(), means[keys[j]].to_numpy(), "spearman", units=people)
        for i, j in combinations(range(len(keys)), 2)
    }
    rows = tuple(CorrelationRow(key, "dimension") for key in keys)
    return CorrelationMatrix("dimensions", "spearman", rows, keys, cells, len(means))


def metric_matrix(
    ratings: pd.DataFrame, metrics: pd.DataFrame, dimensions: Sequence[str], hybrid: HybridCorrelations | None = None
) -> CorrelationMatrix:
    """Correlate metrics with ratings over conversations, and within bots.

    Args:
        ratings: a row per conversation: `bot`, the dimensions and, if known, `rater`: what one person rated belongs
            together.
        metrics: the same rows, a column per metric.
        hybrid: rows to put first.
    """
    from_fit = [] if hybrid is None else hybrid.of_conversations(dimensions)
    rows = [row for row, _cells, _within in from_fit]
    cells = {(i, j): v for i, (_, correlations, _w) in enumerate(from_fit) for j, v in enumerate(correlations)}
    within = {(i, j): v for i, (_, _f, correlations) in enumerate(from_fit) for j, v in enumerate(correlations)}
    tested: dict[tuple[int, int], Correlation] = {}
    bots = ratings["bot"].tolist()
    people = rater_codes(ratings["rater"].tolist()) if "rater" in ratings else None
    for i, name in enumerate(metrics.columns, start=len(rows)):
        rows.append(CorrelationRow(str(name), "chats"))
        x = metrics[name].to_numpy(dtype=float)
        for j, key in enumerate(dimensions):
            y = ratings[key].to_numpy(dtype=float)
            tested[i, j] = correlate(x, y, "spearman", units=people)
            within[i, j] = within_groups(x, y, bots, units=people)
    return CorrelationMatrix(
        "metrics",
        "spearman",
        tuple(rows),
        tuple(dimensions),
        {**cells, **tested},
        len(ratings),
        within,
        **_correct_cells(tested),
    )


def bot_matrix(
    known: Sequence[tuple[CorrelationRow, Mapping[str, float]]],
    means: Mapping[str, Mapping[str, float]],
    bots: Sequence[str],
    hybrid: HybridCorrelations | None = None,
) -> CorrelationMatrix:
    """Correlate known properties of the bots with their mean ratings.

    Args:
        known: rows with their value by bot; those with fewer than `FEWEST` values are left out.
        means: by dimension the mean rating of each bot.
        bots: that take part.
        hybrid: rows to put first.
    """
    from_fit = [] if hybrid is None else hybrid.of_bots(list(means))
    rows = [row for row, _cells in from_fit]
    cells = {(i, j): value for i, (_, correlations) in enumerate(from_fit) for j, value in enumerate(correlations)}
    tested: dict[tuple[int, int], Correlation] = {}
    for row, values in known:
        x = [values.get(bot, np.nan) for bot in bots]
        if np.isfinite(x).sum() < FEWEST:
            continue
        for j, of_bot in enumerate(means.values()):
            y = [of_bot[bot] for bot in bots]
            tested[len(rows), j] = correlate(x, y, "pearson", interval="fisher")
        rows.append(row)
    return CorrelationMatrix(
        "bots", "pearson", tuple(rows), tuple(means), {**cells, **tested}, len(bots), **_correct_cells(tested)
    )


def _correct_cells(cells: Cells) -> dict[str, Any]:
    """Return the cells that survive Holm's correction over all of them, and the false discovery rate of each."""
    p_values = [value.p for value in cells.values()]
    return {
        "survives": frozenset(key for key, p in zip(cells, holm(p_values), strict=True) if p is not None and p < ALPHA),
        "q": dict(zip(cells, false_discovery_rates(p_values), strict=True)),
    }


def without_speaker(title: str) -> str:
    """Return the title of a metric's column without whose words it is about."""
    return _SPEAKER.sub("", title)


def get_distinct_columns(means: pd.DataFrame, titles: Mapping[str, str]) -> list[CorrelationRow]:
    """Return the columns of self-play, the same numbers once.

    There the bot is its own participant, so `words_user` and `words_bot` are one thing: of columns that are alike
    the first is kept, and it names a speaker only where another kept one would be called the same.

    Args:
        means: a row per bot, a column per metric.
        titles: of the columns.
    """
    rows_by_title: dict[str, CorrelationRow] = {}
    for name in means.columns:
        title = without_speaker(titles[name])
        values = means[name].to_numpy(dtype=float)
        twins = [
            row
            for row in rows_by_title.values()
            if np.allclose(values, means[row.name].to_numpy(dtype=float), rtol=1e-9, equal_nan=True)
            # What is the same for all bots is alike by chance, unless only the speaker differs.
            and (np.ptp(values) > 0 or without_speaker(titles[row.name]) == title)
        ]
        if not twins:
            speaker = title in rows_by_title
            rows_by_title[titles[name] if speaker else title] = CorrelationRow(str(name), "selfplay", speaker)
    return list(rows_by_title.values())


@dataclass(frozen=True, slots=True)
class HybridCorrelations:
    """Agreement of a fit with every rating dimension, as matrix rows read from its document."""

    result: Mapping[str, Any]

    @property
    def has_conversations(self) -> bool:
        """True if the fit has results for single conversations; fits of the first versions have none."""
        return bool(self.result.get("dimensions_conversation_level"))

    @property
    def n_bots(self) -> int:
        """Rated bots."""
        return int(self.result["n_bots"])

    @property
    def n_selfplay(self) -> int:
        """Rated bots with self-play."""
        return selfplay_bots(self.result)

    def of_conversations(
        self, dimensions: Sequence[str]
    ) -> list[tuple[CorrelationRow, list[Correlation], list[Correlation]]]:
        """Return Spearman's ρ of predictions of single conversations, and r within bots."""
        if not self.has_conversations:
            return []
        row = CorrelationRow("hybrid", "hybrid_chats")
        methods = ("spearman", "within_bots")
        correlations = [[self._of_conversations(key, method) for key in dimensions] for method in methods]
        return [(row, correlations[0], correlations[1])]

    def of_bots(self, dimensions: Sequence[str]) -> list[tuple[CorrelationRow, list[Correlation]]]:
        """Return Pearson's r of the bots' scores, from rated conversations and from self-play where of enough bots."""
        if not self.has_conversations or self.n_bots < FEW_BOTS:
            return []
        rows = [(CorrelationRow("hybrid", "hybrid_chats"), self._of_bots(dimensions, "predicted"))]
        if self.n_selfplay >= FEW_BOTS:
            played = self._of_bots(dimensions, "predicted_selfplay")
            rows.append((CorrelationRow("hybrid", "hybrid_selfplay"), played))
        return rows

    def _is_target(self, key: str) -> bool:
        """Return True if `key` is no dimension itself but the predicted mean of all dimensions."""
        targets = set(self.result["target"].split(","))
        return key not in self.result["dimensions"] and targets == set(self.result["dimensions"])

    def _of_conversations(self, key: str, method: str) -> Correlation:
        document = (self.result["dimensions_conversation_level"].get(key) or {}).get(method)
        if document is None and method == "spearman" and self._is_target(key):
            document = self.result["conversation_level"].get(method)
        return read_correlation(document, self.result["n_conversations"])

    def _of_bots(self, dimensions: Sequence[str], source: str) -> list[Correlation]:
        return [self._of_bot(key, source) for key in dimensions]

    def _of_bot(self, key: str, source: str) -> Correlation:
        document = ((self.result["dimensions"].get(key) or {}).get(source) or {}).get("pearson")
        n = self.n_bots
        if document is None and self._is_target(key):
            played = source == "predicted_selfplay"
            levels = self.result["bot_level_selfplay" if played else "bot_level"] or {}
            document, n = levels.get("pearson"), self.n_selfplay if played else n
        return read_correlation(document, n)


def selfplay_bots(result: Mapping[str, Any]) -> int:
    """Return the number of rated bots of a fit that have self-play."""
    return sum(
        bot["human_mean"] is not None
        and (bot["predicted_selfplay"] is not None or bot.get("rank_selfplay") is not None)
        for bot in result["bots"].values()
    )


def read_correlation(document: Mapping[str, Any] | None, n: int = 0) -> Correlation:
    """Return a correlation of a fit's document.

    Args:
        document: as `Correlation.to_json` wrote it; None where the fit does not tell it.
        n: pairs used, where the document does not say.
    """
    if not document:
        return Correlation(None, None, None, None, n, reason=NOT_TOLD)
    low, high = document.get("ci95") or (None, None)
    return Correlation(
        document.get("r"),
        document.get("p"),
        low,
        high,
        document.get("n", n),
        reason=reason_read(document.get("reason")),
    )


def mean_by_bot(values: np.ndarray, bot: np.ndarray, bots: Collection[str]) -> dict[str, float]:
    """Return each bot's mean of the defined values, NaN without any."""
    means = {}
    for name in bots:
        bot_values = values[bot == name]
        bot_values = bot_values[np.isfinite(bot_values)]
        means[name] = float(bot_values.mean()) if len(bot_values) else float("nan")
    return means
