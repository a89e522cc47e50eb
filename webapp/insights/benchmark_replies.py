"""Replies of a benchmark on which a metric and people disagree, and details of one reply."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import numpy as np

from evaluation.agreement.reply_scores import Disagreement, rank_disagreements
from evaluation.data.items import JudgedItem
from evaluation.data.result_tables import Cell, NamedTable, declared_table, number_cell
from evaluation.metrics.explanations import shorten
from webapp.core.language import plural
from webapp.insights.benchmark_grid import DataSet
from webapp.results.benchmark import benchmark_replies

LARGE = 50
"""Difference in position, of 100, that counts as a large disagreement."""
PAGE = 25
NOT_COMPARED = "not compared"
NOT_RATED = "people did not rate it on this question, or it is the only one"
SIDES = {"above": "The metric ranks them higher than people", "below": "The metric ranks them lower than people"}
_TURN = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/(\d+)")


@dataclass(frozen=True, slots=True)
class ReplyCase:
    """A reply with its positions by metric and people.

    Attributes:
        number: number of the reply in the benchmark's result.
        item: None if it no longer exists in the data.
    """

    number: int
    model: str
    row: Disagreement
    item: JudgedItem | None = None

    @property
    def difference(self) -> str:
        """Difference in position in words."""
        n = round(abs(self.row.difference))
        positions = plural(n, "1 position", "%(n)d positions") % {"n": n}
        return f"{positions} {'higher' if self.row.difference > 0 else 'lower'} than people" if n else "same position"

    @property
    def excerpt(self) -> tuple[str, str]:
        """Last utterance of the context, and the reply, cut to one paragraph each."""
        if self.item is None:
            return "", ""
        return shorten(self.item.context[-1] if self.item.context else "", 300), shorten(self.item.response, 400)


@dataclass(frozen=True, slots=True)
class ReplyCases:
    """Replies of a data set by disagreement, the largest first.

    Attributes:
        cases: those of the page; n: number of all that match.
        sentences: conclusion, from all replies with both scores.
        missing: number of replies without a score, by reason.
    """

    cases: list[ReplyCase]
    n: int
    n_pages: int
    page: int
    models: list[str]
    sentences: list[str]
    missing: dict[str, int]


def has_replies(dataset: DataSet) -> bool:
    """Return True if the result says which reply each score belongs to."""
    return bool(dataset.result.get("replies"))


def reply_cases(dataset: DataSet, metric: str, *, model: str = "", side: str = "", page: int = 1) -> ReplyCases:
    """Return a page of the replies on which a metric and people disagree.

    Args:
        model: of this dialogue model only; empty for all.
        side: a key of `SIDES`, or empty for both.
    """
    scored = _scored(dataset, metric)
    models = [model_name for _key, model_name in dataset.result["replies"]]
    in_set = _in_set(dataset)
    rows = _ranked(dataset, _oriented(scored))
    matching = [row for row in rows if (not model or models[row.index] == model) and _is_on_side(row, side)]
    n_pages = max(1, -(-len(matching) // PAGE))
    page = min(max(1, page), n_pages)
    part = matching[(page - 1) * PAGE : page * PAGE]
    items = benchmark_replies(dataset.job, [row.index for row in part])
    return ReplyCases(
        [ReplyCase(row.index, models[row.index], row, items.get(row.index)) for row in part],
        len(matching),
        n_pages,
        page,
        sorted({name for name, is_in in zip(models, in_set, strict=True) if is_in and name}),
        _conclusion(scored["title"], rows),
        {reason: n for reason, numbers in scored["missing"].items() if (n := int(in_set[numbers].sum()))},
    )


def _ranked(dataset: DataSet, oriented: np.ndarray) -> list[Disagreement]:
    """Rank the replies of the data set that have both a score and a human rating."""
    in_set = _in_set(dataset)
    means = np.where(in_set, _means(dataset), np.nan)
    return rank_disagreements(np.where(in_set, oriented, np.nan), means, dataset.result["sources"])


def _conclusion(title: str, rows: list[Disagreement]) -> list[str]:
    if not rows:
        return ["No reply of this data set has both a score and a human rating."]
    differences = [row.difference for row in rows]
    above, below = sum(x > LARGE for x in differences), sum(x < -LARGE for x in differences)
    typical = round(median(map(abs, differences)))
    if len(rows) == 1:
        return [f"{title} and people are {typical} of 100 positions apart on the only reply."]
    sentences = [
        f"For half of the {len(rows):,} replies, {title} and people are at most {typical} of 100 positions apart."
    ]
    if above + below:
        larger = plural(above + below, "1 reply", "%(n)d replies") % {"n": above + below}
        sentences.append(
            f"They are more than {LARGE} positions apart on {larger}: the metric ranks {above} higher, people {below}."
        )
    else:
        sentences.append(f"They are never more than {LARGE} positions apart.")
    return sentences


def _is_on_side(row: Disagreement, side: str) -> bool:
    return {"above": row.difference > 0, "below": row.difference < 0}.get(side, True)


@dataclass(frozen=True, slots=True)
class ReplyPage:
    """Everything known of one reply.

    Attributes:
        sentence: conclusion.
        tables: scores by metric, and people's ratings.
        conversation, turn: the stored chat that it comes from; empty if from none.
    """

    item: JudgedItem
    sentence: str
    tables: list[NamedTable]
    conversation: str
    turn: int


def reply_page(dataset: DataSet, number: int) -> ReplyPage | None:
    """Return a reply of a data set; None if it no longer exists.

    Args:
        number: number of the reply in the benchmark's result.
    """
    item = benchmark_replies(dataset.job, [number]).get(number)
    if item is None:
        return None
    low, high = _scale(dataset, item)
    rows = [_metric_row(dataset, scored, number, low, high) for scored in dataset.result["metrics"]]
    scores = declared_table(
        "scores",
        "Scores by metric",
        sorted(rows, key=lambda row: -abs(row["difference"] or 0)),
        ("Metric", lambda row: Cell(row["title"])),
        ("Score", lambda row: number_cell(row["score"], 3, row["reason"])),
        (f"On people’s scale ({low:g} to {high:g})", lambda row: number_cell(row["rescaled"], 2, row["reason"])),
        ("Position", lambda row: number_cell(row["position"], 0, row["reason"])),
        ("Compared with people", lambda row: number_cell(row["difference"], 0, row["reason"])),
        ("People’s position", lambda row: number_cell(row["people"], 0, row["reason"])),
        method=(
            "Position: rank among the replies of the data set with a score and a human rating, from 0 (worst) to 100 "
            "(best). On people’s scale: the metric’s lowest and highest score in the data set are mapped to the ends "
            "of the scale."
        ),
    )
    match = _TURN.match(item.id) if dataset.job.study is not None else None
    conversation, turn = (match[1], int(match[2])) if match else ("", 0)
    return ReplyPage(item, _sentence(rows), [scores, *_ratings(item)], conversation, turn)


def _metric_row(dataset: DataSet, scored: Mapping[str, Any], number: int, low: float, high: float) -> dict[str, Any]:
    oriented = _oriented(scored)
    score = float(oriented[number]) if len(oriented) > number else np.nan
    reason = next((reason for reason, numbers in scored.get("missing", {}).items() if number in numbers), "")
    if np.isnan(score):
        missing = dict.fromkeys(("score", "rescaled", "position", "people", "difference"))
        return {"title": scored["title"], "reason": reason or NOT_COMPARED, **missing}
    known = oriented[_in_set(dataset) & np.isfinite(oriented)]
    spread = float(known.max() - known.min())
    row = next((row for row in _ranked(dataset, oriented) if row.index == number), None)
    return {
        "title": scored["title"],
        "reason": NOT_RATED if row is None else "all replies have the same score" if not spread else "",
        "score": -score if scored["lower_is_better"] else score,
        "rescaled": low + (high - low) * (score - float(known.min())) / spread if spread else None,
        "position": row and row.metric_position,
        "people": row and row.human_position,
        "difference": row and row.difference,
    }


def _sentence(rows: list[dict[str, Any]]) -> str:
    compared = [row for row in rows if row["difference"] is not None]
    if not compared:
        return "No metric of this comparison has a score for this reply that can be compared with people."
    worst = max(compared, key=lambda row: abs(row["difference"]))
    n = plural(len(compared), "The metric", "Of %(n)d metrics,") % {"n": len(compared)}
    differs = f"{n} {worst['title']} differs most from people" if len(compared) > 1 else f"{n} {worst['title']}"
    return f"{differs}: it places the reply at {worst['position']:.0f} of 100, people at {worst['people']:.0f}."


def _ratings(item: JudgedItem) -> list[NamedTable]:
    dimensions = item.dimensions
    if not dimensions:
        return []
    ratings = [(str(rating.get("rater") or f"Rater {n}"), rating) for n, rating in enumerate(item.ratings, start=1)]
    n_beyond = sum(item.scores(name)[1] for name in dimensions)
    means = {name: [score for _rater, score in item.scores(name)[0]] for name in dimensions}

    def value(rating: Any, name: str) -> Cell:
        score = rating.get(name)
        return number_cell(score if isinstance(score, int | float) else None, 2, "not rated")

    return [
        declared_table(
            "ratings",
            "People’s ratings",
            [*ratings, ("Mean", {name: fmean(scores) for name, scores in means.items() if scores})],
            ("Rater", lambda row: Cell(row[0])),
            (dimensions, lambda row: [value(row[1], name) for name in dimensions]),
            method="As answered; the mean counts reversed questions in the other direction.",
            note=f"Not counted, because they are outside the scale: {n_beyond}." if n_beyond else "",
        )
    ]


def _scale(dataset: DataSet, item: JudgedItem) -> tuple[float, float]:
    """Return the ends of people's scale, or the lowest and highest mean."""
    ends = item.scales.get(dataset.target) or item.scale
    if ends:
        return min(ends), max(ends)
    means = _means(dataset)[_in_set(dataset)]
    known = means[np.isfinite(means)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


def _scored(dataset: DataSet, metric: str) -> Mapping[str, Any]:
    rows: list[Mapping[str, Any]] = dataset.result["metrics"]
    return next(row for row in rows if row["metric"] == metric)


def _oriented(scored: Mapping[str, Any]) -> np.ndarray:
    """Return a metric's scores, higher is better, NaN if missing."""
    return (-1.0 if scored["lower_is_better"] else 1.0) * np.array(scored["scores"], dtype=float)


def _means(dataset: DataSet) -> np.ndarray:
    return np.array(dataset.result["means"][dataset.target], dtype=float)


def _in_set(dataset: DataSet) -> np.ndarray:
    sources = dataset.result["sources"]
    return np.array([not dataset.source or source == dataset.source for source in sources], dtype=bool)
