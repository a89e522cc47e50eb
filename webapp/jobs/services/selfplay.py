"""Writes of self-play runs: the frozen plan and the conversations."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import transaction

from chatbots import Conversation as Dialogue
from chatbots.bots.person import people_among
from chatbots.text import quote, sanitise
from evaluation.simulation.selfplay import seed_of_conversation
from webapp.bots.models import BotVersion
from webapp.bots.selectors import bot_entry, bots_find
from webapp.bots.services import bot_version_record
from webapp.conversations.filtering import marks_store, names_of, reply_marks
from webapp.conversations.models import Conversation, Turn
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.jobs import queue
from webapp.jobs.models import SelfPlayConversation, SelfPlayRun
from webapp.jobs.selectors.metrics import metrics_find
from webapp.jobs.selectors.selfplay import PAIRS, BotPair, pair_condition, plan_pairs
from webapp.jobs.selectors.simulation import chats_with_texts
from webapp.studies.conditions import bots_of, condition_texts
from webapp.studies.models import Study
from webapp.studies.protocol_settings import Filtering
from webapp.studies.reply_filters.base import FilterInput
from webapp.studies.settings import StudyValues

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from evaluation.simulation.selfplay import SelfPlayed

N_CONVERSATIONS = 100
N_TURNS = 10
_SEED_LIMIT = 2**63
ERROR_MAX_CHARS = 500


def run_create(
    *,
    bots: Sequence[str],
    pairs: str = "self",
    n_conversations: int = N_CONVERSATIONS,
    n_turns: int = N_TURNS,
    seed: int = 0,
    openers: Sequence[str] = (),
    metrics: Sequence[str] = (),
    study: Study | None = None,
    name: str = "",
    then: Mapping[str, Any] | None = None,
    created_by: User | None = None,
    enqueue: bool = True,
) -> SelfPlayRun:
    """Freeze a plan with identities of bots and metrics, and start the run.

    Args:
        pairs: "self": each bot with itself; "all": also every two bots in both orders.
        n_conversations: number of conversations of each pair.
        openers: opening texts; without any the bot speaks first, to an empty context.
        metrics: metrics to compute once all conversations exist.
        study: study whose current reply filters mark replies; None: those of a new study.
        then: next steps of its chain (`jobs/services/fits.py`).
        enqueue: False for a caller that does the work itself.

    Raises:
        UnknownName: there is no such bot or metric; the message suggests similar names.
        Refused: `bad_plan`, or `unavailable` with a bot's reason.
    """
    bots = list(dict.fromkeys(bots))
    if not bots:
        raise Refused("bad_plan", "name at least one bot")
    if pairs not in PAIRS:
        raise Refused("bad_plan", f"pairs is {quote(pairs)}; it must be {' or '.join(PAIRS)}")
    if pairs == "all" and len(bots) < 2:
        raise Refused("bad_plan", f"{bots[0]} alone is not a pair; name at least two bots")
    for noun, number in (("conversations", n_conversations), ("turns", n_turns)):
        if number < 1:
            raise Refused("bad_plan", f"the number of {noun} is {number}; it must be at least 1")
    check_seed(seed)
    selected_bots = bots_find(bots).values()
    if people := people_among(bots):
        raise Refused("bad_plan", f"{people[0]} is a person, who cannot take part in self-play; name bots only")
    for bot in selected_bots:
        entry = bot_entry(bot)
        if not entry.available:
            raise Refused("unavailable", f"{bot.name} is not available: {entry.reason}")
    plan: dict[str, Any] = {
        "bots": bots,
        "pairs": pairs,
        "n_conversations": n_conversations,
        "n_turns": n_turns,
        "seed": seed,
        "openers": [sanitise(opener) for opener in openers],
        "study": study.key if study is not None else "",
        "filtering": study.values.filtering.model_dump(mode="json") if study is not None else None,
        "conditions": plan_conditions(study, bots) if study is not None else [],
        "metrics": [metric.name for metric in metrics_find(metrics)] if metrics else [],
        "identities": {bot.name: {"key": bot.identity.key, **bot.identity.as_dict()} for bot in selected_bots},
        "deterministic": {bot.name: bot.deterministic for bot in selected_bots},
    }
    with transaction.atomic():
        for bot in selected_bots:
            bot_version_record(bot=bot)
        run = SelfPlayRun.objects.create(
            name=name,
            plan=plan,
            n_total=len(plan_pairs(plan)) * n_conversations,
            then=dict(then or {}),
            created_by=created_by,
            inline=not enqueue,
        )
        queue.send_on_commit(run)
    return run


def check_seed(seed: int) -> None:
    """Reject a seed that no column can store.

    Raises:
        Refused: `bad_plan`.
    """
    if not -_SEED_LIMIT <= seed < _SEED_LIMIT:
        raise Refused("bad_plan", f"the seed is {seed}; it must fit in 64 bits")


def plan_conditions(study: Study, bots: Sequence[str]) -> list[dict[str, Any]]:
    """Return the study's conditions with their texts for bots.

    Also the conditions that each bot may have.
    """
    conditions, plans = study.values.conditions, []
    for levels in conditions.combinations() if conditions.factors else ():
        named_levels = conditions.build_condition(levels)
        texts = condition_texts(study.values, named_levels)
        plan = {"levels": named_levels, "bots": bots_of(levels, bots)}
        plans.append({**plan, "bot_prompt": texts.bot_prompt, "opening": texts.opening})
    return [condition_plan for condition_plan in plans if condition_plan["bots"]]


def conversation_seed(run: SelfPlayRun, pair: BotPair, ordinal: int) -> int:
    """Return the seed of one conversation.

    It depends only on the plan, the pair and the ordinal.
    """
    if pair.participant:
        from evaluation.simulation.simulated_chats import seed_of_simulation

        return seed_of_simulation(run.plan["seed"], pair.participant, pair.bot_id, ordinal)
    speakers = (pair.partner_id, pair.bot_id) if pair.partner_id else (pair.bot_id,)
    return seed_of_conversation(run.plan["seed"], speakers, ordinal)


def selfplay_store(
    *,
    run: SelfPlayRun,
    version: BotVersion,
    partner: BotVersion | None = None,
    pair: BotPair | None = None,
    ordinals: Sequence[int],
    played: Sequence[SelfPlayed],
) -> int:
    """Store new conversations; existing ones stay.

    Returns the number of new ones.

    A conversation that ended with an error is stored as failed, with its turns.

    Args:
        version: version of the bot on the bot's side.
        partner: version of the one who began; None: the bot itself.
        pair: pair with a simulated participant, who has no version.
    """
    now = database_now()
    pair = pair or BotPair(version.bot_id, partner.bot_id if partner is not None else "")
    source = Conversation.Source.SIMULATED if pair.participant else Conversation.Source.SELFPLAY
    rows: list[Conversation] = []
    turns: list[Turn] = []
    links: list[SelfPlayConversation] = []
    for ordinal, dialogue in zip(ordinals, played, strict=True):
        pk = uuid.uuid4()
        rows.append(
            Conversation(
                id=pk,
                source=source,
                state=Conversation.State.FAILED if dialogue.error else Conversation.State.COMPLETED,
                bot=version,
                seed=dialogue.conversation.seed,
                n_exchanges=dialogue.conversation.n_exchanges,
                ended_at=now,
                condition=dict(pair_condition(run.plan, pair, ordinal).levels),
            )
        )
        for i, utterance in enumerate(dialogue.conversation.turns):
            turn = Turn(
                conversation_id=pk,
                index=i,
                speaker=utterance.speaker,
                text=sanitise(utterance.text),
                vote=utterance.vote,
            )
            turn.trace = [step.model_dump() for step in utterance.trace]
            turn.cost_set(dialogue.costs.get(i))
            turns.append(turn)
        links.append(
            SelfPlayConversation(
                run=run,
                bot_id=version.bot_id,
                partner_bot_id=pair.partner_id,
                partner=partner,
                ordinal=ordinal,
                conversation_id=pk,
                error=sanitise(dialogue.error or "", ERROR_MAX_CHARS),
                sources=list(dict.fromkeys(getattr(dialogue, "sources", {}).values())),
            )
        )
    with transaction.atomic():
        Conversation.objects.bulk_create(rows, batch_size=500)
        Turn.objects.bulk_create(turns, batch_size=1000)
        SelfPlayConversation.objects.bulk_create(without_erased(links), ignore_conflicts=True, batch_size=500)
        new_ids = {row.pk for row in rows}
        stored = set(
            SelfPlayConversation.objects.filter(conversation_id__in=new_ids).values_list("conversation_id", flat=True)
        )
        # Another process may have stored an ordinal first: its conversation is kept.
        Conversation.objects.filter(pk__in=new_ids - stored).delete()
        _mark(run, [turn for turn in turns if turn.conversation_id in stored], version)
    return len(stored)


def without_erased(links: Sequence[SelfPlayConversation]) -> list[SelfPlayConversation]:
    """Return the conversations that repeat no erased chat.

    The chats that they repeat are locked until the commit.
    """
    sources = {source for link in links for source in link.sources}
    locked_chats = chats_with_texts(sources).select_for_update(of=("self",)) if sources else ()
    chat_ids = {str(chat.pk) for chat in locked_chats}
    return [link for link in links if chat_ids.issuperset(link.sources)]


def _mark(run: SelfPlayRun, turns: Sequence[Turn], version: BotVersion) -> None:
    """Store the labels of the study's filters on the bot's replies.

    In self-play no reply is blocked.
    """
    stored_settings = run.plan.get("filtering")
    filtering = Filtering() if stored_settings is None else Filtering.model_validate(stored_settings)
    filter_input = FilterInput(StudyValues(filtering=filtering), names_of(version))
    replies = [turn for turn in turns if turn.speaker == Turn.Speaker.BOT]
    marks_store(replies, [reply_marks(turn.text, filter_input, only_marks=True) for turn in replies])


def selfplay_give_up(
    *,
    run: SelfPlayRun,
    pair: BotPair,
    version: BotVersion,
    partner: BotVersion | None,
    ordinals: Sequence[int],
    reason: str,
) -> int:
    """Store conversations of a pair as failed, without trying them.

    Returns the number of new ones.
    """
    from evaluation.simulation.selfplay import SelfPlayed

    untried = [SelfPlayed(Dialogue(id=str(pair), seed=conversation_seed(run, pair, n)), error=reason) for n in ordinals]
    return selfplay_store(run=run, version=version, partner=partner, pair=pair, ordinals=ordinals, played=untried)


def selfplay_forget_failed(*, run: SelfPlayRun) -> int:
    """Delete failed conversations, so that they are generated again."""
    failed = Conversation.objects.filter(selfplay__run=run, state=Conversation.State.FAILED)
    n_failed = failed.count()
    failed.delete()
    return n_failed
