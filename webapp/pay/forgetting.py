"""Deletion of platform ids in pay data, and those kept longer, since their pay was decided late."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from webapp.pay.comparing import platform_visits_of
from webapp.pay.hooks import hook_events_of
from webapp.pay.models import Decision
from webapp.studies.models import Participant, Study
from webapp.studies.retention import ids_eraser, ids_holder


def decided_since(study: Study, since: datetime) -> QuerySet[Any]:
    """Return the decisions about pay that were made, sent or revoked after this time."""
    return Decision.objects.filter(participant__study=study, updated_at__gt=since)


def pay_ids_erase(
    people: QuerySet[Participant], stand_ins: dict[tuple[UUID, str], str]
) -> dict[str, int]:
    """Remove the platform's records of these participants' visits, and name the visits of decisions by placeholders."""
    visits, events = platform_visits_of(people), hook_events_of(people)
    removed = {"platform_visits": visits.count(), "hook_events": events.count()}
    visits.delete()
    events.delete()
    decisions = Decision.objects.filter(participant__in=people).exclude(submission="")
    for person, submission in decisions.order_by("pk").values_list("participant", "submission"):
        # A visit without a task is decided about, too.
        stand_in = stand_ins.setdefault((person, submission), f"erased-{len(stand_ins) + 1}")
        Decision.objects.filter(participant=person, submission=submission).update(
            submission=stand_in, platform_ref=""
        )
    return removed


def connect() -> None:
    """Take part in the retention clock."""
    ids_eraser(pay_ids_erase)
    ids_holder(decided_since)
