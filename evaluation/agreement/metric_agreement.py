"""Agreement of turn-level metrics with human scores of single replies.

`judgements_read` reads a file of rated items and reports the excluded ones; `judge` scores them by metrics and
correlates, for each data set, each dialogue model in it, and overall. Replies to the same context are dependent, so
intervals use the jackknife over contexts, not replies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from chatbots import Conversation
from chatbots.text import quote
from chatbots.validation import values_read
from evaluation.agreement.agreement_by_group import (
    AgreementCells,
    HumanScores,
    length_bias,
    max_over_raters_everywhere,
    parts_named,
)
from evaluation.agreement.paired_comparison import PairedComparison
from evaluation.agreement.paired_comparison import compare_paired as against_column
from evaluation.agreement.system_agreement import SystemComparison, compare_on_systems
from evaluation.data.formats.base import Skipped
from evaluation.data.items import VOTE, VOTE_SCALE, JudgedItem, JudgedLine, detokenise_reply, judged_lines
from evaluation.metrics.base import Metric
from evaluation.metrics.imported import ScoreFileMetric
from evaluation.metrics.registry import metric_and_columns
from evaluation.metrics.replies import Progress, ReplyMetric, item_scores, missing_reasons
from evaluation.metrics.text_cache import TextCache
from evaluation.published.correlations import with_published
from evaluation.stats.correlation import METHODS

if TYPE_CHECKING:
    import pandas as pd

JUDGED_TABLE = "judged"


def judged_rows(table: pd.DataFrame) -> Iterator[JudgedItem]:
    """Yield the items of the exported table `judged`, ignoring empty cells."""
    for row in table.to_dict("records"):
        known = {str(name): value for name, value in row.items() if not _is_missing(value)}
        yield values_read(JudgedItem, known, subject=f"item {known.get('id')}")


def items_from_votes(chats: Iterable[tuple[Conversation, str]]) -> Iterator[JudgedItem]:
    """Yield replies with a thumb up or down, without raters.

    Args:
        chats: pairs of conversations and bots.
    """
    for chat, bot in chats:
        texts = tuple(turn.text for turn in chat.turns)
        for number, turn in enumerate(chat.turns):
            if turn.speaker == "bot" and turn.vote:
                score: Mapping[str, Any] = {VOTE: turn.vote}
                yield JudgedItem(
                    id=f"{chat.id}/{number}",
                    context=texts[:number],
                    response=turn.text,
                    model=bot,
                    ratings=(dict(score),),
                    scale=VOTE_SCALE,
                )


def _is_missing(value: Any) -> bool:
    import pandas as pd

    return bool(value is None or (pd.api.types.is_scalar(value) and pd.isna(value)))


USUAL_TARGET = "overall"
UNREADABLE = "the line is not a rated item"
DUPLICATE_ID = "the same item occurred before"
CLASH = "an item with this id and model occurred before, with other texts or scores"
PARTLY_BEYOND = "compared without human scores outside the scale"
OF_CHATS = "it does not describe single replies"
_MOST_LINES_TOLD = 5


@dataclass(frozen=True)
class JudgedReplies:
    """Rated items, unique by source, id and model, and excluded lines.

    Attributes:
        items: items with at least one score on some dimension.
        skipped: reasons for exclusions, with counts.
        lines: the first excluded lines, as "line 3: reason".
    """

    items: tuple[JudgedItem, ...]
    skipped: dict[str, int] = field(default_factory=dict)
    lines: tuple[str, ...] = ()

    @property
    def targets(self) -> list[str]:
        """The rated dimensions, in the order of the file."""
        return list(dict.fromkeys(name for item in self.items for name in item.dimensions))

    def target(self, name: str = "") -> str:
        """Return the dimension to compare with.

        It is the named one, or else the only one, `overall`, or the first.

        Raises:
            ValueError: if nothing is rated, or not this dimension; the message lists the available ones.
        """
        targets = self.targets
        if not targets:
            lines_text = "".join(f"; {line}" for line in self.lines)
            raise ValueError(f"there are no single replies with human scores (`ratings` in a file){lines_text}")
        if name and name not in targets:
            raise ValueError(f"there are no ratings of {quote(name)}; available: {', '.join(targets)}")
        return name or (USUAL_TARGET if USUAL_TARGET in targets else targets[0])


def judgements_read(path: Path) -> JudgedReplies:
    """Read a file of rated items, one JSON object per line."""
    return judgements_of(judged_lines(path))


def read_judgements(judgements: JudgedReplies | JudgementSource | Path | str) -> JudgedReplies:
    """Return rated items as they are, read from a file, or from a study."""
    if isinstance(judgements, str | Path):
        return judgements_read(Path(judgements))
    return judgements if isinstance(judgements, JudgedReplies) else judgements.judged


def judgements_of(parsed_lines: Iterable[JudgedItem | JudgedLine | Skipped]) -> JudgedReplies:
    """Keep the first item of each id and model; count the others."""
    items: dict[tuple[str, str], JudgedItem] = {}
    first_line: dict[tuple[str, str], int] = {}
    skipped: Counter[str] = Counter()
    lines: list[str] = []
    for number, parsed_line in enumerate(parsed_lines, start=1):
        wrong = ""
        if isinstance(parsed_line, Skipped):
            skipped[UNREADABLE] += 1
            wrong = f"line {parsed_line.line}: {parsed_line.reason}"
        else:
            line, item = (
                (parsed_line.line, parsed_line.item) if isinstance(parsed_line, JudgedLine) else (number, parsed_line)
            )
            key = (item.key, item.model)
            if key not in items:
                items[key], first_line[key] = item, line
            elif items[key] == item:
                skipped[DUPLICATE_ID] += 1
            else:
                skipped[CLASH] += 1
                of_model = f" of model {quote(item.model)}" if item.model else ""
                wrong = (
                    f"line {line}: id {quote(item.key)}{of_model} has other texts or scores in line "
                    f"{first_line[key]}; use `model` to distinguish items with the same id"
                )
        if wrong and len(lines) < _MOST_LINES_TOLD:
            lines.append(wrong)
    return JudgedReplies(tuple(items.values()), dict(skipped), tuple(lines))


@dataclass(frozen=True)
class MetricAgreement:
    """Comparison of a metric with people.

    Attributes:
        name: name as requested.
        target: rated dimension.
        columns: by column; the first is the metric's main one.
        unavailable: reason why it could not be computed; otherwise empty.
        scores: by column, the score of each item of the file, NaN if undefined.
        by_length: Spearman's coefficient with the number of words of the reply, for the main column and for people; the
            excess of the first over the second is a length bias.
        source: the data set, if all items come from one that has a name.
        remarks: notes about some of the scored replies, with counts.
        against: main column compared with another one on the same replies, if requested.
        best_rater: main column compared with each rater alone, if requested.
        lines: the first excluded lines of the file, with the reasons.
        signs: by column −1 if lower scores are better, otherwise 1.
        reasons: by column, why each item is not compared; empty if it is.
        system_tests: by data set, soft pairwise accuracy compared with that of another column, if requested.
    """

    name: str
    target: str
    columns: dict[str, AgreementCells]
    unavailable: str = ""
    scores: dict[str, np.ndarray] = field(default_factory=dict)
    by_length: tuple[float | None, float | None] = (None, None)
    source: str = ""
    remarks: dict[str, int] = field(default_factory=dict)
    against: PairedComparison | None = None
    best_rater: dict[str, Any] | None = None
    lines: tuple[str, ...] = ()
    signs: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, list[str]] = field(default_factory=dict)
    system_tests: dict[str, SystemComparison] = field(default_factory=dict)

    @property
    def oriented(self) -> np.ndarray:
        """Scores of the main column, oriented so that higher is better."""
        main = next(iter(self.scores))
        return self.signs[main] * self.scores[main]

    def to_json(self) -> dict[str, Any]:
        """Return the agreement of all columns, and published figures."""
        if self.unavailable:
            nothing = {"r": None, "p": None}
            return {**dict.fromkeys(METHODS, nothing), "n": 0, "target": self.target, "unavailable": self.unavailable}
        main, *other_columns = self.columns
        agreement_json = {"column": main, "target": self.target, **self.columns[main].to_json()}
        agreement_json |= {"lower_is_better": True} if self.signs.get(main, 1.0) < 0 else {}
        agreement_json |= {"remarks": self.remarks} if self.remarks else {}
        agreement_json |= {"source": self.source} if self.source else {}
        agreement_json |= {"skipped_lines": list(self.lines)} if self.lines else {}
        agreement_json["length_bias"] = dict(zip(("metric", "people"), self.by_length, strict=True))
        if other_columns:
            agreement_json["columns"] = {name: cells.to_json() for name, cells in self.columns.items()}
        if self.against is not None:
            agreement_json["against"] = self.against.to_json()
        for source, test in self.system_tests.items():
            part = agreement_json["sources"][source] if source else agreement_json
            part["system_test"] = test.to_json()
        if self.best_rater is not None:
            agreement_json["max_over_raters"] = self.best_rater
        return with_published(agreement_json)


class JudgementSource(Protocol):
    """Source of rated items, such as a study in a notebook."""

    @property
    def judged(self) -> JudgedReplies:
        """The rated items."""
        ...


def judge(
    judgements: JudgedReplies | JudgementSource | Path | str,
    metrics: Sequence[Metric | str],
    *,
    target: str = "",
    against: str = "",
    by_best_rater: bool = False,
    shared: TextCache | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> dict[str, MetricAgreement]:
    """Score all items by each metric and correlate with people.

    Unavailable metrics have the reason.

    Args:
        judgements: rated items, a file of them, or a study whose participants rated single replies.
        metrics: metrics, their names, or names of turn-level columns.
        target: rated dimension; see `JudgedReplies.target`.
        against: metric or column to compare each of them with on the same replies (`paired_comparison`).
        by_best_rater: True to also compare the main column with each rater alone, and report the maximum, in every cell
            (`evaluation.agreement.agreement_by_group`).
        shared: texts encoded so far; by default a new cache.
        progress: maps a metric's name to a function called with (replies done, total replies).

    Returns:
        By the names as requested, in their order.

    Raises:
        UnknownName: for an unknown name; the message suggests the nearest ones.
        ValueError: if the target is not rated, or the column to compare with cannot be computed here.
    """
    judgements = read_judgements(judgements)
    target = judgements.target(target)
    chosen = {(metric if isinstance(metric, str) else metric.name): metric_and_columns(metric) for metric in metrics}
    shared = shared or TextCache()
    humans = HumanScores.from_items(judgements.items, judgements.skipped, target)
    agreements = {}
    for name, (metric, columns) in chosen.items():
        [agreement] = _judged(name, metric, columns, [humans], shared, progress(name) if progress is not None else None)
        agreements[name] = replace(agreement, lines=judgements.lines)
    if by_best_rater:
        agreements = {
            name: agreement
            if agreement.unavailable
            else replace(
                agreement,
                best_rater=max_over_raters_everywhere(
                    next(iter(agreement.scores.values())), humans.scores_by_item, humans.sources, humans.models
                ),
            )
            for name, agreement in agreements.items()
        }
    return _compared(agreements, against, humans, shared) if against else agreements


def _compared(
    agreements: dict[str, MetricAgreement], column: str, humans: HumanScores, shared: TextCache
) -> dict[str, MetricAgreement]:
    """Compare the main column of each metric with another one."""
    baseline = agreements.get(column)
    if baseline is None:
        [baseline] = _judged(column, *metric_and_columns(column), [humans], shared, None)
    if baseline.unavailable:
        raise ValueError(f"nothing can be compared with {column}: {baseline.unavailable}")
    theirs = next(iter(baseline.scores.values()))
    places = list(zip(humans.sources, humans.models, strict=True))
    return {
        name: agreement
        if agreement.unavailable or name == column
        else replace(
            agreement,
            against=against_column(
                next(iter(agreement.scores.values())),
                theirs,
                humans.means,
                humans.contexts,
                places,
                next(iter(baseline.scores)),
            ),
            system_tests=system_tests(agreement.oriented, baseline.oriented, humans),
        )
        for name, agreement in agreements.items()
    }


def system_tests(ours: np.ndarray, theirs: np.ndarray, humans: HumanScores) -> dict[str, SystemComparison]:
    """Test two columns on the systems of each data set.

    Higher is better; data sets need several systems.

    Returns:
        By data set; "" if there is only one.
    """
    tests = {}
    for source in parts_named(humans.sources) or [""]:
        in_source = humans.sources == source if source else np.ones(len(humans.items), dtype=bool)
        if parts_named(humans.models[in_source]):
            tests[source] = compare_on_systems(
                ours[in_source],
                theirs[in_source],
                humans.means[in_source],
                humans.models[in_source],
                humans.contexts[in_source],
            )
    return tests


def judge_everywhere(
    judgements: JudgedReplies,
    metric: Metric | str,
    *,
    shared: TextCache | None = None,
    progress: Progress | None = None,
) -> dict[str, MetricAgreement]:
    """Score all items by a metric once, and correlate on every dimension.

    Returns:
        By dimension, in the order of the file.

    Raises:
        UnknownName: for an unknown name; the message suggests the nearest ones.
    """
    name = metric if isinstance(metric, str) else metric.name
    humans = [HumanScores.from_items(judgements.items, judgements.skipped, target) for target in judgements.targets]
    agreements = _judged(name, *metric_and_columns(metric), humans, shared or TextCache(), progress)
    return {agreement.target: agreement for agreement in agreements}


def human_means(judgements: JudgedReplies, target: str) -> np.ndarray:
    """Return each item's mean score on a dimension, (N,); NaN if none."""
    return HumanScores.from_items(judgements.items, judgements.skipped, target).means


def _judged(
    name: str,
    metric: Metric,
    columns: tuple[str, ...],
    humans: Sequence[HumanScores],
    shared: TextCache,
    progress: Progress | None,
) -> list[MetricAgreement]:
    """Score the items rated on these dimensions, and correlate on each."""
    reason = metric.unavailable_reason()
    if reason is None and not any(column.level == "turn" for column in metric.columns):
        reason = OF_CHATS
    if reason is not None:
        return [MetricAgreement(name, human_scores.target, {}, unavailable=reason) for human_scores in humans]
    items = humans[0].items if humans else ()
    replies = [item.replies_by_reference for item in items]
    if not getattr(metric, "reads_tokens", False):
        replies = [[detokenise_reply(reply) for reply in several] for several in replies]
    has_text = np.array([bool(item.response.strip()) for item in items], dtype=bool)
    judged = np.any([human_scores.judged for human_scores in humans], axis=0)
    reads = isinstance(metric, ReplyMetric) and (metric.needs_reference or metric.reads_reference)
    requested_replies = [
        (k, reply) for k in np.flatnonzero(has_text & judged) for reply in (replies[k] if reads else replies[k][:1])
    ]
    if isinstance(metric, ScoreFileMetric):
        owned = [items[k] for k, _ in requested_replies]
        computed_values = {metric.name: metric.score_items(owned)}
    else:
        computed_values = item_scores(metric, [reply for _, reply in requested_replies], shared, progress=progress)
    owner = np.array([k for k, _ in requested_replies], dtype=int)
    mean = getattr(metric, "over_references", "best") == "mean"
    scores = {
        column: _over_references(values, owner, len(items), mean=mean)
        for column, values in computed_values.items()
        if not columns or column in columns
    }
    for column in columns:  # none of the replies has a score
        scores.setdefault(column, np.full(len(items), np.nan))
    if isinstance(metric, ReplyMetric) and reads:
        for k in np.flatnonzero(has_text & judged):
            if len(replies[k]) > 1:
                for column, value in metric.together(replies[k]).items():
                    if column in scores:
                        scores[column][k] = value
    firsts = [several[0] for several in replies]
    lacking = {
        column: missing_reasons(metric, firsts, column, values, has_text & judged, shared)
        for column, values in scores.items()
    }
    signs = {c.name: -1.0 if c.direction == "lower" else 1.0 for c in metric.columns if c.name in scores}
    return [
        MetricAgreement(
            name,
            human_scores.target,
            {
                column: human_scores.cells(values, has_text, lacking[column], signs[column])
                for column, values in scores.items()
            },
            scores=scores,
            by_length=length_bias([item.response for item in items], next(iter(scores.values())), human_scores.means),
            source=human_scores.only_source,
            signs=signs,
            reasons={
                column: human_scores.exclusions(values, has_text, lacking[column]).tolist()
                for column, values in scores.items()
            },
            remarks={
                **(metric.remarks(scores) if isinstance(metric, ReplyMetric) else {}),
                **({PARTLY_BEYOND: human_scores.n_partly_beyond} if human_scores.n_partly_beyond else {}),
            },
        )
        for human_scores in humans
    ]


def _over_references(values: np.ndarray, owner: np.ndarray, n: int, *, mean: bool = False) -> np.ndarray:
    """Return each item's best or mean score over references, (n,).

    NaN if there is none.

    Args:
        values: (M,) one score per item and reference.
        owner: (M,) item number of each.
    """
    is_defined = np.isfinite(values)
    if mean:
        counts = np.bincount(owner[is_defined], minlength=n)
        sums = np.bincount(owner[is_defined], weights=values[is_defined], minlength=n)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    best_scores = np.full(n, -np.inf)
    np.maximum.at(best_scores, owner[is_defined], values[is_defined])
    return np.where(np.isneginf(best_scores), np.nan, best_scores)
