"""App configuration."""

from django.apps import AppConfig


class StudiesConfig(AppConfig):
    name = "webapp.studies"
    default_auto_field = "django.db.models.BigAutoField"
