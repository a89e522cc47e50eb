"""App configuration: registers the data that this app stores of participants."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class StudiesConfig(AppConfig):
    name = "webapp.studies"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.studies.models import (
            Breakage,
            PlatformIds,
            QuestionAnswers,
            QuizAttempt,
            Task,
            TrainingAnswer,
            Whereabouts,
        )
        from webapp.studies.privacy import erasure_kind
        from webapp.studies.privacy.retention import own_texts

        erasure_kind("participants", _("participants"), lambda people: people, lock=True, for_pay=True)
        erasure_kind(
            "platform_ids",
            _("ids on recruitment platforms"),
            lambda people: PlatformIds.objects.filter(participant__in=people),
            for_pay=True,
        )
        erasure_kind(
            "tasks",
            _("tasks, with their completion codes"),
            lambda people: Task.objects.filter(participant__in=people),
            for_pay=True,
        )
        erasure_kind(
            "breakages",
            _("pages that our server could not make"),
            lambda people: Breakage.objects.filter(participant__in=people),
            for_pay=True,
        )
        erasure_kind(
            "whereabouts",
            _("the step that was reached"),
            lambda people: Whereabouts.objects.filter(task__participant__in=people),
        )
        erasure_kind(
            "question_answers",
            _("answers to the questions before the task"),
            lambda people: QuestionAnswers.objects.filter(participant__in=people),
        )
        erasure_kind(
            "quiz_attempts",
            _("answers about the instructions"),
            lambda people: QuizAttempt.objects.filter(participant__in=people),
        )
        erasure_kind(
            "training_answers",
            _("answers given in practice"),
            lambda people: TrainingAnswer.objects.filter(participant__in=people),
        )
        own_texts()
