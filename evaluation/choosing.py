"""What metrics and judges choose of two replies, set beside people's choices: the benchmark of a study that compares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.analysis.judged_pairs import Judgements
from evaluation.choices import ChoiceAgreement, Chosen, choices_beside
from evaluation.items import Item, ReplyInContext
from evaluation.judgements import NO_VALUE, OF_CHATS, metric_and_columns
from evaluation.judging import PairJudged, context_name
from evaluation.metrics.base import Metric
from evaluation.metrics.replies import Progress, ReplyMetric, item_scores
from evaluation.metrics.shared import Shared
from evaluation.printing import share, span
from evaluation.stats.correlation import Correlation, correlate
from evaluation.untokenised import reply_untokenised

_SIDES = {"first": 1.0, "tie": 0.0, "second": -1.0}


@dataclass(frozen=True, slots=True)
class MetricChosen:
    """A metric or a judge beside people's choices.

    Attributes:
        column: by whose scores it chooses; empty for a judge of pairs.
        agreement: None where it cannot be computed, for the reason `unavailable`.
    """

    name: str
    column: str = ""
    agreement: ChoiceAgreement | None = None
    unavailable: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        if self.agreement is None:
            return {"unavailable": self.unavailable}
        return {"column": self.column, **self.agreement.to_json()}


def judge_chosen(pairs: Iterable[PairJudged]) -> dict[str, Chosen]:
    """Return a judge's choices by the pair's name: what it prefers in both orders, else the same."""
    return {one.item: Chosen(_SIDES[one.preferred], one.first, one.context) for one in pairs}


def choose(
    people: Judgements,
    items: Sequence[Item],
    metrics: Sequence[Metric | str],
    *,
    question: str = "",
    shared: Shared | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> dict[str, MetricChosen]:
    """Let each metric choose of two replies the one with the better score, and set that beside people's choices.

    Better is higher, but where the column says lower; equal scores are the same.

    Args:
        items: the pairs, by their keys as `people` names them; those with one reply are passed over.
        question: that people answered; without one the leading one.
        progress: given a metric's name, returns what is called with (replies done, replies in all).

    Raises:
        UnknownName: for an unknown metric, with the nearest ones.
        ValueError: nobody was asked the question.
    """
    pairs = [item for item in items if item.second_response is not None]
    shared = shared or Shared()
    found = {}
    for one in metrics:
        name = one if isinstance(one, str) else one.name
        metric, wanted = metric_and_columns(one)
        reason = metric.unavailable_reason()
        if reason is None and not any(column.level == "turn" for column in metric.columns):
            reason = OF_CHATS
        if reason is not None:
            found[name] = MetricChosen(name, unavailable=reason)
            continue
        told = progress(name) if progress is not None else None
        column, chosen = _chosen(metric, wanted, pairs, shared, told)
        agreement = choices_beside(people, chosen, question)
        found[name] = MetricChosen(name, column, agreement)
    return found


def _chosen(
    metric: Metric,
    wanted: Sequence[str],
    pairs: Sequence[Item],
    shared: Shared,
    progress: Progress | None,
) -> tuple[str, dict[str, Chosen]]:
    replies = [reply for item in pairs for reply in _both(item)]
    if not getattr(metric, "reads_tokens", False):
        replies = [reply_untokenised(reply) for reply in replies]
    scores = item_scores(metric, replies, shared, progress=progress)
    name = wanted[0] if wanted else next(iter(scores))
    column = next(one for one in metric.columns if one.name == name)
    better = -1.0 if column.direction == "lower" else 1.0
    # A column without any value is left out of the scores.
    values = better * scores.get(name, np.full(len(replies), np.nan)).reshape(-1, 2)
    chosen = {}
    for k, item in enumerate(pairs):
        why = ""
        if not np.isfinite(values[k]).all():
            unread = int(np.flatnonzero(~np.isfinite(values[k]))[0])
            reply = replies[2 * k + unread]
            lacks = metric.lacking(metric.seen(reply)) if isinstance(metric, ReplyMetric) else None
            why = lacks or NO_VALUE
        answer = float(np.sign(values[k, 0] - values[k, 1]))
        chosen[item.key] = Chosen(answer, item.model, context_name(item), why)
    return name, chosen


def _both(item: Item) -> list[ReplyInContext]:
    said = tuple(text for text in item.context if text.strip())
    return [
        ReplyInContext(said, text, item.reference or None)
        for text in (item.response, str(item.second_response))
    ]


def length_beside(people: Judgements, pairs: Sequence[PairJudged], question: str) -> Correlation:
    """Return how people's choices go with being longer (Spearman), of the pairs that a judge judged, too.

    What a judge's own coefficient has beyond it is the judge's bias.
    """
    said: dict[str, list[float]] = {}
    rows = zip(people.item, people.second, people.answers[question].tolist(), strict=True)
    known = {one.item: one for one in pairs}
    for name, second, answer in rows:
        pair = known.get(str(name))
        if pair is not None and np.isfinite(answer):
            said.setdefault(pair.item, []).append(-answer if pair.first == second else answer)
    judged = [known[name] for name in said]
    return correlate(
        [one.words_first - one.words_second for one in judged],
        [float(np.mean(answers)) for answers in said.values()],
        "spearman",
        units=[one.context for one in judged],
    )


def choices_printed(result: dict[str, dict[str, Any]]) -> str:
    """Return lines of a terminal for each metric or judge, from the JSON of `MetricChosen`."""
    lines = []
    for name, one in result.items():
        if "unavailable" in one:
            lines.append(f"{name}: skipped, {one['unavailable']}")
            continue
        counts = one["counts"]
        lines += [
            f"{name}: people's answers to {one['question']!r}: {one['n']} of {one['n_pairs']} pairs by {one['n_raters']} raters",
            f"  the same reply where both chose one: {_estimate(one['agreed'])}; two people: {_estimate(one['people'])}",
            f"  Cohen's kappa, ties counted: {_estimate(one['kappa'])}",
            f"  answers: {counts['same']} the same reply, {counts['other']} the other one, {counts['people_tied']} people said "
            f"“the same”, {counts['chooser_tied']} {name} did, {counts['both_tied']} both did",
            *(f"  left out {n} × {why}" for why, n in one["skipped"].items()),
        ]
    lines.append(
        "Half of all choices would be the same by chance. Intervals of 95 %: contexts or raters resampled, whichever is wider."
    )
    return "\n".join(lines)


def _estimate(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return f"undefined, {found['reason']}"
    low, high = found["ci95"] or (None, None)
    return f"{share(found['value'])} {span(low, high, shares=True)}"
