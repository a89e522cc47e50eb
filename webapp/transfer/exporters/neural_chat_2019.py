"""Tables of the 2019 Neural Chat server: `chatrecords.csv` and `chat_ratings.csv`.

In `chatrecords` a row is an exchange: turns of one speaker in a row are joined by a line break, and a conversation
that the bot opens begins with an empty message. Dimensions that the layout has no column for are left out. In
`chat_ratings` a row is a rating.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db.models import Prefetch

from evaluation.data.formats.neural_chat import (
    BOT_INPUT_WINDOW,
    RATING_DIMENSIONS,
    RATING_HEADER,
    RECORD_DIMENSIONS,
    RECORD_HEADER,
)
from webapp.conversations.models import Conversation, Turn
from webapp.ratings.models import Rating
from webapp.studies.models import Study, Task
from webapp.studies.recruitment.completion import ENDING_READS, ending_of
from webapp.transfer.exporters.base import (
    ExportColumn,
    ExportOptions,
    conversations_included,
    dialogue_id,
    included,
    register_exporter,
)

_DESCRIPTIONS = {
    "ID": "Number of the row.",
    "Chat ID": "Id of the conversation.",
    "Datetime": "When the bot's reply was stored, ISO 8601, UTC.",
    "Chatbot ID": "Id of the bot.",
    "Message": "Message of the participant.",
    "Response": "Reply of the bot.",
    "Bot Input": "JSON list of the last utterances up to and including the message, at most five.",
    "Study Key": "Key of the study.",
    "User Session Key": "Random id of the participant.",
    "Response Rating": "The participant's vote on the response: -1, 0 or 1.",
    "Chat Rating Comments": "Comment of the conversation's last rating.",
}


@dataclass
class Exchange:
    """Consecutive human turns and the bot turns after them."""

    human: list[Turn] = field(default_factory=list)
    bot: list[Turn] = field(default_factory=list)


@register_exporter
class ChatRecordsTable:
    name = "chatrecords"
    is_searched = True
    title = "Chat records, 2019 layout"
    description = "One exchange per row, with the headers of the 2019 Neural Chat server."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        numbers = {"ID", "Response Rating"}
        return [
            ExportColumn(
                name,
                "integer"
                if name in numbers
                else "number"
                if name.removeprefix("Chat Rating ").lower() in RECORD_DIMENSIONS
                else "text",
                _DESCRIPTIONS.get(name, f"{name.removeprefix('Chat Rating ')} of the last rating."),
            )
            for name in RECORD_HEADER
        ]

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        conversations = (
            conversations_included(study, options)
            .order_by("external_id", "id")
            .prefetch_related(
                Prefetch("turns", Turn.objects.filter(is_refused=False).order_by("index")),
                Prefetch("ratings", Rating.objects.order_by("id")),
            )
        )
        number = 0
        for conversation in conversations.iterator(chunk_size=200):
            ratings = list(conversation.ratings.all())
            answers = ratings[-1].answers if ratings else {}
            heard: list[str] = []
            for exchange in exchanges_of(conversation.turns.all()):
                number += 1
                message = "\n".join(turn.text for turn in exchange.human)
                if exchange.human:
                    heard.append(message)
                bot_input = heard[-BOT_INPUT_WINDOW:]
                response = "\n".join(turn.text for turn in exchange.bot)
                if exchange.bot:
                    heard.append(response)
                yield [
                    number,
                    dialogue_id(conversation.pk, conversation.external_id, conversation.bot.params),
                    datetime_text((exchange.bot or exchange.human)[-1].created_at),
                    conversation.bot.bot_id,
                    message,
                    response,
                    json.dumps(bot_input, ensure_ascii=False),
                    study.key,
                    session_of(conversation, ratings),
                    vote_of(exchange.bot),
                    *(answers.get(name) for name in RECORD_DIMENSIONS),
                    ratings[-1].comment if ratings else "",
                ]


def exchanges_of(turns: Any) -> list[Exchange]:
    """Group turns into exchanges, human then bot.

    Either may be missing at the ends.
    """
    exchanges: list[Exchange] = []
    for turn in turns:
        if turn.speaker == Turn.Speaker.HUMAN:
            if not exchanges or exchanges[-1].bot:
                exchanges.append(Exchange())
            exchanges[-1].human.append(turn)
        else:
            if not exchanges:
                exchanges.append(Exchange())
            exchanges[-1].bot.append(turn)
    return exchanges


def vote_of(turns: Sequence[Turn]) -> int:
    """Return the last vote in a run of bot turns."""
    return next((turn.vote for turn in reversed(turns) if turn.vote), 0)


def session_of(conversation: Conversation, ratings: Sequence[Rating]) -> str:
    """Return the id of the conversation's participant or rater, if known."""
    if conversation.participant_id:
        return str(conversation.participant_id)
    last = ratings[-1] if ratings else None
    return (last.rater or str(last.participant_id or "")) if last else ""


def datetime_text(timestamp: datetime) -> str:
    """Write a time in ISO 8601 with offset, like the 2019 server."""
    return timestamp.astimezone(UTC).isoformat()


_CHAT_RATINGS_DESCRIPTIONS = {
    "ID": "Number of the rating.",
    "Chat ID": "Id of the conversation.",
    "Datetime": "When the rating was submitted, ISO 8601, UTC.",
    "Chatbot ID": "Id of the bot.",
    "User Session Key": "Random id of the participant, or the rater's name in imported data.",
    "Comments": "The rater's free comment.",
    "Chat Length": "Number of exchanges in the conversation.",
    "MTurk Code": "Completion code shown to the participant; only in exports with private ids.",
    "MTurk User ID": "The participant's worker id; only in exports with private ids.",
    "Study Key": "Key of the study.",
}


@register_exporter
class ChatRatingsTable:
    name = "chat_ratings"
    is_searched = has_codes = True
    title = "Chat ratings, 2019 layout"
    description = "One rating per row, with the headers of the 2019 Neural Chat server."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        numbers = {name.capitalize() for name in RATING_DIMENSIONS}
        integers = {"ID", "Chat Length"}
        return [
            ExportColumn(
                name,
                "integer" if name in integers else "number" if name in numbers else "text",
                _CHAT_RATINGS_DESCRIPTIONS.get(name, f"The rating's {name.lower()}."),
            )
            for name in RATING_HEADER
        ]

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        ratings = (
            Rating.objects.filter(included(study, options, prefix="conversation__"))
            .select_related(
                "conversation__bot",
                *(f"conversation__slot__task__{field}" for field in ENDING_READS),
                "participant__platform_ids",
            )
            .prefetch_related(
                Prefetch(
                    "conversation__turns",
                    Turn.objects.filter(is_refused=False)
                    .only("id", "conversation_id", "index", "speaker")
                    .order_by("index"),
                )
            )
            .order_by("submitted_at", "id")
        )
        for rating in ratings.iterator(chunk_size=500):
            conversation, participant = rating.conversation, rating.participant
            assert conversation is not None  # it was queried by its conversation
            private = options.include_private
            n_records = len(exchanges_of(conversation.turns.all()))
            yield [
                rating.pk,
                dialogue_id(conversation.pk, conversation.external_id, conversation.bot.params),
                datetime_text(rating.submitted_at),
                conversation.bot.bot_id,
                rating.rater or str(rating.participant_id or ""),
                *(rating.answers.get(name) for name in RATING_DIMENSIONS),
                rating.comment,
                n_records or None,
                _code(conversation.task) if private and conversation.task else "",
                participant.external_id if private and participant else "",
                study.key,
            ]


def _code(task: Task) -> str:
    """Return the code that the person was shown."""
    ending = ending_of(task)
    return ending.code if ending else ""
