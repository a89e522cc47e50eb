"""App configuration: registers job kinds, and cleans sessions.

Erased participants are removed from sessions.
"""

from django.apps import AppConfig


class ParticipantConfig(AppConfig):
    name = "webapp.participant"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.jobs.kinds.base import kinds
        from webapp.participant.access import sessions_forget
        from webapp.studies.privacy import erasure_people_gone

        erasure_people_gone(sessions_forget)
        kinds.look_into("webapp.participant.kinds")
