"""App configuration: brings in the exported table of this app, and says what it keeps of a person."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class PayConfig(AppConfig):
    name = "webapp.pay"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.pay.models import Decision
        from webapp.studies.erasure import erasure_kind
        from webapp.transfer.exporters.base import exporters

        exporters.look_into("webapp.pay.exporters")

        erasure_kind(
            "pay_decisions",
            _("decisions about pay"),
            lambda people: Decision.objects.filter(participant__in=people),
        )
