"""Alerts about messages in which a study's safety net found signs of distress: one per message, without its words."""

from __future__ import annotations

from django.db import transaction
from django.urls import reverse

from webapp.bots.models import Alert
from webapp.conversations.models import DistressMark
from webapp.core.clock import database_now
from webapp.jobs.alerts import alerts_tell

_AT_ONCE = 100


def distress_alerts_make() -> int:
    """Create the alerts that are due; return how many messages they are about.

    The rows are locked while alerts are created, so each message is told of once, by whichever process is first.
    Rehearsals raise none.
    """
    with transaction.atomic():
        due = DistressMark.objects.select_for_update(of=("self",), skip_locked=True).filter(alerted_at=None)
        marks = list(due.select_related("turn__conversation__study").order_by("created_at")[:_AT_ONCE])
        for mark in marks:
            conversation = mark.turn.conversation
            study = conversation.study
            if study is None or conversation.is_synthetic:
                continue
            address = reverse("dashboard:study_conversations", args=[study.key])
            content = {
                "title": f"Confab: a message in {study.name} shows signs of distress",
                "words": "The participant has been shown the helpline text. Read the chat and decide what to do.",
                "link": f"{address}?chat={conversation.pk}",
                "study": study.key,
            }
            alerts_tell(event=Alert.Event.DISTRESS, content=content)
        DistressMark.objects.filter(pk__in=[mark.pk for mark in marks]).update(alerted_at=database_now())
    return len(marks)
