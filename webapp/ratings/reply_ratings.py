"""Ratings of single replies, as rated items.

They come from items, annotated replies, votes, and replies next to a scored reference. Read by the comparison with
metrics (`evaluation.metric_agreement`), the exported table `judged` and notebooks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar, Unpack

import numpy as np
from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Length

from evaluation.formats.base import MAX_ID_CHARS
from evaluation.items import VOTE, VOTE_SCALE, JudgedItem
from evaluation.ratings import RatingDimension, rater_named
from webapp.conversations.models import Conversation, Turn
from webapp.ratings.models import Rating
from webapp.ratings.selectors import CountedWork, ratings_counted, study_conversations, study_dimensions
from webapp.studies.models import Item, Study
from webapp.studies.privacy import pseudonym
from webapp.studies.selectors import judges_items, marks_turns

T = TypeVar("T")
_ITEMS = 500
_CHATS = 100
"""So many are read at once."""


def study_judged(study: Study, **counted: Unpack[CountedWork]) -> Iterator[JudgedItem]:
    """Yield the single replies that participants of a study rated, in constant memory; raters have pseudonyms.

    Where people judge items, these, with their ratings; those with several replies are compared, not judged. Elsewhere
    the
    replies of chats that were marked or voted on: of a vote up or down the dimension is `VOTE`, and no vote says
    nothing.
    """
    if judges_items(study):
        yield from _items(study, ratings_counted(study, **counted))
        return
    chats = study_conversations(study, **counted)
    votes = Turn.objects.filter(conversation__in=chats, speaker=Turn.Speaker.BOT).exclude(vote=0)
    marks = ratings_counted(study, **counted) if marks_turns(study) else Rating.objects.none()
    yield from _replies(study, votes, marks)


@dataclass(frozen=True)
class _Asked:
    """Questions of a study, and the pseudonyms of its participants."""

    study: Study
    dimensions: Mapping[str, RatingDimension]

    @property
    def vote(self) -> str:
        """Name of votes among the questions."""
        return VOTE if VOTE not in self.dimensions else f"{VOTE}_up_or_down"

    @classmethod
    def of(cls, study: Study) -> _Asked:
        return cls(study, {one.key: one for one in study_dimensions(study)})

    def rating(self, name: str | None, answers: Mapping[str, Any]) -> dict[str, Any]:
        """Return one person's scores."""
        said = {key: answers[key] for key in self.dimensions if _is_number(answers.get(key))}
        return self.by(name, said) if said else {}

    def by(self, name: str | None, said: dict[str, Any]) -> dict[str, Any]:
        known = rater_named(name)
        return {"rater": pseudonym(self.study, known), **said} if known else said

    def scales(self, ratings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return scale, scales and reversed questions, of what these ratings answer."""
        given = {key for one in ratings for key in one if key != "rater"}
        ends = {key: (float(one.low), float(one.high)) for key, one in self.dimensions.items() if key in given}
        if self.vote in given:
            ends[self.vote] = VOTE_SCALE
        turned = tuple(key for key in ends if key in self.dimensions and self.dimensions[key].reversed)
        if len(set(ends.values())) == 1:
            return {"scale": next(iter(ends.values())), "reversed": turned}
        return {"scales": ends, "reversed": turned}


def _is_number(answer: Any) -> bool:
    return isinstance(answer, int | float) and not isinstance(answer, bool)


def _items(study: Study, ratings: QuerySet[Rating]) -> Iterator[JudgedItem]:
    asked = _Asked.of(study)
    judged = Item.objects.filter(study=study, pk__in=ratings.values("item"))
    longest = judged.aggregate(n=Max(Length("key")))["n"] or 0
    # Source and id stand for an item together, and files have a longest name for it.
    source = study.key if len(study.key) + 1 + longest <= MAX_ID_CHARS else ""
    for some in _some(judged.order_by("pk").iterator(chunk_size=_ITEMS), _ITEMS):
        said: dict[int, list[dict[str, Any]]] = {}
        rows = ratings.filter(item__in=[item.pk for item in some]).order_by("pk")
        for pk, rater, person, answers in rows.values_list("item", "rater", "participant", "answers"):
            if found := asked.rating(rater or _id(person), answers):
                said.setdefault(pk, []).append(found)
        for item in some:
            given = said.get(item.pk, [])
            [reply] = item.responses
            panel = item.panel
            yield JudgedItem(
                id=item.key,
                source=source,
                context=tuple(item.context),
                response=reply["text"],
                reference=item.reference,
                model=reply.get("model") or "",
                reference_score=item.reference_score,
                task=item.task,
                persona=tuple(panel.get("persona") or ()),
                emotion=panel.get("emotion") or "",
                topic=panel.get("topic") or "",
                ratings=tuple(given),
                **asked.scales(given),
            )


def _replies(study: Study, votes: QuerySet[Turn], marks: QuerySet[Rating]) -> Iterator[JudgedItem]:
    asked = _Asked.of(study)
    places = Q(pk__in=votes.values("conversation")) | Q(pk__in=marks.values("turn__conversation"))
    chats = Conversation.objects.filter(places).order_by("created_at", "pk")
    rows = chats.values_list("pk", "bot__bot_id", "participant").iterator(chunk_size=_CHATS)
    for some in _some(rows, _CHATS):
        ids = [pk for pk, _bot, _person in some]
        said: dict[int, list[dict[str, Any]]] = {}
        given = marks.filter(turn__conversation__in=ids).order_by("pk")
        for turn, rater, person, answers in given.values_list("turn", "rater", "participant", "answers"):
            if found := asked.rating(rater or _id(person), answers):
                said.setdefault(turn, []).append(found)
        people = {pk: _id(person) for pk, _bot, person in some}
        for turn, chat, vote in votes.filter(conversation__in=ids).values_list("pk", "conversation", "vote"):
            said.setdefault(turn, []).append(asked.by(people[chat], {asked.vote: vote}))
        talks: dict[Any, list[tuple[int, int, str]]] = {}
        turns = Turn.objects.filter(conversation__in=ids).order_by("conversation", "index")
        for pk, chat, index, text in turns.values_list("pk", "conversation", "index", "text"):
            talks.setdefault(chat, []).append((pk, index, text))
        for chat, bot, _person in some:
            texts = talks.get(chat, [])
            for n, (pk, index, text) in enumerate(texts):
                if pk not in said:
                    continue
                yield JudgedItem(
                    id=f"{chat}/{index}",
                    source=study.key,
                    context=tuple(before for _pk, _index, before in texts[:n]),
                    response=text,
                    model=bot,
                    ratings=tuple(said[pk]),
                    **asked.scales(said[pk]),
                )


def _some(rows: Iterable[T], n: int) -> Iterator[list[T]]:
    """Yield the rows, n at a time."""
    iterator = iter(rows)
    while found := list(islice(iterator, n)):
        yield found


def _id(person: Any) -> str | None:
    return str(person) if person else None


def study_references(study: Study, **counted: Unpack[CountedWork]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return direction, the reference's score as it was left, and as it was shown; in the order of `study_ratings`.

    Each is (k,), NaN where there is none.
    """
    found = ratings_counted(study, **counted)
    rows: list[Any] = list(found.order_by("pk").values_list("answers", "item__reference_score"))
    nan = float("nan")
    known = [nan if score is None else score for _answers, score in rows]
    direction = [answers.get("direction", nan) for answers, _score in rows]
    left = [answers.get("reference_score", score) for (answers, _score), score in zip(rows, known, strict=True)]
    return tuple(np.array(one, dtype=float) for one in (direction, left, known))  # type: ignore[return-value]
