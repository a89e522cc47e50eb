"""App configuration."""

from django.apps import AppConfig


class TransferConfig(AppConfig):
    name = "webapp.transfer"
    default_auto_field = "django.db.models.BigAutoField"
