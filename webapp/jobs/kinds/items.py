"""Items to rate, drawn from stored conversations or from a self-play run.

Contexts are drawn once, when the job is planned, with its seed and evenly over the bots of their conversations.
If bots are named, they reply to each context; otherwise raters judge the original reply. An item's name consists of its
position and bots, so repeated work is stored once.

In protocols that put several replies in order, items without named bots hold whole chats, as many as a participant
sees, of different bots in one condition.
"""

from __future__ import annotations

import json
import random
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from pydantic import Field, model_validator

import chatbots
from chatbots import derive_seed
from chatbots.text import quote
from chatbots.validation import InputModel, Number
from evaluation.data.items import ContextFilters, ContextSpan, context_spans
from webapp.bots.selectors import bot_find, bots_unknown
from webapp.bots.services import bot_version_record
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import conversation_values
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, bots_loaded, register_kind
from webapp.jobs.models import Job
from webapp.studies.items import SampledItem, items_store
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol, protocols

KIND = "items"
SHARD = 20


class ItemsParams(InputModel):
    """Payload of a job that makes items.

    Attributes:
        study: key of the study whose items they become.
        of_study: key of the study whose completed conversations they are drawn from; or `run`, a self-play run's id.
        n_contexts: number of contexts to draw.
        bots: bots that reply to the contexts; none: raters judge the original reply, or whole chats if they put
            several in order. In that case `n_contexts` is the number of items and `fewest_turns` the only filter.
        n_utterances, more_than_tokens, unknown, most_mean_words: see `evaluation.data.items.ContextFilters`.
        fewest_turns: of the conversation.
    """

    study: str
    of_study: str = ""
    run: int | None = None
    n_contexts: int = Field(default=100, ge=1, le=100_000)
    bots: list[str] = []
    seed: int = 0
    n_utterances: int = Field(default=3, ge=1, le=100)
    more_than_tokens: int = Field(default=10, ge=0)
    unknown: bool = False
    most_mean_words: Number = Field(default=0, ge=0)
    fewest_turns: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _has_one_source(self) -> ItemsParams:
        if bool(self.of_study) == (self.run is not None):
            raise ValueError("give either of_study or run, not both")
        return self

    @property
    def filters(self) -> ContextFilters:
        """Filters of the contexts to draw."""
        return ContextFilters(self.n_utterances, self.more_than_tokens, self.unknown, float(self.most_mean_words))


@register_kind
class ItemsJob(JobKind[Job, ItemsParams]):
    """Job that draws contexts, gets replies and stores the items."""

    name = KIND
    title = gettext_lazy("Items")
    queue = "gpu"
    Payload = ItemsParams

    def check(self, params: ItemsParams) -> None:
        study = Study.objects.filter(key=params.study).first()
        if study is None:
            raise Refused("not_found", f"there is no study {quote(params.study)}")
        if get_protocol(study).needs_criteria:
            raise Refused("criteria_needed", f"every item of {params.study} needs criteria; import items from a file")
        if params.of_study and not Study.objects.filter(key=params.of_study).exists():
            raise Refused("not_found", f"there is no study {quote(params.of_study)} to draw items from")
        if unknown := bots_unknown(params.bots):
            raise Refused("unknown_bot", " ".join(unknown))
        if len(set(params.bots)) < len(params.bots):
            raise Refused("bot_twice", f"{', '.join(params.bots)} lists a bot twice")
        if _compares_chats(study, params):
            return
        min_replies, max_replies = _n_replies(study)
        if not (min_replies or 0) <= len(params.bots) <= (max_replies or len(params.bots)):
            expected_bots = (
                f"at least {min_replies} bots" if max_replies is None else f"{min_replies} to {max_replies} bots"
            )
            raise Refused(
                "needs_bots",
                f"study {study.key} compares {min_replies} replies to one context; name {expected_bots} to reply",
            )

    def plan(self, job: Job, params: ItemsParams) -> Iterable[ShardPlan]:
        places: Sequence[Sequence[Any]]
        study = Study.objects.get(key=params.study)
        if _compares_chats(study, params):
            n_shown = get_protocol(study).n_replies or 1
            if not (places := _draw_chat_groups(params, n_shown)):
                raise Refused("no_chats", f"No condition of this study has completed chats with {n_shown} bots.")
        elif not (places := _draw_places(params)):
            raise Refused("no_contexts", str(_("No conversation has a context that passes the filters.")))
        for start in range(0, len(places), SHARD):
            batch = places[start : start + SHARD]
            yield ShardPlan({"places": batch}, n_total=len(batch))

    def slice(self, work: ShardWork[Job, ItemsParams]) -> dict[str, int]:
        params = work.params
        study = Study.objects.get(key=params.study)
        if _compares_chats(study, params):
            report = Counter(items_store(study=study, sampled=list(_build_chat_items(params, work.shard["places"]))))
            work.beat(len(work.shard["places"]), now=True)
            return dict(report)
        places = [(UUID(pk), turn) for pk, turn in work.shard["places"]]
        # Participants erased in the meantime are left out.
        chats = _source(params).filter(pk__in={pk for pk, _turn in places}).select_related("bot")
        values = {UUID(conversation.id): conversation for conversation in conversation_values(chats.order_by("pk"))}
        rows = {row.pk: row for row in chats}
        spans = [
            (rows[pk], place)
            for pk, turn in places
            if pk in rows
            for place in context_spans(values[pk], params.filters)
            if place.turn == turn
        ]
        if params.bots:
            sampled_items = _build_reply_items(work, spans, study)
        else:
            sampled_items = _build_stored_items(params, spans)
        report = Counter(items_store(study=study, sampled=list(sampled_items)))
        work.beat(len(places), now=True)
        return dict(report)

    def finish(self, work: ShardWork[Job, ItemsParams], results: Sequence[Any]) -> dict[str, int]:
        total: Counter[str] = Counter()
        for counts in results:
            total.update(counts or {})
        return dict(total)

    def describe_result(self, job: Job, result: Any) -> list[str]:
        counts = Counter[str](result)
        sentences = [plural(counts["items"], "1 item was added.", "%(n)d items were added.") % {"n": counts["items"]}]
        skipped = [
            f"{counts[name]} {reason}"
            for name, reason in (
                ("unchanged", "already in the study"),
                ("alike", "equal to another item"),
                ("same_replies", "with the same reply twice"),
            )
            if counts[name]
        ]
        return [*sentences, f"Skipped: {', '.join(skipped)}."] if skipped else sentences


def _n_replies(study: Study) -> tuple[int | None, int | None]:
    """Return the minimum and maximum number of bots that reply to a context.

    None: any number.
    """
    if study.protocol not in protocols:
        return None, None
    protocol = protocols.get(study.protocol)
    return protocol.n_replies, protocol.most_replies


def _compares_chats(study: Study, params: ItemsParams) -> bool:
    return get_protocol(study).order is not None and not params.bots


def _source(params: ItemsParams) -> QuerySet[Conversation]:
    """Return the completed conversations to draw from, without scripted participants."""
    if params.run is not None:
        conversations = Conversation.objects.filter(selfplay__run=params.run)
    else:
        conversations = Conversation.objects.filter(study__key=params.of_study, is_synthetic=False)
    return conversations.filter(state=Conversation.State.COMPLETED)


def _draw_places(params: ItemsParams) -> list[tuple[str, int]]:
    """Return positions drawn evenly over bots.

    Each conversation is used once before any is used twice.
    """
    rng = random.Random(derive_seed(params.seed, "items"))
    bots = dict(_source(params).values_list("pk", "bot__bot_id"))
    by_bot: dict[str, list[tuple[int, float, str, int]]] = {}
    for conversation in conversation_values(_source(params).order_by("created_at", "pk")):
        if len(conversation.turns) < params.fewest_turns:
            continue
        spans = list(context_spans(conversation, params.filters))
        rng.shuffle(spans)
        of_bot = by_bot.setdefault(bots[UUID(conversation.id)], [])
        of_bot += [(nth, rng.random(), conversation.id, place.turn) for nth, place in enumerate(spans)]
    queues = [iter(sorted(by_bot[bot])) for bot in sorted(by_bot)]
    places: list[tuple[str, int]] = []
    while queues and len(places) < params.n_contexts:
        for queue in list(queues):
            place = next(queue, None)
            if place is None:
                queues.remove(queue)
            elif len(places) < params.n_contexts:
                places.append((place[2], place[3]))
    return places


def _draw_chat_groups(params: ItemsParams, n_shown: int) -> list[list[str]]:
    """Return groups of `n_shown` chats with different bots in one condition.

    Each chat occurs once; bots and conditions occur equally often as far as possible.
    """
    rng = random.Random(derive_seed(params.seed, "items", "chats"))
    long_enough = _source(params).annotate(n=Count("turns")).filter(n__gte=max(params.fewest_turns, 2))
    by_condition: dict[str, dict[str, list[str]]] = {}
    for pk, bot, condition in long_enough.order_by("created_at", "pk").values_list("pk", "bot__bot_id", "condition"):
        of_condition = by_condition.setdefault(json.dumps(condition, sort_keys=True), {})
        of_condition.setdefault(bot, []).append(str(pk))
    for of_condition in by_condition.values():
        for chats in of_condition.values():
            rng.shuffle(chats)
    groups: list[list[str]] = []
    n_drawn: Counter[str] = Counter()
    queue = deque(by_condition.values())
    while queue and len(groups) < params.n_contexts:
        chats_by_bot = queue.popleft()
        if len(chats_by_bot) < n_shown:
            continue
        bots = sorted(chats_by_bot, key=lambda bot: (n_drawn[bot], -len(chats_by_bot[bot]), rng.random()))[:n_shown]
        n_drawn.update(bots)
        groups.append([chats_by_bot[bot].pop() for bot in bots])
        queue.append({bot: chats for bot, chats in chats_by_bot.items() if chats})
    return groups


def _build_chat_items(params: ItemsParams, groups: Sequence[Sequence[str]]) -> Iterator[SampledItem]:
    """Yield items of whole chats, skipping those with an erased participant."""
    chats = _source(params).filter(pk__in={pk for group in groups for pk in group}).select_related("bot")
    rows = {str(row.pk): row for row in chats}
    texts = {conversation.id: _chat_text(conversation) for conversation in conversation_values(chats.order_by("pk"))}
    origin = params.model_dump(mode="json", include={"of_study", "run", "n_contexts", "fewest_turns", "seed"})
    for group in groups:
        if not rows.keys() >= set(group):
            continue
        first, *other_chats = (rows[pk] for pk in group)
        yield SampledItem(
            key="~".join(group),
            context=(),
            responses=tuple((rows[pk].bot.bot_id, texts[pk]) for pk in group),
            conversation=first.pk,
            origin={**origin, "bots": {rows[pk].bot.bot_id: rows[pk].bot.key for pk in group}},
            more_chats=tuple(chat.pk for chat in other_chats),
        )


def _chat_text(chat: chatbots.Conversation) -> str:
    speaker_names = {"bot": "Chatbot", "human": "Person"}
    return "\n\n".join(f"{speaker_names[turn.speaker]}: {turn.text}" for turn in chat.turns)


def _origin(params: ItemsParams, place: ContextSpan, bots: Mapping[str, str]) -> dict[str, Any]:
    return {**params.model_dump(mode="json", exclude={"study", "bots"}), "turn": place.turn, "bots": dict(bots)}


def _build_stored_items(
    params: ItemsParams, spans: Sequence[tuple[Conversation, ContextSpan]]
) -> Iterator[SampledItem]:
    for chat, place in spans:
        yield SampledItem(
            key=f"{chat.pk}/{place.turn}",
            context=place.context,
            responses=((chat.bot.bot_id, place.reply),),
            conversation=chat.pk,
            origin=_origin(params, place, {chat.bot.bot_id: chat.bot.key}),
        )


def _build_reply_items(
    work: ShardWork[Job, ItemsParams], spans: Sequence[tuple[Conversation, ContextSpan]], study: Study
) -> Iterator[SampledItem]:
    """Yield items with new replies of the named bots.

    An item has one reply, a pair or the replies of all bots.
    """
    params = work.params
    replies: dict[str, list[str | None]] = {}
    versions: dict[str, str] = {}
    contexts = [
        chatbots.Conversation(
            id=f"item-{chat.pk}-{place.turn}",
            turns=tuple(
                # The newest message goes to the bot; speakers alternate before it.
                chatbots.Turn("human" if (len(place.context) - n) % 2 else "bot", text)
                for n, text in enumerate(place.context)
            ),
            seed=derive_seed(params.seed, "items", str(chat.pk), place.turn),
        )
        for chat, place in spans
    ]
    for bot_id in params.bots:
        replies[bot_id] = _fetch_replies(bot_id, contexts)
        versions[bot_id] = bot_version_record(bot=bot_find(bot_id)).key
        work.beat()
    min_replies, max_replies = _n_replies(study)
    groups = [tuple(params.bots)] if max_replies else list(combinations(params.bots, min_replies or 1))
    for i, (chat, place) in enumerate(spans):
        for group in groups:
            texts = [(bot_id, replies[bot_id][i]) for bot_id in group]
            if any(text is None for _bot, text in texts):
                continue
            yield SampledItem(
                key=f"{chat.pk}/{place.turn}/{'~'.join(group)}",
                context=place.context,
                responses=tuple((bot_id, str(text)) for bot_id, text in texts),
                conversation=chat.pk,
                origin=_origin(params, place, {bot_id: versions[bot_id] for bot_id in group}),
            )


def _fetch_replies(bot_id: str, contexts: Sequence[chatbots.Conversation]) -> list[str | None]:
    """Return the bot's replies, None for each that failed."""
    from chatbots.serving import reply

    [bot] = bots_loaded([bot_id])
    attempts = reply(bot, contexts, timeout_s=settings.CONFAB_REPLY_TIMEOUT_S)
    return [None if attempt.error else attempt.text for attempt in attempts]
