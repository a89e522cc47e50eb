"""Queries for a run's conversations, stored and missing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, Q

from evaluation.simulation.selfplay import SelfPlayCondition
from webapp.conversations.models import Conversation, Turn
from webapp.jobs.models import SELF_PLAY, SelfPlayConversation, SelfPlayRun

PAIRS = ("self", "all")
PARTICIPANT = "participant:"
"""Prefix of a simulated participant's name in place of the bot that begins."""

GIVE_UP_AFTER = 10
"""Number of conversations after which a pair is given up if all of them failed."""
NOT_TRIED = "not tried:"


@dataclass(frozen=True, slots=True)
class BotPair:
    """Pair of bots: the measured one, and the one that begins.

    The latter is "" if the bot talks to itself.

    The partner of a bot in a simulated conversation is the participant's name after `PARTICIPANT`.
    """

    bot_id: str
    partner_id: str = ""

    @property
    def participant(self) -> str:
        """Name of the simulated participant; empty for a pair of bots."""
        return self.partner_id.removeprefix(PARTICIPANT) if self.partner_id.startswith(PARTICIPANT) else ""

    @property
    def first(self) -> str:
        """Id of the bot that speaks turn 0."""
        return self.partner_id or self.bot_id

    def __str__(self) -> str:
        return f"{self.participant or self.partner_id} with {self.bot_id}" if self.partner_id else self.bot_id


def plan_pairs(plan: dict[str, Any]) -> list[BotPair]:
    """Return a plan's pairs: self-pairs, then on request all ordered pairs.

    In a simulation, each participant is paired with each bot, and there are no other pairs.
    """
    bots = plan["bots"]
    if people := plan.get("participants"):
        return [BotPair(bot_id, PARTICIPANT + name) for name in people for bot_id in bots]
    pairs = [BotPair(bot_id) for bot_id in bots]
    if plan.get("pairs", "self") == "all":
        pairs += [BotPair(second, first) for first in bots for second in bots if first != second]
    return pairs


def pair_wanted(plan: dict[str, Any], pair: BotPair) -> int:
    """Return the planned number of a pair's conversations.

    A bot with stored chats gets at most as many as it has.
    """
    return int(plan.get("n_of_bot", {}).get(pair.bot_id, plan.get("n_conversations", 0)))


def pair_condition(plan: dict[str, Any], pair: BotPair, ordinal: int) -> SelfPlayCondition:
    """Return a conversation's condition, rotating over those both bots allow."""
    bots = {pair.bot_id} if pair.participant else {pair.bot_id, pair.first}
    options = [each for each in plan.get("conditions", ()) if bots <= {*each["bots"]}]
    if not options:
        return SelfPlayCondition()
    condition = options[ordinal % len(options)]
    return SelfPlayCondition(condition["levels"], condition["bot_prompt"], condition["opening"])


@dataclass(frozen=True, slots=True)
class SelfPlayCounts:
    """Numbers of conversations and turns in part of a run.

    Finished and failed conversations are counted.
    """

    conversations: int
    turns: int
    failed: int
    error: str


@dataclass(frozen=True, slots=True)
class Failures:
    """Number of a pair's conversations that failed for one reason."""

    pair: BotPair
    n: int
    error: str


def run_by_id(run_id: int) -> SelfPlayRun:
    """Return the run with this number.

    Raises:
        LookupError: there is no such run; the message lists the newest runs.
    """
    run = SelfPlayRun.objects.filter(pk=run_id).first()
    if run is None:
        newest = list(SelfPlayRun.objects.values_list("pk", flat=True)[:5])
        hint = f"the newest are {', '.join(map(str, newest))}" if newest else "there are none yet"
        raise LookupError(f"there is no self-play run {run_id}; {hint}")
    return run


def get_stored_ordinals(
    run: SelfPlayRun, pair: BotPair | None = None, ordinals: range | None = None
) -> dict[BotPair, set[int]]:
    """Return the stored ordinals by pair, or those of one pair's range."""
    links = SelfPlayConversation.objects.filter(run=run)
    if pair is not None:
        links = links.filter(bot_id=pair.bot_id, partner_bot_id=pair.partner_id)
    if ordinals is not None:
        links = links.filter(ordinal__gte=ordinals.start, ordinal__lt=ordinals.stop)
    ordinals_by_pair: dict[BotPair, set[int]] = {}
    for bot_id, partner_id, ordinal in links.values_list("bot_id", "partner_bot_id", "ordinal"):
        ordinals_by_pair.setdefault(BotPair(bot_id, partner_id), set()).add(ordinal)
    return ordinals_by_pair


def selfplay_hopeless(run: SelfPlayRun, pair: BotPair) -> str | None:
    """Explain why a pair should not be retried, or return None.

    A pair is hopeless if its first conversations all failed; retries may cost money.
    """
    links = SelfPlayConversation.objects.filter(run=run, bot_id=pair.bot_id, partner_bot_id=pair.partner_id)
    if links.filter(error="").exists():  # first, because this query is fast
        return None
    tried = links.exclude(error__startswith=NOT_TRIED)
    n_failed = tried.count()
    if n_failed < GIVE_UP_AFTER:
        return None
    last = tried.order_by("-pk").values_list("error", flat=True)[0]
    return f"{NOT_TRIED} all {n_failed} before it failed; the last error was: {last}"


def selfplay_failures(run: SelfPlayRun, *, limit: int = 5) -> list[Failures]:
    """Return the reasons for a run's failed conversations, most common first."""
    reasons = (
        SelfPlayConversation.objects.filter(run=run)
        .exclude(error="")
        .values_list("bot_id", "partner_bot_id", "error")
        .annotate(n=Count("id"))
        .order_by("-n", "bot_id", "partner_bot_id", "error")
    )
    return [Failures(BotPair(bot_id, partner_id), n, error) for bot_id, partner_id, error, n in reasons[:limit]]


def selfplay_failed_counts(runs: Collection[SelfPlayRun]) -> dict[int, int]:
    """Count the failed conversations by run; runs without any are omitted."""
    links = SelfPlayConversation.objects.filter(run__in=list(runs)).exclude(error="")
    return dict(links.values_list("run").annotate(n=Count("id")).order_by())


def selfplay_alone(conversation_ids: Collection[UUID]) -> set[UUID]:
    """Return the conversations in which a bot talks to itself.

    With two different bots, metrics treat the first speaker as the user and measure the other, as in a chat.
    """
    links = SelfPlayConversation.objects.filter(conversation__in=conversation_ids, partner_bot_id="")
    return {pk for pk in links.values_list("conversation_id", flat=True) if pk is not None}


def selfplay_by_pair(run: SelfPlayRun) -> dict[BotPair, SelfPlayCounts]:
    """Return the conversations and turns of each pair of the plan."""
    completed = Q(conversation__state=Conversation.State.COMPLETED)
    links = SelfPlayConversation.objects.filter(run=run)
    counts = {
        BotPair(bot_id, partner_id): (n_completed, n_failed)
        for bot_id, partner_id, n_completed, n_failed in links.values_list("bot_id", "partner_bot_id")
        .annotate(n_completed=Count("id", filter=completed), n_failed=Count("id", filter=~completed))
        .order_by()
    }
    turns = {
        BotPair(bot_id, partner_id): n
        for bot_id, partner_id, n in Turn.objects.filter(
            conversation__selfplay__run=run, conversation__state=Conversation.State.COMPLETED
        )
        .values_list("conversation__selfplay__bot_id", "conversation__selfplay__partner_bot_id")
        .annotate(n=Count("id"))
        .order_by()
    }
    errors = {
        BotPair(bot_id, partner_id): error
        for bot_id, partner_id, error in links.exclude(error="")
        .order_by("-ordinal")
        .values_list("bot_id", "partner_bot_id", "error")
    }
    return {
        pair: SelfPlayCounts(
            conversations=counts.get(pair, (0, 0))[0],
            turns=turns.get(pair, 0),
            failed=counts.get(pair, (0, 0))[1],
            error=errors.get(pair, ""),
        )
        for pair in plan_pairs(run.plan)
    }


def selfplay_summary(run: SelfPlayRun) -> dict[str, SelfPlayCounts]:
    """Return the conversations and turns of each bot of the plan.

    Those with any partner count, on the bot's side.
    """
    summary = dict.fromkeys(run.plan["bots"], SelfPlayCounts(0, 0, 0, ""))
    for pair, counts in selfplay_by_pair(run).items():
        before = summary[pair.bot_id]
        summary[pair.bot_id] = SelfPlayCounts(
            before.conversations + counts.conversations,
            before.turns + counts.turns,
            before.failed + counts.failed,
            before.error or counts.error,
        )
    return summary


def run_with_metrics(bots: Collection[str], n_bots: int) -> SelfPlayRun | None:
    """Return the newest finished run with enough bots and metrics."""
    runs = (
        SelfPlayRun.objects.filter(
            SELF_PLAY, state=SelfPlayRun.State.DONE, conversations__conversation__metric_results__isnull=False
        )
        .distinct()
        .order_by("-pk")
    )
    bot_ids = set(bots)
    return next((run for run in runs if len(set(run.plan.get("bots", ())) & bot_ids) >= n_bots), None)


def runs_newest(n: int, *, simulated: bool = False) -> list[SelfPlayRun]:
    """Return the `n` newest self-play runs.

    Args:
        simulated: also include simulation runs.
    """
    runs = SelfPlayRun.objects.select_related("study")
    return list((runs if simulated else runs.filter(SELF_PLAY))[:n])


def selfplay_counts(run: SelfPlayRun) -> dict[BotPair, tuple[int, int]]:
    """Count the finished and failed conversations by pair."""
    counts = (
        SelfPlayConversation.objects.filter(run=run)
        .values_list("bot_id", "partner_bot_id")
        .annotate(n=Count("pk", filter=Q(error="")), n_failed=Count("pk", filter=~Q(error="")))
        .order_by()
    )
    return {BotPair(bot, partner): (n, n_failed) for bot, partner, n, n_failed in counts}
