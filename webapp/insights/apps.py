"""App configuration: registers job kinds, and removes reports.

Reports are removed with their study, and when a participant is erased.
"""

from collections.abc import Collection
from typing import Any

from django.apps import AppConfig


class InsightsConfig(AppConfig):
    name = "webapp.insights"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_delete

        from webapp.jobs.kinds.base import kinds
        from webapp.jobs.models import Job
        from webapp.studies.privacy import erasure_follow

        kinds.look_into("webapp.insights.kinds")
        erasure_follow(_forget_reports)
        post_delete.connect(_remove_file, sender=Job)


def _forget_reports(studies: Collection[int]) -> None:
    # Importing the analysis would take a third of a command's start-up time.
    from webapp.insights.report_files import reports_forget

    reports_forget(studies)


def _remove_file(instance: Any, **_: Any) -> None:
    """Remove the file of a report whose row is deleted."""
    from webapp.core.clean_up import clean_up_on_commit
    from webapp.insights.report_files import CLEAN_UP, KIND

    if instance.kind == KIND:
        clean_up_on_commit(CLEAN_UP, instance.pk)
