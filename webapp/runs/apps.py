"""App configuration: says what is kept of a person here."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


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
