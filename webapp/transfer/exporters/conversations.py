"""Tables `conversations`, `messages` and `bots`: one row per conversation, per utterance, and per identity of a bot.

`conversations` has the interchange form: as JSON Lines the file can be imported again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.models import BooleanField, Count, ExpressionWrapper, Prefetch, Q

from chatbots.registry import bots as registry
from webapp.bots.models import BotVersion
from webapp.bots.selectors import bot_card, bots_discover
from webapp.conversations.models import Conversation, Turn, image_name
from webapp.ratings.flag_store.models import TaskFlag
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_bots
from webapp.results.refresh import refresh_flags
from webapp.search.index_statistics import conversation_totals
from webapp.studies.models import Study
from webapp.studies.selectors import judges_conversations
from webapp.transfer.exporters.base import (
    CHUNK,
    SPEAKERS,
    STATES,
    STUDY_COLUMNS,
    ExportColumn,
    ExportOptions,
    Source,
    build_shown_filter,
    condition_cells,
    condition_columns,
    conversations_included,
    dialogue_id,
    included,
    rater_of,
    register_exporter,
    study_key,
)

_COLUMNS = (
    ExportColumn("dialogue_id", "text", "Id of the conversation in its source."),
    ExportColumn("bot", "text", "Id of the bot."),
    ExportColumn("source", "text", "Where it comes from: the imported source, or the study."),
    ExportColumn("turns", "json", "Utterances in order: speaker, text, and vote on bot turns."),
    ExportColumn("ratings", "json", "One per rater: rater, the rubric's dimensions, comment if there is one."),
    ExportColumn("conversation", "text", "Id of the conversation here."),
    ExportColumn("bot_version", "text", "Key of the bot's identity: name, version, parameters."),
    ExportColumn("state", "text", "open, completed or failed.", STATES),
    ExportColumn("n_exchanges", "integer", "Human turns that the bot answered."),
    ExportColumn("seed", "text", "Seed of all randomness of the bot; a text, for it has 63 bits."),
    ExportColumn("is_synthetic", "boolean", "The participant was a script."),
    ExportColumn(
        "participant", "text", "Random id of the participant; empty in imported data and self-play.", is_person=True
    ),
    ExportColumn("created_at", "time", "When the conversation was begun, or imported."),
    ExportColumn("ended_at", "time", "When it was rated or given up."),
    ExportColumn(
        "flags", "json", "Names of the flags of the participant’s work, a list; none of them decides anything."
    ),
    ExportColumn(
        "language", "text", "Code of the language, as an import said it; empty where it is told by the words."
    ),
    ExportColumn(
        "n_refused",
        "integer",
        "Messages that a content filter of the bot's provider refused. They are not among turns and n_exchanges.",
    ),
)
_OF_RUN = (
    ExportColumn(
        "partner",
        "text",
        "Id of the bot that begins, or name of the simulated participant; empty where the bot converses with itself.",
    ),
    ExportColumn("ordinal", "integer", "Number of the conversation among those of its bots, from 0."),
)
"""Of self-play, beside the others."""


@register_exporter
class ConversationsTable:
    name = packaged = "conversations"
    title = "Conversations"
    description = "One row per conversation with turns and ratings inside; as JSON Lines it can be imported."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return (*_COLUMNS, *condition_columns(study)) if isinstance(study, Study) else (*_COLUMNS, *_OF_RUN)

    def count(self, study: Study, options: ExportOptions) -> int:
        return conversations_included(study, options).count()

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        is_run = not isinstance(study, Study)
        if isinstance(study, Study):
            refresh_flags(study, exact=True)
        factors = condition_columns(study)
        chosen = conversations_included(study, options)
        conversations = (chosen.select_related("bot", "selfplay") if is_run else chosen).prefetch_related(
            Prefetch("turns", Turn.objects.order_by("index")),
            Prefetch("ratings", Rating.objects.order_by("id")),
            Prefetch("participant__flags", TaskFlag.objects.order_by("name")),
        )
        for row in conversations.iterator(chunk_size=200):
            yield [
                dialogue_id(row.pk, row.external_id, row.bot.params),
                row.bot.bot_id,
                row.bot.params.get("source", "") if row.external_id else _source_name(study),
                [_turn(turn) for turn in row.turns.all() if not turn.is_refused],
                [_rating(rating) for rating in row.ratings.all()],
                str(row.pk),
                row.bot.key,
                row.state,
                row.n_exchanges,
                str(row.seed),
                row.is_synthetic,
                str(row.participant_id) if row.participant_id else None,
                row.created_at,
                row.ended_at,
                _flags(row),
                row.language,
                sum(turn.is_refused for turn in row.turns.all()),
                *condition_cells(factors, row.condition, row.sitting),
                *([row.selfplay.partner_bot_id, row.selfplay.ordinal] if is_run else []),
            ]


def _source_name(source: Source) -> str:
    return source.key if isinstance(source, Study) else source.file_name


def _flags(row: Conversation) -> list[str]:
    if row.participant is None:
        return []
    return list(dict.fromkeys(flag.name for flag in row.participant.flags.all()))


def _turn(turn: Turn) -> dict[str, Any]:
    values: dict[str, Any] = {"speaker": turn.speaker, "text": turn.text}
    if turn.speaker == Turn.Speaker.BOT:
        values["vote"] = turn.vote
    return values


def _rating(rating: Rating) -> dict[str, Any]:
    rater = rater_of(rating.rater, rating.participant_id)
    values: dict[str, Any] = {"rater": rater} if rater else {}
    values.update(rating.answers)
    if rating.comment:
        values["comment"] = rating.comment
    return values


_MESSAGES_COLUMNS = (
    ExportColumn("conversation", "text", "Id of the conversation."),
    ExportColumn("state", "text", "Of the conversation: open, completed or failed.", STATES),
    ExportColumn("bot", "text", "Id of the bot in the conversation."),
    *STUDY_COLUMNS,
    ExportColumn("turn", "integer", "Number of the utterance in its conversation, from 0."),
    ExportColumn("speaker", "text", "human or bot.", SPEAKERS),
    ExportColumn("text", "text", "What was said."),
    ExportColumn(
        "vote",
        "integer",
        "The participant's vote on a bot turn: -1, 0 or 1.",
        ((-1, "Thumb down"), (0, "No vote"), (1, "Thumb up")),
    ),
    ExportColumn(
        "latency_ms",
        "integer",
        "Milliseconds from storing the message until the bot had given this whole reply.",
        unit="ms",
        missing="What a person wrote, and what was imported, has none.",
    ),
    ExportColumn("tokens_in", "integer", "Tokens of the prompt, where the bot is an endpoint's."),
    ExportColumn("tokens_out", "integer", "Tokens of the reply, likewise."),
    ExportColumn(
        "tokens_estimated",
        "boolean",
        "Whether the tokens were estimated from the text, since the endpoint did not count them.",
    ),
    ExportColumn(
        "cost",
        "number",
        "What the reply cost, in the currency of the bot's prices; empty where a price is unknown.",
        unit="currency of the bot's prices",
        missing="The bot costs nothing, or a price is unknown.",
    ),
    ExportColumn(
        "answered_by",
        "text",
        "Who gave the reply in the bot's place: the id of its fallback_bot, or its second address; empty if it did.",
    ),
    ExportColumn("created_at", "time", "When the utterance was stored."),
    ExportColumn(
        "first_ms",
        "integer",
        "Milliseconds from storing the message to the bot's first words.",
        unit="ms",
        missing="As for latency_ms; replies before this was kept have none.",
    ),
    ExportColumn(
        "shown_first_ms",
        "integer",
        "Milliseconds until the first words were shown, where all bots are paced alike.",
        unit="ms",
        missing="The reply was not paced.",
    ),
    ExportColumn(
        "shown_ms",
        "integer",
        "Milliseconds until the whole reply was shown, where all bots are paced alike.",
        unit="ms",
        missing="The reply was not paced.",
    ),
    ExportColumn(
        "late_ms",
        "integer",
        "Milliseconds by which the end of the reply was shown later than the common pace, since the bot was too slow.",
        unit="ms",
        missing="The reply was not paced, or was given before this was kept.",
    ),
    ExportColumn("withheld", "boolean", "Whether a filter withheld the reply; its text is what people read then."),
    ExportColumn(
        "trace",
        "json",
        "Reasoning and tool calls before the reply, in order: kind (reasoning or tool), name, arguments, text (the "
        "reasoning or the tool's result), failed, seconds.",
    ),
    ExportColumn(
        "image",
        "text",
        "Name of the image that was sent with the message; a package with images has it in `images/`.",
        missing="The message has no image.",
    ),
    ExportColumn(
        "image_description",
        "text",
        "What the image shows, in the words of the participant or bot that sent it.",
        missing="The message has no image.",
    ),
    ExportColumn(
        "goes_on",
        "boolean",
        "Of two replies to one message, of which one was picked: whether the chat went on with this one.",
        missing="Nothing was picked: there was one reply, or the person left before.",
    ),
    ExportColumn(
        "refused",
        "boolean",
        "Whether a content filter of the bot's provider refused this message: it has no reply and was not sent again.",
    ),
    ExportColumn(
        "rejected_params",
        "json",
        "Fields of the request, such as temperature, that the model rejected, so that it gave this reply without them.",
    ),
)
_NAMES = [column.name for column in _MESSAGES_COLUMNS][5:]  # behind study and chat
_TOKENS_IN, _IMAGE = _NAMES.index("tokens_in"), _NAMES.index("image")


@register_exporter
class MessagesTable:
    name = "messages"
    packaged = "turns"
    title = "Messages"
    description = "One row per utterance, with votes and what a reply took: time, tokens, cost."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return (*_MESSAGES_COLUMNS, *condition_columns(study))

    def count(self, study: Study, options: ExportOptions) -> int:
        if judges_conversations(study):  # perhaps some of another study
            return Turn.objects.filter(build_shown_filter(study, options, prefix="conversation__")).count()
        return conversation_totals(study, included(study, options), "turns").n_turns

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        factors = condition_columns(study)
        turns = Turn.objects.filter(build_shown_filter(study, options, prefix="conversation__"))
        for conversation_id, state, bot, is_synthetic, *rest in (
            turns.annotate(is_withheld=ExpressionWrapper(~Q(withheld_text=""), BooleanField()))
            .order_by("conversation_id", "index")
            .values_list(
                "conversation_id",
                "conversation__state",
                "conversation__bot__bot_id",
                "conversation__is_synthetic",
                "index",
                "speaker",
                "text",
                "vote",
                "latency_ms",
                "tokens_in",
                "tokens_out",
                "tokens_estimated",
                "cost",
                "answered_by",
                "created_at",
                "first_ms",
                "shown_first_ms",
                "shown_ms",
                "late_ms",
                "is_withheld",
                "trace",
                "image",
                "image__description",
                "goes_on",
                "is_refused",
                "rejected_params",
                *(["conversation__condition", "conversation__sitting"] if factors else []),
            )
            .iterator(chunk_size=CHUNK)
        ):
            if rest[_TOKENS_IN] is None:
                rest[_TOKENS_IN + 2] = None  # nothing was counted, so nothing was estimated either
            sitting = rest.pop() if factors else ""
            under = condition_cells(factors, rest.pop(), sitting) if factors else []
            if rest[_IMAGE] is not None:
                rest[_IMAGE] = image_name(rest[_IMAGE])
            yield [str(conversation_id), state, bot, study_key(study), is_synthetic, *rest, *under]


_BOT_COLUMNS = (
    ExportColumn("bot_version", "text", "Key of the identity, as in the table conversations."),
    ExportColumn("bot", "text", "Id of the bot."),
    ExportColumn("title", "text", "Its name for people."),
    ExportColumn("kind", "text", "Its family: rules, retrieval, checkpoint, endpoint and so on."),
    ExportColumn("version", "text", "Version of the code that answered."),
    ExportColumn("settings", "json", "All that decides what it says, with digests of what it has learned."),
    ExportColumn("is_control", "boolean", "A deliberately poor bot, left out of rankings."),
    ExportColumn("n_conversations", "integer", "Conversations with this identity."),
    ExportColumn(
        "description",
        "text",
        "What the bot is, in a sentence.",
        missing="A bot of this identity is not registered here now.",
    ),
    ExportColumn("card", "text", "Its model card, as Markdown.", missing="It has none, or is not registered here now."),
)


@register_exporter
class BotsTable:
    name = packaged = "bots"
    title = "Bots"
    description = "One row per bot as it was when people met it: version, settings, digests, card."
    is_small = True
    of_runs = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _BOT_COLUMNS

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        conversations = Conversation.objects.filter(build_shown_filter(study, options)).order_by()
        n_by_version = dict(conversations.values_list("bot").annotate(n=Count("pk")))
        bots_discover()
        here = {bot.name: bot for bot in registry}
        marked = {bot for bot, info in study_bots(study).items() if info.is_control} if isinstance(study, Study) else ()
        for row in BotVersion.objects.filter(pk__in=n_by_version).order_by("bot_id", "key"):
            bot = here.get(row.bot_id)
            if bot is not None and bot.identity.key != row.key:
                bot = None  # of the same name, but another
            yield [
                row.key,
                row.bot_id,
                row.title,
                row.kind,
                row.version,
                _sorted(row.params),
                row.is_control or row.bot_id in marked,
                n_by_version[row.pk],
                bot.description if bot else None,
                bot_card(bot) if bot else None,
            ]


def _sorted(value: Any) -> Any:
    """Return JSON values with sorted keys, whose order differs between databases."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(element) for element in value] if isinstance(value, list) else value
