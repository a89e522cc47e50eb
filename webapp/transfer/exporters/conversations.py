"""Tables of conversations, messages and bots.

They have one row per conversation, per utterance, and per identity of a bot.

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
from webapp.studies.protocols.base import get_protocol
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
    ExportColumn("source", "text", "Imported source or study that the conversation comes from."),
    ExportColumn("turns", "json", "Utterances in order: speaker, text, and the vote on bot turns."),
    ExportColumn("ratings", "json", "One entry per rater: rater, the rubric's dimensions, and the comment, if any."),
    ExportColumn("conversation", "text", "Id of the conversation in Confab."),
    ExportColumn("bot_version", "text", "Key of the bot's identity: name, version, parameters."),
    ExportColumn("state", "text", "open, completed or failed.", STATES),
    ExportColumn("n_exchanges", "integer", "Number of participant messages that the bot answered."),
    ExportColumn("seed", "text", "Random seed of the bot, as text because it has 63 bits."),
    ExportColumn("is_synthetic", "boolean", "Whether the participant was a script."),
    ExportColumn(
        "participant", "text", "Random id of the participant; empty in imported data and self-play.", is_person=True
    ),
    ExportColumn("created_at", "time", "When the conversation was started or imported."),
    ExportColumn("ended_at", "time", "When the conversation was rated or given up."),
    ExportColumn(
        "flags", "json", "Names of the flags on the participant’s work, as a list; flags have no effect by themselves."
    ),
    ExportColumn(
        "language", "text", "Language code given in the import; empty if the language is detected from the text."
    ),
    ExportColumn(
        "n_refused",
        "integer",
        "Messages refused by a content filter of the bot's provider. They are not included in turns and n_exchanges.",
    ),
)
_OF_RUN = (
    ExportColumn(
        "partner",
        "text",
        "Id of the bot that starts, or name of the simulated participant; empty if the bot converses with itself.",
    ),
    ExportColumn("ordinal", "integer", "Number of the conversation among those of the same bots, from 0."),
)
"""Additional columns of self-play."""


@register_exporter
class ConversationsTable:
    name = packaged = "conversations"
    title = "Conversations"
    description = "One row per conversation including its turns and ratings; can be imported again as JSON Lines."
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
    ExportColumn("state", "text", "State of the conversation: open, completed or failed.", STATES),
    ExportColumn("bot", "text", "Id of the bot in the conversation."),
    *STUDY_COLUMNS,
    ExportColumn("turn", "integer", "Number of the utterance in its conversation, from 0."),
    ExportColumn("speaker", "text", "human or bot.", SPEAKERS),
    ExportColumn("text", "text", "Text of the utterance."),
    ExportColumn(
        "vote",
        "integer",
        "The participant's vote on a bot turn: -1, 0 or 1.",
        ((-1, "Thumb down"), (0, "No vote"), (1, "Thumb up")),
    ),
    ExportColumn(
        "latency_ms",
        "integer",
        "Milliseconds from storing the message to the end of the bot's reply.",
        unit="ms",
        missing="Participants' messages and imported utterances have no latency.",
    ),
    ExportColumn("tokens_in", "integer", "Tokens in the prompt, if the bot is an endpoint."),
    ExportColumn("tokens_out", "integer", "Tokens in the reply, if the bot is an endpoint."),
    ExportColumn(
        "tokens_estimated",
        "boolean",
        "Whether the token counts were estimated from the text because the endpoint returned none.",
    ),
    ExportColumn(
        "cost",
        "number",
        "Cost of the reply in the currency of the bot's prices; empty if a price is unknown.",
        unit="currency of the bot's prices",
        missing="The bot is free, or a price is unknown.",
    ),
    ExportColumn(
        "answered_by",
        "text",
        "Id of the fallback bot, or second address of the bot, if that gave the reply; otherwise empty.",
    ),
    ExportColumn("created_at", "time", "When the utterance was stored."),
    ExportColumn(
        "first_ms",
        "integer",
        "Milliseconds from storing the message to the bot's first words.",
        unit="ms",
        missing="As for latency_ms; also empty for replies stored before this value was recorded.",
    ),
    ExportColumn(
        "shown_first_ms",
        "integer",
        "Milliseconds until the first words were shown, if all bots share a common pace.",
        unit="ms",
        missing="Pacing was off for this reply.",
    ),
    ExportColumn(
        "shown_ms",
        "integer",
        "Milliseconds until the whole reply was shown, if all bots share a common pace.",
        unit="ms",
        missing="Pacing was off for this reply.",
    ),
    ExportColumn(
        "late_ms",
        "integer",
        "Milliseconds by which the reply ended later than the common pace because the bot was too slow.",
        unit="ms",
        missing="Pacing was off for this reply, or it was stored before this value was recorded.",
    ),
    ExportColumn("withheld", "boolean", "Whether a filter blocked the reply; text is then the text shown instead."),
    ExportColumn(
        "trace",
        "json",
        "Reasoning and tool calls before the reply, in order: kind (reasoning or tool), name, arguments, text (the "
        "reasoning or the tool's result), failed, seconds.",
    ),
    ExportColumn(
        "image",
        "text",
        "Name of the image sent with the message; packages with images contain it in `images/`.",
        missing="The message has no image.",
    ),
    ExportColumn(
        "image_description",
        "text",
        "Description of the image by the participant or bot that sent it.",
        missing="The message has no image.",
    ),
    ExportColumn(
        "goes_on",
        "boolean",
        "For two replies to one message: whether the chat continued with this one.",
        missing="There was only one reply, or the participant left before picking one.",
    ),
    ExportColumn(
        "refused",
        "boolean",
        "Whether a content filter of the bot's provider refused this message; if so, it has no reply and was not "
        "sent again.",
    ),
    ExportColumn(
        "rejected_params",
        "json",
        "Request fields that the model rejected, such as temperature; the reply was generated without them.",
    ),
)
_NAMES = [column.name for column in _MESSAGES_COLUMNS][5:]  # after study and chat
_TOKENS_IN, _IMAGE = _NAMES.index("tokens_in"), _NAMES.index("image")


@register_exporter
class MessagesTable:
    name = "messages"
    packaged = "turns"
    title = "Messages"
    description = "One row per utterance, with votes and the reply's time, tokens and cost."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return (*_MESSAGES_COLUMNS, *condition_columns(study))

    def count(self, study: Study, options: ExportOptions) -> int:
        if get_protocol(study).judges_conversations:  # possibly some from another study
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
    ExportColumn("title", "text", "Display name of the bot."),
    ExportColumn("kind", "text", "Kind of the bot: rules, retrieval, checkpoint, endpoint and so on."),
    ExportColumn("version", "text", "Version of the bot's code."),
    ExportColumn("settings", "json", "All parameters that determine its replies, with digests of what it has learned."),
    ExportColumn("is_control", "boolean", "Whether the bot is a deliberately poor control, excluded from rankings."),
    ExportColumn("n_conversations", "integer", "Number of conversations with this identity."),
    ExportColumn(
        "description",
        "text",
        "Description of the bot in one sentence.",
        missing="No bot with this identity is registered here now.",
    ),
    ExportColumn(
        "card",
        "text",
        "Model card of the bot, as Markdown.",
        missing="The bot has no card, or is not registered here now.",
    ),
)


@register_exporter
class BotsTable:
    name = packaged = "bots"
    has_own_texts = True
    title = "Bots"
    description = "One row per bot version used in conversations, with version, settings, digests and card."
    is_small = True
    of_runs = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _BOT_COLUMNS

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        conversations = conversations_included(study, options).order_by()
        n_by_version = dict(conversations.values_list("bot").annotate(n=Count("pk")))
        bots_discover()
        here = {bot.name: bot for bot in registry}
        marked = {bot for bot, info in study_bots(study).items() if info.is_control} if isinstance(study, Study) else ()
        for row in BotVersion.objects.filter(pk__in=n_by_version).order_by("bot_id", "key"):
            bot = here.get(row.bot_id)
            if bot is not None and bot.identity.key != row.key:
                bot = None  # same name, but a different identity
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
