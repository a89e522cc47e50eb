"""Writes of simulation runs: plan, cost limit, and erasure.

Erasure deletes what repeats participants' texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.db import transaction

from chatbots.bots.base import BotError
from chatbots.endpoints.metering import meter_get, meter_set
from chatbots.text import sanitise
from evaluation.simulation.simulated_chats import DEFAULT_EXCHANGES, MOST_EXCHANGES
from webapp.bots.models import Spending
from webapp.bots.selectors import bot_entry, bots_find
from webapp.bots.services import Purse, bot_version_record
from webapp.conversations.cost_meter import DatabaseMeter
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.jobs import queue
from webapp.jobs.models import SelfPlayRun
from webapp.jobs.selectors.metrics import metrics_find
from webapp.jobs.selectors.selfplay import PARTICIPANT, pair_wanted, plan_pairs
from webapp.jobs.selectors.simulation import bots_simulated, chats_by_bot, sources_gone, version_talked_to
from webapp.jobs.services.jobs import job_cancel
from webapp.jobs.services.selfplay import N_CONVERSATIONS, check_seed, plan_conditions
from webapp.studies.conditions import condition_texts
from webapp.studies.models import Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from chatbots.participants.base import ParticipantProfile, SimulatedParticipant


def simulation_create(
    *,
    study: Study | None,
    participants: Sequence[str],
    bots: Sequence[str] = (),
    n_conversations: int = N_CONVERSATIONS,
    n_exchanges: int | None = None,
    may_leave: bool = False,
    seed: int = 0,
    profiles: Sequence[ParticipantProfile] = (),
    max_cost: float | None = None,
    metrics: Sequence[str] = (),
    name: str = "",
    created_by: User | None = None,
    enqueue: bool = True,
) -> SelfPlayRun:
    """Freeze the plan of a simulation run, and start the run.

    A bot that cannot run here, such as that of an imported study, keeps its stored turns; the participant replaces each
    message of the person, and there are at most as many conversations as people had.

    Args:
        study: study whose chats provide openings, lengths and texts, and whose conditions apply; None: no such chats.
        participants: names, such as `retrieval` or `prompted:smollm2`.
        bots: none: the study's available bots, or those of an imported study.
        n_conversations: number of conversations of each participant with each bot.
        n_exchanges: number of exchanges of each conversation; None: as in people's chats, or 10 without them.
        may_leave: whether participants may leave early.
        profiles: characters to draw from, instead of those of the study's conditions.
        max_cost: cost limit of the run, in the currency of the bots' prices.
        metrics: metrics to compute afterwards; none: those computed by default.

    Raises:
        UnknownName: there is no such bot, participant or metric; the message suggests similar names.
        Refused: `bad_plan`, or `unavailable` with the reason.
    """
    bots = list(dict.fromkeys(bots)) or (bots_simulated(study) if study is not None else [])
    chosen = _participants(participants)
    by_bot = chats_by_bot(study) if study is not None else {}
    _check_numbers(n_conversations, n_exchanges, seed, max_cost)
    if not bots:
        if study is None:
            raise Refused("bad_plan", "name bots, or a study whose bots take part")
        raise Refused("bad_plan", f"no bot of {study.key} can chat here, and the study has no chats; name bots")
    for participant in chosen:
        if participant.needs_people and len(by_bot) < 2:
            source = "no study is named, which" if study is None else study.key
            raise Refused(
                "bad_plan",
                f"{participant.name} learns from participants' chats with bots other than its partner; {source} has "
                f"complete chats with {len(by_bot)} bot{'' if len(by_bot) == 1 else 's'}, and two are needed",
            )
    talked_to = [bot_id for bot_id in bots if study is not None and _is_stored(study, bot_id, by_bot)]
    live = bots_find([bot_id for bot_id in bots if bot_id not in talked_to])
    for bot in live.values():
        entry = bot_entry(bot)
        if not entry.available:
            raise Refused("unavailable", f"{bot.name} is not available: {entry.reason}")
    identities = {bot_id: bot.identity for bot_id, bot in live.items()}
    identities |= {PARTICIPANT + participant.name: participant.identity for participant in chosen}
    stored = {bot_id: version_talked_to(study, bot_id) for bot_id in talked_to if study is not None}
    plan: dict[str, Any] = {
        "bots": bots,
        "participants": [participant.name for participant in chosen],
        "n_conversations": n_conversations,
        "n_of_bot": {bot_id: min(n_conversations, by_bot[bot_id]) for bot_id in talked_to},
        "n_turns": 2 * (n_exchanges or (MOST_EXCHANGES if may_leave or by_bot else DEFAULT_EXCHANGES)),
        "n_exchanges": n_exchanges,
        "may_leave": may_leave,
        "seed": seed,
        "profiles": [{name: sanitise(text) for name, text in asdict(profile).items()} for profile in profiles],
        "max_cost": max_cost,
        "study": "" if study is None else study.key,
        "filtering": None if study is None else study.values.filtering.model_dump(mode="json"),
        "conditions": [] if study is None else _conditions(study, bots),
        "metrics": [metric.name for metric in metrics_find(metrics)],
        "identities": {name: {"key": identity.key, **identity.as_dict()} for name, identity in identities.items()}
        | {bot_id: {"key": version.key, "version": version.version} for bot_id, version in stored.items()},
        "deterministic": {bot_id: bot.deterministic for bot_id, bot in live.items()}
        | {PARTICIPANT + participant.name: participant.deterministic for participant in chosen},
    }
    with transaction.atomic():
        for bot in live.values():
            bot_version_record(bot=bot)
        run = SelfPlayRun.objects.create(
            name=sanitise(name, 200),
            study=study,
            plan=plan,
            n_total=sum(pair_wanted(plan, pair) for pair in plan_pairs(plan)),
            created_by=created_by,
            inline=not enqueue,
        )
        queue.send_on_commit(run)
    return run


def _participants(names: Sequence[str]) -> list[SimulatedParticipant]:
    from chatbots.participants.base import participant_get

    if not names:
        raise Refused("bad_plan", "name at least one participant, such as retrieval")
    participants = []
    for name in dict.fromkeys(names):
        try:
            participant = participant_get(name)
        except BotError as error:
            raise Refused("bad_plan", str(error)) from None
        if (reason := participant.unavailable_reason()) is not None:
            raise Refused("unavailable", f"{name} is not available: {reason}")
        participants.append(participant)
    return participants


def _check_numbers(n_conversations: int, n_exchanges: int | None, seed: int, max_cost: float | None) -> None:
    for noun, number in (("conversations", n_conversations), ("exchanges", n_exchanges)):
        if number is not None and number < 1:
            raise Refused("bad_plan", f"the number of {noun} is {number}; it must be at least 1")
    check_seed(seed)
    if max_cost is not None and not 0 <= max_cost < 1e9:
        raise Refused("bad_plan", f"max_cost is {max_cost:g}; it must be between 0 and a billion")


def _is_stored(study: Study, bot_id: str, by_bot: dict[str, int]) -> bool:
    """Return True if the participant writes into stored chats with the bot.

    This is the case if the bot cannot run here.
    """
    if bot_id not in by_bot:
        return False
    return study.is_imported or not bot_entry(bots_find([bot_id])[bot_id]).available


def _conditions(study: Study, bots: Sequence[str]) -> list[dict[str, Any]]:
    """Return the plan's conditions with their texts for participants."""
    conditions = []
    for condition in plan_conditions(study, bots):
        texts = condition_texts(study.values, condition["levels"])
        goal = "\n".join(filter(None, (texts.scenario, texts.goal)))
        conditions.append({**condition, "persona": texts.persona, "goal": goal})
    return conditions


def run_purse(run: SelfPlayRun) -> str:
    """Return the run's account with its name in error messages."""
    return f"the cap of run {run.pk}"


@contextmanager
def run_capped(run: SelfPlayRun) -> Iterator[None]:
    """Also charge this process's paid replies to the run's account.

    They cannot exceed its cost limit.
    """
    before = meter_get()
    meter_set(DatabaseMeter([Purse(Spending.Of.RUN, str(run.pk), run.plan.get("max_cost"), run_purse(run))]))
    try:
        yield
    finally:
        meter_set(before)


def simulations_erase(studies: Collection[int]) -> None:
    """Delete simulated conversations that quote erased chats.

    Runs at work on them are stopped.
    """
    for study in Study.objects.filter(pk__in=studies, simulations__isnull=False).distinct():
        for run in study.simulations.filter(state__in=(SelfPlayRun.State.QUEUED, SelfPlayRun.State.RUNNING)):
            job_cancel(job=run)
        Conversation.objects.filter(pk__in=sources_gone(study)).delete()


def simulation_deleted(*, instance: SelfPlayRun, **_: Any) -> None:
    """Delete the conversations of a simulation run with it (receiver)."""
    if instance.is_simulated:
        Conversation.objects.filter(selfplay__run=instance).delete()
