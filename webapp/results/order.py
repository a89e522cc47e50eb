"""Keeping it up to date how far the order of a study's bots is settled."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from webapp.ratings.pairs import compares_pairs
from webapp.runs.models import UNFINISHED, Job
from webapp.runs.services.jobs import job_create
from webapp.studies.models import OrderState, Study
from webapp.studies.protocols.base import protocols
from webapp.studies.rules.base import rules
from webapp.studies.selectors import judges_items, marks_turns

KIND = "order"
NOT_SOONER_THAN = timedelta(seconds=20)
"""One look at the ratings in so long a time: people come one by one, and each look reads all ratings."""


def has_order(study: Study) -> bool:
    """Return True if participants put bots in an order: they rate chats or items, or compare two.

    Annotations of single replies and choices among questions give no order.
    """
    if study.protocol not in protocols or marks_turns(study):
        return False
    protocol = protocols.get(study.protocol)
    if compares_pairs(study):
        return True
    rates = any(step.name == "form" for step in protocol.steps)
    return rates or (judges_items(study) and "approval" not in protocol.results)


def order_refresh(study: Study) -> Job | None:
    """Request a new ranking from a worker; None where it has just been made, or was requested already."""
    if not has_order(study):
        return None
    fresh = timezone.now() - NOT_SOONER_THAN
    if OrderState.objects.filter(study=study, made_at__gte=fresh).exists():
        return None
    if Job.objects.filter(kind=KIND, study=study, state__in=UNFINISHED).exists():
        return None
    return job_create(kind=KIND, payload={"study": study.pk}, study=study)


def order_refresh_for_rule(study: Study) -> None:
    """Ask for it where the study's rule draws by it, after a rating was stored."""
    if study.rule in rules and rules.get(study.rule).reads_needs:
        order_refresh(study)
