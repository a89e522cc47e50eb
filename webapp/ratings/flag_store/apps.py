"""App configuration: registers personal data in flags; removes them after an erasure."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class QualityConfig(AppConfig):
    name = "webapp.ratings.flag_store"
    label = "quality"  # as the database knows the app
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.ratings.flag_store.models import OriginMark, TaskFlag
        from webapp.ratings.services import flags_forget
        from webapp.studies.privacy import erasure_follow, erasure_kind, rows_of

        erasure_kind("flags", _("flags"), rows_of(TaskFlag))
        erasure_kind("origin_marks", _("decisions whether a person took part"), rows_of(OriginMark))
        erasure_follow(flags_forget)
