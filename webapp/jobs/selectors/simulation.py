"""Queries for simulations and the chats that simulated participants learn from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, QuerySet

from chatbots.bots.person import people_among
from chatbots.identity import derive_seed
from webapp.bots.models import BotVersion
from webapp.bots.selectors import bot_available_ids, bot_entry_list
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.selectors import conversations_for_metrics
from webapp.core.clock import database_now
from webapp.jobs.models import SelfPlayConversation, SelfPlayRun
from webapp.jobs.selectors.selfplay import BotPair, pair_wanted
from webapp.ratings.selectors import study_conversations
from webapp.studies.models import Study

if TYPE_CHECKING:
    from chatbots.participants.base import ParticipantProfile
    from chatbots.participants.human_chats import HumanChats


def participant_choices() -> list[tuple[str, str]]:
    """Return the available simulated participants.

    Participants driven by a bot are listed once per suitable bot.
    """
    from chatbots.participants.base import participant_get, participants

    bots = [bot.id for bot in bot_entry_list() if bot.available]
    names = [
        f"{participant.name}:{bot_id}" for participant in participants if participant.speaks_by_bot for bot_id in bots
    ]
    names = [participant.name for participant in participants if not participant.speaks_by_bot] + names
    candidates = [participant_get(name) for name in names]
    return [
        (participant.name, participant.title) for participant in candidates if participant.unavailable_reason() is None
    ]


def people_rows(study: Study, *, until: datetime | None = None) -> QuerySet[Conversation]:
    """Return the study's completed participant chats, oldest first.

    `until` limits them to chats begun by then.
    """
    rows = study_conversations(study).filter(created_at__lte=until or database_now())
    return rows.order_by("created_at", "pk")


def chats_by_bot(study: Study) -> dict[str, int]:
    """Count completed participant chats by bot, without human partners."""
    counts = dict(
        people_rows(study).order_by().values_list("bot__bot_id").annotate(n=Count("pk")).values_list("bot__bot_id", "n")
    )
    people = set(people_among(counts))
    return {bot_id: n for bot_id, n in sorted(counts.items()) if bot_id not in people}


def bots_simulated(study: Study) -> list[str]:
    """Return a simulation's default bots; an imported study has its own."""
    if study.is_imported:
        return list(chats_by_bot(study))
    return bot_available_ids([bot_id for bot_id in study.bots if bot_id not in people_among(study.bots)])


def people_chats(study: Study, *, until: datetime | None = None, only: Collection[UUID] = ()) -> HumanChats:
    """Return participants' chats in the form that simulated participants read.

    Args:
        until: leave out chats that began later, so that a resumed run reads the same ones.
        only: numbers of the chats; empty: all.
    """
    from chatbots.participants.human_chats import HumanChat, HumanChats

    rows = people_rows(study, until=until)
    if only:
        rows = rows.filter(pk__in=list(only))
    speakers = {str(pk): (bot, person) for pk, bot, person in rows.values_list("pk", "bot__bot_id", "participant")}
    chats: list[HumanChat] = []
    for chat in conversations_for_metrics(rows):
        bot, person = speakers[chat.id]
        chats.append(HumanChat(bot, chat, str(person or "")))
    return HumanChats(tuple(chats))


def stored_chats(run: SelfPlayRun, pair: BotPair) -> list[UUID]:
    """Return chats with an unavailable bot, sampled by the run's seed."""
    assert run.study is not None
    rows = people_rows(run.study, until=run.created_at).filter(bot__bot_id=pair.bot_id)
    ordered_ids = sorted(
        rows.values_list("pk", flat=True), key=lambda pk: derive_seed(run.plan["seed"], "stored", str(pk))
    )
    return ordered_ids[: pair_wanted(run.plan, pair)]


def run_profiles(plan: dict[str, Any], levels: Mapping[str, str]) -> list[ParticipantProfile]:
    """Return the plan's profiles, else the condition's, if any."""
    from chatbots.participants.base import ParticipantProfile

    if plan["profiles"]:
        return [ParticipantProfile(**fields) for fields in plan["profiles"]]
    matching_condition: dict[str, Any] = next(
        (condition for condition in plan["conditions"] if condition["levels"] == levels), {}
    )
    profile_fields = {name: matching_condition.get(name, "") for name in ("persona", "goal")}
    return [ParticipantProfile(**profile_fields)] if any(profile_fields.values()) else []


def version_talked_to(study: Study, bot_id: str) -> BotVersion:
    """Return the newest identity of a bot in the study's chats."""
    rows = people_rows(study).filter(bot__bot_id=bot_id)
    return BotVersion.objects.get(pk=rows.order_by("-created_at").values_list("bot", flat=True)[0])


def chats_with_texts(ids: Collection[str]) -> QuerySet[Conversation]:
    """Return the chats whose texts are neither withdrawn nor erased."""
    written_turns = Turn.objects.filter(conversation=OuterRef("pk"), speaker=Turn.Speaker.HUMAN).exclude(text="")
    return Conversation.objects.filter(Exists(written_turns), pk__in=list(ids)).exclude(
        state=Conversation.State.WITHDRAWN
    )


def sources_gone(study: Study) -> list[UUID]:
    """Return simulated conversations that quote erased chats."""
    links = SelfPlayConversation.objects.filter(run__study=study).exclude(sources=[])
    sources_by_chat = dict(links.values_list("conversation", "sources"))
    remaining_chats = chats_with_texts({source for sources in sources_by_chat.values() for source in sources})
    known = {str(pk) for pk in remaining_chats.values_list("pk", flat=True)}
    return [pk for pk, sources in sources_by_chat.items() if pk is not None and not known.issuperset(sources)]
