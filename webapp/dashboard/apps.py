"""App configuration: brings in the kinds of job of this app, and removes reports with the people and rows they are of."""

from typing import Any

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "webapp.dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_delete

        from webapp.dashboard.report_files import reports_forget
        from webapp.runs.kinds.base import kinds
        from webapp.runs.models import Job
        from webapp.studies.erasure import erasure_follow

        kinds.look_into("webapp.dashboard.kinds")
        erasure_follow(reports_forget)
        post_delete.connect(_remove_file, sender=Job)


def _remove_file(instance: Any, **_: Any) -> None:
    """Remove the file of a report whose row goes, with its study for example."""
    from functools import partial

    from django.db import transaction

    from webapp.dashboard.report_files import KIND, report_path

    if instance.kind == KIND:
        transaction.on_commit(partial(report_path(instance).unlink, missing_ok=True))
