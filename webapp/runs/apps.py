"""App configuration: brings in the configured metrics, and says what is kept of a person here."""

from __future__ import annotations

import logging

from django.apps import AppConfig
from django.conf import settings
from django.utils.translation import gettext_lazy as _

log = logging.getLogger(__name__)


class RunsConfig(AppConfig):
    name = "webapp.runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.runs.models import MetricResult
        from webapp.studies.erasure import erasure_kind

        erasure_kind(
            "metric_results",
            _("results of metrics"),
            lambda people: MetricResult.objects.filter(conversation__participant__in=people),
        )
        if not settings.CONFAB_METRICS.exists():
            return
        from evaluation.metrics.configured import (
            MetricsFileError,
            configured_broken,
            configured_register,
        )

        try:
            # Here, so that every process and command knows the same metrics.
            configured_register(settings.CONFAB_METRICS, settings.CONFAB_DEVICE)
        except MetricsFileError as error:
            raise SystemExit(str(error)) from error  # one clear line, for every command
        for broken in configured_broken():
            log.warning("left out: %s", broken)
