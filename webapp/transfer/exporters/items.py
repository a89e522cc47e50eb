"""Tables of items and annotations.

They contain texts for external raters, items, means, rated replies, labels and notes. The order and names of texts for
external raters reveal nothing. Imported ratings are joined through the ids of `conversations` and the codes of `items`,
which are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Prefetch, QuerySet

from evaluation.analysis.items import item_means
from webapp.conversations.models import Conversation, ReplyMark, ReplyReport, Turn
from webapp.ratings.flag_selectors import left_out
from webapp.ratings.paired_comparisons import study_judged
from webapp.ratings.selectors import study_ratings
from webapp.search.models import Note
from webapp.studies.models import Item, Study
from webapp.studies.privacy import pseudonym
from webapp.studies.protocols.base import get_protocol
from webapp.studies.selectors import items_judged
from webapp.transfer.exporters.base import (
    CHUNK,
    CONVERSATION_COLUMNS,
    STUDY_COLUMNS,
    ExportColumn,
    ExportOptions,
    Source,
    build_shown_filter,
    conversations_included,
    register_exporter,
    study_key,
)

_CHUNK = 200
_OF_CONVERSATIONS = (
    ExportColumn("conversation", "text", "Id of the conversation, as in the table conversations."),
    ExportColumn("turns", "json", "Utterances in order: speaker and text."),
)
_OF_ITEMS = (
    ExportColumn("code", "text", "Code that stands for the item’s name; also in the table items."),
    ExportColumn("context", "json", "Utterances before the reply, oldest first."),
    ExportColumn(
        "replies",
        "json",
        "Replies with text and code; the codes are also in the table items. The order differs between items.",
    ),
    ExportColumn("panel", "json", "Context shown with the item: persona, emotion, topic."),
)
_STATEMENTS = ExportColumn(
    "criteria", "json", "Statements to tick, in order; participants do not see the points either."
)


def item_code(study: Study, item: str) -> str:
    """Return a code for an item's name.

    The name may reveal whose reply it contains.
    """
    return f"i{pseudonym(study, f'item {item}')[1:]}"


def reply_codes(study: Study, item: str, n_replies: int) -> list[str]:
    """Return a code for each reply of an item, in order."""
    return [f"r{pseudonym(study, f'reply {k} of {item}')[1:]}" for k in range(n_replies)]


@register_exporter
class ForRatersTable:
    name = "for_raters"
    title = "For external raters"
    description = (
        "The texts to rate, without anything that identifies the bot: items in studies that rate items, otherwise "
        "conversations; in random order."
    )

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        if not items_judged(study).exists():
            return _OF_CONVERSATIONS
        return (*_OF_ITEMS, _STATEMENTS) if get_protocol(study).needs_criteria else _OF_ITEMS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        if items_judged(study).exists():
            return _items(study)
        return _conversations(study, options)


def _conversations(study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
    conversations = conversations_included(study, options).prefetch_related(
        Prefetch("turns", Turn.objects.order_by("index"))
    )
    for row in conversations.order_by("id").iterator(chunk_size=_CHUNK):  # ids are random
        turns = [{"speaker": turn.speaker, "text": turn.text} for turn in row.turns.all() if not turn.is_refused]
        yield [str(row.pk), turns]


def _items(study: Study) -> Iterator[Sequence[Any]]:
    codes = {pk: item_code(study, key) for pk, key in items_judged(study).values_list("pk", "key")}
    order = sorted(codes, key=lambda pk: codes[pk])
    needs_criteria = get_protocol(study).needs_criteria
    for start in range(0, len(order), _CHUNK):
        part = order[start : start + _CHUNK]
        items = Item.objects.in_bulk(part)
        for pk in part:
            if item := items.get(pk):  # otherwise it was removed in the meantime
                replies = reply_codes(study, item.key, len(item.responses))
                coded_replies = [
                    {"code": code, "text": response["text"]}
                    for code, response in sorted(zip(replies, item.responses, strict=True), key=lambda pair: pair[0])
                ]
                statements = [[criterion["text"] for criterion in item.criteria]] if needs_criteria else []
                yield [codes[pk], item.context, coded_replies, item.panel, *statements]


_COLUMNS = (
    ExportColumn("item", "text", "Name of the item, as in the table ratings."),
    ExportColumn("bot", "text", "Model that gave the reply; for several replies, their models in order."),
    ExportColumn("context", "json", "Utterances before the reply, oldest first."),
    ExportColumn("responses", "json", "Replies to rate."),
    ExportColumn("reference", "text", "Reply by a person, if there is one."),
    ExportColumn("reference_score", "number", "Earlier rating of the reference reply."),
    ExportColumn("task", "text", "Kind of dialogue that the item comes from."),
    ExportColumn("panel", "json", "Context shown with the item: persona, emotion, topic."),
    ExportColumn("criteria", "json", "Criteria of the item in order, each with text and points."),
    ExportColumn("code", "text", "Code of the item in the table for_raters."),
    ExportColumn("reply_codes", "json", "Codes of its replies in that table, in the order used here."),
)


@register_exporter
class ItemsTable:
    name = packaged = "items"
    title = "Items"
    description = "One row per item to rate, with its context and replies."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for item in items_judged(study).order_by("pk").iterator(chunk_size=CHUNK):
            yield [
                item.key,
                " ".join(response.get("model") or "" for response in item.responses).strip(),
                item.context,
                [response["text"] for response in item.responses],
                item.reference,
                item.reference_score,
                item.task,
                item.panel,
                item.criteria,
                item_code(study, item.key),
                reply_codes(study, item.key, len(item.responses)),
            ]


_ITEM_MEANS_COLUMNS = (
    ExportColumn("item", "text", "Name of the item."),
    ExportColumn("bot", "text", "Model that gave the reply."),
    ExportColumn("dimension", "text", "Key of the question."),
    ExportColumn("n", "integer", "Number of ratings of the item on this question."),
    ExportColumn("mean", "number", "Mean of these ratings; higher is better."),
    ExportColumn("low", "number", "Lower end of its 90 % interval over raters, on the scale of the question."),
    ExportColumn("high", "number", "Upper end of the interval."),
)


@register_exporter
class ItemMeansTable:
    name = "item_means"
    title = "Means of items"
    description = "One row per item and question, with the mean of its ratings and its interval."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _ITEM_MEANS_COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        if not get_protocol(study).judges_items:
            return
        ratings = study_ratings(
            study,
            include_synthetic=options.include_synthetic,
            include_failed=options.include_failed,
            without=options.without,
        )
        if not len(ratings) or ratings.leading is None:
            return
        for question in item_means(ratings).dimensions:
            for item_mean in question.items:
                yield [
                    item_mean.item,
                    item_mean.bot,
                    question.dimension,
                    item_mean.n,
                    item_mean.mean,
                    item_mean.low,
                    item_mean.high,
                ]


_JUDGED_COLUMNS = (
    ExportColumn("id", "text", "Name of the item, or the conversation and the number of the reply."),
    ExportColumn("source", "text", "Key of the study."),
    ExportColumn("context", "json", "Utterances before the reply, oldest first."),
    ExportColumn("response", "text", "Rated reply."),
    ExportColumn("reference", "text", "Reply by a person, if there is one."),
    ExportColumn("model", "text", "Model or bot that gave the reply."),
    ExportColumn("reference_score", "number", "Earlier rating of the reference reply."),
    ExportColumn("task", "text", "Kind of dialogue that the reply comes from."),
    ExportColumn("persona", "json", "Persona lines shown with the reply."),
    ExportColumn("emotion", "text", "Emotion shown with the reply."),
    ExportColumn("topic", "text", "Topic shown with the reply."),
    ExportColumn(
        "ratings",
        "json",
        "Each rater's answers as given, by question, and `rater`: a pseudonym, the same in all files of the study. "
        "`vote` is 1 for thumbs up and -1 for thumbs down.",
    ),
    ExportColumn("scale", "json", "Lowest and highest answer, if they are the same for all questions."),
    ExportColumn("scales", "json", "Lowest and highest answer by question, if they differ."),
    ExportColumn("reversed", "json", "Questions with low answers as the better ones."),
)


@register_exporter
class JudgedTable:
    name = packaged = "judged"
    title = "Rated replies"
    description = (
        "One row per individually rated reply: items, annotated replies and votes, for `evaluate_metrics --data`."
    )

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _JUDGED_COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for item in study_judged(
            study,
            include_synthetic=options.include_synthetic,
            include_failed=options.include_failed,
            without=options.without,
        ):
            cells = item.model_dump(mode="json")
            yield [cells[column.name] for column in _JUDGED_COLUMNS]


_ANNOTATION_COLUMNS = (
    *CONVERSATION_COLUMNS,
    ExportColumn("turn", "integer", "Number of the reply in its conversation, from 0."),
    ExportColumn("filter", "text", "Name of the filter that flagged the reply."),
    ExportColumn("identity", "json", "The filter's name, version and settings."),
    ExportColumn("found", "json", "Words found by the filter, if it returns any."),
    ExportColumn("reason", "text", "Reason given by the filter."),
    ExportColumn("withheld", "boolean", "Whether the filter blocked the reply."),
    ExportColumn("withheld_text", "text", "Original reply of the bot, if it was blocked."),
    ExportColumn("created_at", "time", "When the reply was flagged."),
)


@register_exporter
class ReplyMarksTable:
    name = packaged = "reply_marks"
    title = "Filter labels"
    description = "One row per filter and flagged reply, with the words found."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _ANNOTATION_COLUMNS

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        inside = build_shown_filter(study, options, prefix="turn__conversation__")
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
    ExportColumn("participant", "text", "Random id of the participant who reported the reply.", is_person=True),
    *STUDY_COLUMNS,
    ExportColumn("conversation", "text", "Id of the reply's conversation; empty for replies of items."),
    ExportColumn("turn", "integer", "Number of the reply in the conversation, from 0."),
    ExportColumn("item", "text", "Name of the item; empty for replies in conversations."),
    ExportColumn("response", "integer", "Number of the reply among the item's replies, from 0."),
    ExportColumn("bot", "text", "Id of the bot; for items, the name of the model."),
    ExportColumn("reason", "text", "Problem that the participant selected.", _REASONS),
    ExportColumn("words", "text", "Comment of the participant."),
    ExportColumn("created_at", "time", "When the reply was first reported."),
    ExportColumn("seen_at", "time", "When staff marked the report as seen; empty if they have not yet."),
)


@register_exporter
class ReportsTable:
    name = packaged = "reports"
    title = "Reports of replies"
    description = "One row per reply reported by a participant, with the reason and comment."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _REPORTS_COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for report in _included(study, options).iterator(chunk_size=CHUNK):
            turn, item = report.turn, report.item
            bot = turn.conversation.bot.bot_id if turn else ""
            if item is not None and report.response is not None and report.response < len(item.responses):
                bot = item.responses[report.response].get("model") or ""
            yield [
                str(report.participant_id),
                study.key,
                report.participant.is_synthetic,
                str(turn.conversation_id) if turn else "",
                turn.index if turn else None,
                item.key if item else "",
                report.response,
                bot,
                report.reason,
                report.words,
                report.created_at,
                report.seen_at,
            ]


def _included(study: Study, options: ExportOptions) -> QuerySet[ReplyReport]:
    reports = ReplyReport.objects.filter(left_out(study, options.without), participant__study=study)
    reports = reports.exclude(turn__conversation__state=Conversation.State.WITHDRAWN)
    if not options.include_synthetic:
        reports = reports.filter(participant__is_synthetic=False)
    return reports.select_related("participant", "turn__conversation__bot", "item").order_by("pk")


_KINDS = (("star", "A star"), ("tag", "A tag"), ("note", "A note"))
_READER_NOTES_COLUMNS = (
    *CONVERSATION_COLUMNS,
    ExportColumn("kind", "text", "Kind of entry: star, tag or note.", _KINDS),
    ExportColumn("text", "text", "Text of the tag or note.", missing="The entry is a star."),
    ExportColumn(
        "author",
        "text",
        "User name of the staff member who added it.",
        missing="The account no longer exists.",
        is_private=True,
    ),
    ExportColumn("created_at", "time", "When it was added."),
)


@register_exporter
class ReaderNotesTable:
    name = packaged = "reader_notes"
    title = "Readers’ notes"
    description = "One row per star, tag or note added to a conversation by staff."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _READER_NOTES_COLUMNS

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        rows = Note.objects.filter(build_shown_filter(study, options, prefix="conversation__"))
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
