"""What people and researchers find in a database: every exported table, and what no table says.

The same questions are put before and after an upgrade, by what stays: exporters, pages, a few columns.
"""

from pathlib import Path
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.test import Client

from webapp.conversations.models import Conversation
from webapp.jobs.models import HybridFit, SelfPlayRun
from webapp.studies.models import Participant, Study
from webapp.studies.selectors import participant_token, study_refusal
from webapp.transfer.exporters.base import ExportOptions, exporter_list
from webapp.transfer.writers import write_file


def tables_write(folder: Path) -> None:
    """Write every table of every study with all that it can hold, one CSV file each."""
    options = ExportOptions(include_synthetic=True, include_failed=True, include_private=True)
    for study in Study.objects.order_by("key"):
        for exporter in exporter_list():
            if exporter.name == "dictionary":
                continue  # words that may get better
            columns = exporter.columns(study, options)
            path = folder / f"{study.key}.{exporter.name}.csv"
            write_file(path, "csv", columns, exporter.rows(study, options))


def facts() -> dict[str, Any]:
    """Return facts: chats under way, who may go on, what people find at their addresses, rights, runs and fits."""
    people = list(Participant.objects.exclude(platform="import").order_by("created_at", "pk"))
    refusals = {str(person.pk): study_refusal(person.study, person) for person in people}
    chats = Conversation.objects.filter(source=Conversation.Source.CHAT).order_by("pk")
    users = get_user_model().objects.order_by("username")
    return {
        "chats": {str(chat.pk): [chat.state, chat.due_turn, chat.due_error, chat.rating_draft] for chat in chats},
        "refusals": {pk: refusal and refusal.code for pk, refusal in refusals.items()},
        "pages": {str(chat.pk): _pages(chat.pk, chat.participant) for chat in chats},
        "rights": {user.get_username(): sorted(user.get_all_permissions()) for user in users},
        "runs": [[run.pk, run.state, run.n_done] for run in SelfPlayRun.objects.order_by("pk")],
        "fits": [fit.result for fit in HybridFit.objects.order_by("pk")],
    }


def _pages(conversation_id: UUID, participant: Participant) -> dict[str, list[Any]]:
    """Return the status, and where it leads, of each page that somebody passes."""
    token = participant_token(participant)
    results = {}
    for page in ("", "rate/", "done/"):
        answer = Client().get(f"/chat/{conversation_id}/{page}", {"t": token})
        leads_to = answer.headers.get("Location", "").partition("?")[0]
        results[page.strip("/") or "chat"] = [answer.status_code, leads_to]
    return results
