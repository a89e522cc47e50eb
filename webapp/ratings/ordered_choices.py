"""Queries for choices that put an item's replies in order."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from django.db.models import QuerySet

from evaluation.analysis.ordered_choices import OrderedChoices
from evaluation.data.items import ReplyItem as PairItem
from webapp.ratings.models import Rating
from webapp.ratings.selectors import NO_MODEL, with_person
from webapp.studies.models import Item
from webapp.studies.protocols.base import ReplyOrder


def read_choices(ratings: QuerySet[Rating], order: ReplyOrder) -> OrderedChoices:
    """Return the choices of these ratings, without items that lost their replies."""
    replies, bots, raters, texts = [], [], [], []
    rows: QuerySet[Any] = with_person(ratings).order_by("pk")
    for key, responses, person, answers in rows.values_list("item__key", "item__responses", "person", "answers"):
        numbers = [int(answers[name]) for name in order.answers if name in answers]
        if len(numbers) != len(order.answers) or max(numbers) >= len(responses):
            continue
        replies.append([reply_name(key, number) for number in numbers])
        bots.append([responses[number].get("model") or NO_MODEL for number in numbers])
        texts.append([responses[number]["text"] for number in numbers])
        raters.append(str(person) if person else None)
    shape = (len(raters), len(order.answers))
    return order.choices(
        np.array(replies, dtype=object).reshape(shape),
        np.array(bots, dtype=object).reshape(shape),
        np.array(raters, dtype=object),
        texts,
    )


def implied_pair_items(item: Item) -> list[PairItem]:
    """Return all pairs of an item's replies, as named pair items."""
    return [
        PairItem(
            id=f"{reply_name(item.key, first_number)}~{reply_name(item.key, second_number)}",
            context=tuple(item.context),
            response=first["text"],
            model=first.get("model") or "",
            second_response=second["text"],
            second_model=second.get("model") or "",
        )
        for (first_number, first), (second_number, second) in combinations(enumerate(item.responses), 2)
    ]


def reply_name(item: str, number: int) -> str:
    """Return the name of a reply of an item."""
    return f"{item}/{number}"
