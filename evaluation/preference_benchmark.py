"""Agreement and benchmark of metrics' and judges' preferences with people's, ties included.

People say of a pair that the first is better, the second, or that they are the same; so does a judge, and so does a
metric by its scores. Each answer of a person is one comparison with the chooser. Pairs of one context resemble each
other, and so do the answers of one person: the largest variance over raters, contexts and both counts, as for every
mean (`evaluation.stats.means`). Kappa is linear in the answers but for its chance agreement; so its variance is
that of the mean of its influences (Fleiss, Cohen and Everitt 1969), and its interval is made on Fisher's scale of
z.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from chatbots.text import quote
from evaluation.agreement_by_group import METRIC_UNDEFINED
from evaluation.analysis.pairwise_preference import PairJudgements
from evaluation.findings import Reason
from evaluation.items import ChatPair, ReplyInContext, ReplyItem, detokenise_reply
from evaluation.llm_judge import JudgedPair, JudgedRead, context_name
from evaluation.metric_agreement import OF_CHATS
from evaluation.metrics.base import Metric
from evaluation.metrics.registry import metric_and_columns
from evaluation.metrics.replies import Progress, ReplyMetric, item_scores
from evaluation.metrics.text_cache import TextCache
from evaluation.number_format import share, span
from evaluation.stats.correlation import Correlation, correlate
from evaluation.stats.means import NO_VALUE, ONE_GROUP, SHARE, Interval, mean_interval, mean_spread
from evaluation.stats.resampling import NO_DISAGREEMENT
from evaluation.stats.zscores import rater_codes
from evaluation.tables import Level

LEVEL = 0.95
NOT_CHOSEN = "nothing was chosen of the pair"
NOBODY_SAID = "no participant answered this question about the pair"
ALWAYS_TIED = Reason("always_tied", "one of the two always called them the same")
CERTAIN = Reason("all_the_same", "all answers are the same: agreement is certain")
_ANSWERS = (1.0, 0.0, -1.0)
_SAME, _OTHER = (0, 8), (2, 6)


class PairChoice(NamedTuple):
    """Choice of a judge or a metric for one pair.

    Attributes:
        answer: 1 for the first, 0 for the same, -1 for the second; NaN where nothing was chosen.
        first: the bot of the first, as people may have been shown the pair the other way round.
        context: name that groups pairs; empty: the pair stands alone.
        why: the reason where nothing was chosen.
    """

    answer: float
    first: str = ""
    context: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceAgreement:
    """Choices of a judge or a metric compared with people's.

    Attributes:
        question: that people answered.
        n_pairs: pairs with both; n: people's answers about them; n_raters: who gave them.
        counts: of the answers: `same` reply chosen by both, the `other` one, `people_tied` alone, `chooser_tied` alone,
            `both_tied`.
        agreed: share of the same reply among the answers that chose one where the chooser chose one, too; half by
            chance.
        kappa: Cohen's, of the three answers, so that ties count.
        people: the first share of two people who judged the same pair, next to which the chooser's is to be read.
        skipped: pairs that lack one of the two, and why.
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
        """Return plain values, each estimate as `value`, `ci95` and, where something is missing, `reason`."""
        found = asdict(self)
        for name in ("agreed", "kappa", "people"):
            one: Interval = getattr(self, name)
            found[name] = {
                "value": one.mean,
                "ci95": None if one.low is None else [one.low, one.high],
                "n": one.n,
                "reason": one.reason,
            }
        return found


def compare_choices(people: PairJudgements, chosen: Mapping[str, PairChoice], question: str = "") -> ChoiceAgreement:
    """Compare a chooser's choices with people's.

    Args:
        chosen: by the pair's name.
        question: that people answered; without one the leading one.

    Raises:
        ValueError: the question has no answers; the message names the known questions.
    """
    question = question or people.leading
    if question not in people.answers:
        raise ValueError(
            f"no participant was asked {quote(question)} about pairs; there is {', '.join(people.answers)}"
        )
    said = people.answers[question]
    names = people.item.astype(str)
    nothing = PairChoice(float("nan"))
    found = [chosen.get(name, nothing) for name in names.tolist()]
    own = np.array(
        [
            -one.answer if one.first and one.first == second else one.answer
            for one, second in zip(found, people.second.tolist(), strict=True)
        ],
        dtype=float,
    )
    answered, used = np.isfinite(said), np.isfinite(said) & np.isfinite(own)
    lacking = {names[k]: found[k].why or NOT_CHOSEN for k in np.flatnonzero(answered & ~used)}
    skipped = Counter(lacking.values())
    silent = set(chosen) - set(names[answered].tolist())
    skipped.update({NOBODY_SAID: len(silent)} if silent else {})
    pairs, raters = names[used], rater_codes(people.rater.tolist())[used]
    units = [f"context {found[k].context}" if found[k].context else f"pair {names[k]}" for k in np.flatnonzero(used)]
    contexts = np.unique(np.array(units), return_inverse=True)[1]
    tables = np.zeros((len(pairs), 9))
    place = {answer: k for k, answer in enumerate(_ANSWERS)}
    for k, (one, other) in enumerate(zip(said[used].tolist(), own[used].tolist(), strict=True)):
        tables[k, 3 * place[one] + place[other]] = 1
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
        people=_share(*_two_people(pairs, said[used], contexts)),
        skipped=dict(skipped),
    )


def _two_people(pairs: np.ndarray, said: np.ndarray, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compare every two people who chose a reply of the same pair.

    Returns (c,) 1 for the same reply, else 0, and the context of each.
    """
    votes: dict[str, Counter[float]] = {}
    of: dict[str, int] = {}
    for name, answer, context in zip(pairs.tolist(), said.tolist(), contexts.tolist(), strict=True):
        votes.setdefault(name, Counter())[answer] += 1
        of[name] = context
    values, groups = [], []
    for name, found in votes.items():
        first, second = found[1.0], found[-1.0]
        same, other = (first * (first - 1) + second * (second - 1)) // 2, first * second
        values += [np.ones(same), np.zeros(other)]
        groups.append(np.full(same + other, of[name]))
    if not values:
        return np.zeros(0), np.zeros(0, dtype=int)
    return np.concatenate(values), np.concatenate(groups)


def _share(values: np.ndarray, groups: np.ndarray, things: np.ndarray | None = None) -> Interval:
    """Return the share of ones with its interval; without any, that one of the two chose no reply."""
    if not len(values):
        return Interval(None, None, None, 0, ALWAYS_TIED)
    return mean_interval(values, groups, LEVEL, scale=SHARE, things=things)


def _kappa(tables: np.ndarray, raters: np.ndarray, contexts: np.ndarray) -> Interval:
    """Return Cohen's kappa with its interval.

    Args:
        tables: (k, 9) 1 in the cell of each answer; raters, contexts: (k,) of each.
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

    half = float(stdtrit(spread.df, 0.5 + LEVEL / 2)) * float(np.sqrt(spread.variance))
    if not half or not -1 < value < 1:
        return Interval(value, None, None, n, NO_DISAGREEMENT)
    ends = np.tanh(np.arctanh(value) + np.array([-1, 1]) * half / (1 - value**2))
    return Interval(value, float(ends[0]), float(ends[1]), n)


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
            why = lacks or METRIC_UNDEFINED
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
        chosen[pair.key] = PairChoice(answer, pair.model, why="" if np.isfinite(answer) else METRIC_UNDEFINED)
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
