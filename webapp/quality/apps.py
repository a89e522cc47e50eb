"""App configuration: registers the personal data kept here, and has flags made again after an erasure."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class QualityConfig(AppConfig):
    name = "webapp.quality"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.quality.models import TaskFlag
        from webapp.quality.services import flags_forget
        from webapp.studies.erasure import erasure_follow, erasure_kind

        erasure_kind(
            "flags",
            _("flags"),
            lambda people: TaskFlag.objects.filter(participant__in=people),
        )
        erasure_follow(flags_forget)
