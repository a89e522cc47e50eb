"""What a self-play run has and what its plan still lacks."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Q

from webapp.conversations.models import Conversation, Turn
from webapp.runs.models import SelfPlayConversation, SelfPlayRun


@dataclass(frozen=True, slots=True)
class BotPlayed:
    """One bot's part of a run: finished conversations, their turns, and those that failed."""

    conversations: int
    turns: int
    failed: int
    error: str


def run_by_id(run_id: int) -> SelfPlayRun:
    """The run.

    Raises:
        LookupError: naming the runs there are.
    """
    run = SelfPlayRun.objects.filter(pk=run_id).first()
    if run is None:
        newest = list(SelfPlayRun.objects.values_list("pk", flat=True)[:5])
        there = f"the newest are {', '.join(map(str, newest))}" if newest else "there is none yet"
        raise LookupError(f"there is no self-play run {run_id}; {there}")
    return run


def selfplay_missing(run: SelfPlayRun, bot_id: str, *, limit: int | None = None) -> list[int]:
    """Ordinals of the plan without a stored conversation of this bot, in order."""
    done = set(
        SelfPlayConversation.objects.filter(run=run, bot_id=bot_id).values_list(
            "ordinal", flat=True
        )
    )
    missing = [n for n in range(run.plan["n_conversations"]) if n not in done]
    return missing if limit is None else missing[:limit]


def selfplay_count(run: SelfPlayRun) -> int:
    """Stored conversations, failed ones too."""
    return SelfPlayConversation.objects.filter(run=run).count()


def selfplay_summary(run: SelfPlayRun) -> dict[str, BotPlayed]:
    """Per bot of the plan what there is."""
    completed = Q(conversation__state=Conversation.State.COMPLETED)
    links = SelfPlayConversation.objects.filter(run=run)
    counts: dict[str, dict[str, int]] = {
        row["bot_id"]: {"completed": row["n_completed"], "failed": row["n_failed"]}
        for row in links.values("bot_id").annotate(
            n_completed=Count("id", filter=completed), n_failed=Count("id", filter=~completed)
        )
    }
    turns = dict(
        Turn.objects.filter(
            conversation__selfplay__run=run, conversation__state=Conversation.State.COMPLETED
        )
        .values_list("conversation__selfplay__bot_id")
        .annotate(n=Count("id"))
    )
    errors = dict(links.exclude(error="").order_by("-ordinal").values_list("bot_id", "error"))
    return {
        bot_id: BotPlayed(
            conversations=counts.get(bot_id, {}).get("completed", 0),
            turns=turns.get(bot_id, 0),
            failed=counts.get(bot_id, {}).get("failed", 0),
            error=errors.get(bot_id, ""),
        )
        for bot_id in run.plan["bots"]
    }
