"""`list_studies`: every study with its state and progress."""

from __future__ import annotations

from typing import Any

from webapp.core.management.base import ConfabCommand
from webapp.insights.live_progress import now_rounded
from webapp.insights.selectors import study_rows
from webapp.insights.stopping import StoppingLine, stopping_line
from webapp.studies.models import OrderState, Study


def _stopping(study: Study) -> StoppingLine | None:
    if study.state != Study.State.COLLECTING:
        return None
    return stopping_line(study, OrderState.objects.filter(study=study).first(), now=now_rounded())


class Command(ConfabCommand):
    help = "List all studies with their state, number of complete conversations, and when to stop."

    def run(self, **options: Any) -> list[dict[str, Any]]:
        return [
            {
                "key": row.study.key,
                "name": row.study.name,
                "state": "imported" if row.study.is_imported else row.study.state,
                "protocol": row.study.protocol,
                "bots": row.n_bots,
                "conversations": row.n_completed,
                "wanted": row.n_wanted or None,
                "when_to_stop": None if (line := _stopping(row.study)) is None else line.text,
            }
            for row in study_rows(Study.objects.order_by("-created_at"))
        ]

    def present(self, result: list[dict[str, Any]]) -> None:
        width = max((len(study["key"]) for study in result), default=0)
        for study in result:
            wanted_text = f" of {study['wanted']}" if study["wanted"] else ""
            self.stdout.write(
                f"{study['key']:<{width}}  {study['state']:<10}  {study['bots']} bots, "
                f"{study['conversations']:,}{wanted_text} conversations complete  {study['name']}"
            )
            if study["when_to_stop"]:
                self.stdout.write(f"{'':<{width}}  {study['when_to_stop']}")
        if not result:
            self.stdout.write("There are no studies yet.")
