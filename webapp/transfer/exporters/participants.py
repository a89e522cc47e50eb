"""Tables of participants, their consent texts, and attention checks.

Every participant who consented has a row, for any ending, with their completion code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Count, Min, Prefetch

from evaluation.data.populations import (
    NO_ANSWER,
    OTHER_ANSWERS,
    label_people,
    published_groups,
    read_margins,
    withhold_combinations,
)
from webapp.conversations.models import Conversation
from webapp.core.rights import Right
from webapp.ratings.attention_results import checks_answered, repeats_answered
from webapp.ratings.check_kinds import CHECK_KINDS, CheckAnswer
from webapp.ratings.flag_selectors import left_out
from webapp.studies.models import ConsentText, Outcome, Participant, QuestionAnswers, Study, Task
from webapp.studies.privacy import AGREED_KEYS
from webapp.studies.questions import Question
from webapp.studies.recruitment.completion import ending_of
from webapp.studies.selectors import participant_backgrounds, questions_of_study
from webapp.transfer.exporters.base import (
    STUDY_COLUMNS,
    ExportColumn,
    ExportOptions,
    answer_cell,
    answer_column,
    register_exporter,
)

_CHUNK = 500
_COLUMNS = (
    ExportColumn("participant", "text", "Random id of the participant; the rater in other tables.", is_person=True),
    ExportColumn("study", "text", "Key of the study."),
    ExportColumn(
        "state",
        "text",
        "State of the newest chat: open, completed, failed (exchanged for another bot), withdrawn, expired (left), "
        "ended (before it was done), or none.",
    ),
    ExportColumn(
        "outcome",
        "text",
        "How each chat ended, in order: rated, bot_failed (ended early, to be paid), screened_out, failed_check, "
        "no_consent, late or withdrawn. Empty if no chat has ended.",
    ),
    ExportColumn("code", "text", "The codes shown for these outcomes, in the same order.", is_private=True),
    ExportColumn("bots", "text", "Ids of the participant's bots, in order."),
    ExportColumn("n_chats", "integer", "Number of chats started."),
    ExportColumn("entered_at", "time", "When the participant arrived."),
    ExportColumn("consented_at", "time", "When the participant agreed to take part."),
    ExportColumn("ended_at", "time", "When the last finished chat ended."),
    ExportColumn(
        "consent_version", "text", "Version of the texts that the participant agreed to; see the table consent_texts."
    ),
    ExportColumn("is_synthetic", "boolean", "Whether the participant was a script."),
    ExportColumn(
        "language",
        "text",
        "Code of the language in which the participant read the study.",
        missing="Not stored at that time.",
    ),
)
_PRIVATE = (
    ExportColumn("platform", "text", "Recruitment platform of the participant."),
    ExportColumn("external_id", "text", "The participant's id on that platform. Private."),
    ExportColumn("submissions", "text", "The platform's ids of the visits, in the order of the chats. Private."),
    ExportColumn("recruitment", "json", "The parameters of the newest visit's link. Private."),
)


@register_exporter
class ParticipantsTable:
    name = packaged = "participants"
    title = "Participants"
    description = (
        "One row per participant who agreed, with outcome, code, times and bots; answers to the questions before the "
        "task only with private data."
    )
    right = Right.PAY

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        question_columns = (
            answer_column(question, question.column, "before") for question in _exported_questions(study, options)
        )
        columns = [*_COLUMNS, *question_columns]
        return [*columns, *(_PRIVATE if options.include_private else _group_columns(study, options))]

    def count(self, study: Study, options: ExportOptions) -> int:
        return participants_included(study, options).count()

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        tasks = Task.objects.prefetch_related("slots").order_by("created_at", "pk")
        answers = QuestionAnswers.objects.order_by("created_at", "pk")
        questions = _exported_questions(study, options)
        groups = _published_backgrounds(study, options)
        no_groups = [None] * len(_grouped_questions(study, options))  # scripted participants, later arrivals
        # Imports from packages have chats but no slots.
        chats = Conversation.objects.select_related("bot").order_by("created_at", "pk")
        people = (
            participants_included(study, options)
            .select_related("study__version", "platform_ids")
            .prefetch_related(
                Prefetch("tasks", tasks),
                Prefetch("question_answers", answers),
                Prefetch("conversations", chats.filter(source=Conversation.Source.IMPORT)),
            )
            .order_by("created_at", "pk")
        )
        for person in people.iterator(chunk_size=_CHUNK):
            tasks_had = list(person.tasks.all())
            endings = [ending for ending in map(ending_of, tasks_had) if ending is not None]
            over = [ending.ended_at for ending in endings if ending.ended_at is not None]
            bots = [bot_id for task in tasks_had for bot_id in task.bot_ids]
            bots = bots or [chat.bot.bot_id for chat in person.conversations.all()]
            row = [
                str(person.pk),
                study.key,
                tasks_had[-1].state if tasks_had else "none",
                " ".join(ending.outcome for ending in endings),
                " ".join(ending.code for ending in endings if ending.code),
                " ".join(bots),
                len(bots),
                person.created_at,
                person.consented_at,
                max(over, default=None),
                person.consent_version,
                person.is_synthetic,
                person.language or None,
            ]
            answered: dict[str, Any] = {}
            for answer_set in person.question_answers.all():
                answered |= answer_set.answers
            row += [answer_cell(question, answered.get(question.key)) for question in questions]
            if options.include_private:
                submissions = " ".join(task.submission for task in tasks_had if task.submission)
                row += [person.platform, person.external_id, submissions, person.recruitment]
            else:
                row += groups.get(str(person.pk), no_groups)
            yield row


def _exported_questions(study: Study, options: ExportOptions) -> list[Question]:
    """Return the questions before tasks whose answers are exported: checks, and with private data all."""
    return [question for question in questions_of_study(study) if options.include_private or question.is_check]


def _grouped_questions(study: Study, options: ExportOptions) -> list[Question]:
    """Return the questions of the population, whose coarsened answers packages without private data have."""
    if options.include_private or not options.is_package:
        return []
    margins = read_margins(study.values.planning.margins)
    return [question for question in questions_of_study(study) if question.is_background and question.key in margins]


def _group_columns(study: Study, options: ExportOptions) -> list[ExportColumn]:
    n = study.values.planning.smallest_group
    return [
        ExportColumn(
            f"group_{question.key}",
            "text",
            f"Coarsened answer before the task to “{question.title}”: answers of fewer than {n} participants are "
            f"merged into “{OTHER_ANSWERS}”; answers that the study’s population lacks count as “{NO_ANSWER}”.",
            missing=f"Fewer than {n} participants share this combination of groups.",
        )
        for question in _grouped_questions(study, options)
    ]


def _published_backgrounds(study: Study, options: ExportOptions) -> dict[str, Sequence[str | None]]:
    """Return the coarsened answers of each participant, with no rare answer and no rare combination of answers.

    Scripted participants have none: other columns name them, so they cannot make a group large enough.
    """
    questions, n = _grouped_questions(study, options), study.values.planning.smallest_group
    if not questions:
        return {}
    backgrounds, margins = participant_backgrounds(study), read_margins(study.values.planning.margins)
    included = participants_included(study, options).filter(is_synthetic=False)
    people = [str(pk) for pk in included.order_by("pk").values_list("pk", flat=True)]
    columns = []
    for question in questions:
        labels = label_people(people, backgrounds[question.key], margins[question.key])
        published = published_groups(labels, n)
        columns.append([published[label] for label in labels])
    rows = withhold_combinations(list(zip(*columns, strict=True)), n)
    return {person: [None] * len(questions) if row is None else row for person, row in zip(people, rows, strict=True)}


def participants_included(study: Study, options: ExportOptions) -> Any:
    """Return all participants who consented, whatever the outcome.

    Scripted ones only on request.

    Participants who withdrew after the end appear in the table of pay only.
    """
    people = Participant.objects.filter(
        left_out(study, options.without, way="pk"), study=study, consented_at__isnull=False, withdrawn_at__isnull=True
    )
    return people if options.include_synthetic else people.filter(is_synthetic=False)


_CONSENT_TEXTS_COLUMNS = (
    ExportColumn("consent_version", "text", "Version, as in the table participants."),
    ExportColumn("n_participants", "integer", "Number of participants who agreed to it."),
    ExportColumn("first_at", "time", "When the first participant agreed to it."),
    *(
        ExportColumn(name, "text", f"Text of the study's {name.replace('_', ' ')} in this version.")
        for name in AGREED_KEYS
    ),
)


@register_exporter
class ConsentTextsTable:
    name = packaged = "consent_texts"
    has_own_texts = True
    title = "Consent texts"
    description = "One row per version that participants agreed to, with the exact texts."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _CONSENT_TEXTS_COLUMNS

    def count(self, study: Study, options: ExportOptions) -> int:
        return ConsentText.objects.filter(participants__in=participants_included(study, options)).distinct().count()

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        people = participants_included(study, options)
        versions = (
            people.exclude(consent=None)
            .order_by()
            .values_list("consent")
            .annotate(n=Count("pk"), first=Min("consented_at"))
        )
        agreements = {pk: (n, first) for pk, n, first in versions}
        for consent in ConsentText.objects.filter(pk__in=agreements).order_by("pk"):
            n, first = agreements[consent.pk]
            texts = ("" if (text := consent.texts.get(name)) is None else str(text) for name in AGREED_KEYS)
            yield [consent.digest, n, first, *texts]


_CHECKS_COLUMNS = (
    ExportColumn(
        "kind",
        "text",
        "Place of the check: "
        + ", ".join(f"{kind.name} ({kind.place})" if kind.place else kind.name for kind in CHECK_KINDS.values())
        + ".",
    ),
    ExportColumn("check", "text", "Name of the item or key of the question; otherwise the wording."),
    ExportColumn("rater", "text", "The participant's random id, as in the table ratings.", is_person=True),
    *STUDY_COLUMNS,
    ExportColumn("attempt", "number", "Quiz attempt (1 or 2); 1 for other checks."),
    ExportColumn("expected", "json", "Answers that pass; for items, by question."),
    ExportColumn("answers", "json", "Given answer; for items, by question."),
    ExportColumn("passed", "boolean", "Whether the answer passes."),
    ExportColumn(
        "outcome",
        "text",
        "Outcome of the task (the newest one, for checks before tasks); with failed_check, its ratings are excluded "
        "by default.",
    ),
    ExportColumn("submitted_at", "time", "When it was answered."),
    ExportColumn(
        "task",
        "integer",
        "Number of the task with the check, as in the table ratings.",
        missing="The check was answered once, before the first task.",
    ),
    ExportColumn("conversation", "text", "Id of the chat with the check.", missing="The check was not part of a chat."),
)


@register_exporter
class ChecksTable:
    name = packaged = "checks"
    title = "Checks"
    description = "One row per answered attention check, gold item and quiz question, with the outcome."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _CHECKS_COLUMNS

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
        for check in checks_answered(tasks):
            yield _check_row(study, check, outcomes, synthetic)


def _check_row(study: Study, check: CheckAnswer, outcomes: dict[Any, str], synthetic: dict[Any, bool]) -> Sequence[Any]:
    return [
        check.kind,
        check.name,
        str(check.participant),
        study.key,
        synthetic[check.participant],
        check.attempt,
        check.expected,
        check.answer,
        check.passed,
        outcomes[check.participant if check.task is None else check.task],
        check.answered_at,
        check.task,
        str(check.conversation) if check.conversation else None,
    ]


_REPEATS_COLUMNS = (
    ExportColumn("item", "text", "Name of the item, as in the table ratings."),
    ExportColumn("rater", "text", "The participant's random id, as in the table ratings.", is_person=True),
    *STUDY_COLUMNS,
    ExportColumn("question", "text", "Key of the question."),
    ExportColumn("first", "number", "Answer that counts, as in the table ratings."),
    ExportColumn("second", "number", "Answer to the repeated item; it is not used in any result."),
    ExportColumn("same", "boolean", "Whether both answers are the same."),
)


@register_exporter
class RepeatsTable:
    name = packaged = "repeats"
    title = "Repeated items"
    description = "One row per question about an item that a participant rated twice in one task, with both answers."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _REPEATS_COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        repeats = repeats_answered(study, include_synthetic=options.include_synthetic, excluded_flags=options.without)
        for repeat in repeats:
            for key in sorted(repeat.first.keys() & repeat.second.keys()):
                first, second = repeat.first[key], repeat.second[key]
                rater = str(repeat.person)
                item_cells = [repeat.item, rater, study.key, repeat.is_synthetic]
                yield [*item_cells, key, first, second, first == second]
