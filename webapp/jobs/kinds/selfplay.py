"""Self-play runs of bots and simulated participants, by a fixed plan.

A shard is a range of ordinals of one pair, cut into batches of fixed size. Each batch is stored in one transaction, so
a restarted shard skips the stored batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _
from pydantic import Field

from chatbots.participants.base import participant_get, participant_load
from chatbots.validation import InputModel
from webapp.bots.selectors import bot_find, text_store
from webapp.bots.services import bot_answered, bot_version_record
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, bot_unloaded, bots_loaded, register_kind
from webapp.jobs.models import MetricRun, SelfPlayRun
from webapp.jobs.selectors.selfplay import (
    BotPair,
    get_stored_ordinals,
    pair_condition,
    pair_wanted,
    plan_pairs,
    selfplay_by_pair,
    selfplay_hopeless,
)
from webapp.jobs.selectors.simulation import people_chats, people_rows, run_profiles, stored_chats, version_talked_to
from webapp.jobs.services.fits import chain_follow, metric_run_create
from webapp.jobs.services.jobs import shards_forget
from webapp.jobs.services.selfplay import conversation_seed, selfplay_forget_failed, selfplay_give_up, selfplay_store
from webapp.jobs.services.simulation import run_capped, run_purse

if TYPE_CHECKING:
    from chatbots.bots.base import Bot
    from chatbots.participants.base import SimulatedParticipant
    from chatbots.participants.human_chats import HumanChats
    from evaluation.simulation.simulated_chats import SimulatedChat

SHARD = 32
"""Minimum number of conversations per shard, in whole batches: a few minutes' work for a slow bot."""


class SelfPlayPlan(InputModel):
    """Plan of a run, validated and frozen by the services."""

    bots: list[str] = Field(min_length=1)
    pairs: str = "self"
    n_conversations: int = Field(ge=1)
    n_turns: int = Field(ge=1)
    seed: int
    openers: list[str] = []
    metrics: list[str] = []
    study: str = ""
    filtering: dict[str, Any] | None = None
    conditions: list[dict[str, Any]] = []
    participants: list[str] = []
    profiles: list[dict[str, str]] = []
    n_of_bot: dict[str, int] = {}
    n_exchanges: int | None = None
    may_leave: bool = False
    max_cost: float | None = None
    identities: dict[str, dict[str, Any]]
    deterministic: dict[str, bool] = {}


@register_kind
class SelfPlayJob(JobKind[SelfPlayRun, SelfPlayPlan]):
    """Job that generates a plan's conversations, then requests its metrics."""

    name = "selfplay"
    title = _("Self-play")
    queue = "gpu"
    Payload = SelfPlayPlan
    model = SelfPlayRun

    def job_title(self, job: SelfPlayRun) -> str:
        return job.title if job.name or job.is_simulated else str(_("Self-play {n}")).format(n=job.pk)

    def plan(self, job: SelfPlayRun, params: SelfPlayPlan) -> Iterable[ShardPlan]:
        ordinals_by_pair = get_stored_ordinals(job)
        for pair in plan_pairs(job.plan):
            done = ordinals_by_pair.get(pair, set())
            batch, n_wanted = _batch_size(params, pair), pair_wanted(job.plan, pair)
            size = batch * -(-SHARD // batch)
            for first in range(0, n_wanted, size):
                ordinals = range(first, min(first + size, n_wanted))
                yield ShardPlan(
                    {
                        "bot": pair.bot_id,
                        "partner": pair.partner_id,
                        "first": ordinals.start,
                        "end": ordinals.stop,
                        "batch": batch,
                    },
                    n_total=len(ordinals),
                    n_done=len(done.intersection(ordinals)),
                )

    def slice(self, work: ShardWork[SelfPlayRun, SelfPlayPlan]) -> None:
        run, params, shard = work.job, work.params, work.shard
        pair = BotPair(shard["bot"], shard["partner"])
        first, end, size = shard["first"], shard["end"], shard["batch"]
        for start in range(first, end, size):
            ordinals = range(start, min(start + size, end))
            stored_ordinals = get_stored_ordinals(run, pair, ordinals).get(pair, set())
            if len(stored_ordinals) < len(ordinals):
                missing = [n for n in ordinals if n not in stored_ordinals]
                # Repeat the whole batch, so that the missing conversations come out unchanged. Bots that cost money or
                # are not reproducible generate only the missing ones.
                same = all(params.deterministic.get(bot_id) for bot_id in {pair.bot_id, pair.first})
                same = same and pair.bot_id not in params.n_of_bot
                _play(work, pair, list(ordinals) if same else missing, missing, n_done=start - first)
                work.beat(ordinals.stop - first, now=True)

    def finish(self, work: ShardWork[SelfPlayRun, SelfPlayPlan], results: Sequence[Any]) -> None:
        # Failed conversations are stored with the reason; the run fails only if it has no conversation at all.
        counts_by_pair = selfplay_by_pair(work.job)
        if not any(part.conversations for part in counts_by_pair.values()):
            failures = [f"every conversation of {pair} failed: {part.error}" for pair, part in counts_by_pair.items()]
            raise Refused("bot_failed", "; ".join(failures))

    def describe_result(self, job: SelfPlayRun, result: Any) -> list[str]:
        n = plural(job.n_done, "1 conversation is", "%(n)d conversations are") % {"n": job.n_done}
        return [f"{n} complete."]

    def follow_up(self, job: SelfPlayRun) -> None:
        names = job.plan.get("metrics") or []
        if names and not MetricRun.objects.filter(run=job).exists():
            metric_run_create(run=job, metrics=names, created_by=job.created_by)
        chain_follow(job)

    def restarted(self, job: SelfPlayRun, *, had_failed: bool) -> None:
        # After a stop, do not call and pay a bot again that did not reply.
        if had_failed:
            selfplay_forget_failed(run=job)
            shards_forget(job=job)


def _play(
    work: ShardWork[SelfPlayRun, SelfPlayPlan], pair: BotPair, ordinals: list[int], missing: list[int], *, n_done: int
) -> None:
    """Play a batch and store its missing conversations; give up hopeless pairs."""
    from evaluation.simulation.selfplay import play

    run, params = work.job, work.params
    if pair.participant:
        _simulate(work, pair, ordinals, missing, n_done=n_done)
        return
    bot, partner = _bots_ready(params, pair)
    version = bot_version_record(bot=bot)
    partner_version = bot_version_record(bot=partner) if partner is not None else None
    if (reason := selfplay_hopeless(run, pair)) is not None:
        selfplay_give_up(run=run, pair=pair, version=version, partner=partner_version, ordinals=missing, reason=reason)
        return
    played = play(
        bot,
        partner=partner,
        seeds=[conversation_seed(run, pair, ordinal) for ordinal in ordinals],
        n_turns=params.n_turns,
        openers=params.openers,
        conditions=[pair_condition(run.plan, pair, ordinal) for ordinal in ordinals],
        timeout_s=settings.CONFAB_REPLY_TIMEOUT_S,
        progress=lambda n_made, _n_planned: work.beat(n_done + n_made // params.n_turns),
    )
    new = [(n, dialogue) for n, dialogue in zip(ordinals, played, strict=True) if n in set(missing)]
    selfplay_store(
        run=run,
        version=version,
        partner=partner_version,
        ordinals=[n for n, _dialogue in new],
        played=[dialogue for _n, dialogue in new],
    )
    if any(dialogue.error is None for _n, dialogue in new):
        for bot_id in sorted({pair.bot_id, pair.first}):
            bot_answered(bot_id=bot_id)


def _batch_size(params: SelfPlayPlan, pair: BotPair) -> int:
    """Return the number of conversations that advance together."""
    if not pair.participant:
        return max(1, min(bot_find(bot_id).capacity for bot_id in {pair.bot_id, pair.first}))
    capacity = participant_get(pair.participant).capacity
    return max(1, capacity if pair.bot_id in params.n_of_bot else min(capacity, bot_find(pair.bot_id).capacity))


def _simulate(
    work: ShardWork[SelfPlayRun, SelfPlayPlan], pair: BotPair, ordinals: list[int], missing: list[int], *, n_done: int
) -> None:
    """Simulate a batch and store its missing conversations.

    Stops the run at its cost limit.
    """
    run, params = work.job, work.params
    people, participant = _participant_ready(run, params, pair)
    bot = None if pair.bot_id in params.n_of_bot else _bots_ready(params, BotPair(pair.bot_id))[0]
    if bot is None:
        assert run.study is not None, "only a study has stored chats"
        version = version_talked_to(run.study, pair.bot_id)
    else:
        version = bot_version_record(bot=bot)
    if (reason := selfplay_hopeless(run, pair)) is not None:
        selfplay_give_up(run=run, pair=pair, version=version, partner=None, ordinals=missing, reason=reason)
        return
    simulated: dict[int, SimulatedChat] = {}
    with run_capped(run):
        parts = _live(work, pair, ordinals, people, participant, bot) if bot is not None else ()
        for chats in parts or _within(run, pair, missing, people, participant):
            simulated |= chats
            work.beat(n_done + len(simulated))
    selfplay_store(
        run=run, version=version, pair=pair, ordinals=missing, played=[simulated[n] for n in missing if n in simulated]
    )
    errors = [chat.error for chat in simulated.values() if chat.error is not None]
    if capped := next((error for error in errors if run_purse(run) in error), ""):
        raise Refused("cap_reached", f"The run reached its cost limit. {capped}")
    if bot is not None and len(errors) < len(simulated):
        bot_answered(bot_id=pair.bot_id)


def _live(
    work: ShardWork[SelfPlayRun, SelfPlayPlan],
    pair: BotPair,
    ordinals: list[int],
    people: HumanChats,
    participant: SimulatedParticipant,
    bot: Bot,
) -> Iterator[dict[int, SimulatedChat]]:
    """Yield chats with a bot by their ordinals, grouped by condition."""
    from evaluation.simulation.simulated_chats import simulate_chats

    plan = work.job.plan
    by_condition: dict[str, list[int]] = {}
    for n in ordinals:
        by_condition.setdefault(json.dumps(dict(pair_condition(plan, pair, n).levels)), []).append(n)
    for numbers in by_condition.values():
        condition = pair_condition(plan, pair, numbers[0])
        chats = simulate_chats(
            bot,
            participant,
            seeds=[conversation_seed(work.job, pair, n) for n in numbers],
            n_exchanges=plan["n_exchanges"],
            people=people or None,
            may_leave=plan["may_leave"],
            profiles=run_profiles(plan, condition.levels),
            conditions=[condition] * len(numbers),
            timeout_s=settings.CONFAB_REPLY_TIMEOUT_S,
            progress=lambda _n_made, _n_planned: work.beat(),
        )
        yield dict(zip(numbers, chats, strict=True))


def _within(
    run: SelfPlayRun, pair: BotPair, ordinals: list[int], people: HumanChats, participant: SimulatedParticipant
) -> Iterator[dict[int, SimulatedChat]]:
    """Yield participants' chats with simulated messages in place of the originals."""
    from evaluation.simulation.simulated_chats import simulate_within

    by_id = {chat.conversation.id: chat for chat in people}
    drawn_chats = [by_id.get(str(pk)) for pk in stored_chats(run, pair)]
    chats_by_ordinal = {n: chat for n in ordinals if n < len(drawn_chats) and (chat := drawn_chats[n]) is not None}
    chats = simulate_within(
        list(chats_by_ordinal.values()),
        participant,
        people=people,
        seed=run.plan["seed"],
        may_leave=run.plan["may_leave"],
        profiles=run_profiles(run.plan, {}),
    )
    for (n, stored), simulated in zip(chats_by_ordinal.items(), chats, strict=True):
        # First, before turn 0: the original chat, which provides the bot's turns.
        yield {n: replace(simulated, sources={-1: stored.conversation.id, **simulated.sources})}


_ready: dict[tuple[datetime, str, int], tuple[HumanChats, SimulatedParticipant]] = {}


def _participant_ready(
    run: SelfPlayRun, params: SelfPlayPlan, pair: BotPair
) -> tuple[HumanChats, SimulatedParticipant]:
    """Return the real chats and the simulated participant, loaded once per process."""
    from chatbots.participants.human_chats import HumanChats

    n_people = 0 if run.study is None else people_rows(run.study, until=run.created_at).count()
    key = (run.created_at, pair.participant, n_people)
    if key not in _ready:
        while _ready:
            _people, unloaded = _ready.popitem()[1]
            unloaded.unload()
            bot_unloaded(unloaded.bot)
        if participant_get(pair.participant).identity.key != params.identities[pair.first]["key"]:
            raise Refused(
                "participant_changed", f"{pair.participant} has changed since the run was planned; start a new run"
            )
        people = HumanChats(()) if run.study is None else people_chats(run.study, until=run.created_at)
        _ready[key] = people, participant_load(pair.participant, settings.CONFAB_DEVICE, people, text_store())
    return _ready[key]


def _bots_ready(params: SelfPlayPlan, pair: BotPair) -> tuple[Bot, Bot | None]:
    """Return the pair's bots, loaded once per process; unload the others.

    Raises:
        Refused: if a bot's identity differs from the plan.
        BotError: if one cannot be loaded.
    """
    needed = list(dict.fromkeys((pair.bot_id, pair.first)))
    for bot_id in needed:
        identity, planned = bot_find(bot_id).identity, params.identities[bot_id]
        if identity.key != planned["key"]:
            raise Refused(
                "bot_changed",
                f"{bot_id} has changed since the run was planned (version {planned['version']} then, "
                f"{identity.version} now, or different parameters); start a new run",
            )
    bots_loaded(needed)
    return bot_find(pair.bot_id), bot_find(pair.partner_id) if pair.partner_id else None
