"""Origins of candidates to replace people: data that built one must not test it.

A hybrid metric needs no record: it is fitted within the test, without each bot in turn. Imported scores have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chatbots.bots.checkpoint import SHIPPED
from evaluation.agreement.held_out import seen_sets
from evaluation.agreement.judges.gold import GoldSet, find_quoted_keys
from evaluation.agreement.judges.scoring import judge_identity
from evaluation.findings import Reason
from evaluation.metrics.base import Metric
from evaluation.replacement.result import UNKNOWN_TRAINING
from webapp.conversations.models import Conversation
from webapp.jobs.models import SelfPlayConversation, SelfPlayRun
from webapp.jobs.selectors.selfplay import PARTICIPANT
from webapp.results.judges import judge_list

PROMPT_GONE = Reason(
    "prompt_gone", "the judge has changed since, so it is not known whether its prompt had examples from these data"
)


@dataclass
class Origins:
    """Conversations or replies that candidates were built on, and reasons why these are unknown, by name."""

    built_on: dict[str, frozenset[str]] = field(default_factory=dict)
    unknown: dict[str, Reason] = field(default_factory=dict)


def origin_of_judge(origins: Origins, result: Mapping[str, Any], gold: GoldSet, ids: Mapping[str, str]) -> None:
    """Record the texts of a gold set that a judge's prompt quotes as examples.

    Args:
        result: a judge of a stored comparison.
        ids: names of the instances in the ratings, by their key in the gold set.
    """
    if "identity" not in result:
        return  # stored before judges had identities
    judges = {judge_identity(judge, gold.unit)[0]: judge for judge in judge_list()}
    judge = judges.get(result["identity"])
    if judge is None or judge.options is None:
        origins.unknown[result["title"]] = PROMPT_GONE
        return
    quoted = find_quoted_keys(gold, judge.options.model_dump())
    origins.built_on[result["title"]] = frozenset(ids[key] for key in quoted)


def origin_of_metric(origins: Origins, title: str, metric: Metric | None, names: Iterable[str]) -> None:
    """Record the replies of the rated sets that a metric was developed on; an imported reply has its set's name.

    Args:
        metric: None if it no longer exists.
        names: names of the replies.
    """
    seen = seen_sets(metric)
    if seen is None:
        origins.unknown[title] = UNKNOWN_TRAINING
    else:
        origins.built_on[title] = frozenset(name for name in names if name.startswith(seen))


def origin_of_simulation(origins: Origins, run: SelfPlayRun, participant: str) -> None:
    """Record the simulated chats that repeat people's messages to the same bot.

    They would predict the bot from its own rated chats. A network that was trained elsewhere may have learned them.
    """
    kind, _, bot = participant.partition(":")
    if kind == "trained" and not (bot and (SHIPPED / bot).is_dir()):
        origins.unknown[participant] = UNKNOWN_TRAINING
        return
    links = SelfPlayConversation.objects.filter(run=run, partner_bot_id=PARTICIPANT + participant)
    rows = list(links.exclude(conversation=None).values_list("conversation", "bot_id", "sources"))
    ids = {source for _chat, _bot, sources in rows for source in sources}
    bots = {str(pk): bot for pk, bot in Conversation.objects.filter(pk__in=ids).values_list("pk", "bot__bot_id")}
    repeated = {str(chat) for chat, bot, sources in rows if any(bots.get(source, bot) == bot for source in sources)}
    origins.built_on[participant] = frozenset(repeated)
