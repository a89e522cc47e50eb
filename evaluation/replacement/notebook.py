"""`confab.can_replace`: candidates to replace people, for a study in a notebook."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from chatbots.text import quote
from evaluation.agreement.held_out import seen_sets
from evaluation.agreement.judges.gold import GoldSet, find_quoted_keys, gold_of_chats, gold_of_replies
from evaluation.agreement.judges.scoring import score_gold
from evaluation.agreement.metric_agreement import JudgedReplies, judge, read_judgements
from evaluation.data.study import Study, rated
from evaluation.hybrid.features import LENGTHS
from evaluation.hybrid.notebook import feature_table, metrics_with
from evaluation.metrics.base import Metric
from evaluation.metrics.judge import JudgeMetric
from evaluation.metrics.registry import metric_and_columns, metric_get
from evaluation.replacement.candidate import ReplacementData
from evaluation.replacement.compare import OWN_TURN_COLUMNS, compare_candidates
from evaluation.replacement.replies import UNNAMED, reply_table
from evaluation.replacement.result import UNKNOWN_TRAINING, ReplacementResult
from evaluation.simulation.realism.prediction import FEATURES

Scores = Mapping[str, Mapping[str, float]]


def can_replace(
    study: Study | JudgedReplies | Path | str,
    *,
    target: str | Sequence[str] | None = None,
    margin: float | None = None,
    selfplay: Study | None = None,
    simulated: Study | Sequence[Study] = (),
    judges: Sequence[JudgeMetric | str] = (),
    metrics: Sequence[Metric | str] = (),
    scores: Scores | None = None,
    bot_scores: Scores | None = None,
    built_on: Mapping[str, Collection[str]] | None = None,
    seed: int = 0,
) -> ReplacementResult:
    """Ask whether metrics, judges, simulations or other scores can replace a study's participants.

    Required metrics are computed, and judges score every chat.

    Args:
        study: a study whose participants rated chats; or rated single replies or their file, which have neither
            self-play nor simulated participants.
        target: question, or several for their mean; None: the question that bots are ranked by.
        margin: largest difference from people's values that does not matter, in points; None: a tenth of the scale, if
            known.
        selfplay: self-play of the bots.
        simulated: chats of simulated participants, each the output of `confab.simulate`.
        judges: judges, or their names in `metrics.yaml`.
        metrics: metrics of single replies, or their names. Replies of sets that a metric was developed on are left out;
            if these sets are unknown, it is not tested unless `built_on` names it.
        scores, bot_scores: scores from elsewhere by name and conversation, or by name and bot.
        built_on: conversations or replies that a judge, metric or score was built on, by its title or name; they do not
            test it. Those that a judge's prompt quotes are left out in any case.
        seed: seed of the permutations.

    Raises:
        ValueError: there are no ratings, the margin is not above 0, a name is not a judge, or scores are of
            conversations or bots that the study does not have.
    """
    if not isinstance(study, Study):
        if selfplay is not None or simulated:
            raise ValueError("single replies have neither self-play nor simulated participants")
        question = target if isinstance(target, str) else next(iter(target or ()), "")
        replies = _reply_data(read_judgements(study), question, judges, metrics)
        _check_known(scores or {}, set(replies.chats["conversation"]), "reply")
        _check_known(bot_scores or {}, set(replies.chats["bot"]), "bot")
        replies = replace(replies, imported=scores or {}, imported_bots=bot_scores or {})
        return compare_candidates(_add_built_on(replies, built_on or {}), margin=margin, seed=seed)
    ratings = rated(study)
    if target is not None:
        ratings = ratings.only(target)
    features = metrics_with([*FEATURES, *OWN_TURN_COLUMNS, *LENGTHS])
    simulations = [simulated] if isinstance(simulated, Study) else list(simulated)
    chats = feature_table(study, features)
    people = {dialogue.conversation.id: dialogue.get_person() or None for dialogue in study.dialogues}
    chats = chats.assign(participant=chats["conversation"].map(people))
    names = set(chats["conversation"].astype(str))
    _check_known(scores or {}, names, "conversation")
    _check_known(bot_scores or {}, set(study.bots), "bot")
    dialogue_bots = {dialogue.conversation: dialogue.bot for dialogue in study.dialogues}
    judge_scores, quoted = (
        _score_gold(gold_of_chats(ratings, dialogue_bots, name=study.name), judges) if judges else ({}, {})
    )
    data = ReplacementData(
        ratings=ratings,
        chats=chats,
        selfplay=None if selfplay is None else feature_table(selfplay, features),
        simulated={simulation.name: feature_table(simulation, features) for simulation in simulations},
        within=frozenset(simulation.name for simulation in simulations if _is_within(simulation, names)),
        judges=judge_scores,
        imported=scores or {},
        imported_bots=bot_scores or {},
        built_on=quoted,
    )
    return compare_candidates(_add_built_on(data, built_on or {}), margin=margin, seed=seed)


def _add_built_on(data: ReplacementData, built_on: Mapping[str, Collection[str]]) -> ReplacementData:
    """Return the data with what candidates were built on, which is then no longer unknown."""
    known = {name: data.built_on.get(name, frozenset()) | frozenset(keys) for name, keys in built_on.items()}
    unknown = {name: reason for name, reason in data.unknown_origins.items() if name not in built_on}
    return replace(data, built_on={**data.built_on, **known}, unknown_origins=unknown)


def _is_within(simulation: Study, names: set[str]) -> bool:
    """Return True if most simulated chats carry the id of a chat with people."""
    shared = sum(dialogue.conversation.id in names for dialogue in simulation.dialogues)
    return 2 * shared > len(simulation)


def _reply_data(
    judged: JudgedReplies, question: str, judges: Sequence[JudgeMetric | str], metrics: Sequence[Metric | str]
) -> ReplacementData:
    """Return rated replies with their scores by judges and metrics.

    The name of a reply is its key, followed by its model if it has one.
    """
    gold = gold_of_replies(judged, question)
    ratings = gold.ratings()
    ratings = replace(ratings, bot=np.array([bot or UNNAMED for bot in ratings.bot], dtype=object))
    keys = {f"{item.key} {item.model}".strip(): item.source for item in judged.items}
    judge_scores, built_on = _score_gold(gold, judges)
    scores, unknown_origins = {}, {}
    for name, agreement in judge(judged, metrics, target=gold.dimension.key).items():
        if agreement.unavailable:
            raise ValueError(f"{name} cannot be computed: {agreement.unavailable}")
        values = zip(keys, agreement.oriented.tolist(), strict=True)
        scores[name] = {key: value for key, value in values if np.isfinite(value)}
        seen = seen_sets(metric_and_columns(name)[0])
        if seen is None:
            unknown_origins[name] = UNKNOWN_TRAINING
        else:
            built_on[name] = frozenset(key for key, source in keys.items() if source and source.startswith(seen))
    return ReplacementData(
        ratings,
        reply_table(gold),
        judges=judge_scores,
        metrics=scores,
        built_on=built_on,
        unknown_origins=unknown_origins,
    )


def _score_gold(
    gold: GoldSet, judges: Sequence[JudgeMetric | str]
) -> tuple[dict[str, dict[str, float]], dict[str, frozenset[str]]]:
    """Return the scores of every instance by each judge's title, and the instances that its prompt quotes."""
    metrics = [metric_get(judge) if isinstance(judge, str) else judge for judge in judges]
    for metric in metrics:
        if not isinstance(metric, JudgeMetric):
            raise ValueError(f"{metric.name} is not a metric of kind judge")
    scores, quoted = {}, {}
    for metric in metrics:
        assert isinstance(metric, JudgeMetric), "checked above"
        scored = score_gold(metric, gold, repeats=1)
        by_key = zip(gold.keys, scored.first, strict=True)
        scores[scored.title] = {key: float(score) for key, score in by_key if np.isfinite(score)}
        options = {} if metric.options is None else metric.options.model_dump()
        quoted[scored.title] = find_quoted_keys(gold, options)
    return scores, quoted


def _check_known(scores: Scores, names: set[str], noun: str) -> None:
    for name, by_name in scores.items():
        if not set(by_name) & names:
            raise ValueError(
                f"scores of {quote(name)} have no {noun} of the study; theirs begin with "
                f"{quote(next(iter(by_name), ''))}, the study's with {quote(min(names, default=''))}"
            )
