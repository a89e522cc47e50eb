"""App configuration."""

from __future__ import annotations

from django.apps import AppConfig


class OperatingConfig(AppConfig):
    name = "webapp.operating"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Check for problems after heartbeats."""
        from webapp.core.processes import signs
        from webapp.operating.incidents import look_if_due

        signs.after.append(look_if_due)
