"""`chat_ratings.csv` of the 2019 Neural Chat server: one rating per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Prefetch

from evaluation.formats.layout2019 import RATING_DIMENSIONS, RATING_HEADER
from webapp.conversations.models import Turn
from webapp.ratings.models import Rating
from webapp.studies.models import Study, Task
from webapp.studies.outcomes import ENDING_READS, ending_of
from webapp.transfer.exporters.base import (
    ExportColumn,
    ExportOptions,
    dialogue_id,
    included,
    register_exporter,
)
from webapp.transfer.exporters.chatrecords import datetime_text, exchanges_of

_DESCRIPTIONS = {
    "ID": "Number of the rating.",
    "Chat ID": "Id of the conversation.",
    "Datetime": "When the rating was submitted, ISO 8601, UTC.",
    "Chatbot ID": "Id of the bot.",
    "User Session Key": "Random id of the participant, or the rater's name in imported data.",
    "Comments": "The rater's free comment.",
    "Chat Length": "Exchanges of the conversation.",
    "MTurk Code": "The code the participant was shown; only where private ids are asked for.",
    "MTurk User ID": "The participant's worker id; only where private ids are asked for.",
    "Study Key": "Key of the study.",
}


@register_exporter
class ChatRatings:
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
                _DESCRIPTIONS.get(name, f"The rating's {name.lower()}."),
            )
            for name in RATING_HEADER
        ]

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        ratings = (
            Rating.objects.filter(included(study, options, prefix="conversation__"))
            .select_related(
                "conversation__bot",
                *(f"conversation__slot__task__{what}" for what in ENDING_READS),
                "participant__platform_ids",
            )
            .prefetch_related(
                Prefetch(
                    "conversation__turns",
                    Turn.objects.only("id", "conversation_id", "index", "speaker").order_by(
                        "index"
                    ),
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
