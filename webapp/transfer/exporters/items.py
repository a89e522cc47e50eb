"""Tables of items: texts for external raters, items, means, rated replies.

Texts for external raters come in an order and under names that reveal nothing. The table `conversations` has the
same ids, and `items` the same codes: imported ratings are joined there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Prefetch

from evaluation.analysis.items import item_means
from webapp.conversations.models import Turn
from webapp.ratings.reply_ratings import study_judged
from webapp.ratings.selectors import study_ratings
from webapp.studies.models import Item, Study
from webapp.studies.privacy import pseudonym
from webapp.studies.selectors import items_judged, judges_items
from webapp.transfer.exporters.base import CHUNK, ExportColumn, ExportOptions, conversations_included, register_exporter

_CHUNK = 200
_OF_CONVERSATIONS = (
    ExportColumn("conversation", "text", "Id of the conversation, as in the table conversations."),
    ExportColumn("turns", "json", "Utterances in order: speaker and text."),
)
_OF_ITEMS = (
    ExportColumn("code", "text", "Stands for the item’s name; the table items has it, too."),
    ExportColumn("context", "json", "What was said before, oldest first."),
    ExportColumn(
        "replies",
        "json",
        "Each with its text and a code, which the table items has, too; in another order for each item.",
    ),
    ExportColumn("panel", "json", "What is shown beside it: persona, emotion, topic."),
)


def item_code(study: Study, item: str) -> str:
    """Return a code for an item's name, which may reveal whose reply it holds."""
    return f"i{pseudonym(study, f'item {item}')[1:]}"


def reply_codes(study: Study, item: str, n_replies: int) -> list[str]:
    """Return a code for each reply of an item, in the item's own order."""
    return [f"r{pseudonym(study, f'reply {k} of {item}')[1:]}" for k in range(n_replies)]


@register_exporter
class ForRatersTable:
    name = "for_raters"
    title = "For raters elsewhere"
    description = (
        "The words to be rated, and nothing that tells which bot they are from: items where the study judges items, "
        "else conversations; in an order of chance."
    )

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _OF_ITEMS if items_judged(study).exists() else _OF_CONVERSATIONS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        if items_judged(study).exists():
            return _items(study)
        return _conversations(study, options)


def _conversations(study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
    found = conversations_included(study, options).prefetch_related(Prefetch("turns", Turn.objects.order_by("index")))
    for row in found.order_by("id").iterator(chunk_size=_CHUNK):  # ids are drawn by chance
        turns = [{"speaker": turn.speaker, "text": turn.text} for turn in row.turns.all()]
        yield [str(row.pk), turns]


def _items(study: Study) -> Iterator[Sequence[Any]]:
    codes = {pk: item_code(study, key) for pk, key in items_judged(study).values_list("pk", "key")}
    order = sorted(codes, key=lambda pk: codes[pk])
    for start in range(0, len(order), _CHUNK):
        part = order[start : start + _CHUNK]
        items = Item.objects.in_bulk(part)
        for pk in part:
            if item := items.get(pk):  # else it was taken away meanwhile
                replies = reply_codes(study, item.key, len(item.responses))
                shown = [
                    {"code": code, "text": one["text"]}
                    for code, one in sorted(zip(replies, item.responses, strict=True), key=lambda pair: pair[0])
                ]
                yield [codes[pk], item.context, shown, item.panel]


_COLUMNS = (
    ExportColumn("item", "text", "Name of the item, as in the table ratings."),
    ExportColumn("bot", "text", "Model of its reply; of several replies that of each, in their order."),
    ExportColumn("context", "json", "What was said before, oldest first."),
    ExportColumn("responses", "json", "The replies that are judged."),
    ExportColumn("reference", "text", "A reply that a person wrote, if there is one."),
    ExportColumn("reference_score", "number", "How the reference was rated before."),
    ExportColumn("task", "text", "What kind of talk it is from."),
    ExportColumn("panel", "json", "What is shown beside it: persona, emotion, topic."),
    ExportColumn("code", "text", "Stands for the item in the table for_raters."),
    ExportColumn("reply_codes", "json", "Stand for its replies there, in their order here."),
)


@register_exporter
class ItemsTable:
    name = packaged = "items"
    title = "Items"
    description = "One row per item that people judge, with its context and replies."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for item in items_judged(study).order_by("pk").iterator(chunk_size=CHUNK):
            yield [
                item.key,
                " ".join(one.get("model") or "" for one in item.responses).strip(),
                item.context,
                [one["text"] for one in item.responses],
                item.reference,
                item.reference_score,
                item.task,
                item.panel,
                item_code(study, item.key),
                reply_codes(study, item.key, len(item.responses)),
            ]


_ITEM_MEANS_COLUMNS = (
    ExportColumn("item", "text", "Name of the item."),
    ExportColumn("bot", "text", "Model of its reply."),
    ExportColumn("dimension", "text", "Key of the question."),
    ExportColumn("n", "integer", "Ratings of the item on the question."),
    ExportColumn("mean", "number", "Their mean, higher for better."),
    ExportColumn("low", "number", "Lower end of its 90 % interval over raters, on the scale of the question."),
    ExportColumn("high", "number", "Upper end."),
)


@register_exporter
class ItemMeansTable:
    name = "item_means"
    title = "Means of items"
    description = "One row per item and question, with the mean of its ratings and its interval."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _ITEM_MEANS_COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        if not judges_items(study):
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
            for one in question.items:
                yield [one.item, one.bot, question.dimension, one.n, one.mean, one.low, one.high]


_JUDGED_COLUMNS = (
    ExportColumn("id", "text", "Name of the item, or the conversation and the number of the reply."),
    ExportColumn("source", "text", "Key of the study."),
    ExportColumn("context", "json", "What was said before, oldest first."),
    ExportColumn("response", "text", "The reply that was judged."),
    ExportColumn("reference", "text", "A reply that a person wrote, if there is one."),
    ExportColumn("model", "text", "What gave the reply."),
    ExportColumn("reference_score", "number", "How the reference was rated before."),
    ExportColumn("task", "text", "What kind of talk it is from."),
    ExportColumn("persona", "json", "Lines of a persona that were shown beside it."),
    ExportColumn("emotion", "text", "An emotion that was shown beside it."),
    ExportColumn("topic", "text", "A topic that was shown beside it."),
    ExportColumn(
        "ratings",
        "json",
        "Of each person the answers as they were given, by question, and `rater`: a pseudonym, the same in all "
        "files of the study. `vote` is 1 for a thumb up and -1 for one down.",
    ),
    ExportColumn("scale", "json", "Lowest and highest answer, where all questions share them."),
    ExportColumn("scales", "json", "Otherwise these by question."),
    ExportColumn("reversed", "json", "Questions on which a high answer is a bad one."),
)


@register_exporter
class JudgedTable:
    name = packaged = "judged"
    title = "Judged replies"
    description = (
        "One row per reply that people judged by itself: items, marked replies and votes, for `evaluate_metrics "
        "--data`."
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
            found = item.model_dump(mode="json")
            yield [found[column.name] for column in _JUDGED_COLUMNS]
