"""Benchmark of metrics' and judges' preferences against people's preferences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chatbots.text import quote
from evaluation.agreement_by_group import NO_VALUE
from evaluation.analysis.pairwise_preference import PairJudgements
from evaluation.items import ChatPair, ReplyInContext, ReplyItem, detokenise_reply
from evaluation.llm_judge import JudgedPair, JudgedRead, context_name
from evaluation.metric_agreement import OF_CHATS
from evaluation.metrics.base import Metric
from evaluation.metrics.registry import metric_and_columns
from evaluation.metrics.replies import Progress, ReplyMetric, item_scores
from evaluation.metrics.text_cache import TextCache
from evaluation.number_format import share, span
from evaluation.preference_agreement import ChoiceAgreement, PairChoice, compare_choices
from evaluation.stats.correlation import Correlation, correlate
from evaluation.tables import Level

CHATS = 100
"""So many are scored at once."""
OF_REPLIES = "it says nothing of whole chats"
_SIDES = {"first": 1.0, "tie": 0.0, "second": -1.0}


@dataclass(frozen=True, slots=True)
class MetricChoices:
    """A metric or a judge compared with people's choices.

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


def judge_chosen(pairs: Iterable[JudgedPair]) -> dict[str, PairChoice]:
    """Return a judge's choices by the pair's name: the one preferred in both orders, else a tie."""
    return {one.item: PairChoice(_SIDES[one.preferred], one.first, one.context) for one in pairs}


def choose(
    people: PairJudgements,
    items: Sequence[ReplyItem | ChatPair],
    metrics: Sequence[Metric | str],
    *,
    question: str = "",
    shared: TextCache | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> dict[str, MetricChoices]:
    """Let each metric choose the reply or chat with the better score, and compare that with people's choices.

    Better is higher, but where the column says lower; equal scores are the same. Of a chat the score is the metric's
    value of the whole conversation, often the mean over the bot's turns.

    Args:
        items: the pairs, of replies or of chats, by their keys as `people` names them; those with one reply are
            passed over.
        question: that people answered; without one the leading one.
        progress: given a metric's name, returns what is called with (replies or chats done, those in all).

    Raises:
        UnknownName: for an unknown metric, with the nearest ones.
        ValueError: the question has no answers.
    """
    shared = shared or TextCache()
    found = {}
    for one in metrics:
        name = one if isinstance(one, str) else one.name
        told = progress(name) if progress is not None else None
        asked = [question or people.leading]
        [found[name]] = choose_everywhere(people, items, one, questions=asked, shared=shared, progress=told).values()
    return found


def choose_everywhere(
    people: PairJudgements,
    items: Sequence[ReplyItem | ChatPair],
    metric: Metric | str,
    *,
    questions: Sequence[str] = (),
    shared: TextCache | None = None,
    progress: Progress | None = None,
) -> dict[str, MetricChoices]:
    """Let a metric choose as in `choose`, once, and compare that with people's answers to every question.

    Args:
        questions: these alone; none: all that people were asked.

    Returns:
        By question, in its order.

    Raises:
        UnknownName: for an unknown metric, with the nearest ones.
        ValueError: one of the questions has no answers.
    """
    chats = [item for item in items if isinstance(item, ChatPair)]
    pairs = [one for one in items if isinstance(one, ReplyItem) and one.second_response is not None]
    level: Level = "conversation" if chats else "turn"
    name = metric if isinstance(metric, str) else metric.name
    found, wanted = metric_and_columns(metric, level)
    asked = questions or list(people.titles)
    reason = found.unavailable_reason()
    if reason is None and not any(column.level == level for column in found.columns):
        reason = OF_REPLIES if chats else OF_CHATS
    if reason is not None:
        return {question: MetricChoices(name, unavailable=reason) for question in asked}
    shared = shared or TextCache()
    column, chosen = (
        _chosen_chats(found, wanted, chats, shared, progress)
        if chats
        else _chosen(found, wanted, pairs, shared, progress)
    )
    return {question: MetricChoices(name, column, compare_choices(people, chosen, question)) for question in asked}


def judge_everywhere(
    people: PairJudgements, judged: JudgedRead, questions: Sequence[str] = ()
) -> dict[str, MetricChoices]:
    """Return by question how what a judge said of the pairs agrees with people; `questions` as in `choose_everywhere`.

    Raises:
        ValueError: one of the questions has no answers.
    """
    name, chosen = f"{judged.name} (pairs)", judge_chosen(judged.pairs)
    return {
        question: MetricChoices(name, agreement=compare_choices(people, chosen, question))
        for question in questions or people.titles
    }


def _chosen(
    metric: Metric, wanted: Sequence[str], pairs: Sequence[ReplyItem], shared: TextCache, progress: Progress | None
) -> tuple[str, dict[str, PairChoice]]:
    replies = [reply for item in pairs for reply in _both(item)]
    if not getattr(metric, "reads_tokens", False):
        replies = [detokenise_reply(reply) for reply in replies]
    scores = item_scores(metric, replies, shared, progress=progress)
    name = wanted[0] if wanted else next(iter(scores))
    # A column without any value is left out of the scores.
    values = scores.get(name, np.full(len(replies), np.nan)).reshape(-1, 2)
    chosen = {}
    for k, item in enumerate(pairs):
        why = ""
        if not np.isfinite(values[k]).all():
            unread = int(np.flatnonzero(~np.isfinite(values[k]))[0])
            reply = replies[2 * k + unread]
            lacks = None
            if isinstance(metric, ReplyMetric):
                lacks = metric.lacking(metric.seen(reply), name)
            why = lacks or NO_VALUE
        answer = _better(metric, name, "turn", *values[k])
        chosen[item.key] = PairChoice(answer, item.model, context_name(item), why)
    return name, chosen


def _chosen_chats(
    metric: Metric, wanted: Sequence[str], pairs: Sequence[ChatPair], shared: TextCache, progress: Progress | None
) -> tuple[str, dict[str, PairChoice]]:
    names = [column.name for column in metric.columns if column.level == "conversation"]
    talks = {(chat.id, pair.self_play): chat for pair in pairs for chat in (pair.first, pair.second)}
    values: dict[str, dict[str, float]] = {name: {} for name in names}
    n_done = 0
    for self_play in (False, True):
        some = [chat for (_id, alone), chat in talks.items() if alone == self_play]
        for start in range(0, len(some), CHATS):
            part = some[start : start + CHATS]
            table = metric.compute(part, self_play=self_play, shared=shared).conversations
            for name in names:
                values[name].update(zip(table.index, table[name].tolist(), strict=True))
            n_done += len(part)
            if progress is not None:
                progress(n_done, len(talks))
    defined = [name for name in names if any(map(np.isfinite, values[name].values()))]
    name = wanted[0] if wanted else (defined or names)[0]
    chosen = {}
    for pair in pairs:
        both = [values[name][chat.id] for chat in (pair.first, pair.second)]
        answer = _better(metric, name, "conversation", *both)
        chosen[pair.key] = PairChoice(answer, pair.model, why="" if np.isfinite(answer) else NO_VALUE)
    return name, chosen


def _better(metric: Metric, name: str, level: Level, first: float, second: float) -> float:
    """Return 1 where the first has the better score, 0 where they are the same, else -1; NaN where one has none."""
    column = next(one for one in metric.columns if (one.name, one.level) == (name, level))
    return float(np.sign(first - second)) * (-1.0 if column.direction == "lower" else 1.0)


def _both(item: ReplyItem) -> list[ReplyInContext]:
    said = tuple(text for text in item.context if text.strip())
    reference = item.reference if item.reference and item.reference.strip() else None
    return [ReplyInContext(said, text, reference) for text in (item.response, str(item.second_response))]


def people_length_bias(people: PairJudgements, pairs: Sequence[JudgedPair], question: str) -> Correlation:
    """Return the Spearman correlation of people's choices with length, over the pairs that a judge rated, too.

    The excess of a judge's own coefficient over it is the judge's bias.
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
    """Return lines of a terminal for each metric or judge, from the JSON of `MetricChoices`."""
    lines = []
    for name, one in result.items():
        if "unavailable" in one:
            lines.append(f"{name}: skipped, {one['unavailable']}")
            continue
        counts = one["counts"]
        lines += [
            f"{name}: people's answers to {quote(one['question'])}: {one['n']} of {one['n_pairs']} pairs by "
            f"{one['n_raters']} raters",
            f"  the same reply where both chose one: {_estimate(one['agreed'])}; two people: "
            f"{_estimate(one['people'])}",
            f"  Cohen's kappa, ties counted: {_estimate(one['kappa'])}",
            f"  answers: {counts['same']} the same reply, {counts['other']} the other one, {counts['people_tied']} "
            f"people said “the same”, {counts['chooser_tied']} {name} did, {counts['both_tied']} both did",
            *(f"  left out {n} × {why}" for why, n in one["skipped"].items()),
        ]
    lines.append(
        "Half of all choices would be the same by chance. Intervals of 95 %, clustered by rater and by context."
    )
    return "\n".join(lines)


def _estimate(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return f"undefined, {found['reason']}"
    low, high = found["ci95"] or (None, None)
    return f"{share(found['value'])} {span(low, high, shares=True)}"
