"""Export for external raters: the words alone, in an order and under names that reveal nothing.

The table `conversations` has the same ids, and `items` the same codes: imported ratings are joined there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Prefetch

from webapp.conversations.models import Turn
from webapp.studies.models import Item, Study
from webapp.studies.pseudonyms import pseudonym
from webapp.studies.selectors import items_judged
from webapp.transfer.exporters.base import (
    ExportColumn,
    ExportOptions,
    conversations_included,
    register_exporter,
)

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
class ForRaters:
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
    found = conversations_included(study, options).prefetch_related(
        Prefetch("turns", Turn.objects.order_by("index"))
    )
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
                    for code, one in sorted(
                        zip(replies, item.responses, strict=True), key=lambda pair: pair[0]
                    )
                ]
                yield [codes[pk], item.context, shown, item.panel]
