"""Rubrics: stored scales of the questions after tasks.

A version whose values have questions after the task (`StudyValues.after`) gets a rubric created from them. Older
versions and imports have the rubric only; `post_task_questions` returns the questions in both cases.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from webapp.core.clock import database_now
from webapp.studies.conditions import Condition, condition_texts
from webapp.studies.models import Dimension, Rubric, Study, StudyVersion
from webapp.studies.questions import DEFAULT_SCALE, Question
from webapp.studies.ready_made import DEFAULT_QUESTIONS
from webapp.studies.settings import StudyValues

Scales = dict[str, tuple[float, float]]
DEFAULT_RUBRIC_NAME = "Conversation quality"
"""Name of the rubric of a study without its own questions."""


def rubric_create(
    *,
    name: str,
    dimensions: Sequence[Dimension],
    low: float = DEFAULT_SCALE[0],
    high: float = DEFAULT_SCALE[1],
    scale_inferred: bool = False,
) -> Rubric:
    """Create the next version of the rubric `name` with these unsaved dimensions."""
    with transaction.atomic():
        newest = Rubric.objects.filter(name=name).order_by("-version").first()
        rubric = Rubric.objects.create(
            name=name, version=newest.version + 1 if newest else 1, low=low, high=high, scale_inferred=scale_inferred
        )
        _dimensions_store(rubric, dimensions)
    return rubric


def rubric_default() -> Rubric:
    """Return the rubric with `DEFAULT_QUESTIONS`.

    It is created on first use and whenever they change.
    """
    rows = tuple(map(_as_row, DEFAULT_QUESTIONS))
    stored = Rubric.objects.filter(name=DEFAULT_RUBRIC_NAME).order_by("-version")
    rubric = next((candidate for candidate in stored if questions_of(candidate) == rows), None)
    return rubric or rubric_create(name=DEFAULT_RUBRIC_NAME, dimensions=_dimensions(DEFAULT_QUESTIONS, DEFAULT_SCALE))


def rubric_directions_store(*, rubric: Rubric, reversed_keys: Collection[str], higher_keys: Collection[str]) -> None:
    """Store the directions of questions.

    Stored answers do not change.
    """
    for dimension in rubric.dimensions.all():
        dimension.reversed = True if dimension.key in reversed_keys else False if dimension.key in higher_keys else None
        dimension.save(update_fields=["reversed"])


def rubric_freeze(*, rubric_id: int) -> None:
    """Mark the rubric as answered; idempotent."""
    Rubric.objects.filter(pk=rubric_id, frozen_at=None).update(frozen_at=database_now())


def rubric_store(*, study: Study, questions: Sequence[Question], known: Rubric | None) -> Rubric:
    """Return a rubric with the scales that a version asks after a task.

    Args:
        known: rubric that is kept if its rows are equal, or changed if no participant has answered it or can answer it
            now; otherwise a new one is created.
    """
    scales = [question for question in questions if question.is_rated]
    if known is not None and questions_of(known) == tuple(map(_as_row, scales)):
        return known
    low = min((scale.low for scale in scales), default=DEFAULT_SCALE[0])
    high = max((scale.high for scale in scales), default=DEFAULT_SCALE[1])
    dimensions = _dimensions(scales, (low, high))
    if known is None or not _is_own(study, known):
        return rubric_create(name=study.key, dimensions=dimensions, low=low, high=high)
    with transaction.atomic():
        known.low, known.high, known.scale_inferred = low, high, False
        known.save(update_fields=["low", "high", "scale_inferred", "updated_at"])
        known.dimensions.all().delete()
        _dimensions_store(known, dimensions)
    return known


def post_task_questions(version: StudyVersion) -> tuple[Question, ...]:
    """Return a version's questions after a task, in their stored order."""
    return version.values.after or questions_of(version.rubric)


def questions_not_asked(version: StudyVersion, condition: Condition) -> frozenset[str]:
    """Return the keys of questions that this condition leaves out after a chat.

    Without a goal, these are the questions about it and those that depend on them.
    """
    hidden: set[str] = set()
    is_asked = any(question.only_with_goal for question in version.values.after)
    if is_asked and not condition_texts(version.values, condition).goal:
        for question in post_task_questions(version):
            if question.only_with_goal or (question.show_when is not None and question.show_when.key in hidden):
                hidden.add(question.key)
    return frozenset(hidden)


def questions_of(rubric: Rubric) -> tuple[Question, ...]:
    """Return the rows of a rubric as questions with integer scales."""
    return tuple(_question(dimension) for dimension in rubric.dimensions.all())


def scales_of(values: StudyValues, rubric: Rubric | None) -> Scales:
    """Return the scale of each question on which bots are rated.

    Args:
        rubric: its questions are used if the values have none; None: no questions then.
    """
    if values.after:
        return {q.key: (float(q.low), float(q.high)) for q in values.after if q.is_rated}
    rows = rubric.dimensions.all() if rubric else ()
    return {dimension.key: dimension.scale for dimension in rows}


def _question(dimension: Dimension) -> Question:
    low, high = dimension.scale
    first, last = math.ceil(low), max(math.floor(high), math.ceil(low) + 1)
    ends = {first: dimension.low_label, last: dimension.high_label}
    labels = {int(point): words for point, words in dimension.labels.items()} | ends
    return Question(
        key=dimension.key,
        name=dimension.title,
        title=dimension.question,
        kind="scale",
        required=dimension.required,
        low=first,
        high=last,
        labels={point: words for point, words in labels.items() if words},
        reversed=dimension.reversed,
    )


def _as_row(question: Question) -> Question:
    """Return a question as a rubric's row, without its help."""
    return question.model_copy(update={"name": question.short, "help": ""})


def _dimensions(scales: Sequence[Question], span: tuple[float, float]) -> list[Dimension]:
    return [
        Dimension(
            key=scale.key,
            title=scale.short,
            question=scale.title,
            low_label=scale.labels.get(scale.low, ""),
            high_label=scale.labels.get(scale.high, ""),
            labels={str(point): words for point, words in sorted(scale.labels.items())},
            required=scale.required,
            reversed=scale.reversed,
            low=scale.low if (scale.low, scale.high) != span else None,
            high=scale.high if (scale.low, scale.high) != span else None,
        )
        for scale in scales
    ]


def _dimensions_store(rubric: Rubric, dimensions: Sequence[Dimension]) -> None:
    for position, dimension in enumerate(dimensions):
        dimension.pk = None
        dimension.rubric = rubric
        dimension.position = position
        dimension.full_clean(exclude=["rubric"], validate_constraints=False)
    Dimension.objects.bulk_create(dimensions)


def _is_own(study: Study, rubric: Rubric) -> bool:
    """Return True if the rubric can be changed.

    It must be unfrozen, and used only by the study's newest version.
    """
    other_versions = StudyVersion.objects.filter(rubric=OuterRef("pk")).exclude(Q(study=study, frozen_at=None))
    own_rubrics = Rubric.objects.filter(pk=rubric.pk, name=study.key, frozen_at=None)
    return own_rubrics.exclude(Exists(other_versions)).exists()
