"""Queries for paired comparisons and for ratings of single replies.

The latter come from items, annotated replies, votes, and replies next to a scored reference. Read by the comparison
with metrics (`evaluation.agreement.metric_agreement`), the exported table `judged` and notebooks.
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
from evaluation.data.formats.base import MAX_ID_CHARS
from evaluation.data.items import VOTE, VOTE_SCALE, ChatPair, JudgedItem
from evaluation.data.items import ReplyItem as PairItem
from evaluation.data.ratings import SMALLEST_SHARE, RatingDimension, rater_named
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.selectors import conversations_for_metrics
from webapp.ratings.flag_selectors import left_out
from webapp.ratings.models import Rating
from webapp.ratings.ordered_choices import implied_pair_items, read_choices
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
from webapp.studies.protocols.base import get_protocol
from webapp.studies.selectors import items_judged

_CHATS = 100
"""Number of pairs of chats that are loaded at once."""
SAME_QUESTION = {"relatedness": "contingency", "quality": "overall"}
"""Questions about single replies, with the equivalent questions about chats."""


def pairs_counted(study: Study, *, include_synthetic: bool = False, without: Sequence[str] = ()) -> QuerySet[Rating]:
    """Return the study's valid paired comparisons, of replies or slots.

    In studies with picks at every turn these are the picks, not the answers at the end of the chat. A choice among
    several replies implies several comparisons.

    Args:
        without: names of flags; participants with one of them are left out.
    """
    of_items, protocol = Q(item__study=study, item__purpose=Item.Purpose.JUDGED), get_protocol(study)
    of_items &= Q(item__responses__1__isnull=False, item__responses__2__isnull=protocol.order is None)
    ratings = Rating.objects.filter(
        left_out(study, without), of_items | Q(task__participant__study=study, first__isnull=False)
    ).exclude(task__outcome__in=[Outcome.WITHDRAWN, Outcome.FAILED_CHECK])
    if protocol.picks_replies:
        ratings = ratings.filter(at_turn__isnull=False)
    return ratings if include_synthetic else ratings.filter(participant__is_synthetic=False)


def answers_counted(study: Study, *, include_synthetic: bool = False, without: Sequence[str] = ()) -> QuerySet[Rating]:
    """Return the study's valid ratings: of pairs, else of bots or items.

    Pages use them to show whether there are data, and how many.

    Args:
        without: names of flags; participants with one of them are left out.
    """
    select_ratings = pairs_counted if get_protocol(study).compares_pairs else ratings_counted
    return select_ratings(study, include_synthetic=include_synthetic, without=without)


def study_pair_items(study: Study) -> Iterator[PairItem]:
    """Yield the study's pair items, without checks, for automatic judges."""
    has_order = get_protocol(study).order is not None
    for item in items_judged(study).order_by("pk").iterator(chunk_size=500):
        first, *other_responses = item.responses
        if has_order:
            yield from implied_pair_items(item)
        elif len(other_responses) == 1:
            yield PairItem(
                id=item.key,
                context=tuple(item.context),
                response=first["text"],
                model=first.get("model") or "",
                second_response=other_responses[0]["text"],
                second_model=other_responses[0].get("model") or "",
            )


def study_pair_chats(
    study: Study, *, include_synthetic: bool = False, excluded_flags: Sequence[str] = ()
) -> Iterator[ChatPair]:
    """Yield each compared pair of whole chats of two bots once.

    Their names are those of `study_judgements`.
    """
    comparisons = pairs_counted(study, include_synthetic=include_synthetic, without=excluded_flags)
    rows = (
        comparisons.filter(first__isnull=False, at_turn=None)
        .annotate(a=_bot("first"), b=_bot("second"), left=_talk("first"), right=_talk("second"))
        .order_by("pk")
        .values_list("left", "right", "a", "b")
    )
    pairs: dict[str, tuple[Any, Any, str, str]] = {}
    for first_pk, second_pk, a, b in rows:
        if a != b and None not in (a, b):
            pairs.setdefault(_chats_key(first_pk, second_pk), (first_pk, second_pk, a, b))
    for start in range(0, len(pairs), _CHATS):
        batch = dict(list(pairs.items())[start : start + _CHATS])
        conversations = Conversation.objects.filter(
            pk__in={talk for first_pk, second_pk, *_bots in batch.values() for talk in (first_pk, second_pk)}
        )
        alone = set(map(str, conversations.filter(source=Conversation.Source.SELFPLAY).values_list("pk", flat=True)))
        chats = {chat.id: chat for chat in conversations_for_metrics(conversations)}
        for key, (first_pk, second_pk, a, b) in batch.items():
            first, second = chats[str(first_pk)], chats[str(second_pk)]
            yield ChatPair(key, first, second, a, b, {first.id, second.id} <= alone)


def _chats_key(first_pk: Any, second_pk: Any) -> str:
    return "~".join(sorted(map(str, (first_pk, second_pk))))


def study_judgements(
    study: Study, *, include_synthetic: bool = False, excluded_flags: Sequence[str] = ()
) -> PairJudgements | None:
    """Return the study's paired comparisons of bots; None without pair questions.

    A pair of one bot with itself says nothing about bots and is left out.
    """
    titles = {
        dimension.key: dimension.title for dimension in study.rubric.dimensions.all() if dimension.scale == (-1.0, 1.0)
    }
    if not titles:
        return None
    smallest = study.values.quotas.smallest_difference
    smallest_share = SMALLEST_SHARE if smallest is None else smallest / 2
    comparisons = pairs_counted(study, include_synthetic=include_synthetic, without=excluded_flags)
    if (order := get_protocol(study).order) is not None:
        choice_settings = {
            "is_collecting": keeps_always_valid(study),
            "smallest_share": smallest_share,
            "level": study.values.quotas.level,
        }
        return PairJudgements.of_choices(read_choices(comparisons, order), titles, **choice_settings)
    rows = list(
        with_person(comparisons)
        .annotate(a=_bot("first"), b=_bot("second"), left=_talk("first"), right=_talk("second"))
        .order_by("pk")
        .values_list(
            *("item__key", "left", "right", "item__responses__0", "item__responses__1", "a", "b"),
            *("person", "answers", "at_turn"),
        )
    )
    replies = _replies_of({talk for row in rows for talk in row[1:3] if talk is not None})
    item, first, second, rater, answers, turns = [], [], [], [], [], []
    texts: list[tuple[Sequence[str], Sequence[str]]] = []
    for key, first_pk, second_pk, first_response, second_response, a, b, person, rating_answers, turn in rows:
        bots = (a, b) if key is None else (_model(first_response), _model(second_response))
        if bots[0] == bots[1] or None in bots:
            continue
        name = key if key is not None else _chats_key(first_pk, second_pk)
        item.append(name if turn is None else f"{name}/{turn}")
        turns.append(turn)
        first.append(bots[0])
        second.append(bots[1])
        rater.append(str(person) if person else None)
        answers.append(rating_answers)
        # A comparison of chats includes all replies, unless two replies were compared.
        of_item = None if key is None else ([first_response["text"]], [second_response["text"]])
        chat_replies = (replies.get(talk, {}) for talk in (first_pk, second_pk))
        first_texts, second_texts = (
            [text for index, text in replies_by_turn.items() if turn in (None, index)]
            for replies_by_turn in chat_replies
        )
        texts.append(of_item or (first_texts, second_texts))
    given_to = {
        key: np.array([_number(rating_answers.get(key)) for rating_answers in answers], dtype=float) for key in titles
    }
    return PairJudgements(
        item=np.array(item, dtype=object),
        first=np.array(first, dtype=object),
        second=np.array(second, dtype=object),
        rater=np.array(rater, dtype=object),
        answers=given_to,
        titles=titles,
        controls=style_controls(
            [first_texts for first_texts, _second_texts in texts],
            [second_texts for _first_texts, second_texts in texts],
        ),
        exchange=None if None in turns else np.array([(turn + 1) // 2 for turn in turns], dtype=int),
        is_collecting=keeps_always_valid(study),
        smallest_share=smallest_share,
        level=study.values.quotas.level,
    )


def _model(response: Mapping[str, str]) -> str:
    return response.get("model") or NO_MODEL


def _replies_of(conversation_ids: Collection[Any]) -> dict[Any, dict[int, str]]:
    """Return the bot's replies in these conversations by turn.

    This takes one query.
    """
    replies: dict[Any, dict[int, str]] = {}
    turns = Turn.objects.filter(conversation__in=conversation_ids, speaker=Turn.Speaker.BOT)
    for talk, index, text in turns.order_by("conversation", "index").values_list("conversation", "index", "text"):
        replies.setdefault(talk, {})[index] = text
    return replies


def _bot(place: str) -> Any:
    """Return the bot of a slot at this side of a pair."""
    return Coalesce(F(f"{place}__conversation__bot__bot_id"), F(f"{place}__chat__bot__bot_id"))


def _talk(place: str) -> Any:
    """Return the conversation of a slot at this side of a pair."""
    return Coalesce(F(f"{place}__conversation_id"), F(f"{place}__chat__pk"))


def studies_beside(study: Study) -> list[Study]:
    """Return comparable studies of the other protocol, newest first.

    They share at least two bots with this study. For a study of chats these compare single replies, and vice versa.
    """
    compared = _compared(Item.objects.filter(study=study)).get(study.pk, set())
    if compared:
        chats = Conversation.objects.filter(bot__bot_id__in=compared, study__isnull=False)
        rows = chats.order_by().values_list("study_id", "bot__bot_id").distinct()
        having = _group_names(rows)
    else:
        compared_models = _compared(Item.objects.exclude(study=study))
        if not compared_models:  # before a million ratings are loaded
            return []
        rated = ratings_counted(study).filter(conversation__isnull=False).order_by()
        rated_models = set(rated.values_list("conversation__bot__bot_id", flat=True).distinct())
        having = {pk: models & rated_models for pk, models in compared_models.items()}
    study_ids = [pk for pk, bots in having.items() if len(bots) > 1 and pk != study.pk]
    return list(Study.objects.filter(pk__in=study_ids).order_by("-created_at"))


def _compared(items: QuerySet[Item]) -> dict[int, set[str]]:
    """Return the models compared in items, by study."""
    pairs = items.filter(responses__1__isnull=False, responses__2__isnull=True).order_by()
    rows = pairs.values_list("study_id", "responses__0__model", "responses__1__model").distinct()
    return _group_names((pk, model) for pk, *models in rows for model in models if model)


def _group_names(rows: Iterable[tuple[int, str]]) -> dict[int, set[str]]:
    names_by_study: dict[int, set[str]] = {}
    for pk, name in rows:
        names_by_study.setdefault(pk, set()).add(name)
    return names_by_study


def _number(answer: Any) -> float:
    return float(answer) if isinstance(answer, int | float) else float("nan")


T = TypeVar("T")
_ITEMS = 500
"""Number of items that are loaded at once."""


def study_judged(study: Study, **counted_work: Unpack[CountedWork]) -> Iterator[JudgedItem]:
    """Yield the single replies that participants of a study rated.

    Raters have pseudonyms, and memory use is constant.

    In studies of items these are the items with their ratings; items with several replies are compared, not rated. In
    other studies these are replies of chats that were labelled or voted on: the dimension of an up or down vote is
    `VOTE`, and a missing vote is ignored.
    """
    if get_protocol(study).judges_items:
        yield from _items(study, ratings_counted(study, **counted_work))
        return
    chats = study_conversations(study, **counted_work)
    votes = Turn.objects.filter(conversation__in=chats, speaker=Turn.Speaker.BOT).exclude(vote=0)
    marks = ratings_counted(study, **counted_work) if get_protocol(study).marks_turns else Rating.objects.none()
    yield from _replies(study, votes, marks)


@dataclass(frozen=True)
class _StudyQuestions:
    """Questions of a study, and the pseudonyms of its participants."""

    study: Study
    dimensions: Mapping[str, RatingDimension]

    @property
    def vote(self) -> str:
        """Name of votes among the questions."""
        return VOTE if VOTE not in self.dimensions else f"{VOTE}_up_or_down"

    @classmethod
    def from_study(cls, study: Study) -> _StudyQuestions:
        return cls(study, {dimension.key: dimension for dimension in study_dimensions(study)})

    def rating(self, name: str | None, answers: Mapping[str, Any]) -> dict[str, Any]:
        """Return one participant's scores."""
        scores = {key: answers[key] for key in self.dimensions if _is_number(answers.get(key))}
        return self.add_rater(name, scores) if scores else {}

    def add_rater(self, name: str | None, scores: dict[str, Any]) -> dict[str, Any]:
        known = rater_named(name)
        return {"rater": pseudonym(self.study, known), **scores} if known else scores

    def scales(self, ratings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the scale, all scales and reversed questions of these ratings."""
        answered_keys = {key for rating in ratings for key in rating if key != "rater"}
        ends = {
            key: (float(dimension.low), float(dimension.high))
            for key, dimension in self.dimensions.items()
            if key in answered_keys
        }
        if self.vote in answered_keys:
            ends[self.vote] = VOTE_SCALE
        turned = tuple(key for key in ends if key in self.dimensions and self.dimensions[key].reversed)
        if len(set(ends.values())) == 1:
            return {"scale": next(iter(ends.values())), "reversed": turned}
        return {"scales": ends, "reversed": turned}


def _is_number(answer: Any) -> bool:
    return isinstance(answer, int | float) and not isinstance(answer, bool)


def _items(study: Study, ratings: QuerySet[Rating]) -> Iterator[JudgedItem]:
    questions = _StudyQuestions.from_study(study)
    judged = Item.objects.filter(study=study, pk__in=ratings.values("item"))
    longest = judged.aggregate(n=Max(Length("key")))["n"] or 0
    # Source and id together identify an item, and files limit the length of its name.
    source = study.key if len(study.key) + 1 + longest <= MAX_ID_CHARS else ""
    for batch in _read_batches(judged.order_by("pk").iterator(chunk_size=_ITEMS), _ITEMS):
        ratings_by_item: dict[int, list[dict[str, Any]]] = {}
        rows = ratings.filter(item__in=[item.pk for item in batch]).order_by("pk")
        for pk, rater, person, answers in rows.values_list("item", "rater", "participant", "answers"):
            if scores := questions.rating(rater or _id(person), answers):
                ratings_by_item.setdefault(pk, []).append(scores)
        for item in batch:
            item_ratings = ratings_by_item.get(item.pk, [])
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
                ratings=tuple(item_ratings),
                **questions.scales(item_ratings),
            )


def _replies(study: Study, votes: QuerySet[Turn], marks: QuerySet[Rating]) -> Iterator[JudgedItem]:
    questions = _StudyQuestions.from_study(study)
    places = Q(pk__in=votes.values("conversation")) | Q(pk__in=marks.values("turn__conversation"))
    chats = Conversation.objects.filter(places).order_by("created_at", "pk")
    rows = chats.values_list("pk", "bot__bot_id", "participant").iterator(chunk_size=_CHATS)
    for batch in _read_batches(rows, _CHATS):
        ids = [pk for pk, _bot, _person in batch]
        ratings_by_turn: dict[int, list[dict[str, Any]]] = {}
        annotations = marks.filter(turn__conversation__in=ids).order_by("pk")
        for turn, rater, person, answers in annotations.values_list("turn", "rater", "participant", "answers"):
            if scores := questions.rating(rater or _id(person), answers):
                ratings_by_turn.setdefault(turn, []).append(scores)
        people = {pk: _id(person) for pk, _bot, person in batch}
        for turn, chat, vote in votes.filter(conversation__in=ids).values_list("pk", "conversation", "vote"):
            ratings_by_turn.setdefault(turn, []).append(questions.add_rater(people[chat], {questions.vote: vote}))
        talks: dict[Any, list[tuple[int, int, str]]] = {}
        turns = Turn.objects.filter(conversation__in=ids, is_refused=False).order_by("conversation", "index")
        for pk, chat, index, text in turns.values_list("pk", "conversation", "index", "text"):
            talks.setdefault(chat, []).append((pk, index, text))
        for chat, bot, _person in batch:
            texts = talks.get(chat, [])
            for n, (pk, index, text) in enumerate(texts):
                if pk not in ratings_by_turn:
                    continue
                yield JudgedItem(
                    id=f"{chat}/{index}",
                    source=study.key,
                    context=tuple(before for _pk, _index, before in texts[:n]),
                    response=text,
                    model=bot,
                    ratings=tuple(ratings_by_turn[pk]),
                    **questions.scales(ratings_by_turn[pk]),
                )


def _read_batches(rows: Iterable[T], n: int) -> Iterator[list[T]]:
    """Yield the rows, n at a time."""
    iterator = iter(rows)
    while batch := list(islice(iterator, n)):
        yield batch


def _id(person: Any) -> str | None:
    return str(person) if person else None


def study_references(study: Study, **counted_work: Unpack[CountedWork]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return direction and reference scores, in `study_ratings`' order.

    The scores are the final one and the displayed one.

    Each has shape (k,), with NaN for missing values.
    """
    ratings = ratings_counted(study, **counted_work)
    rows: list[Any] = list(ratings.order_by("pk").values_list("answers", "item__reference_score"))
    nan = float("nan")
    known = [nan if score is None else score for _answers, score in rows]
    direction = [answers.get("direction", nan) for answers, _score in rows]
    entered_scores = [
        answers.get("reference_score", score) for (answers, _score), score in zip(rows, known, strict=True)
    ]
    columns = (direction, entered_scores, known)
    return tuple(np.array(column, dtype=float) for column in columns)  # type: ignore[return-value]
