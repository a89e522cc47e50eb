"""Reads of paired comparisons between two replies or two conversations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from evaluation.analysis.pairwise_preference import PairJudgements, style_controls
from evaluation.items import ChatPair
from evaluation.items import ReplyItem as PairItem
from evaluation.ratings import SMALLEST_SHARE
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.selectors import conversation_values
from webapp.ratings.flag_selectors import left_out
from webapp.ratings.models import Rating
from webapp.ratings.selectors import NO_MODEL, ratings_counted, with_person
from webapp.studies.assignment.capacity import is_collecting
from webapp.studies.models import Item, Outcome, Study
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import items_judged, talks_to_bots

_CHATS = 100
"""Pairs of chats that are read at once."""
SAME_QUESTION = {"relatedness": "contingency", "quality": "overall"}
"""Questions about single replies that chats are asked in other words."""


def compares_pairs(study: Study) -> bool:
    """Return True if participants of the study compare two replies, chats or conversations."""
    return study.protocol in protocols and protocols.get(study.protocol).scale == (-1, 1)


def rates_conversations(study: Study) -> bool:
    """Return True if participants rate whole conversations of their own.

    A hybrid metric can be fitted to such ratings.
    """
    return talks_to_bots(study) and not compares_pairs(study)


def pairs_counted(study: Study, *, include_synthetic: bool = False, without: Sequence[str] = ()) -> QuerySet[Rating]:
    """Return the study's ratings that are paired comparisons and count: of two replies, or of two slots.

    Args:
        without: names of flags; participants with one of them are left out.
    """
    of_items = Q(item__study=study, item__purpose=Item.Purpose.JUDGED)
    of_items &= Q(item__responses__1__isnull=False, item__responses__2__isnull=True)
    found = Rating.objects.filter(
        left_out(study, without), of_items | Q(task__participant__study=study, first__isnull=False)
    ).exclude(task__outcome__in=[Outcome.WITHDRAWN, Outcome.FAILED_CHECK])
    return found if include_synthetic else found.filter(participant__is_synthetic=False)


def answers_counted(study: Study, *, include_synthetic: bool = False, without: Sequence[str] = ()) -> QuerySet[Rating]:
    """Return the ratings that the study asks for and that count: of pairs where it compares, else of bots or items.

    The pages of a study tell by these whether there are data, and how many.

    Args:
        without: names of flags; whoever has one is left out.
    """
    counted = pairs_counted if compares_pairs(study) else ratings_counted
    return counted(study, include_synthetic=include_synthetic, without=without)


def study_pair_items(study: Study) -> Iterator[PairItem]:
    """Yield the study's items, without its checks, that hold two replies, for others to judge than people."""
    for item in items_judged(study).order_by("pk").iterator(chunk_size=500):
        first, *others = item.responses
        if len(others) == 1:
            yield PairItem(
                id=item.key,
                context=tuple(item.context),
                response=first["text"],
                model=first.get("model") or "",
                second_response=others[0]["text"],
                second_model=others[0].get("model") or "",
            )


def study_pair_chats(
    study: Study, *, include_synthetic: bool = False, without: Sequence[str] = ()
) -> Iterator[ChatPair]:
    """Yield the pairs of whole chats of two bots that participants compared, each pair once.

    Their names are those of `study_judgements`.
    """
    counted = pairs_counted(study, include_synthetic=include_synthetic, without=without)
    rows = (
        counted.filter(first__isnull=False)
        .annotate(a=_bot("first"), b=_bot("second"), left=_talk("first"), right=_talk("second"))
        .order_by("pk")
        .values_list("left", "right", "a", "b")
    )
    pairs: dict[str, tuple[Any, Any, str, str]] = {}
    for left, right, a, b in rows:
        if a != b and None not in (a, b):
            pairs.setdefault(_chats_key(left, right), (left, right, a, b))
    for start in range(0, len(pairs), _CHATS):
        some = dict(list(pairs.items())[start : start + _CHATS])
        wanted = Conversation.objects.filter(
            pk__in={talk for left, right, *_bots in some.values() for talk in (left, right)}
        )
        alone = set(map(str, wanted.filter(source=Conversation.Source.SELFPLAY).values_list("pk", flat=True)))
        chats = {chat.id: chat for chat in conversation_values(wanted)}
        for key, (left, right, a, b) in some.items():
            first, second = chats[str(left)], chats[str(right)]
            yield ChatPair(key, first, second, a, b, {first.id, second.id} <= alone)


def _chats_key(left: Any, right: Any) -> str:
    return "~".join(sorted(map(str, (left, right))))


def study_judgements(
    study: Study, *, include_synthetic: bool = False, without: Sequence[str] = ()
) -> PairJudgements | None:
    """Read all paired comparisons of two bots in the study; None where no question is about pairs.

    A pair of one bot with itself says nothing about bots and is left out.
    """
    titles = {one.key: one.title for one in study.rubric.dimensions.all() if one.scale == (-1.0, 1.0)}
    if not titles:
        return None
    rows = list(
        with_person(pairs_counted(study, include_synthetic=include_synthetic, without=without))
        .annotate(a=_bot("first"), b=_bot("second"), left=_talk("first"), right=_talk("second"))
        .order_by("pk")
        .values_list(
            "item__key", "left", "right", "item__responses__0", "item__responses__1", "a", "b", "person", "answers"
        )
    )
    replies = _replies_of({talk for row in rows for talk in row[1:3] if talk is not None})
    item, first, second, rater, answers = [], [], [], [], []
    texts: list[tuple[Sequence[str], Sequence[str]]] = []
    for key, left, right, reply, other, a, b, person, given in rows:
        bots = (a, b) if key is None else (_model(reply), _model(other))
        if bots[0] == bots[1] or None in bots:
            continue
        item.append(key if key is not None else _chats_key(left, right))
        first.append(bots[0])
        second.append(bots[1])
        rater.append(str(person) if person else None)
        answers.append(given)
        # Of a chat all its replies count: they are what was compared.
        of_item = None if key is None else ([reply["text"]], [other["text"]])
        texts.append(of_item or (replies.get(left, []), replies.get(right, [])))
    given_to = {key: np.array([_number(one.get(key)) for one in answers], dtype=float) for key in titles}
    smallest = study.values.quotas.smallest_difference
    return PairJudgements(
        item=np.array(item, dtype=object),
        first=np.array(first, dtype=object),
        second=np.array(second, dtype=object),
        rater=np.array(rater, dtype=object),
        answers=given_to,
        titles=titles,
        controls=style_controls([one for one, _two in texts], [two for _one, two in texts]),
        is_collecting=is_collecting(study),
        smallest_share=SMALLEST_SHARE if smallest is None else smallest / 2,
    )


def _model(response: Mapping[str, str]) -> str:
    return response.get("model") or NO_MODEL


def _replies_of(conversation_ids: Collection[Any]) -> dict[Any, list[str]]:
    """Return the bot's replies in each of these conversations, in one query."""
    found: dict[Any, list[str]] = {}
    turns = Turn.objects.filter(conversation__in=conversation_ids, speaker=Turn.Speaker.BOT)
    for talk, text in turns.order_by("conversation", "index").values_list("conversation", "text"):
        found.setdefault(talk, []).append(text)
    return found


def _bot(place: str) -> Any:
    """Return the bot of a slot that stands at this place of a pair."""
    return Coalesce(F(f"{place}__conversation__bot__bot_id"), F(f"{place}__chat__bot__bot_id"))


def _talk(place: str) -> Any:
    """Return the conversation of a slot that stands at this place of a pair: stored before, or made in it."""
    return Coalesce(F(f"{place}__conversation_id"), F(f"{place}__chat__pk"))


def studies_beside(study: Study) -> list[Study]:
    """Return studies by the other way of asking with at least two of this one's bots, newest first.

    Of a study of chats those that compare single replies, and of one that compares those of chats.
    """
    compared = _compared(Item.objects.filter(study=study)).get(study.pk, set())
    if compared:
        chats = Conversation.objects.filter(bot__bot_id__in=compared, study__isnull=False)
        rows = chats.order_by().values_list("study_id", "bot__bot_id").distinct()
        having = _gathered(rows)
    else:
        others = _compared(Item.objects.exclude(study=study))
        if not others:  # before a million ratings are looked at
            return []
        rated = ratings_counted(study).filter(conversation__isnull=False).order_by()
        mine = set(rated.values_list("conversation__bot__bot_id", flat=True).distinct())
        having = {pk: models & mine for pk, models in others.items()}
    found = [pk for pk, bots in having.items() if len(bots) > 1 and pk != study.pk]
    return list(Study.objects.filter(pk__in=found).order_by("-created_at"))


def _compared(items: QuerySet[Item]) -> dict[int, set[str]]:
    """Return by study the models whose replies items set against each other."""
    pairs = items.filter(responses__1__isnull=False, responses__2__isnull=True).order_by()
    rows = pairs.values_list("study_id", "responses__0__model", "responses__1__model").distinct()
    return _gathered((pk, model) for pk, *models in rows for model in models if model)


def _gathered(rows: Iterable[tuple[int, str]]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for pk, name in rows:
        found.setdefault(pk, set()).add(name)
    return found


def _number(answer: Any) -> float:
    return float(answer) if isinstance(answer, int | float) else float("nan")
