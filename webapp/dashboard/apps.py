"""App configuration: registers this app's kinds of job, and removes reports with the people and rows they are of."""

from collections.abc import Collection
from typing import Any

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "webapp.dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_delete

        from webapp.jobs.kinds.base import kinds
        from webapp.jobs.models import Job
        from webapp.studies.privacy import erasure_follow

        kinds.look_into("webapp.dashboard.kinds")
        erasure_follow(_forget_reports)
        post_delete.connect(_remove_file, sender=Job)


def _forget_reports(studies: Collection[int]) -> None:
    # The analysis behind it is a third of what a command would import at its start.
    from webapp.dashboard.report_files import reports_forget

    reports_forget(studies)


def _remove_file(instance: Any, **_: Any) -> None:
    """Remove the file of a report whose row goes, with its study for example."""
    from webapp.core.clean_up import clean_up_on_commit
    from webapp.dashboard.report_files import CLEAN_UP, KIND

    if instance.kind == KIND:
        clean_up_on_commit(CLEAN_UP, instance.pk)
