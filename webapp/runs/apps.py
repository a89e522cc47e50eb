"""App configuration: brings in the configured metrics."""

from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings


class RunsConfig(AppConfig):
    name = "webapp.runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        if not settings.CONFAB_METRICS.exists():
            return
        from evaluation.metrics.configured import MetricsFileError, configured_register

        try:
            # Here, so that every process and command knows the same metrics.
            configured_register(settings.CONFAB_METRICS)
        except MetricsFileError as error:
            raise SystemExit(str(error)) from error  # one clear line, for every command
