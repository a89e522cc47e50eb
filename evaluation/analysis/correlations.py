"""Correlations between participants' answers, conversation metrics, and known properties of the bots.

The three correlation matrices of Ghandeharioun et al. (2019, Figures 5, 6 and 8), each corrected by Holm (1979) over
all its cells. Two of them include the hybrid metric, with the numbers from its fit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from evaluation.data.ratings import Ratings
from evaluation.data.tables import SummarisedResult
from evaluation.findings import Reason, reason_read
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import BY_TUPLE, probability, share, span
from evaluation.stats.comparisons import false_discovery_rates, holm
from evaluation.stats.correlation import Correlation, Method, correlate, within_groups
from evaluation.stats.zscores import rater_codes

if TYPE_CHECKING:
    import pandas as pd

ALPHA = 0.05
NOT_TOLD = Reason("not_told", "not reported by this fit")
FEWEST = 3
"""Minimum number of values of a row."""
_SPEAKER = re.compile(r", (?:participant and bot|bot and answer|participant|bot)(?= \(|$)")
"""Part of a metric column's title that names the speaker."""

Cells = Annotated[Mapping[tuple[int, int], Correlation], BY_TUPLE]
"""Coefficients by (row, column)."""
Source = Literal["dimension", "chats", "selfplay", "bot", "hybrid_chats", "hybrid_selfplay"]


@dataclass(frozen=True, slots=True)
class CorrelationRow:
    """Variable to correlate with the columns of a matrix.

    Attributes:
        name: a dimension, a metric's column, a column of the table of bots, or `hybrid`.
        source: origin of its values: rated conversations, self-play, known properties of the bots, or a fit.
        speaker: True if it describes one speaker; in self-play both are the bot.
    """

    name: str
    source: Source
    speaker: bool = True


@dataclass(frozen=True, slots=True, repr=False)
class CorrelationMatrix(SummarisedResult):
    """Correlations of row variables with column variables.

    Attributes:
        kind: dimensions with each other, metrics with dimensions over conversations, or bot properties with mean
            ratings over bots.
        columns: keys of dimensions.
        cells: coefficient by (row, column).
        within: Pearson's r within bots for the same cells; empty over bots.
        survives: cells whose p-value stays below `ALPHA` after Holm's correction over all rows except the hybrid's,
            which have another null distribution.
        q: false discovery rate at which each of these cells is significant.
        n: number of conversations or bots.
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
        """Cells that are significant at a false discovery rate of `ALPHA`."""
        return sum(q is not None and q < ALPHA for q in self.q.values())

    @property
    def n_corrected(self) -> int:
        """Cells included in the correction."""
        return sum(not self._is_hybrid(i) for i, _j in self.cells)

    def _is_hybrid(self, row: int) -> bool:
        return self.rows[row].source.startswith("hybrid")

    def strongest(self, column: int, limit: int = 3) -> list[tuple[CorrelationRow, Correlation]]:
        """Return the surviving correlations with a column, strongest first."""
        correlations = [(i, value) for (i, j), value in self.cells.items() if j == column]
        correlations = [(i, value) for i, value in correlations if (i, column) in self.survives]
        correlations.sort(key=lambda item: -abs(item[1].r or 0))
        return [(self.rows[i], value) for i, value in correlations[:limit]]

    def first_rows(self, limit: int = 10) -> list[int]:
        """Return the indices of the most relevant rows.

        The hybrid metric's rows come first, then those most correlated with the first column.

        Args:
            limit: maximum number of rows besides the hybrid metric's; rows without a coefficient are omitted.
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
        """Return a line per cell; a star marks significant cells.

        They remain significant after the correction.
        """
        lines = [f"Correlations, {self.kind}: {self.method}, n = {self.n:,}"]
        for (i, j), value in self.cells.items():
            row, star = self.rows[i], "*" if (i, j) in self.survives else ""
            lines.append(
                f"  {row.name:32} {row.source:16} {self.columns[j]:20} {share(value.r):>6}{star:1} "
                f"{span(value.low, value.high, shares=True):>14}  {probability(value.p)}"
            )
        return "\n".join(lines)


def dimension_matrix(ratings: Ratings) -> CorrelationMatrix:
    """Correlate the dimensions with each other over conversations.

    Ratings of one conversation are averaged.

    Returns:
        Spearman's ρ of each pair, the earlier dimension first; ratings by one person are clustered.
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
        ratings: one row per conversation: `bot`, the dimensions and, if known, `rater`, by which ratings are clustered.
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
        known: rows with their value by bot; rows with fewer than `FEWEST` values are omitted.
        means: mean rating of each bot by dimension.
        bots: bots to include.
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
    """Return the cells significant after Holm's correction, and false discovery rates."""
    p_values = [value.p for value in cells.values()]
    return {
        "survives": frozenset(key for key, p in zip(cells, holm(p_values), strict=True) if p is not None and p < ALPHA),
        "q": dict(zip(cells, false_discovery_rates(p_values), strict=True)),
    }


def without_speaker(title: str) -> str:
    """Return a metric column's title without the speaker."""
    return _SPEAKER.sub("", title)


def get_distinct_columns(means: pd.DataFrame, titles: Mapping[str, str]) -> list[CorrelationRow]:
    """Return the self-play columns without duplicates.

    In self-play the bot is its own participant, so `words_user` and `words_bot` are equal. Of equal columns the first
    is kept; it names a speaker only if another kept column would otherwise have the same title.

    Args:
        means: one row per bot, one column per metric.
        titles: titles of the columns.
    """
    rows_by_title: dict[str, CorrelationRow] = {}
    columns = {str(name): means[name].to_numpy(dtype=float) for name in means.columns}
    short_titles = {name: without_speaker(titles[name]) for name in columns}
    for name, values in columns.items():
        title = short_titles[name]
        varies = bool(len(values) and np.ptp(values) > 0)
        kept = [columns[row.name] for row in rows_by_title.values()] or np.empty((0, len(values)))
        are_equal = np.isclose(values, np.array(kept), rtol=1e-9, equal_nan=True).all(axis=1)
        twins = [
            row
            for row, is_equal in zip(rows_by_title.values(), are_equal, strict=True)
            # Columns that are constant over bots are equal by chance, unless they differ only in the speaker.
            if is_equal and (varies or short_titles[row.name] == title)
        ]
        if not twins:
            speaker = title in rows_by_title
            rows_by_title[titles[name] if speaker else title] = CorrelationRow(name, "selfplay", speaker)
    return list(rows_by_title.values())


@dataclass(frozen=True, slots=True)
class HybridCorrelations:
    """Correlations of a fit with every dimension, read from its document."""

    result: Mapping[str, Any]

    @property
    def has_conversations(self) -> bool:
        """True if the fit has results for single conversations.

        Fits of the first versions do not.
        """
        return bool(self.result.get("dimensions_conversation_level"))

    @property
    def n_bots(self) -> int:
        """Number of rated bots."""
        return int(self.result["n_bots"])

    @property
    def n_selfplay(self) -> int:
        """Number of rated bots with self-play."""
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
        """Return Pearson's r of the bot scores with every dimension.

        Scores come from rated conversations and, if enough bots have it, from self-play.
        """
        if not self.has_conversations or self.n_bots < FEW_BOTS:
            return []
        rows = [(CorrelationRow("hybrid", "hybrid_chats"), self._of_bots(dimensions, "predicted"))]
        if self.n_selfplay >= FEW_BOTS:
            played = self._of_bots(dimensions, "predicted_selfplay")
            rows.append((CorrelationRow("hybrid", "hybrid_selfplay"), played))
        return rows

    def _is_target(self, key: str) -> bool:
        """Return True if `key` is the predicted mean of all dimensions."""
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
        document: output of `Correlation.to_json`; None if the fit does not report it.
        n: number of pairs used, if the document does not state it.
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
    """Return each bot's mean of the defined values, or NaN."""
    means = {}
    for name in bots:
        bot_values = values[bot == name]
        bot_values = bot_values[np.isfinite(bot_values)]
        means[name] = float(bot_values.mean()) if len(bot_values) else float("nan")
    return means
