"""Writes of how people come through a study: links that were opened, steps that were reached."""

from __future__ import annotations

import hashlib
import secrets

from django.db.models import Case, F, QuerySet, Value, When
from django.utils import timezone

from webapp.studies.models import LinkOpening, Study, Task, Whereabouts
from webapp.studies.protocols.base import protocols


def link_opened(*, study: Study, cookie: str, is_synthetic: bool, refused: str = "") -> None:
    """Count that the study's link was opened, once for each browser.

    Args:
        cookie: a random value that the browser brings each time; empty: none, so each opening counts.
        refused: the code of why nobody can begin there; empty where somebody can.
    """
    row = LinkOpening(
        study=study,
        browser=_browser(study, cookie),
        is_synthetic=is_synthetic,
        seen_at=timezone.now(),
        refused=refused,
    )
    LinkOpening.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["study", "browser"],
        update_fields=["is_synthetic", "seen_at", "refused"],
    )


def link_answered(*, study: Study, cookie: str) -> None:
    """Note that somebody in this browser has said whether they take part."""
    if cookie:
        unanswered = _opening(study, _browser(study, cookie)).filter(answered_at=None)
        unanswered.update(answered_at=timezone.now())


def _opening(study: Study, browser: str) -> QuerySet[LinkOpening]:
    return LinkOpening.objects.filter(study=study, browser=browser)


def _browser(study: Study, cookie: str) -> str:
    """Return what stands for a browser in one study, so that rows of two studies cannot be joined."""
    value = f"{study.pk}/{cookie or secrets.token_hex(16)}"
    return hashlib.sha256(value.encode()).hexdigest()[:32]


def step_reached(*, task: Task, step: str) -> None:
    """Note that the person of an open task looks at this step of the study's protocol."""
    if task.state != Task.State.OPEN:
        return
    study = task.participant.study
    names = [one.name for one in protocols.get(study.protocol).steps]
    if step not in names:
        return
    now = timezone.now()
    earlier = Case(
        When(furthest__in=names[: names.index(step)], then=Value(step)), default=F("furthest")
    )
    rows = Whereabouts.objects.filter(task=task)
    if not rows.update(step=step, furthest=earlier, seen_at=now):
        row = Whereabouts(
            task=task,
            study=study,
            is_synthetic=task.participant.is_synthetic,
            step=step,
            furthest=step,
            seen_at=now,
        )
        Whereabouts.objects.bulk_create([row], ignore_conflicts=True)
