"""App configuration: registers the page of reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from webapp.insights.report_document import Document


class DashboardConfig(AppConfig):
    name = "webapp.dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.insights.report_page import register_report_page

        register_report_page(_render_report)


def _render_report(document: Document) -> str:
    # Importing the analysis would take a third of a command's start-up time.
    from webapp.dashboard.render import report_html

    return report_html(document)
