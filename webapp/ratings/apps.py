"""App configuration."""

from django.apps import AppConfig


class RatingsConfig(AppConfig):
    name = "webapp.ratings"
    default_auto_field = "django.db.models.BigAutoField"
