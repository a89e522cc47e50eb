"""One row per utterance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q

from webapp.conversations.models import Turn
from webapp.reading.totals import totals
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
    included,
    register_exporter,
    shown,
    study_key,
)

_COLUMNS = (
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
    ExportColumn(
        "withheld",
        "boolean",
        "Whether a filter withheld the reply; its text is what people read then.",
    ),
)
_TOKENS_IN = [column.name for column in _COLUMNS].index("tokens_in") - 5  # behind study and chat


@register_exporter
class Messages:
    name = "messages"
    packaged = "turns"
    title = "Messages"
    description = "One row per utterance, with votes and what a reply took: time, tokens, cost."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def count(self, study: Study, options: ExportOptions) -> int:
        if judges_conversations(study):  # perhaps some of another study
            return Turn.objects.filter(shown(study, options, prefix="conversation__")).count()
        return totals(study, included(study, options), "turns").n_turns

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        turns = Turn.objects.filter(shown(study, options, prefix="conversation__"))
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
            )
            .iterator(chunk_size=CHUNK)
        ):
            if rest[_TOKENS_IN] is None:
                rest[_TOKENS_IN + 2] = None  # nothing was counted, so nothing was estimated either
            yield [str(conversation_id), state, bot, study_key(study), is_synthetic, *rest]
