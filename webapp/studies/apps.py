"""App configuration: registers the data that this app stores of participants."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class StudiesConfig(AppConfig):
    name = "webapp.studies"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.core.audit_trail import vocabulary_add
        from webapp.studies.models import (
            Breakage,
            Erasure,
            ParticipantMessage,
            PlatformIds,
            QuestionAnswers,
            QuizAttempt,
            Study,
            Task,
            TrainingAnswer,
            Whereabouts,
        )
        from webapp.studies.privacy import erasure_kind, rows_of
        from webapp.studies.privacy.retention import own_texts, texts_in, texts_kind
        from webapp.studies.settings import NAMES
        from webapp.studies.versions import OWN_SETTINGS

        erasure_kind("participants", _("participants"), lambda people: people, lock=True, for_pay=True)
        erasure_kind("platform_ids", _("ids on recruitment platforms"), rows_of(PlatformIds), for_pay=True)
        erasure_kind("tasks", _("tasks, with their completion codes"), rows_of(Task), for_pay=True)
        erasure_kind("breakages", _("pages that our server could not make"), rows_of(Breakage), for_pay=True)
        erasure_kind("whereabouts", _("current step of the task"), rows_of(Whereabouts, "task__participant"))
        erasure_kind("question_answers", _("answers to the questions before the task"), rows_of(QuestionAnswers))
        erasure_kind("quiz_attempts", _("quiz answers about the instructions"), rows_of(QuizAttempt))
        erasure_kind("training_answers", _("practice answers"), rows_of(TrainingAnswer))
        erasure_kind("messages", _("messages to the researchers"), rows_of(ParticipantMessage))
        own_texts()
        vocabulary_add("erasure", lambda: [*Erasure.Kind.values, "scripted"])
        vocabulary_add("state", lambda: Study.State.values)
        vocabulary_add("setting", lambda: [*NAMES, *OWN_SETTINGS])
        for column in ("text", "answer"):
            rows = texts_in(lambda study: ParticipantMessage.objects.filter(participant__study=study), column)
            texts_kind(f"messages_{column}", rows)
