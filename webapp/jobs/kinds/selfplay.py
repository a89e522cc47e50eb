"""Self-play runs: bots converse with themselves or each other, by a plan frozen when the run is made.

A shard is a range of ordinals of one pair, cut into batches of fixed size. A batch is stored at once, so that a
shard begun anew skips those that are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _
from pydantic import Field

from chatbots.validation import InputModel
from webapp.bots.selectors import bot_find
from webapp.bots.services import bot_answered, bot_version_record
from webapp.core.errors import Refused
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, bots_loaded, register_kind
from webapp.jobs.models import MetricRun, SelfPlayRun
from webapp.jobs.selectors.selfplay import (
    BotPair,
    pair_condition,
    plan_pairs,
    selfplay_by_pair,
    selfplay_hopeless,
    selfplay_there,
)
from webapp.jobs.services.fits import chain_follow, metric_run_create
from webapp.jobs.services.jobs import shards_forget
from webapp.jobs.services.selfplay import conversation_seed, selfplay_forget_failed, selfplay_give_up, selfplay_store

if TYPE_CHECKING:
    from chatbots.bots.base import Bot

SHARD = 32
"""A shard has so many conversations at least, in whole batches: few minutes' work for a slow bot."""


class SelfPlayPlan(InputModel):
    """The plan of a run; services make it, so that everything in it is checked and frozen."""

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
    identities: dict[str, dict[str, Any]]
    deterministic: dict[str, bool] = {}


@register_kind
class SelfPlayJob(JobKind[SelfPlayRun, SelfPlayPlan]):
    """Conversations of a plan, and then its metrics."""

    name = "selfplay"
    title = _("Self-play")
    queue = "gpu"
    Payload = SelfPlayPlan
    model = SelfPlayRun

    def job_title(self, job: SelfPlayRun) -> str:
        return job.name or str(_("Self-play {n}")).format(n=job.pk)

    def plan(self, job: SelfPlayRun, asked: SelfPlayPlan) -> Iterable[ShardPlan]:
        there = selfplay_there(job)
        for pair in plan_pairs(job.plan):
            done = there.get(pair, set())
            batch = max(1, min(bot_find(bot_id).capacity for bot_id in {pair.bot_id, pair.first}))
            size = batch * -(-SHARD // batch)
            for first in range(0, asked.n_conversations, size):
                ordinals = range(first, min(first + size, asked.n_conversations))
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
        run, asked, shard = work.job, work.asked, work.shard
        pair = BotPair(shard["bot"], shard["partner"])
        first, end, size = shard["first"], shard["end"], shard["batch"]
        for start in range(first, end, size):
            ordinals = range(start, min(start + size, end))
            there = selfplay_there(run, pair, ordinals).get(pair, set())
            if len(there) < len(ordinals):
                missing = [n for n in ordinals if n not in there]
                # The whole batch again, so that what is missing comes out as it would have; but whoever costs
                # money or gives other replies anyway is asked for no more than is missing.
                same = all(asked.deterministic.get(bot_id) for bot_id in {pair.bot_id, pair.first})
                _play(work, pair, list(ordinals) if same else missing, missing, n_done=start - first)
                work.beat(ordinals.stop - first, now=True)

    def finish(self, work: ShardWork[SelfPlayRun, SelfPlayPlan], results: Sequence[Any]) -> None:
        # What failed is stored with its reason; only a run that has nothing at all has failed itself.
        found = selfplay_by_pair(work.job)
        if not any(part.conversations for part in found.values()):
            told = [f"every conversation of {pair} failed: {part.error}" for pair, part in found.items()]
            raise Refused("bot_failed", "; ".join(told))

    def follow_up(self, job: SelfPlayRun) -> None:
        names = job.plan.get("metrics") or []
        if names and not MetricRun.objects.filter(run=job).exists():
            metric_run_create(run=job, metrics=names, created_by=job.created_by)
        chain_follow(job)

    def restarted(self, job: SelfPlayRun, *, had_failed: bool) -> None:
        # After a mere stop, a bot that did not answer is not asked, and paid, once more.
        if had_failed:
            selfplay_forget_failed(run=job)
            shards_forget(job=job)


def _play(
    work: ShardWork[SelfPlayRun, SelfPlayPlan], pair: BotPair, ordinals: list[int], missing: list[int], *, n_done: int
) -> None:
    """Play a batch and store what is missing of it; or give it up where the pair is hopeless."""
    from evaluation.selfplay import play

    run, asked = work.job, work.asked
    bot, partner = _bots_ready(asked, pair)
    version = bot_version_record(bot=bot)
    other = bot_version_record(bot=partner) if partner is not None else None
    if (why := selfplay_hopeless(run, pair)) is not None:
        selfplay_give_up(run=run, pair=pair, version=version, partner=other, ordinals=missing, why=why)
        return
    played = play(
        bot,
        partner=partner,
        seeds=[conversation_seed(run, pair, ordinal) for ordinal in ordinals],
        n_turns=asked.n_turns,
        openers=asked.openers,
        conditions=[pair_condition(run.plan, pair, ordinal) for ordinal in ordinals],
        timeout_s=settings.CONFAB_REPLY_TIMEOUT_S,
        progress=lambda n_made, _n_planned: work.beat(n_done + n_made // asked.n_turns),
    )
    new = [(n, one) for n, one in zip(ordinals, played, strict=True) if n in set(missing)]
    selfplay_store(
        run=run, version=version, partner=other, ordinals=[n for n, _one in new], played=[one for _n, one in new]
    )
    if any(one.error is None for _n, one in new):
        for bot_id in sorted({pair.bot_id, pair.first}):
            bot_answered(bot_id=bot_id)


def _bots_ready(asked: SelfPlayPlan, pair: BotPair) -> tuple[Bot, Bot | None]:
    """Return the pair's bots, loaded once a process; those that it has no part for make room.

    Raises:
        Refused: if one is not the bot that the plan means.
        BotError: if one cannot be loaded.
    """
    needed = list(dict.fromkeys((pair.bot_id, pair.first)))
    for bot_id in needed:
        identity, planned = bot_find(bot_id).identity, asked.identities[bot_id]
        if identity.key != planned["key"]:
            raise Refused(
                "bot_changed",
                f"{bot_id} has changed since the run was planned (version {planned['version']} then, "
                f"{identity.version} now, or other parameters); start a new run",
            )
    bots_loaded(needed)
    return bot_find(pair.bot_id), bot_find(pair.partner_id) if pair.partner_id else None
