"""App configuration; says what is kept of a person here, which flags it knows, and what the database refuses."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate
from django.utils.translation import gettext_lazy as _


class RatingsConfig(AppConfig):
    name = "webapp.ratings"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.ratings import erasure
        from webapp.ratings.flags.base import flag_kinds, register_statistic
        from webapp.ratings.scale_trigger import triggers_ensure, triggers_remove
        from webapp.ratings.selectors import ratings_by
        from webapp.studies.privacy import erasure_kind

        flag_kinds.look_into("webapp.ratings.flags")
        register_statistic("checks", _checks)
        erasure.connect_texts()
        erasure.connect_deletions()
        erasure_kind("ratings", _("ratings, with their comments"), ratings_by)
        pre_migrate.connect(triggers_remove, sender=self)
        post_migrate.connect(triggers_ensure, sender=self)


def _checks(study: Any) -> dict[str, Any]:
    # The analysis behind it is more than a command should import at its start.
    from webapp.ratings.test_retest import attention_summary

    return attention_summary(study)
