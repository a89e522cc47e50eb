"""App configuration: brings in the kinds of job of this app."""

from django.apps import AppConfig


class ParticipantConfig(AppConfig):
    name = "webapp.participant"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.runs.kinds.base import kinds

        kinds.look_into("webapp.participant.kinds")
