"""Flags found in answers: missed checks, straight-lining, inconsistent repeats, speed.

A task is flagged for speed at less than half the usual time: a relative speed index above 2 (Leiner, 2019).
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.ratings.attention_results import checks_by_task
from webapp.ratings.check_kinds import CHECK_KINDS
from webapp.ratings.flags.base import Figures, FlagFindings, StudyWork, clock, percent, register_flag
from webapp.ratings.models import Rating
from webapp.studies.models import Dimension, Item, Outcome, Slot, Task


@register_flag
class MissedCheck:
    """Flag for missed attention checks.

    One miss is enough: the number of misses that a study tolerates affects its outcome, not this flag.
    """

    name = "missed_check"
    title = gettext_lazy("Missed a check")
    rule = gettext_lazy(
        "At least one attention check was answered wrongly: among items, among questions or in the chat."
    )
    reasons: Mapping[str, Any] = {"none": gettext_lazy("No participant has seen an attention check yet.")}

    def find(self, work: StudyWork) -> FlagFindings:
        return _find_missed(work, "attention", lambda missed, met: missed > 0)

    def explain(self, figures: Figures, about: Figures) -> str:
        return _("{missed} of {met} attention checks were missed.").format(**figures)


@register_flag
class MissedGold:
    """Flag for missed gold items.

    Half or more must be missed, because even careful participants miss one: right answers depend on the researcher's
    judgement.
    """

    name = "missed_gold"
    title = gettext_lazy("Missed known answers")
    rule = gettext_lazy("At least half of the items with a known answer were answered differently.")
    reasons: Mapping[str, Any] = {"none": gettext_lazy("No participant has rated an item with a known answer yet.")}

    def find(self, work: StudyWork) -> FlagFindings:
        return _find_missed(work, "gold", lambda missed, met: 2 * missed >= met)

    def explain(self, figures: Figures, about: Figures) -> str:
        return _("{missed} of {met} items with a known answer were answered differently.").format(**figures)


def _find_missed(work: StudyWork, limit: str, is_flagged: Callable[[int, int], bool]) -> FlagFindings:
    """Count missed checks of the kinds with this limit in every task that had some."""
    known = {task.pk for task in work.done}
    counts: dict[int, Figures] = {}
    for task, checks in checks_by_task(Task.objects.filter(participant__study=work.study)).items():
        passed = [check.passed for check in checks if CHECK_KINDS[check.kind].limit == limit]
        if task in known and passed:
            counts[task] = {"missed": passed.count(False), "met": len(passed)}
    flagged = {task: count for task, count in counts.items() if is_flagged(count["missed"], count["met"])}
    return FlagFindings(flagged, len(counts), "" if counts else "none")


APART = 0.25
"""Average difference as a share of the scale. Random answers on a scale of seven points differ by .38."""


@register_flag
class Inconsistent:
    """Flag for different answers to repeated items.

    The stored answer to a pair names the better reply, whatever its side, so answers can be compared directly.
    """

    name = "inconsistent"
    title = gettext_lazy("Inconsistent")
    rule = gettext_lazy(
        "Repeated items were answered more than a quarter of the scale apart, averaged over their questions. Random "
        "answers on a seven-point scale are .38 apart."
    )
    reasons: Mapping[str, Any] = {"none": gettext_lazy("No participant has rated an item twice yet.")}

    def find(self, work: StudyWork) -> FlagFindings:
        known = {task.pk for task in work.done}
        ratings = Rating.objects.filter(task__participant__study=work.study, item__isnull=False)
        again = list(
            ratings.filter(item__purpose=Item.Purpose.REPEAT).values_list(
                "task", "participant", "item__original", "rubric", "answers"
            )
        )
        originals = {original for _task, _person, original, *_rest in again}
        first: dict[Any, Any] = {
            (person, item): answers
            for person, item, answers in ratings.filter(item__in=originals)
            .order_by("-pk")
            .values_list("participant", "item", "answers")
        }
        lengths = _lengths({rubric for *_rest, rubric, _answers in again})
        apart: dict[int, list[float]] = {}
        for task, person, original, rubric, answers in again:
            before = first.get((person, original))
            if task not in known or before is None:
                continue
            for key, length in lengths.get(rubric, {}).items():
                first_answer, second_answer = before.get(key), answers.get(key)
                if isinstance(first_answer, int | float) and isinstance(second_answer, int | float):
                    apart.setdefault(task, []).append(abs(first_answer - second_answer) / length)
        if not apart:
            return FlagFindings(why_none="none")
        means = {task: sum(distances) / len(distances) for task, distances in apart.items()}
        return FlagFindings(
            {task: {"apart": mean, "answers": len(apart[task])} for task, mean in means.items() if mean > APART},
            len(means),
        )

    def explain(self, figures: Figures, about: Figures) -> str:
        return _(
            "{n} questions were answered twice; the two answers differ by {share} of the scale on average."
        ).format(n=figures["answers"], share=percent(round(1000 * figures["apart"]), 1000))


def _lengths(rubrics: set[int]) -> dict[int, dict[str, float]]:
    """Return the scale length of each question by rubric."""
    lengths: dict[int, dict[str, float]] = {}
    for dimension in Dimension.objects.filter(rubric__in=rubrics).select_related("rubric"):
        low, high = dimension.scale
        lengths.setdefault(dimension.rubric_id, {})[dimension.key] = high - low
    return lengths


BY_CHANCE = 0.01
"""Maximum probability that equal answers are due to chance."""
LEAST = 4
TICK, PAIR = (0.0, 1.0), (-1.0, 1.0)
"""Kinds of scales: check boxes, where none throughout is common, and choices between two sides."""


@register_flag
class SameAnswer:
    """Flag for identical answers to all questions of a task.

    For reversed questions the raw answer counts: careful raters answer them differently from the others. Choices
    between two sides are counted by side. Attention checks are left out, because they require a certain answer.
    """

    name = "same_answer"
    title = gettext_lazy("Identical answers")
    rule = gettext_lazy(
        "Every question got the same answer. This includes reverse-scored questions, which should get a different "
        "one. Only flagged if chance alone makes so many answers identical in fewer than 1 of 100 cases: four on a "
        "scale of five to seven points, eight choices between two sides. Check boxes and attention checks are "
        "ignored."
    )
    reasons: Mapping[str, Any] = {
        "few": gettext_lazy("No participant has answered enough questions yet for identical answers to be suspicious.")
    }

    def find(self, work: StudyWork) -> FlagFindings:
        questions = _questions(work)
        answers_by_task: dict[int, _TaskAnswers] = {task.pk: _TaskAnswers() for task in work.done}
        flipped = Slot.objects.filter(task=OuterRef("task"), item=OuterRef("item"), is_flipped=True)
        rows = (
            Rating.objects.filter(task__participant__study=work.study, task__participant__is_synthetic=False)
            .exclude(item__purpose__in=Item.UNCOUNTED)
            .order_by()
            .annotate(flipped=Exists(flipped))
            .values_list("task", "rubric", "answers", "flipped")
        )
        for task, rubric, answers, is_flipped in rows.iterator(chunk_size=2000):
            if task in answers_by_task:
                answers_by_task[task].add(answers, questions.get(rubric, {}), is_flipped=is_flipped)
        enough = {
            pk: task_answers
            for pk, task_answers in answers_by_task.items()
            if task_answers.n >= fewest(task_answers.points)
        }
        if not enough:
            return FlagFindings(why_none="few")
        alike = {
            pk: {"n": task_answers.n, "answer": min(task_answers.seen), "reversed": task_answers.n_reversed}
            for pk, task_answers in enough.items()
            if len(task_answers.seen) == 1
        }
        return FlagFindings(alike, len(enough))

    def explain(self, figures: Figures, about: Figures) -> str:
        n, answer = figures["n"], f"{figures['answer']:g}"
        if figures["reversed"]:
            return _("{n} times {answer}, although {turned} of these answers are to reverse-scored questions.").format(
                n=n, answer=answer, turned=figures["reversed"]
            )
        return _("{n} times {answer}.").format(n=n, answer=answer)


def fewest(points: int) -> int:
    """Return the number of equal answers that are rarely due to chance.

    Rarely means in fewer than one case in 100; `points` is the number of points of the scale.
    """
    return max(LEAST, math.ceil(1 + math.log(1 / BY_CHANCE) / math.log(points)))


@dataclass(slots=True)
class _TaskAnswers:
    """Summary of a task's answers.

    It has their number, distinct values, the fewest points of a scale, and the number of reversed answers.
    """

    n: int = 0
    seen: set[float] = field(default_factory=set)
    points: int = 101
    n_reversed: int = 0

    def add(self, answers: Mapping[str, Any], questions: Mapping[str, _Question], *, is_flipped: bool) -> None:
        """Add a rating."""
        numbers = {key: value for key, value in answers.items() if key in questions and type(value) in (int, float)}
        if not numbers:
            return
        if any(questions[key].is_of_pairs for key in numbers):
            # A rater who prefers one side tends to prefer it on most questions, so only the next pair is independent.
            self.points, self.n = 2, self.n + 1
            self.seen |= {-value if is_flipped else value for value in numbers.values()}
            return
        for key, value in numbers.items():
            question = questions[key]
            self.points = min(self.points, question.points)
            self.n_reversed += question.is_reversed
            self.seen.add(value)
        self.n += len(numbers)


@dataclass(frozen=True, slots=True)
class _Question:
    """Properties of a question, precomputed because its answers are many."""

    points: int
    is_of_pairs: bool
    is_reversed: bool


def _questions(work: StudyWork) -> dict[int, dict[str, _Question]]:
    """Return the answered questions by rubric, without check boxes."""
    questions: dict[int, dict[str, _Question]] = {}
    answered = Rating.objects.filter(task__participant__study=work.study).values("rubric")
    for dimension in Dimension.objects.filter(rubric__in=answered).select_related("rubric"):
        low, high = scale = dimension.scale
        if scale != TICK:
            questions.setdefault(dimension.rubric_id, {})[dimension.key] = _Question(
                points=max(2, round(high - low) + 1), is_of_pairs=scale == PAIR, is_reversed=bool(dimension.reversed)
            )
    return questions


FEWEST = 10
"""Minimum number of finished tasks for a distribution."""
HOW_MUCH_FASTER = 2


@register_flag
class Fast:
    """Flag for fast tasks, relative to the study's finished ones."""

    name = "fast"
    title = gettext_lazy("Fast")
    rule = gettext_lazy(
        "The task took less than half the median time of the study's finished tasks: a relative speed index above 2 "
        "(Leiner, 2019)."
    )
    reasons: Mapping[str, Any] = {"few": gettext_lazy("This check needs ten finished tasks to know the usual time.")}

    def find(self, work: StudyWork) -> FlagFindings:
        seconds = {task.pk: task.seconds for task in work.done if task.outcome == Outcome.RATED}
        if len(seconds) < FEWEST:
            return FlagFindings(why_none="few")
        median = statistics.median(seconds.values())
        in_order = sorted(seconds.values())
        flagged = {}
        for task, took in seconds.items():
            if took * HOW_MUCH_FASTER < median:
                n_longer = len(in_order) - bisect_right(in_order, took)
                flagged[task] = {"seconds": took, "longer": n_longer, "of": len(seconds)}
        return FlagFindings(flagged, len(seconds), about={"median": median})

    def explain(self, figures: Figures, about: Figures) -> str:
        return _("{took} minutes; {share} of participants took longer, half of them {median} or more.").format(
            took=clock(figures["seconds"]),
            share=percent(figures["longer"], figures["of"]),
            median=clock(about["median"]),
        )


_BARS = 24
_LONGEST = 3
"""Longest duration in the histogram, in medians; the last bar contains all longer ones."""


def durations_of(work: StudyWork) -> dict[str, Any]:
    """Return the finished tasks' durations as JSON.

    Returns:
        `n`; and if it is not 0, `median` and `threshold` in seconds (the latter None with too few tasks),
        `width` of a bar in seconds, and `bars`, their counts from 0 on; the last bar includes all longer tasks.
    """
    seconds = [task.seconds for task in work.done if task.outcome == Outcome.RATED]
    if not seconds:
        return {"n": 0}
    median = statistics.median(seconds)
    width = max(median * _LONGEST / _BARS, 1.0)
    bars = [0] * (_BARS + 1)
    for duration in seconds:
        bars[min(int(max(duration, 0) // width), _BARS)] += 1
    return {
        "n": len(seconds),
        "median": median,
        "threshold": median / HOW_MUCH_FASTER if len(seconds) >= FEWEST else None,
        "width": width,
        "bars": bars,
    }
