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
        from chatbots.entries import EntriesError
        from evaluation.metrics.configured import configured_metrics

        try:
            # Here, so that every process and command knows the same metrics.
            configured_metrics.register(
                settings.CONFAB_METRICS, usual={"device": settings.CONFAB_DEVICE}
            )
        except EntriesError as error:
            raise SystemExit(str(error)) from error  # one clear line, for every command
        for broken in configured_metrics.broken:
            log.warning("left out: %s", broken)
