"""Tables of attention checks, and of items that a participant rated twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from webapp.ratings.attention_results import CheckAnswer, checks_answered, repeats_answered
from webapp.ratings.flag_selectors import left_out
from webapp.studies.models import Outcome, Study, Task
from webapp.transfer.exporters.base import STUDY_COLUMNS, ExportColumn, ExportOptions, register_exporter

_COLUMNS = (
    ExportColumn(
        "kind",
        "text",
        "Where it stood: quiz (about the instructions), before (the task, among questions), item (attention check "
        "among items), gold (item with a known right answer), after (the task, among questions), chat.",
    ),
    ExportColumn("check", "text", "Name of the item or key of the question; else its words."),
    ExportColumn("rater", "text", "The participant's random id, as in the table ratings.", is_person=True),
    *STUDY_COLUMNS,
    ExportColumn("attempt", "number", "Of the quiz 1 or 2; else 1."),
    ExportColumn("expected", "json", "Answers that pass; of an item by question."),
    ExportColumn("answers", "json", "What was answered; of an item by question."),
    ExportColumn("passed", "boolean", "The answer was among those that pass."),
    ExportColumn(
        "outcome",
        "text",
        "How the task ended (of what comes before tasks the newest); failed_check: its ratings are left out unless "
        "asked for.",
    ),
    ExportColumn("submitted_at", "time", "When it was answered."),
    ExportColumn(
        "task",
        "integer",
        "Number of the task that it was answered in, as in the table ratings.",
        missing="It was answered once, before the first task.",
    ),
    ExportColumn("conversation", "text", "Id of the chat that it was asked in.", missing="It was not asked in a chat."),
)


@register_exporter
class ChecksTable:
    name = packaged = "checks"
    title = "Checks"
    description = "One row per answered attention check, gold item and quiz question, with whether it was passed."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        tasks = (
            Task.objects.filter(participant__study=study)
            .filter(left_out(study, options.without))
            .exclude(outcome=Outcome.WITHDRAWN)
        )
        if not options.include_synthetic:
            tasks = tasks.filter(participant__is_synthetic=False)
        outcomes: dict[Any, str] = {}
        synthetic: dict[Any, bool] = {}
        rows = tasks.order_by("pk").values_list("pk", "participant", "outcome", "participant__is_synthetic")
        for task, person, outcome, is_synthetic in rows.iterator(chunk_size=2000):
            outcomes[task] = outcomes[person] = outcome
            synthetic[person] = is_synthetic
        for one in checks_answered(tasks):
            yield _row(study, one, outcomes, synthetic)


def _row(study: Study, one: CheckAnswer, outcomes: dict[Any, str], synthetic: dict[Any, bool]) -> Sequence[Any]:
    return [
        one.kind,
        one.name,
        str(one.participant),
        study.key,
        synthetic[one.participant],
        one.attempt,
        one.expected,
        one.given,
        one.passed,
        outcomes[one.participant if one.task is None else one.task],
        one.at,
        one.task,
        str(one.conversation) if one.conversation else None,
    ]


_REPEATS_COLUMNS = (
    ExportColumn("item", "text", "Name of the item, as in the table ratings."),
    ExportColumn("rater", "text", "The participant's random id, as in the table ratings.", is_person=True),
    *STUDY_COLUMNS,
    ExportColumn("question", "text", "Key of the question."),
    ExportColumn("first", "number", "The answer that counts, as in the table ratings."),
    ExportColumn("second", "number", "The answer when the item came again; it counts nowhere."),
    ExportColumn("same", "boolean", "Both are the same."),
)


@register_exporter
class RepeatsTable:
    name = packaged = "repeats"
    title = "Items judged twice"
    description = "One row per question about an item that a participant rated twice in one task, with both answers."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _REPEATS_COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        found = repeats_answered(study, include_synthetic=options.include_synthetic, without=options.without)
        for one in found:
            for key in sorted(one.first.keys() & one.second.keys()):
                first, second = one.first[key], one.second[key]
                rater = str(one.person)
                own = [one.item, rater, study.key, one.is_synthetic]
                yield [*own, key, first, second, first == second]
