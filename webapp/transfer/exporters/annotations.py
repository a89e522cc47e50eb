"""Tables of annotations: labels by filters, participants' reports, and readers' notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import QuerySet

from webapp.conversations.models import Conversation, ReplyMark, ReplyReport
from webapp.ratings.flag_selectors import left_out
from webapp.search.models import Note
from webapp.studies.models import Study
from webapp.transfer.exporters.base import (
    CHUNK,
    CONVERSATION_COLUMNS,
    STUDY_COLUMNS,
    ExportColumn,
    ExportOptions,
    Source,
    register_exporter,
    shown,
    study_key,
)

_COLUMNS = (
    *CONVERSATION_COLUMNS,
    ExportColumn("turn", "integer", "Number of the reply in its conversation, from 0."),
    ExportColumn("filter", "text", "Name of the filter that found something."),
    ExportColumn("identity", "json", "The filter's name, version and settings."),
    ExportColumn("found", "json", "The words that it found, if it names any."),
    ExportColumn("reason", "text", "What it says of the reply."),
    ExportColumn("withheld", "boolean", "Whether the reply was therefore withheld."),
    ExportColumn("withheld_text", "text", "What the bot said, where its reply was withheld."),
    ExportColumn("created_at", "time", "When it was found."),
)


@register_exporter
class ReplyMarksTable:
    name = packaged = "reply_marks"
    title = "Marks of filters"
    description = "One row per filter and reply in which it found something, with the words found."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        inside = shown(study, options, prefix="turn__conversation__")
        for conversation_id, bot, is_synthetic, *rest in (
            ReplyMark.objects.filter(inside)
            .order_by("turn__conversation_id", "turn__index", "pk")
            .values_list(
                "turn__conversation_id",
                "turn__conversation__bot__bot_id",
                "turn__conversation__is_synthetic",
                "turn__index",
                "filter",
                "identity",
                "found",
                "reason",
                "is_withheld",
                "turn__withheld_text",
                "created_at",
            )
            .iterator(chunk_size=CHUNK)
        ):
            yield [str(conversation_id), bot, study_key(study), is_synthetic, *rest]


_REASONS = tuple((value, str(label)) for value, label in ReplyReport.Reason.choices)
_REPORTS_COLUMNS = (
    ExportColumn("participant", "text", "Random id of who reported it.", is_person=True),
    *STUDY_COLUMNS,
    ExportColumn("conversation", "text", "Id of the reply's conversation; empty for an item's."),
    ExportColumn("turn", "integer", "Number of the reply in it, from 0."),
    ExportColumn("item", "text", "Name of the item; empty for a reply of a conversation."),
    ExportColumn("response", "integer", "Which of the item's replies, from 0."),
    ExportColumn("bot", "text", "Id of the bot, or the item's name for the model."),
    ExportColumn("reason", "text", "What is wrong with it, as chosen.", _REASONS),
    ExportColumn("words", "text", "What the person wrote."),
    ExportColumn("created_at", "time", "When it was first reported."),
    ExportColumn("seen_at", "time", "When staff said that they had seen it; empty so far."),
)


@register_exporter
class ReportsTable:
    name = packaged = "reports"
    title = "Reports of replies"
    description = "One row per reply that a participant reported, with the reason and their words."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _REPORTS_COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for one in _included(study, options).iterator(chunk_size=CHUNK):
            turn, item = one.turn, one.item
            bot = turn.conversation.bot.bot_id if turn else ""
            if item is not None and one.response is not None and one.response < len(item.responses):
                bot = item.responses[one.response].get("model") or ""
            yield [
                str(one.participant_id),
                study.key,
                one.participant.is_synthetic,
                str(turn.conversation_id) if turn else "",
                turn.index if turn else None,
                item.key if item else "",
                one.response,
                bot,
                one.reason,
                one.words,
                one.created_at,
                one.seen_at,
            ]


def _included(study: Study, options: ExportOptions) -> QuerySet[ReplyReport]:
    found = ReplyReport.objects.filter(left_out(study, options.without), participant__study=study)
    found = found.exclude(turn__conversation__state=Conversation.State.WITHDRAWN)
    if not options.include_synthetic:
        found = found.filter(participant__is_synthetic=False)
    return found.select_related("participant", "turn__conversation__bot", "item").order_by("pk")


_KINDS = (("star", "A star"), ("tag", "A tag"), ("note", "A note"))
_READER_NOTES_COLUMNS = (
    *CONVERSATION_COLUMNS,
    ExportColumn("kind", "text", "What was left.", _KINDS),
    ExportColumn("text", "text", "The tag or the note.", missing="It is a star."),
    ExportColumn(
        "author",
        "text",
        "User name of the member of staff who left it.",
        missing="The account is gone.",
        is_private=True,
    ),
    ExportColumn("created_at", "time", "When it was left."),
)


@register_exporter
class ReaderNotesTable:
    name = packaged = "reader_notes"
    title = "Readers’ notes"
    description = "One row per star, tag or note that readers left at a conversation."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _READER_NOTES_COLUMNS

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        rows = Note.objects.filter(shown(study, options, prefix="conversation__"))
        for conversation_id, bot, is_synthetic, *rest in (
            rows.order_by("conversation_id", "pk")
            .values_list(
                "conversation_id",
                "conversation__bot__bot_id",
                "conversation__is_synthetic",
                "kind",
                "text",
                "author__username",
                "created_at",
            )
            .iterator(chunk_size=CHUNK)
        ):
            yield [str(conversation_id), bot, study_key(study), is_synthetic, *rest]
