"""Agreement of metrics' and judges' preferences with people's, including ties.

For each pair, people prefer the first, the second or neither; a judge does so too, and a metric by its scores. Each
human answer is compared with the choice of the judge or metric. Answers are correlated within contexts and within
raters, so the largest variance over raters, contexts and both is used, as for all means (`evaluation.stats.means`).
Kappa is nearly linear in the answers, apart from chance agreement; its variance is that of the mean of its influences
(Fleiss, Cohen and Everitt 1969), and its interval is computed on Fisher's z scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from chatbots.text import quote
from evaluation.agreement.agreement_by_group import METRIC_UNDEFINED
from evaluation.agreement.llm_judge import JudgedPair, JudgedRead, context_name
from evaluation.agreement.metric_agreement import OF_CHATS
from evaluation.analysis.pairwise_preference import PairJudgements
from evaluation.data.items import ChatPair, ReplyInContext, ReplyItem, detokenise_reply
from evaluation.data.tables import Level
from evaluation.findings import Reason
from evaluation.metrics.base import Metric
from evaluation.metrics.registry import metric_and_columns
from evaluation.metrics.replies import Progress, ReplyMetric, item_scores
from evaluation.metrics.text_cache import TextCache
from evaluation.number_format import plain_interval, share, span
from evaluation.stats.constants import SCORE_LEVEL
from evaluation.stats.correlation import Correlation, correlate
from evaluation.stats.means import NO_VALUE, ONE_GROUP, SHARE, Interval, mean_interval, mean_spread
from evaluation.stats.resampling import NO_DISAGREEMENT
from evaluation.stats.zscores import rater_codes

NOT_CHOSEN = "there is no choice for the pair"
NOBODY_SAID = "no participant answered this question about the pair"
ALWAYS_TIED = Reason("always_tied", "one of the two always answered that they are equal")
CERTAIN = Reason("all_the_same", "all answers are equal, so agreement is certain")
_ANSWERS = (1.0, 0.0, -1.0)
_SAME, _OTHER = (0, 8), (2, 6)


class PairChoice(NamedTuple):
    """Choice of a judge or a metric for one pair.

    Attributes:
        answer: 1 for the first, 0 for a tie, -1 for the second; NaN without a choice.
        first: bot of the first, because people may have seen the pair in the other order.
        context: name that groups pairs; empty if the pair is its own group.
        reason: reason for a missing choice.
    """

    answer: float
    first: str = ""
    context: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceAgreement:
    """Comparison of a judge's or metric's choices with people's.

    Attributes:
        question: question that people answered.
        n_pairs: number of pairs with both.
        n: human answers about them.
        n_raters: number of raters.
        counts: number of answers by outcome: `same` reply chosen by both, the `other` one, `people_tied` only,
            `chooser_tied` only, `both_tied`.
        agreed: share of the same reply among answers for which both chose one; chance is one half.
        kappa: Cohen's kappa of the three answers, including ties.
        people: the same share for two people who judged the same pair, as a yardstick.
        skipped: number of pairs that lack one of the two, by reason.
    """

    question: str
    n_pairs: int
    n: int
    n_raters: int
    counts: dict[str, int]
    agreed: Interval
    kappa: Interval
    people: Interval
    skipped: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values.

        Each estimate has `value`, `ci95` and, if something is missing, `reason`.
        """
        agreement_json = asdict(self)
        for name in ("agreed", "kappa", "people"):
            interval: Interval = getattr(self, name)
            agreement_json[name] = {
                "value": interval.mean,
                "ci95": plain_interval(interval.low, interval.high),
                "n": interval.n,
                "reason": interval.reason,
            }
        return agreement_json


def compare_choices(people: PairJudgements, chosen: Mapping[str, PairChoice], question: str = "") -> ChoiceAgreement:
    """Compare a chooser's choices with people's.

    Args:
        chosen: choices by pair name.
        question: question that people answered; by default the leading one.

    Raises:
        ValueError: if the question has no answers; the message lists the known questions.
    """
    question = question or people.leading
    if question not in people.answers:
        raise ValueError(
            f"no participant was asked {quote(question)} about pairs; available: {', '.join(people.answers)}"
        )
    answers = people.answers[question]
    names = people.item.astype(str)
    nothing = PairChoice(float("nan"))
    choices = [chosen.get(name, nothing) for name in names.tolist()]
    chooser_answers = np.array(
        [
            -choice.answer if choice.first and choice.first == second else choice.answer
            for choice, second in zip(choices, people.second.tolist(), strict=True)
        ],
        dtype=float,
    )
    answered, used = np.isfinite(answers), np.isfinite(answers) & np.isfinite(chooser_answers)
    lacking = {names[k]: choices[k].reason or NOT_CHOSEN for k in np.flatnonzero(answered & ~used)}
    skipped = Counter(lacking.values())
    silent = set(chosen) - set(names[answered].tolist())
    skipped.update({NOBODY_SAID: len(silent)} if silent else {})
    pairs, raters = names[used], rater_codes(people.rater.tolist())[used]
    units = [
        f"context {choices[k].context}" if choices[k].context else f"pair {names[k]}" for k in np.flatnonzero(used)
    ]
    contexts = np.unique(np.array(units), return_inverse=True)[1]
    tables = np.zeros((len(pairs), 9))
    place = {answer: k for k, answer in enumerate(_ANSWERS)}
    for k, (human_answer, chooser_answer) in enumerate(
        zip(answers[used].tolist(), chooser_answers[used].tolist(), strict=True)
    ):
        tables[k, 3 * place[human_answer] + place[chooser_answer]] = 1
    total = tables.sum(axis=0)
    decided = tables[:, [*_SAME, *_OTHER]].any(axis=1)
    agreeing = tables[:, list(_SAME)].sum(axis=1)
    return ChoiceAgreement(
        question=question,
        n_pairs=len(set(pairs.tolist())),
        n=len(pairs),
        n_raters=len(set(raters.tolist())),
        counts={
            name: int(total[list(places)].sum())
            for name, places in {
                "same": _SAME,
                "other": _OTHER,
                "people_tied": (3, 5),
                "chooser_tied": (1, 7),
                "both_tied": (4,),
            }.items()
        },
        agreed=_share(agreeing[decided], raters[decided], contexts[decided]),
        kappa=_kappa(tables, raters, contexts),
        people=_share(*_two_people(pairs, answers[used], contexts)),
        skipped=dict(skipped),
    )


def _two_people(pairs: np.ndarray, answers: np.ndarray, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compare all pairs of people who chose a reply of the same pair.

    Returns:
        (c,) 1 for the same reply, otherwise 0, and the context of each.
    """
    votes: dict[str, Counter[float]] = {}
    context_by_pair: dict[str, int] = {}
    for name, answer, context in zip(pairs.tolist(), answers.tolist(), contexts.tolist(), strict=True):
        votes.setdefault(name, Counter())[answer] += 1
        context_by_pair[name] = context
    values, groups = [], []
    for name, counts in votes.items():
        first, second = counts[1.0], counts[-1.0]
        n_same, n_different = (first * (first - 1) + second * (second - 1)) // 2, first * second
        values += [np.ones(n_same), np.zeros(n_different)]
        groups.append(np.full(n_same + n_different, context_by_pair[name]))
    if not values:
        return np.zeros(0), np.zeros(0, dtype=int)
    return np.concatenate(values), np.concatenate(groups)


def _share(values: np.ndarray, groups: np.ndarray, things: np.ndarray | None = None) -> Interval:
    """Return the share of ones with its interval.

    If there are none, the reason is that someone always chose a tie.
    """
    if not len(values):
        return Interval(None, None, None, 0, ALWAYS_TIED)
    return mean_interval(values, groups, SCORE_LEVEL, scale=SHARE, things=things)


def _kappa(tables: np.ndarray, raters: np.ndarray, contexts: np.ndarray) -> Interval:
    """Return Cohen's kappa with its interval.

    Args:
        tables: (k, 9) 1 in the cell of each answer.
        raters, contexts: (k,) of each.
    """
    n = len(tables)
    if not n:
        return Interval(None, None, None, 0, NO_VALUE)
    shares = tables.mean(axis=0).reshape(3, 3)
    people, chooser = shares.sum(axis=1), shares.sum(axis=0)
    observed, by_chance = float(np.trace(shares)), float(people @ chooser)
    if by_chance > 1 - 1e-12:
        return Interval(None, None, None, n, CERTAIN)
    value = (observed - by_chance) / (1 - by_chance)
    chance_moves = chooser[:, None] + people[None] - 2 * by_chance
    moves = (np.eye(3) - observed) - (1 - value) * chance_moves
    influence = tables @ moves.ravel() / (1 - by_chance)
    spread = mean_spread(influence, raters, contexts)
    if spread is None:
        return Interval(value, None, None, n, ONE_GROUP)
    from scipy.special import stdtrit

    half = float(stdtrit(spread.df, 0.5 + SCORE_LEVEL / 2)) * float(np.sqrt(spread.variance))
    if not half or not -1 < value < 1:
        return Interval(value, None, None, n, NO_DISAGREEMENT)
    ends = np.tanh(np.arctanh(value) + np.array([-1, 1]) * half / (1 - value**2))
    return Interval(value, float(ends[0]), float(ends[1]), n)


CHATS = 100
"""Number of replies per batch."""
OF_REPLIES = "it does not describe whole chats"
_SIDES = {"first": 1.0, "tie": 0.0, "second": -1.0}


@dataclass(frozen=True, slots=True)
class MetricChoices:
    """Comparison of a metric or judge with people's choices.

    Attributes:
        column: column whose scores decide; empty for a judge of pairs.
        agreement: None if it cannot be computed, with the reason in `unavailable`.
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
    """Return a judge's choices by pair name.

    The choice is the one preferred in both orders, otherwise a tie.
    """
    return {pair.item: PairChoice(_SIDES[pair.preferred], pair.first, pair.context) for pair in pairs}


def choose(
    people: PairJudgements,
    items: Sequence[ReplyItem | ChatPair],
    metrics: Sequence[Metric | str],
    *,
    question: str = "",
    shared: TextCache | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> dict[str, MetricChoices]:
    """Compare each metric's choices with people's choices.

    A metric chooses the reply or chat with the better score; equal scores are a tie. Higher is better unless the column
    says otherwise. The score of a chat is the metric's value for the whole conversation, often the mean over the bot's
    turns.

    Args:
        items: pairs of replies or chats, by the keys that `people` uses; those with only one reply are ignored.
        question: question that people answered; by default the leading one.
        progress: maps a metric's name to a function called with (replies or chats done, total).

    Raises:
        UnknownName: for an unknown metric; the message suggests the nearest ones.
        ValueError: if the question has no answers.
    """
    shared = shared or TextCache()
    choices = {}
    for metric in metrics:
        name = metric if isinstance(metric, str) else metric.name
        metric_progress = progress(name) if progress is not None else None
        questions = [question or people.leading]
        [choices[name]] = choose_everywhere(
            people, items, metric, questions=questions, shared=shared, progress=metric_progress
        ).values()
    return choices


def choose_everywhere(
    people: PairJudgements,
    items: Sequence[ReplyItem | ChatPair],
    metric: Metric | str,
    *,
    questions: Sequence[str] = (),
    shared: TextCache | None = None,
    progress: Progress | None = None,
) -> dict[str, MetricChoices]:
    """Compare a metric's choices with people's answers to every question.

    The metric chooses once, as in `choose`.

    Args:
        questions: questions to compare; by default all that people were asked.

    Returns:
        By question, in its order.

    Raises:
        UnknownName: for an unknown metric; the message suggests the nearest ones.
        ValueError: if one of the questions has no answers.
    """
    chats = [item for item in items if isinstance(item, ChatPair)]
    pairs = [item for item in items if isinstance(item, ReplyItem) and item.second_response is not None]
    level: Level = "conversation" if chats else "turn"
    name = metric if isinstance(metric, str) else metric.name
    known_metric, columns = metric_and_columns(metric, level)
    question_keys = questions or list(people.titles)
    reason = known_metric.unavailable_reason()
    if reason is None and not any(column.level == level for column in known_metric.columns):
        reason = OF_REPLIES if chats else OF_CHATS
    if reason is not None:
        return {question: MetricChoices(name, unavailable=reason) for question in question_keys}
    shared = shared or TextCache()
    column, chosen = (
        _chosen_chats(known_metric, columns, chats, shared, progress)
        if chats
        else _chosen(known_metric, columns, pairs, shared, progress)
    )
    return {
        question: MetricChoices(name, column, compare_choices(people, chosen, question)) for question in question_keys
    }


def judge_everywhere(
    people: PairJudgements, judged: JudgedRead, questions: Sequence[str] = ()
) -> dict[str, MetricChoices]:
    """Return the agreement of a judge's choices with people, by question.

    Args:
        questions: as in `choose_everywhere`.

    Raises:
        ValueError: if one of the questions has no answers.
    """
    name, chosen = f"{judged.name} (pairs)", judge_chosen(judged.pairs)
    return {
        question: MetricChoices(name, agreement=compare_choices(people, chosen, question))
        for question in questions or people.titles
    }


def _chosen(
    metric: Metric, columns: Sequence[str], pairs: Sequence[ReplyItem], shared: TextCache, progress: Progress | None
) -> tuple[str, dict[str, PairChoice]]:
    replies = [reply for item in pairs for reply in _build_replies(item)]
    if not getattr(metric, "reads_tokens", False):
        replies = [detokenise_reply(reply) for reply in replies]
    scores = item_scores(metric, replies, shared, progress=progress)
    name = columns[0] if columns else next(iter(scores))
    # Columns without any value are missing from the scores.
    values = scores.get(name, np.full(len(replies), np.nan)).reshape(-1, 2)
    chosen = {}
    for k, item in enumerate(pairs):
        reason = ""
        if not np.isfinite(values[k]).all():
            unread = int(np.flatnonzero(~np.isfinite(values[k]))[0])
            reply = replies[2 * k + unread]
            lacks = None
            if isinstance(metric, ReplyMetric):
                lacks = metric.lacking(metric.seen(reply), name)
            reason = lacks or METRIC_UNDEFINED
        answer = _better(metric, name, "turn", *values[k])
        chosen[item.key] = PairChoice(answer, item.model, context_name(item), reason)
    return name, chosen


def _chosen_chats(
    metric: Metric, columns: Sequence[str], pairs: Sequence[ChatPair], shared: TextCache, progress: Progress | None
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
    name = columns[0] if columns else (defined or names)[0]
    chosen = {}
    for pair in pairs:
        chat_values = [values[name][chat.id] for chat in (pair.first, pair.second)]
        answer = _better(metric, name, "conversation", *chat_values)
        chosen[pair.key] = PairChoice(answer, pair.model, reason="" if np.isfinite(answer) else METRIC_UNDEFINED)
    return name, chosen


def _better(metric: Metric, name: str, level: Level, first: float, second: float) -> float:
    """Return 1 if the first scores better, 0 for a tie, -1 otherwise.

    NaN if a score is missing.
    """
    column = next(candidate for candidate in metric.columns if (candidate.name, candidate.level) == (name, level))
    return float(np.sign(first - second)) * (-1.0 if column.direction == "lower" else 1.0)


def _build_replies(item: ReplyItem) -> list[ReplyInContext]:
    context = tuple(text for text in item.context if text.strip())
    reference = item.reference if item.reference and item.reference.strip() else None
    return [ReplyInContext(context, text, reference) for text in (item.response, str(item.second_response))]


def people_length_bias(people: PairJudgements, pairs: Sequence[JudgedPair], question: str) -> Correlation:
    """Return the Spearman correlation of people's choices with length.

    It covers the pairs that a judge also rated.

    A judge's bias is the excess of its own coefficient over this one.
    """
    answers_by_item: dict[str, list[float]] = {}
    rows = zip(people.item, people.second, people.answers[question].tolist(), strict=True)
    known = {pair.item: pair for pair in pairs}
    for name, second, answer in rows:
        pair = known.get(str(name))
        if pair is not None and np.isfinite(answer):
            answers_by_item.setdefault(pair.item, []).append(-answer if pair.first == second else answer)
    judged = [known[name] for name in answers_by_item]
    return correlate(
        [pair.words_first - pair.words_second for pair in judged],
        [float(np.mean(answers)) for answers in answers_by_item.values()],
        "spearman",
        units=[pair.context for pair in judged],
    )


def choices_printed(result: dict[str, dict[str, Any]]) -> str:
    """Format the JSON of `MetricChoices` for a terminal."""
    lines = []
    for name, agreement in result.items():
        if "unavailable" in agreement:
            lines.append(f"{name}: skipped, {agreement['unavailable']}")
            continue
        counts = agreement["counts"]
        lines += [
            f"{name}: human answers to {quote(agreement['question'])}: {agreement['n']} about "
            f"{agreement['n_pairs']} pairs by {agreement['n_raters']} raters",
            f"  the same reply if both chose one: {_estimate(agreement['agreed'])}; two people: "
            f"{_estimate(agreement['people'])}",
            f"  Cohen's kappa, including ties: {_estimate(agreement['kappa'])}",
            f"  answers: {counts['same']} the same reply, {counts['other']} the other one, {counts['people_tied']} "
            f"people said “the same”, {counts['chooser_tied']} {name} did, {counts['both_tied']} both did",
            *(f"  excluded {n} × {reason}" for reason, n in agreement["skipped"].items()),
        ]
    lines.append("By chance, half of all choices would agree. 95 % intervals, clustered by rater and by context.")
    return "\n".join(lines)


def _estimate(interval: dict[str, Any]) -> str:
    if interval["value"] is None:
        return f"undefined, {interval['reason']}"
    low, high = interval["ci95"] or (None, None)
    return f"{share(interval['value'])} {span(low, high, shares=True)}"
