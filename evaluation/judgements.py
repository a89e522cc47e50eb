"""Which metric agrees with people: turn-level metrics against human scores of single replies.

`judgements_read` reads a file of judged items and says what it left out; `judge` scores them by metrics and
correlates, for each data set, each dialogue model in it, and all together. Replies to one context share it, so
intervals resample contexts, not replies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from evaluation.against import Against
from evaluation.against import against as against_column
from evaluation.best_rater import max_over_raters
from evaluation.ceilings import Ceiling, ceiling_of
from evaluation.formats.base import Skipped
from evaluation.items import JudgedItem, judged_read
from evaluation.length_bias import length_bias
from evaluation.metrics.base import Metric
from evaluation.metrics.registry import metric_and_columns
from evaluation.metrics.replies import (
    Progress,
    ReplyMetric,
    item_scores,
    lacking_in,
)
from evaluation.metrics.shared import BLANK, Shared
from evaluation.published.cells import with_published
from evaluation.stats.correlation import METHODS, Correlation, correlate
from evaluation.untokenised import reply_untokenised, untokenised

USUAL_TARGET = "overall"
UNREADABLE = "the line is no judged item"
DUPLICATE_ID = "an item of this id came before"
NOT_JUDGED = "there is no human score of it"
BEYOND_SCALE = "its human scores lie beyond the scale"
PARTLY_BEYOND = "compared without those human scores that lie beyond the scale"
NO_VALUE = "the metric is undefined here"
OF_CHATS = "it says nothing of single replies"
_MOST_PAIRS = 20_000
"""With more items than this, intervals are Fisher's."""
_MOST_LINES_TOLD = 5


@dataclass(frozen=True)
class Judgements:
    """Judged items, each id once, and what of the file was left out.

    Attributes:
        items: those with at least one score on some dimension.
        skipped: why others were left out, and how many.
        lines: the first unreadable lines, as "line 3: what is wrong".
    """

    items: tuple[JudgedItem, ...]
    skipped: dict[str, int] = field(default_factory=dict)
    lines: tuple[str, ...] = ()

    @property
    def targets(self) -> list[str]:
        """The dimensions that people judged, in the order of the file."""
        return list(dict.fromkeys(name for item in self.items for name in item.dimensions))

    def target(self, name: str = "") -> str:
        """Return the dimension to compare with: this one; without a name the only one, else `overall`, else the first.

        Raises:
            ValueError: nothing was judged, or nothing by this name; the message lists what was.
        """
        there = self.targets
        if not there:
            raise ValueError("there is no single reply with a human score (`ratings` of a file)")
        if name and name not in there:
            raise ValueError(f"nobody judged {name!r}; there is {', '.join(there)}")
        return name or (USUAL_TARGET if USUAL_TARGET in there else there[0])


def judgements_read(path: Path) -> Judgements:
    """Read a file of judged items, one JSON object per line."""
    return judgements_of(judged_read(path))


def judgements_of(found: Iterable[JudgedItem | Skipped]) -> Judgements:
    """Keep the first item of each id; count the others by what is wrong with them."""
    items: dict[str, JudgedItem] = {}
    skipped: Counter[str] = Counter()
    lines: list[str] = []
    for one in found:
        if isinstance(one, Skipped):
            skipped[UNREADABLE] += 1
            if len(lines) < _MOST_LINES_TOLD:
                lines.append(f"line {one.line}: {one.reason}")
        elif one.key in items:
            skipped[DUPLICATE_ID] += 1
        else:
            items[one.key] = one
    return Judgements(tuple(items.values()), dict(skipped), tuple(lines))


@dataclass(frozen=True)
class Agreement:
    """How a column of scores and people agree over some replies.

    Attributes:
        correlations: by method.
        n: replies with both scores.
        n_contexts: different contexts among them, which intervals resample.
        n_responses: different replies among them; few of them make a coefficient rest on a few texts.
        skipped: why other replies were left out, and how many.
        ceiling: what a perfect metric could reach, by the raters' reliability.
    """

    correlations: dict[str, Correlation]
    n: int
    n_contexts: int
    n_responses: int
    skipped: dict[str, int]
    ceiling: Ceiling

    def to_json(self) -> dict[str, Any]:
        """Return `{"pearson": {"r", "p", "ci95"}, …, "n", "n_contexts", "n_responses", "skipped", "ceiling"}`."""
        return {
            **{name: found.to_json() for name, found in self.correlations.items()},
            "n": self.n,
            "n_contexts": self.n_contexts,
            "n_responses": self.n_responses,
            "skipped": self.skipped,
            "ceiling": self.ceiling.to_json(),
        }


@dataclass(frozen=True)
class Cells:
    """An agreement over everything, and over parts of it.

    Attributes:
        pooled: all replies.
        models: by dialogue model, where the file names several.
        sources: by data set, where it names several, each with its own models.
    """

    pooled: Agreement
    models: dict[str, Agreement]
    sources: dict[str, Cells]

    def to_json(self) -> dict[str, Any]:
        """Return the pooled agreement, with `models` and `sources` where there are several."""
        found = self.pooled.to_json()
        if self.models:
            found["models"] = {name: one.to_json() for name, one in self.models.items()}
        if self.sources:
            found["sources"] = {name: one.to_json() for name, one in self.sources.items()}
        return found


@dataclass(frozen=True)
class MetricJudged:
    """One metric beside people.

    Attributes:
        name: as it was asked for.
        target: the dimension people judged.
        columns: by column; the first is the metric's main one.
        unavailable: why it could not be computed; empty where it was.
        scores: by column, the score of each item of the file, NaN where undefined.
        by_length: Spearman's coefficient with the number of words of the reply, of the main column and of people: what
            the first has beyond the second is a length bias.
        source: the data set, where all items are of one that has a name.
        remarks: what to know of some of the scored replies, and of how many.
        against: the main column beside another one on the same replies, where one was asked for.
        best_rater: the main column beside each rater alone, where that was asked for.
    """

    name: str
    target: str
    columns: dict[str, Cells]
    unavailable: str = ""
    scores: dict[str, np.ndarray] = field(default_factory=dict)
    by_length: tuple[float | None, float | None] = (None, None)
    source: str = ""
    remarks: dict[str, int] = field(default_factory=dict)
    against: Against | None = None
    best_rater: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the agreement of the main column, and of all of them where there are several; beside published figures."""
        if self.unavailable:
            nothing = {"r": None, "p": None}
            return {
                **dict.fromkeys(METHODS, nothing),
                "n": 0,
                "target": self.target,
                "unavailable": self.unavailable,
            }
        main, *more = self.columns
        found = {"column": main, "target": self.target, **self.columns[main].to_json()}
        found |= {"remarks": self.remarks} if self.remarks else {}
        found |= {"source": self.source} if self.source else {}
        found["length_bias"] = dict(zip(("metric", "people"), self.by_length, strict=True))
        if more:
            found["columns"] = {name: cells.to_json() for name, cells in self.columns.items()}
        if self.against is not None:
            found["against"] = self.against.to_json()
        if self.best_rater is not None:
            found["max_over_raters"] = self.best_rater
        return with_published(found)


class Judged(Protocol):
    """What holds judgements, such as a study in a notebook."""

    @property
    def judged(self) -> Judgements:
        """The judgements."""
        ...


def judge(
    judgements: Judgements | Judged | Path | str,
    metrics: Sequence[Metric | str],
    *,
    target: str = "",
    against: str = "",
    by_best_rater: bool = False,
    shared: Shared | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> dict[str, MetricJudged]:
    """Score all items by each metric and correlate with people; a metric that cannot be computed here says why.

    Args:
        judgements: judged items, the file that holds them, or a study whose people judged single replies.
        metrics: metrics, their names, or names of turn-level columns.
        target: the dimension people judged; see `Judgements.target`.
        against: a metric or column with which each of them is compared on the same replies (`evaluation.against`).
        by_best_rater: also set the main column against each rater alone, and take the best (`evaluation.best_rater`).
        shared: texts encoded so far; by default a new one.
        progress: given a metric's name, returns what is called with (replies done, replies in all).

    Returns:
        By the names as asked for, in their order.

    Raises:
        UnknownName: for an unknown name, with the nearest ones.
        ValueError: nobody judged the target, or the column to compare with cannot be computed here.
    """
    if isinstance(judgements, str | Path):
        judgements = judgements_read(Path(judgements))
    elif not isinstance(judgements, Judgements):
        judgements = judgements.judged
    target = judgements.target(target)
    chosen = {
        (one if isinstance(one, str) else one.name): metric_and_columns(one) for one in metrics
    }
    shared = shared or Shared()
    humans = _Humans.of(judgements, target)
    found = {}
    for name, (metric, wanted) in chosen.items():
        [found[name]] = _judged(
            name, metric, wanted, [humans], shared, progress(name) if progress is not None else None
        )
    if by_best_rater:
        found = {
            name: one
            if one.unavailable
            else replace(
                one, best_rater=max_over_raters(next(iter(one.scores.values())), humans.given)
            )
            for name, one in found.items()
        }
    return _compared(found, against, humans, shared) if against else found


def _compared(
    found: dict[str, MetricJudged], column: str, humans: _Humans, shared: Shared
) -> dict[str, MetricJudged]:
    """Set the main column of each metric against another one."""
    other = found.get(column)
    if other is None:
        [other] = _judged(column, *metric_and_columns(column), [humans], shared, None)
    if other.unavailable:
        raise ValueError(f"nothing can be compared with {column}: {other.unavailable}")
    theirs = next(iter(other.scores.values()))
    cells = list(zip(humans.sources, humans.models, strict=True))
    return {
        name: one
        if one.unavailable or name == column
        else replace(
            one,
            against=against_column(
                next(iter(one.scores.values())),
                theirs,
                humans.means,
                humans.contexts,
                cells,
                next(iter(other.scores)),
            ),
        )
        for name, one in found.items()
    }


def judge_everywhere(
    judgements: Judgements,
    metric: Metric | str,
    *,
    shared: Shared | None = None,
    progress: Progress | None = None,
) -> dict[str, MetricJudged]:
    """Score all items by a metric, once, and correlate with people on every dimension that they judged.

    Returns:
        By dimension, in the order of the file.

    Raises:
        UnknownName: for an unknown name, with the nearest ones.
    """
    name = metric if isinstance(metric, str) else metric.name
    humans = [_Humans.of(judgements, target) for target in judgements.targets]
    found = _judged(name, *metric_and_columns(metric), humans, shared or Shared(), progress)
    return {one.target: one for one in found}


def human_means(judgements: Judgements, target: str) -> np.ndarray:
    """Return the mean score of each item on a dimension: (N,), NaN where there is none."""
    return _Humans.of(judgements, target).means


def _judged(
    name: str,
    metric: Metric,
    wanted: tuple[str, ...],
    humans: Sequence[_Humans],
    shared: Shared,
    progress: Progress | None,
) -> list[MetricJudged]:
    """Score the items that people judged on any of these dimensions, and correlate on each."""
    reason = metric.unavailable_reason()
    if reason is None and not any(column.level == "turn" for column in metric.columns):
        reason = OF_CHATS
    if reason is not None:
        return [MetricJudged(name, one.target, {}, unavailable=reason) for one in humans]
    items = humans[0].items if humans else ()
    replies = [item.replies_by_reference for item in items]
    if not getattr(metric, "reads_tokens", False):
        replies = [[reply_untokenised(reply) for reply in several] for several in replies]
    told = np.array([bool(item.response.strip()) for item in items], dtype=bool)
    judged = np.any([one.judged for one in humans], axis=0)
    reads = isinstance(metric, ReplyMetric) and (metric.needs_reference or metric.reads_reference)
    asked = [
        (k, reply)
        for k in np.flatnonzero(told & judged)
        for reply in (replies[k] if reads else replies[k][:1])
    ]
    made = item_scores(metric, [reply for _, reply in asked], shared, progress=progress)
    owner = np.array([k for k, _ in asked], dtype=int)
    mean = getattr(metric, "over_references", "best") == "mean"
    scores = {
        column: _over_references(values, owner, len(items), mean=mean)
        for column, values in made.items()
        if not wanted or column in wanted
    }
    for column in wanted:  # none of the replies has one
        scores.setdefault(column, np.full(len(items), np.nan))
    if isinstance(metric, ReplyMetric) and reads:
        for k in np.flatnonzero(told & judged):
            if len(replies[k]) > 1:
                for column, value in metric.together(replies[k]).items():
                    if column in scores:
                        scores[column][k] = value
    firsts = [several[0] for several in replies]
    lacking = {
        column: lacking_in(metric, firsts, column, values, told & judged, shared)
        for column, values in scores.items()
    }
    return [
        MetricJudged(
            name,
            one.target,
            {column: one.cells(values, told, lacking[column]) for column, values in scores.items()},
            scores=scores,
            by_length=length_bias(
                [item.response for item in items], next(iter(scores.values())), one.means
            ),
            source=one.only_source,
            remarks={
                **(metric.remarks(scores) if isinstance(metric, ReplyMetric) else {}),
                **({PARTLY_BEYOND: one.n_partly_beyond} if one.n_partly_beyond else {}),
            },
        )
        for one in humans
    ]


def _over_references(
    values: np.ndarray, owner: np.ndarray, n: int, *, mean: bool = False
) -> np.ndarray:
    """Return (n,) each item's score: of several references' the best, or their mean; NaN where there is none.

    Args:
        values: (M,) one score for each item and reference.
        owner: (M,) the number of the item.
    """
    there = np.isfinite(values)
    if mean:
        counts = np.bincount(owner[there], minlength=n)
        sums = np.bincount(owner[there], weights=values[there], minlength=n)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    found = np.full(n, -np.inf)
    np.maximum.at(found, owner[there], values[there])
    return np.where(np.isneginf(found), np.nan, found)


@dataclass(frozen=True)
class _Humans:
    """People's mean score of each item, and the parts that items fall into.

    Attributes:
        items: (N,) the items.
        target: the dimension.
        means: (N,) NaN where there is none.
        beyond: (N,) whether all scores of an item lie beyond the scale.
        n_partly_beyond: items of which some scores do, and others count.
        contexts: (N,) the source and the context, which replies share.
        given: of each item its raters and their scores.
    """

    items: tuple[JudgedItem, ...]
    target: str
    skipped: dict[str, int]
    means: np.ndarray
    beyond: np.ndarray
    contexts: np.ndarray
    models: np.ndarray
    sources: np.ndarray
    responses: np.ndarray
    given: tuple[list[tuple[str, float]], ...]
    n_partly_beyond: int = 0
    ceilings: dict[bytes, Ceiling] = field(default_factory=dict)

    @classmethod
    def of(cls, judgements: Judgements, target: str) -> _Humans:
        items = judgements.items
        given = [item.scores(target) for item in items]
        return cls(
            items=items,
            target=target,
            skipped=judgements.skipped,
            means=np.array(
                [np.mean([value for _, value in kept]) if kept else np.nan for kept, _ in given],
                dtype=float,
            ),
            beyond=np.array([not kept and left > 0 for kept, left in given], dtype=bool),
            contexts=_texts("\n".join((item.source, *item.context)) for item in items),
            models=_texts(item.model for item in items),
            sources=_texts(item.source for item in items),
            responses=_texts(untokenised(item.response).casefold() for item in items),
            given=tuple(kept for kept, _ in given),
            n_partly_beyond=sum(bool(kept) and left > 0 for kept, left in given),
        )

    @property
    def judged(self) -> np.ndarray:
        """Return (N,) whether people judged an item."""
        return np.isfinite(self.means)

    @property
    def only_source(self) -> str:
        """The data set of all items; empty where there are several, or it has no name."""
        found = set(self.sources)
        return str(found.pop()) if len(found) == 1 else ""

    def cells(self, values: np.ndarray, told: np.ndarray, lacking: Sequence[str | None]) -> Cells:
        """Correlate a column's scores with people's, over everything and its parts."""
        why = np.full(len(self.items), "", dtype=object)
        for k, reason in enumerate(lacking):
            if self.beyond[k]:
                why[k] = BEYOND_SCALE
            elif not np.isfinite(self.means[k]):
                why[k] = NOT_JUDGED
            elif not told[k]:
                why[k] = BLANK
            elif not np.isfinite(values[k]):
                why[k] = reason or NO_VALUE
        everything = np.ones(len(self.items), dtype=bool)
        pooled = self._cells(values, why, everything)
        pooled.pooled.skipped.update(self.skipped)
        return pooled

    def _cells(self, values: np.ndarray, why: np.ndarray, part: np.ndarray) -> Cells:
        models, sources = _parts(self.models[part]), _parts(self.sources[part])
        return Cells(
            self._agreement(values, why, part),
            {name: self._agreement(values, why, part & (self.models == name)) for name in models},
            {name: self._cells(values, why, part & (self.sources == name)) for name in sources},
        )

    def _agreement(self, values: np.ndarray, why: np.ndarray, part: np.ndarray) -> Agreement:
        used = part & (why == "")
        x, y, units = values[used], self.means[used], self.contexts[used]
        skipped = Counter(str(reason) for reason in why[part] if reason)
        return Agreement(
            {
                method: correlate(x, y, method, units=units, bootstrap_limit=_MOST_PAIRS)
                for method in METHODS
            },
            n=int(used.sum()),
            n_contexts=len(set(units)),
            n_responses=len(set(self.responses[used])),
            skipped=dict(skipped),
            ceiling=self._ceiling(used),
        )

    def _ceiling(self, used: np.ndarray) -> Ceiling:
        """Return the ceiling of some replies; most metrics ask for the same ones."""
        key = used.tobytes()
        if key not in self.ceilings:
            self.ceilings[key] = ceiling_of([self.given[k] for k in np.flatnonzero(used)])
        return self.ceilings[key]


def _texts(values: Iterable[str]) -> np.ndarray:
    return np.array(list(values), dtype=object)


def _parts(names: np.ndarray) -> list[str]:
    """Return the names, in their order, where there are several; items without one are in no part."""
    found = list(dict.fromkeys(name for name in names if name))
    return found if len(found) > 1 else []
