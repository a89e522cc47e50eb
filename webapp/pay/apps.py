"""App configuration: registers job kinds, an exported table and personal data."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class PayConfig(AppConfig):
    name = "webapp.pay"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.jobs.kinds.base import kinds
        from webapp.pay import platform_status
        from webapp.pay.models import Decision
        from webapp.pay.platform_status import hook_events_of, platform_visits_of
        from webapp.studies.privacy import erasure_kind, rows_of
        from webapp.transfer.exporters.base import exporters

        platform_status.connect_erasure()
        kinds.look_into("webapp.pay.kinds")
        exporters.look_into("webapp.pay.exporters")

        erasure_kind("pay_decisions", _("pay decisions"), rows_of(Decision), for_pay=True)
        erasure_kind("platform_visits", _("visits as reported by the platform"), platform_visits_of, for_pay=True)
        erasure_kind("hook_events", _("reports to the platform's webhook"), hook_events_of, for_pay=True)
