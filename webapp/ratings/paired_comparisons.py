"""Reads of paired comparisons between two replies or two conversations, and of ratings of single replies.

The latter come from items, annotated replies, votes, and replies next to a scored reference. Read by the comparison
with metrics (`evaluation.metric_agreement`), the exported table `judged` and notebooks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar, Unpack

import numpy as np
from django.db.models import F, Max, Q, QuerySet
from django.db.models.functions import Coalesce, Length

from evaluation.analysis.pairwise_preference import PairJudgements, style_controls
from evaluation.formats.base import MAX_ID_CHARS
from evaluation.items import VOTE, VOTE_SCALE, ChatPair, JudgedItem
from evaluation.items import ReplyItem as PairItem
from evaluation.ratings import SMALLEST_SHARE, RatingDimension, rater_named
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.selectors import conversations_for_metrics
from webapp.ratings.best_worst import choices_read, implied_pair_items
from webapp.ratings.flag_selectors import left_out
from webapp.ratings.models import Rating
from webapp.ratings.selectors import (
    NO_MODEL,
    CountedWork,
    ratings_counted,
    study_conversations,
    study_dimensions,
    with_person,
)
from webapp.studies.assignment.capacity import keeps_always_valid
from webapp.studies.models import Item, Outcome, Study
from webapp.studies.privacy import pseudonym
from webapp.studies.protocols.base import protocols
from webapp.studies.protocols.chat import PicksProtocol
from webapp.studies.protocols.comparisons import BestWorstProtocol
from webapp.studies.selectors import items_judged, judges_items, marks_turns, talks_to_bots

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

    Where each reply was picked, these are the picks, and not what was asked at the end of the chat. A choice of the
    best and the worst reply implies several.

    Args:
        without: names of flags; participants with one of them are left out.
    """
    of_items = Q(item__study=study, item__purpose=Item.Purpose.JUDGED)
    is_choice = study.protocol == BestWorstProtocol.name
    of_items &= Q(item__responses__1__isnull=False, item__responses__2__isnull=not is_choice)
    found = Rating.objects.filter(
        left_out(study, without), of_items | Q(task__participant__study=study, first__isnull=False)
    ).exclude(task__outcome__in=[Outcome.WITHDRAWN, Outcome.FAILED_CHECK])
    if study.protocol == PicksProtocol.name:
        found = found.filter(at_turn__isnull=False)
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
        if study.protocol == BestWorstProtocol.name:
            yield from implied_pair_items(item)
        elif len(others) == 1:
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
        counted.filter(first__isnull=False, at_turn=None)
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
        chats = {chat.id: chat for chat in conversations_for_metrics(wanted)}
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
    smallest = study.values.quotas.smallest_difference
    smallest_share = SMALLEST_SHARE if smallest is None else smallest / 2
    counted = pairs_counted(study, include_synthetic=include_synthetic, without=without)
    if study.protocol == BestWorstProtocol.name:
        own = {
            "is_collecting": keeps_always_valid(study),
            "smallest_share": smallest_share,
            "level": study.values.quotas.level,
        }
        return PairJudgements.of_choices(choices_read(counted), titles, **own)
    rows = list(
        with_person(counted)
        .annotate(a=_bot("first"), b=_bot("second"), left=_talk("first"), right=_talk("second"))
        .order_by("pk")
        .values_list(
            *("item__key", "left", "right", "item__responses__0", "item__responses__1", "a", "b"),
            *("person", "answers", "at_turn"),
        )
    )
    replies = _replies_of({talk for row in rows for talk in row[1:3] if talk is not None})
    item, first, second, rater, answers, at = [], [], [], [], [], []
    texts: list[tuple[Sequence[str], Sequence[str]]] = []
    for key, left, right, reply, other, a, b, person, given, turn in rows:
        bots = (a, b) if key is None else (_model(reply), _model(other))
        if bots[0] == bots[1] or None in bots:
            continue
        name = key if key is not None else _chats_key(left, right)
        item.append(name if turn is None else f"{name}/{turn}")
        at.append(turn)
        first.append(bots[0])
        second.append(bots[1])
        rater.append(str(person) if person else None)
        answers.append(given)
        # Of a chat all its replies count, unless two of them were compared.
        of_item = None if key is None else ([reply["text"]], [other["text"]])
        said = (replies.get(talk, {}) for talk in (left, right))
        one, two = ([text for index, text in some.items() if turn in (None, index)] for some in said)
        texts.append(of_item or (one, two))
    given_to = {key: np.array([_number(one.get(key)) for one in answers], dtype=float) for key in titles}
    return PairJudgements(
        item=np.array(item, dtype=object),
        first=np.array(first, dtype=object),
        second=np.array(second, dtype=object),
        rater=np.array(rater, dtype=object),
        answers=given_to,
        titles=titles,
        controls=style_controls([one for one, _two in texts], [two for _one, two in texts]),
        exchange=None if None in at else np.array([(turn + 1) // 2 for turn in at], dtype=int),
        is_collecting=keeps_always_valid(study),
        smallest_share=smallest_share,
        level=study.values.quotas.level,
    )


def _model(response: Mapping[str, str]) -> str:
    return response.get("model") or NO_MODEL


def _replies_of(conversation_ids: Collection[Any]) -> dict[Any, dict[int, str]]:
    """Return the bot's replies in each of these conversations by their turns, in one query."""
    found: dict[Any, dict[int, str]] = {}
    turns = Turn.objects.filter(conversation__in=conversation_ids, speaker=Turn.Speaker.BOT)
    for talk, index, text in turns.order_by("conversation", "index").values_list("conversation", "index", "text"):
        found.setdefault(talk, {})[index] = text
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


T = TypeVar("T")
_ITEMS = 500
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
        turns = Turn.objects.filter(conversation__in=ids, is_refused=False).order_by("conversation", "index")
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
