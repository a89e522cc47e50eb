"""Table `ratings`: one row per rating, with a column per question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery

from evaluation.analysis.error_spans import SEVERITIES
from webapp.conversations.models import Conversation, Turn
from webapp.ratings.error_spans import spans_stored
from webapp.ratings.flag_selectors import left_out
from webapp.ratings.models import Rating
from webapp.search.index_statistics import conversation_totals
from webapp.studies.models import Dimension, Item, Outcome, Slot, Study, Task
from webapp.studies.protocols.base import get_protocol
from webapp.studies.protocols.criteria import CRITERIA
from webapp.studies.questions import Question
from webapp.studies.recruitment.completion import completion_now
from webapp.studies.reply_marks import SPANS, STEPS
from webapp.studies.selectors import labels_steps, other_questions_of_study
from webapp.studies.sittings import SITTING
from webapp.transfer.exporters.base import (
    CHUNK,
    CONVERSATION_COLUMNS,
    NOT_ANSWERED,
    STUDY_COLUMNS,
    ColumnQuestion,
    ExportColumn,
    ExportOptions,
    answer_cell,
    answer_column,
    condition_cells,
    condition_columns,
    included,
    rater_of,
    register_exporter,
)

_BEFORE = (
    ExportColumn("rating", "integer", "Number of the rating."),
    ExportColumn("conversation", "text", "Id of the rated conversation."),
    ExportColumn("bot", "text", "Id of the bot in the conversation."),
    ExportColumn("bot_version", "text", "Key of the bot's identity: name, version, parameters."),
    ExportColumn(
        "rater",
        "text",
        "Name of the rater in imported data, otherwise the participant's random id.",
        missing="The rating was imported, and the file gives no rater.",
        is_person=True,
    ),
    ExportColumn("n_exchanges", "integer", "Number of participant messages that the bot answered in the conversation."),
    *STUDY_COLUMNS,
)
_AFTER = (
    ExportColumn("comment", "text", "The rater's free comment."),
    ExportColumn("submitted_at", "time", "When the rating was submitted or imported."),
)
_TARGET = (
    ExportColumn(
        "target",
        "text",
        "Kind of rated object: conversation, turn, item or pair. For pairs, conversation and bot are empty.",
        (
            ("conversation", "A whole conversation"),
            ("turn", "One reply of a conversation"),
            ("item", "An item"),
            ("pair", "Two conversations, or one reply of each, compared with each other"),
        ),
    ),
    ExportColumn(
        "turn",
        "integer",
        "Number of the rated turn in the conversation, from 0; for pairs, the turn whose two replies were compared.",
        missing="Whole conversations or items were rated.",
    ),
    ExportColumn("item", "text", "Name of the rated item; bot is then the model that gave the reply."),
    ExportColumn("first", "text", "First object of the pair: id of a conversation or name of an item."),
    ExportColumn("second", "text", "Second object of the pair."),
    ExportColumn("first_bot", "text", "Bot or model of the first object of the pair."),
    ExportColumn("second_bot", "text", "Bot or model of the second object of the pair."),
    ExportColumn(
        "task",
        "integer",
        "Number of the task; ratings submitted together have the same number.",
        missing="Imported ratings belong to no task.",
    ),
    ExportColumn(
        "version",
        "integer",
        "Number of the study version that asked the question.",
        missing="Imported ratings belong to no task.",
    ),
)
_DRAW = (
    ExportColumn(
        "probability",
        "number",
        "Probability with which the item was drawn for this task.",
        missing="The probability is not known: no judge helped then, or the participant had left an earlier task.",
    ),
    ExportColumn(
        "helper",
        "text",
        "Judge or metric by whose uncertainty the item was drawn, with its version; empty if it did not help.",
    ),
)
_RELATED = (
    "conversation__bot",
    "conversation__slot__task__version",
    "turn__conversation__bot",
    "item",
    "participant__platform_ids",
    "task__version",
    *(
        f"{place}__{relation}"
        for place in ("first", "second")
        for relation in ("item", "conversation__bot", "chat__bot")
    ),
)
_PRIVATE = (
    ExportColumn("platform", "text", "Recruitment platform of the participant."),
    ExportColumn("external_id", "text", "The participant's id on that platform. Private."),
    ExportColumn("completion_code", "text", "Completion code shown to the participant. Private."),
)
_RESERVED = {"direction", "reference_score", "kept_both", "probability", "helper", SPANS, STEPS, SITTING}
"""Names of columns that questions of other protocols do not take either."""
_TAKEN = {column.name for column in (*_BEFORE, *_AFTER, *_PRIVATE, *_TARGET)} | _RESERVED


@register_exporter
class RatingsTable:
    name = packaged = "ratings"
    is_searched = has_codes = True
    title = "Ratings"
    description = "One row per rating, with one column per question of the rubric."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        dimensions = [column for _, column in self._dimensions(study)]
        dimensions += [column for _, column in self._other_columns(study)]
        private = _PRIVATE if options.include_private else ()
        last_columns = (*_draw_columns(study), *condition_columns(study))
        return [*_BEFORE, *dimensions, *_AFTER, *private, *_TARGET, *_extra_columns(study), *last_columns]

    def count(self, study: Study, options: ExportOptions) -> int:
        # Separate queries: a single one would join all ratings of the database.
        ratings = Rating.objects.filter(left_out(study, options.without))
        of_chats, *other_conditions = _ways(study, options)
        n = sum(ratings.filter(way).count() for way in other_conditions)
        if options.without:  # raters may differ from the chats' participants
            return n + ratings.filter(of_chats).count()
        return n + conversation_totals(study, included(study, options), "ratings").n_ratings

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        keys = [key for key, _ in self._dimensions(study)]
        other_questions = [question for question, _ in self._other_columns(study)]
        extra_columns, factors = _extra_columns(study), condition_columns(study)
        ratings = _included(study, options).select_related(*_RELATED).order_by("id")
        draw_names = [column.name for column in _draw_columns(study)]
        if draw_names:
            slots = Slot.objects.filter(task=OuterRef("task"), item=OuterRef("item"))
            columns = {"probability": "probability", "helper": "helper__identity"}
            ratings = ratings.annotate(**{name: Subquery(slots.values(path)[:1]) for name, path in columns.items()})
        for rating in ratings.iterator(chunk_size=CHUNK):
            chat = rating.conversation or (rating.turn and rating.turn.conversation)
            condition_chat = chat or (_chat_of(rating.first) if rating.first else None)
            person = rating.participant
            yield [
                rating.pk,
                str(chat.pk) if chat else None,
                chat.bot.bot_id if chat else _models(rating.item),
                chat.bot.key if chat else None,
                rater_of(rating.rater, rating.participant_id),
                chat.n_exchanges if chat else None,
                study.key,
                chat.is_synthetic if chat else bool(person and person.is_synthetic),
                *(rating.answers.get(key) for key in keys),
                *(answer_cell(question, rating.other_answers.get(question.key)) for question in other_questions),
                rating.comment,
                rating.submitted_at,
                *(_private_cells(study, rating) if options.include_private else ()),
                *_target_cells(rating),
                *((rating.answers | rating.other_answers).get(column.name) for column in extra_columns),
                *(getattr(rating, name) for name in draw_names),
                *condition_cells(
                    factors, condition_chat.condition if condition_chat else None, _sitting(rating, condition_chat)
                ),
            ]

    def _other_columns(self, study: Study) -> list[tuple[Question, ExportColumn]]:
        taken_names = _TAKEN | {column.name for _, column in self._dimensions(study)}
        columns = []
        for question in other_questions_of_study(study):
            name = f"answer_{question.key}" if question.key in taken_names else question.key
            columns.append((question, answer_column(question, name, "after")))
        return columns

    def _dimensions(self, study: Study) -> list[tuple[str, ExportColumn]]:
        columns = []
        seen: set[str] = set()
        for dimension in _dimensions_of(study):
            if dimension.key in seen:
                continue
            seen.add(dimension.key)
            low, high = dimension.scale
            name = f"answer_{dimension.key}" if dimension.key in _TAKEN else dimension.key
            inferred = ", taken from the data" if dimension.scale_inferred else ""
            ends = _words(dimension)
            text = f"{dimension.question} {low:g} to {high:g}{inferred}{f' ({ends})' if ends else ''}."
            column_question = ColumnQuestion(
                dimension.key, dimension.question, "after", low, high, dimension.reversed, dimension.scale_inferred
            )
            column = ExportColumn(name, "number", text, _labels(dimension), missing=NOT_ANSWERED, asked=column_question)
            columns.append((dimension.key, column))
        return columns


_REPLY_COLUMNS = (
    *CONVERSATION_COLUMNS,
    ExportColumn("turn", "integer", "Number of the reply in its conversation, from 0."),
    ExportColumn("rating", "integer", "Number of the rating, as in the table ratings."),
    ExportColumn("rater", "text", "Random id of the rater.", is_person=True),
)
_ERROR_COLUMNS = (
    *_REPLY_COLUMNS,
    ExportColumn("start", "integer", "Start of the error in characters (code points) of the stored reply."),
    ExportColumn("end", "integer", "End of the error, in characters."),
    ExportColumn("category", "text", "Key of the question that names the error category."),
    ExportColumn("severity", "text", "Severity of the error.", tuple((name, name.capitalize()) for name in SEVERITIES)),
    ExportColumn("text", "text", "Marked words."),
)


@register_exporter
class ErrorSpansTable:
    name = packaged = "error_spans"
    title = "Errors in replies"
    description = "One row per error marked in a reply; replies without errors are in the table ratings."
    is_searched = True

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _ERROR_COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for rating, turn, reply_cells in _of_replies(study, options) if get_protocol(study).marks_errors else ():
            for span in spans_stored(rating):
                yield [*reply_cells, *astuple(span), turn.text[span.start : span.end]]


@register_exporter
class StepLabelsTable:
    name = packaged = "step_labels"
    title = "Labels of steps"
    description = "One row per label and step of a labelled reply's trace: 1 if the rater ticked it, otherwise 0."
    is_searched = True

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return (
            *_REPLY_COLUMNS,
            ExportColumn("step", "integer", "Number of the step in the reply's trace, from 0."),
            ExportColumn("label", "text", "Wording of the label in the study."),
            ExportColumn("value", "integer", "1: true of the step; 0: not."),
        )

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for rating, _turn, reply_cells in _of_replies(study, options) if labels_steps(study) else ():
            version = rating.task.version if rating.task is not None else study.version
            for step, ticked in enumerate(rating.other_answers.get(STEPS, ())):
                for label in version.values.step_marking.step_labels:
                    yield [*reply_cells, step, label, int(label in ticked)]


_TICK_COLUMNS = (
    ExportColumn("item", "text", "Name of the item, as in the table items."),
    ExportColumn("bot", "text", "Model that gave the reply."),
    *STUDY_COLUMNS,
    ExportColumn("rating", "integer", "Number of the rating, as in the table ratings."),
    ExportColumn("rater", "text", "Random id of the rater.", is_person=True),
    ExportColumn("criterion", "integer", "Number of the criterion in the item, from 0."),
    ExportColumn("text", "text", "Statement of the criterion."),
    ExportColumn("points", "integer", "Points of a reply that meets the criterion; negative for a fault."),
    ExportColumn("met", "integer", "1: the rater ticked the criterion; 0: not."),
)


@register_exporter
class CriterionTicksTable:
    name = packaged = "criterion_ticks"
    title = "Ticked criteria"
    description = "One row per rating and criterion of its item: 1 if the rater ticked it, otherwise 0."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _TICK_COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        if not get_protocol(study).needs_criteria:
            return
        ratings = _included(study, options).filter(item__isnull=False).select_related("item", "participant")
        for rating in ratings.order_by("id").iterator(chunk_size=CHUNK):
            item, person = rating.item, rating.participant
            assert item is not None, "found by its item"
            rater, is_synthetic = rater_of(rating.rater, rating.participant_id), bool(person and person.is_synthetic)
            rating_cells = (item.key, _models(item), study.key, is_synthetic, rating.pk, rater)
            ticks = rating.other_answers.get(CRITERIA, ())
            if not isinstance(ticks, list) or len(ticks) != len(item.criteria):
                continue  # from before a change of protocol, or from an edited package; results leave it out, too
            for n, (criterion, tick) in enumerate(zip(item.criteria, ticks, strict=True)):
                yield [*rating_cells, n, criterion["text"], criterion["points"], tick]


def _of_replies(study: Study, options: ExportOptions) -> Iterator[tuple[Rating, Turn, tuple[Any, ...]]]:
    """Yield the ratings of replies.

    Each comes with its reply and the cells of `_REPLY_COLUMNS`.
    """
    ratings = _included(study, options).filter(turn__isnull=False)
    ratings = ratings.select_related("turn__conversation__bot", "task__version").order_by("id")
    for rating in ratings.iterator(chunk_size=CHUNK):
        assert rating.turn is not None, "found by its turn"
        chat, rater = rating.turn.conversation, rater_of(rating.rater, rating.participant_id)
        reply_cells = (str(chat.pk), chat.bot.bot_id, study.key, chat.is_synthetic, rating.turn.index, rating.pk, rater)
        yield rating, rating.turn, reply_cells


def _labels(dimension: Dimension) -> tuple[tuple[float, str], ...]:
    """Return the labelled points of the scale with their labels."""
    low, high = dimension.scale
    labels = {float(point): words for point, words in dimension.labels.items()}
    labels |= {low: dimension.low_label, high: dimension.high_label}
    return tuple((point, words) for point, words in sorted(labels.items()) if words)


def _words(dimension: Dimension) -> str:
    if len(dimension.labels) > 2:
        labels = sorted((float(point), words) for point, words in dimension.labels.items())
        return ", ".join(f"{point:g} {words}" for point, words in labels)
    return " – ".join(filter(None, [dimension.low_label, dimension.high_label]))


def _dimensions_of(study: Study) -> list[Dimension]:
    """Return the rubric's questions, then those of earlier answered versions."""
    ways = ("conversation__study", "turn__conversation__study", "task__participant__study")
    answered = Q(rubric=study.rubric_id)
    # Two index ranges outside the study's own version, which contain few of a million ratings.
    other_rubrics = Q(rubric__lt=study.rubric_id) | Q(rubric__gt=study.rubric_id)
    for way in ways:
        ratings = Rating.objects.filter(other_rubrics, **{way: study})
        answered |= Q(rubric__in=ratings.values("rubric").distinct())
    dimensions = Dimension.objects.filter(answered)
    return sorted(
        dimensions.select_related("rubric"),
        key=lambda d: (d.rubric_id != study.rubric_id, -d.rubric_id, d.position, d.pk),
    )


def _extra_columns(study: Study) -> tuple[ExportColumn, ...]:
    """Return the columns of the protocol's extra answers."""
    extra_answers = get_protocol(study).get_extra_answers(study.versions.all())
    return tuple(ExportColumn(extra.name, extra.type, extra.description, extra.labels) for extra in extra_answers)


def _draw_columns(study: Study) -> tuple[ExportColumn, ...]:
    """Return the columns of draws, for studies in which a judge can help."""
    return _DRAW if "helping" in get_protocol(study).settings else ()


def _sitting(rating: Rating, chat: Conversation | None) -> str:
    if chat is not None and chat.sitting:
        return chat.sitting
    return rating.task.sitting if rating.task is not None else ""


def _ways(study: Study, options: ExportOptions) -> tuple[Q, Q, Q]:
    """Return disjoint conditions that select the table's ratings.

    They cover ratings of included conversations, of their turns, and of objects rated in tasks.
    """
    judged = Q(task__participant__study=study) & ~Q(task__outcome=Outcome.WITHDRAWN)
    judged &= (
        (Q(item__isnull=False) & ~Q(item__purpose__in=Item.UNCOUNTED)) | Q(turn__isnull=False) | Q(first__isnull=False)
    )
    if options.search:
        judged &= included(study, options, prefix="turn__conversation__")
    if not options.include_failed:
        judged &= ~Q(task__outcome=Outcome.FAILED_CHECK)
    if not options.include_synthetic:
        judged &= Q(participant__is_synthetic=False)
    of_turns = Q(task=None) & included(study, options, prefix="turn__conversation__")
    return included(study, options, prefix="conversation__"), of_turns, judged


def _included(study: Study, options: ExportOptions) -> QuerySet[Rating]:
    """Return the ratings of the table."""
    of_chats, of_turns, judged = _ways(study, options)
    return Rating.objects.filter(left_out(study, options.without), of_chats | of_turns | judged)


def _private_cells(study: Study, rating: Rating) -> tuple[str | None, str | None, str | None]:
    """Return the participant's platform ids and completion code."""
    person = rating.participant
    task = _task_of(rating)
    if person is None:
        return None, None, None
    if task is None or not task.completion_code:
        return person.platform, person.external_id, None
    if task.told:
        return person.platform, person.external_id, task.told["code"]
    completion = completion_now(study=study, participant=person, outcome=Outcome.RATED, own_code=task.completion_code)
    return person.platform, person.external_id, completion.code


def _target_cells(rating: Rating) -> tuple[Any, ...]:
    task = _task_of(rating)
    given_in = (task.pk, task.version.number) if task else (None, None)
    if rating.first is not None and rating.second is not None:
        pair = (rating.first, rating.second)
        return "pair", rating.at_turn, None, *map(_looked_at, pair), *map(_bot_of, pair), *given_in
    nothing = (None, None, None, None)
    if rating.item is not None:
        return "item", None, rating.item.key, *nothing, *given_in
    if rating.turn is not None:
        return "turn", rating.turn.index, None, *nothing, *given_in
    return "conversation", None, None, *nothing, *given_in


def _task_of(rating: Rating) -> Task | None:
    """Return the rating's task; for a chat, the chat's task."""
    if rating.task is not None or rating.conversation is None:
        return rating.task
    return rating.conversation.task


def _looked_at(slot: Slot) -> str | None:
    if slot.item is not None:
        return slot.item.key
    chat = _chat_of(slot)
    return str(chat.pk) if chat else None


def _bot_of(slot: Slot) -> str | None:
    if slot.item is not None:
        return _models(slot.item)
    chat = _chat_of(slot)
    return chat.bot.bot_id if chat else slot.bot_id or None


def _chat_of(slot: Slot) -> Conversation | None:
    return slot.conversation or getattr(slot, "chat", None)


def _models(item: Item | None) -> str | None:
    """Return the models of the item's replies, in order."""
    if item is None:
        return None
    return " ".join(response.get("model") or "" for response in item.responses).strip()
