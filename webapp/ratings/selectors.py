"""Queries for ratings of a participant or a study, and its bots."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

import numpy as np
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery, UUIDField
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from evaluation.data.ratings import MEAN_KEY, RatingDimension, Ratings, headline
from evaluation.plots.marks import slots_of
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.ratings.flag_selectors import left_out
from webapp.ratings.models import Rating
from webapp.studies.assignment.capacity import keeps_always_valid
from webapp.studies.bot_columns import BotColumns
from webapp.studies.models import Dimension as Question
from webapp.studies.models import Item, Outcome, Participant, PlatformIds, Rubric, Study
from webapp.studies.models.participants import IMPORT_PLATFORM
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.selectors import conversations_given, items_given

MODEL_LOOKUP = "item__responses__0__model"
"""Lookup path from a rating to the models of an item's replies."""
NO_MODEL = "(no model named)"


@dataclass(frozen=True, slots=True)
class BotInfo:
    """Bot of a study with its colour slot, from 1."""

    bot_id: str
    title: str
    slot: int
    is_control: bool


def study_bots(study: Study) -> dict[str, BotInfo]:
    """Return every bot of the study and its data, with its slot.

    The study's own bots come first, in order; bots found only in the data follow by name. Controls are those
    registered so, those that the study's own table of bots calls so, and those marked on their pages or by an import.
    """
    seen = _get_bots_by_id(study.conversations.all())
    if get_protocol(study).judges_conversations:
        seen |= _get_bots_by_id(conversations_given(study, is_rehearsal=True))
    known = {*seen, *_models(study)} if get_protocol(study).judges_items else set(seen)
    ids = list(dict.fromkeys([*study.bots, *sorted(known)]))
    registered = _registered(set(ids) - set(seen))
    columns = BotColumns.from_json(study.bot_columns)
    marked = columns.control | columns.marked
    bots = {}
    for slot, bot_id in zip(slots_of(len(ids)), ids, strict=True):
        row = seen.get(bot_id)
        title, control = registered.get(bot_id, (bot_id, False))
        if row is not None:
            title, control = row["title"], row["is_control"]
        bots[bot_id] = BotInfo(bot_id, title or bot_id, slot, control or bot_id in marked)
    return bots


def _get_bots_by_id(conversations: QuerySet[Conversation]) -> dict[str, Any]:
    """Return the bots of these conversations, by id."""
    bot_conversations = conversations.filter(bot=OuterRef("pk")).order_by()
    rows = BotVersion.objects.filter(Exists(bot_conversations)).order_by("bot_id", "pk")
    return {row["bot_id"]: row for row in rows.values("bot_id", "title", "is_control")}


def _models(study: Study) -> set[str]:
    """Return the models that gave the replies of the study's items."""
    items = items_given(study).order_by()
    models: set[str] = set()
    for number in range(most_replies(study)):
        filled_items = items.filter(**{f"responses__{number}__isnull": False})
        models |= {
            model or NO_MODEL for model in filled_items.values_list(f"responses__{number}__model", flat=True).distinct()
        }
    return models


def most_replies(study: Study) -> int:
    """Return the maximum number of replies of the study's items."""
    return (protocols.get(study.protocol).most_replies if study.protocol in protocols else None) or 2


def _registered(ids: set[str]) -> dict[str, tuple[str, bool]]:
    if not ids:
        return {}
    from chatbots.registry import bots as registry
    from webapp.bots.selectors import bots_discover

    bots_discover()
    return {bot.name: (bot.title, bot.is_control) for bot in registry if bot.name in ids}


def with_person(ratings: QuerySet[Rating]) -> QuerySet[Rating]:
    """Annotate ratings with `person`, the id of their participant.

    None without a name.

    If a participant rates an imported conversation twice, the second rating only has the name.
    """
    by_name = PlatformIds.objects.filter(
        ~Q(external_id=""),
        platform=IMPORT_PLATFORM,
        study=OuterRef("conversation__study"),
        external_id=OuterRef("rater"),
    )
    named_person = Subquery(by_name.values("participant")[:1], output_field=UUIDField())
    return ratings.annotate(person=Coalesce("participant_id", named_person))


def ratings_by(people: QuerySet[Participant]) -> QuerySet[Rating]:
    """Return all ratings by these participants and of their chats.

    Includes ratings of turns in, and pairs with, their chats.
    """
    ways = ("conversation", "turn__conversation", "first__conversation", "second__conversation")
    of_theirs = Q(task__participant__in=people)
    for way in ways:
        of_theirs |= Q(**{f"{way}__participant__in": people})
    return with_person(Rating.objects.all()).filter(Q(person__in=people.values("pk")) | of_theirs)


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """Reply that a scripted participant marked, and the titles of its marks or answers."""

    reply: str
    marks: list[str]


def scripted_answers(study: Study, n: int) -> list[ScriptedAnswer]:
    """Return the newest answers of scripted participants about single replies."""
    rows = Rating.objects.filter(task__participant__study=study, participant__is_synthetic=True, turn__isnull=False)
    dimensions = study_dimensions(study)
    return [
        ScriptedAnswer(
            rating.turn.text,  # type: ignore[union-attr]
            [
                dimension.title if (dimension.low, dimension.high) == (0, 1) else f"{dimension.title}: {answer:g}"
                for dimension in dimensions
                if (answer := rating.answers.get(dimension.key))
            ],
        )
        for rating in rows.select_related("turn").order_by("-submitted_at", "-pk")[:n]
    ]


def raters_count(ratings: QuerySet[Rating]) -> int:
    """Return the number of raters, counted by the database.

    It equals `Ratings.n_raters`.
    """
    known = ratings.filter(participant__isnull=False).order_by().values_list("participant")
    # Count names, of which there are fewer than ratings.
    by_name = ratings.filter(participant=None, conversation__study=OuterRef("study"), rater=OuterRef("external_id"))
    named_ids = PlatformIds.objects.filter(~Q(external_id=""), Exists(by_name), platform=IMPORT_PLATFORM)
    return known.distinct().union(named_ids.values_list("participant").distinct()).count()


class CountedWork(TypedDict, total=False):
    """Options for the work included in a study's results.

    Attributes:
        include_synthetic: also include scripted participants.
        include_failed: also chats whose bot failed, and work of participants who missed an attention check.
        without: names of flags; work of participants with one of them is left out.
    """

    include_synthetic: bool
    include_failed: bool
    without: Sequence[str]


def ratings_counted(
    study: Study, *, include_synthetic: bool = False, include_failed: bool = False, without: Sequence[str] = ()
) -> QuerySet[Rating]:
    """Return the ratings included in the study's results.

    Ratings of abandoned tasks count; withdrawn ones and attention checks do not. Pairs and items with several replies
    are comparisons, so they are not included.

    Args:
        include_failed: also those of chats whose bot failed, and of participants who missed an attention check.
        without: names of flags; participants with one of them are left out.
    """
    flag_condition = left_out(study, without)
    set_apart = [Outcome.WITHDRAWN] if include_failed else [Outcome.WITHDRAWN, Outcome.FAILED_CHECK]
    if get_protocol(study).marks_turns:
        # Open chats and those with a failed bot do not count.
        ratings = Rating.objects.filter(
            flag_condition, turn__conversation__state=Conversation.State.COMPLETED, task__participant__study=study
        )
        ratings = ratings.exclude(task__outcome__in=set_apart)
        return ratings if include_synthetic else ratings.filter(participant__is_synthetic=False)
    if not get_protocol(study).judges_items:
        conversations = study_conversations(
            study, include_synthetic=include_synthetic, include_failed=include_failed, without=without
        )
        return Rating.objects.filter(flag_condition, conversation__in=conversations)
    ratings = Rating.objects.filter(flag_condition, item__study=study, item__responses__1__isnull=True)
    ratings = ratings.exclude(item__purpose__in=Item.UNCOUNTED)
    # Imported ratings have no task.
    ratings = ratings.filter(Q(task=None) | ~Q(task__outcome__in=set_apart))
    return ratings if include_synthetic else ratings.filter(participant__is_synthetic=False)


def states_counted(*, include_failed: bool = False) -> list[str]:
    """Return the states of conversations that count for a study's numbers."""
    states = [Conversation.State.COMPLETED]
    return [*states, Conversation.State.FAILED, Conversation.State.ENDED] if include_failed else [*states]


def conversations_counted(
    study: Study, *, include_synthetic: bool = False, include_failed: bool = False, without: Sequence[str] = ()
) -> Q:
    """Return the condition on conversations that count; see `CountedWork`."""
    states = states_counted(include_failed=include_failed)
    condition = left_out(study, without) & Q(study=study, state__in=states)
    condition &= ~Q(source__in=Conversation.WITHOUT_PEOPLE)
    return condition if include_synthetic else condition & Q(is_synthetic=False)


def study_conversations(study: Study, **counted_work: Unpack[CountedWork]) -> QuerySet[Conversation]:
    """Return the conversations that count for the study's numbers."""
    return study.conversations.filter(conversations_counted(study, **counted_work))


def study_dimensions(study: Study) -> list[RatingDimension]:
    """Return the rubric's questions; the overall question comes first."""
    dimensions = _read_dimensions(study.rubric)
    (first, *_rest) = headline(dimensions, ordered=True) or ("",)
    return sorted(dimensions, key=lambda dimension: dimension.key != first)


def _read_dimensions(rubric: Rubric) -> list[RatingDimension]:
    return [
        RatingDimension(
            dimension.key,
            dimension.title,
            *dimension.scale,
            dimension.low_label,
            dimension.high_label,
            reversed=dimension.reversed,
            inferred=dimension.scale_inferred,
        )
        for dimension in rubric.dimensions.all()
    ]


def study_whole(study: Study) -> tuple[str, ...]:
    """Return the keys of the questions whose mean ranks the bots.

    Hybrid metrics predict this mean by default.
    """
    return headline(study_dimensions(study), ordered=not study.is_imported)


def as_counted(dimension: RatingDimension) -> RatingDimension:
    """Return a question as analyses show it, with reversed scales swapped."""
    if not dimension.reversed:
        return dimension
    return replace(
        dimension,
        title=_("{title}, reversed").format(title=dimension.title),
        low_label=dimension.high_label,
        high_label=dimension.low_label,
    )


def title_as_given(dimension: RatingDimension | Question) -> str:
    """Return a question's title for raw answers.

    For reversed questions it adds that low is good.
    """
    if not dimension.reversed:
        return dimension.title
    return _("{title} (lower is better)").format(title=dimension.title)


def dimensions_led(dimensions: Sequence[RatingDimension], headline_keys: Sequence[str]) -> list[RatingDimension]:
    """Return the headline measure with a title, then the other questions.

    Args:
        headline_keys: keys of the questions whose mean bots are ranked by.
    """
    headline_dimensions = [dimension for dimension in dimensions if dimension.key in headline_keys]
    if len(headline_dimensions) < 2:
        return [*headline_dimensions, *(dimension for dimension in dimensions if dimension not in headline_dimensions)]
    title = _("Mean of all dimensions")
    inferred = any(dimension.inferred for dimension in headline_dimensions)
    turned = None if any(dimension.reversed is None for dimension in headline_dimensions) else False
    mean = RatingDimension(
        MEAN_KEY, title, headline_dimensions[0].low, headline_dimensions[0].high, reversed=turned, inferred=inferred
    )
    return [mean, *dimensions]


def ranking_dimensions(study: Study) -> list[RatingDimension]:
    """Return the measure that bots are ranked by, then the rubric's questions, titled for raw answers."""
    dimensions = study_dimensions(study)
    led = dimensions_led(dimensions, headline(dimensions, ordered=not study.is_imported))
    return [replace(d, title=title_as_given(d)) for d in led]


def study_ratings(
    study: Study,
    *,
    exclude_bots: Collection[str] = (),
    earlier_questions: bool = False,
    only: Sequence[str] | None = None,
    **counted_work: Unpack[CountedWork],
) -> Ratings:
    """Return all ratings of a study's conversations or items.

    Items, if those are rated (see `ratings_counted`).

    Args:
        exclude_bots: bots to leave out.
        earlier_questions: also answered questions of earlier versions of the rubric.
        only: ids of at most a few hundred conversations to which the ratings are limited.
    """
    if only is None:
        ratings = ratings_counted(study, **counted_work)
    else:
        ratings = Rating.objects.filter(conversation__study=study, conversation_id__in=only)
    of_items, of_turns = get_protocol(study).judges_items, get_protocol(study).marks_turns
    target_columns: tuple[str, ...] = ("conversation_id", "conversation__bot__bot_id")
    if of_items:
        target_columns = ("item__key", MODEL_LOOKUP)
    elif of_turns:
        target_columns = ("turn__conversation_id", "turn__conversation__bot__bot_id", "turn__index")
    factors = study.values.conditions.factors
    under = [f"{'turn__' if of_turns else ''}conversation__condition"] if factors and not of_items else []
    rows: list[Any] = list(
        with_person(ratings).order_by("pk").values_list(*target_columns, "person", "answers", *under)
    )
    if of_items:
        rows = [(key, model or NO_MODEL, *rest) for key, model, *rest in rows]
    elif of_turns:
        rows = [(f"{chat}/{index}", bot, *rest) for chat, bot, index, *rest in rows]
    rows = [row for row in rows if row[1] not in exclude_bots]
    dimensions = study_dimensions(study)
    if earlier_questions:
        dimensions += _earlier(ratings, {dimension.key for dimension in dimensions})
        answered = {key for row in rows for key in row[3]}
        dimensions = [dimension for dimension in dimensions if dimension.key in answered]
    answers = {
        dimension.key: np.array([_number(row[3].get(dimension.key)) for row in rows], dtype=float)
        for dimension in dimensions
    }
    headline_keys, is_sequential = study_whole(study), keeps_always_valid(study)
    all_ratings = Ratings(
        conversation=np.array([str(row[0]) for row in rows], dtype=object),
        bot=np.array([row[1] for row in rows], dtype=object),
        rater=np.array([str(row[2]) if row[2] else None for row in rows], dtype=object),
        answers=answers,
        dimensions=tuple(_widened(as_counted(d), answers[d.key]) for d in dimensions),
        headline=headline_keys if set(headline_keys) <= set(answers) else (),
        controls=frozenset(bot for bot, info in study_bots(study).items() if info.is_control),
        is_collecting=is_sequential,
        context=rating_contexts(study, [str(row[0]) for row in rows]) if is_sequential else None,
        condition={
            factor.key: np.array([row[4].get(factor.key, "") for row in rows], dtype=object)
            for factor in factors
            if under
        },
    )
    smallest, all_ratings = (
        study.values.quotas.smallest_difference,
        replace(all_ratings, level=study.values.quotas.level),
    )
    if smallest is None or all_ratings.leading is None:
        return all_ratings
    low, high = all_ratings.scale()
    return replace(all_ratings, smallest_share=smallest / (high - low))


def rating_contexts(study: Study, keys: Sequence[str]) -> np.ndarray | None:
    """Return the context of each rated reply, by its name in `Ratings`.

    None for whole chats.
    """
    if get_protocol(study).marks_turns:
        return np.array([key.split("/")[0] for key in keys], dtype=object)
    if not get_protocol(study).judges_items:
        return None
    contexts_by_key = {
        key: json.dumps(context) if context else key
        for key, context in Item.objects.filter(study=study).values_list("key", "context")
    }
    return np.array([contexts_by_key.get(key, key) for key in keys], dtype=object)


def _earlier(ratings: QuerySet[Rating], known: set[str]) -> list[RatingDimension]:
    """Return questions of earlier rubrics that these ratings answered."""
    rubrics = Rubric.objects.filter(pk__in=ratings.order_by().values("rubric"))
    dimensions = {
        dimension.key: dimension
        for rubric in rubrics.order_by("pk").prefetch_related("dimensions")
        for dimension in _read_dimensions(rubric)
    }
    return [dimensions[key] for key in sorted(dimensions.keys() - known)]


def _widened(dimension: RatingDimension, answers: np.ndarray) -> RatingDimension:
    """Return the question with a scale wide enough for all answers.

    An earlier version may have allowed more.
    """
    known = answers[np.isfinite(answers)]
    if not len(known):
        return dimension
    return replace(dimension, low=min(dimension.low, float(known.min())), high=max(dimension.high, float(known.max())))


def _number(answer: Any) -> float:
    return float(answer) if isinstance(answer, int | float) else float("nan")
