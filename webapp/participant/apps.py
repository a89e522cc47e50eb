"""App configuration."""

from django.apps import AppConfig


class ParticipantConfig(AppConfig):
    name = "webapp.participant"
    default_auto_field = "django.db.models.BigAutoField"
