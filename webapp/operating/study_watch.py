"""Open studies under observation: closing by their own rules, and studies that are full, stuck or slow.

Processes look after some of their heartbeats (`incidents.look_if_due`). A study is closed by one conditional UPDATE,
with the alert in the same transaction, so any number of processes may look. Full, stuck and slow studies are incidents:
each is reported once, and pages of the study and Home show it as long as it lasts.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count, Max, Min, Q
from django.urls import reverse
from django.utils import timezone

from chatbots.text import error_text
from webapp.bots.models import Alert
from webapp.core.clock import database_now
from webapp.core.language import plural
from webapp.jobs.alerts import alerts_tell
from webapp.pay.submissions import pay_owed
from webapp.studies.assignment.capacity import has_planned_number, open_tasks
from webapp.studies.lifecycle import study_close
from webapp.studies.models import ClosedBy, Outcome, Study, Task, TaskCount
from webapp.studies.recruitment.completion import pay_in_all

FULL, STUCK, SLOW = "study_full", "study_stuck", "study_slow"
STUCK_AFTER = timedelta(hours=24)
"""Time without a completed task after which an open study is stuck."""
PACE_OVER = timedelta(hours=72)
"""Time over which the pace of a slow study is measured; at least `STUCK_AFTER` of it."""
SLOW_AFTER = timedelta(days=14)
"""A study without a last day is slow if its planned number is further away than this."""

FAR = timedelta(days=3650)
"""A later day than this is not named."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StudyProblem:
    """An open study that is full, stuck or slow.

    Attributes:
        kind: `FULL`, `STUCK` or `SLOW`.
        lead, rest: bold first words, and the rest with what to do.
    """

    study: Study
    kind: str
    lead: str
    rest: str

    @property
    def address(self) -> str:
        """Page on which to act, relative to the server."""
        return reverse("dashboard:study_people", args=[self.study.key])


@dataclass(frozen=True, slots=True)
class _Progress:
    """Completed and started tasks of participants; times are None without any."""

    n_done: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    n_lately: int = 0
    n_started: int = 0


def find_study_problems(studies: Iterable[Study] | None = None) -> list[StudyProblem]:
    """Return the problems of open studies.

    Args:
        studies: these studies only, of which those that do not collect have none; None for all visible ones.
    """
    if studies is None:
        studies = Study.objects.filter(state=Study.State.COLLECTING, is_imported=False)
    studies = [study for study in studies if study.state == Study.State.COLLECTING and not study.is_imported]
    if not studies:
        return []
    now = database_now()
    progress = _progress_of(studies, now)
    counts = defaultdict[int, list[TaskCount]](list)
    for row in TaskCount.objects.filter(study__in=studies, is_synthetic=False, conversation=None, item=None):
        counts[row.study_id].append(row)
    problems = (_find_problem(study, progress[study.pk], counts[study.pk], now) for study in studies)
    return [problem for problem in problems if problem is not None]


def _progress_of(studies: list[Study], now: datetime) -> dict[int, _Progress]:
    done, lately = Q(outcome=Outcome.RATED), Q(ended_at__gte=now - PACE_OVER)
    rows = (
        Task.objects.filter(participant__study__in=studies, participant__is_synthetic=False)
        .order_by()
        .values("participant__study")
        .annotate(
            n_done=Count("pk", filter=done),
            first_at=Min("ended_at", filter=done),
            last_at=Max("ended_at", filter=done),
            n_lately=Count("pk", filter=done & lately),
            n_started=Count("pk", filter=Q(created_at__gte=now - STUCK_AFTER)),
        )
    )
    progress = defaultdict[int, _Progress](_Progress)
    for row in rows:
        counts: dict[str, Any] = dict(row)
        study_id = counts.pop("participant__study")
        progress[study_id] = _Progress(**counts)
    return progress


def _find_problem(study: Study, progress: _Progress, counts: list[TaskCount], now: datetime) -> StudyProblem | None:
    if has_planned_number(study, counts):
        return StudyProblem(
            study, FULL, "The study is full.", "New participants are turned away. Close it, or raise the number."
        )
    # An edit of the study counts as activity: someone is looking after it.
    quiet_since = max(filter(None, (progress.last_at, study.updated_at)))
    if now - quiet_since >= STUCK_AFTER + _longest_gap(study, progress):
        hours = int((now - quiet_since).total_seconds() // 3600)
        started = plural(progress.n_started, "%(n)d participant", "%(n)d participants") % {"n": progress.n_started}
        cause = (
            f"{started} started in the last day." if progress.n_started else "No participant started in the last day."
        )
        advice = "Try the link yourself." if progress.n_started else "Check that the link reaches people."
        return StudyProblem(study, STUCK, f"Nobody has finished for {hours} hours.", f"{cause} {advice}")
    return _find_delay(study, progress, now)


def _longest_gap(study: Study, progress: _Progress) -> timedelta:
    """Return the time for which all participants may be waiting for their next part."""
    gaps = [part.gap.least for part in study.values.sittings.parts] if progress.n_done else []
    return timedelta(days=max(gaps, default=0))


def _find_delay(study: Study, progress: _Progress, now: datetime) -> StudyProblem | None:
    """Return that the planned number will be reached too late at the present pace; None if it will not."""
    n_wanted, ends_at = study.values.quotas.n_conversations_wanted, study.values.closing.ends_at
    if not n_wanted or progress.first_at is None or now - progress.first_at < STUCK_AFTER or not progress.n_lately:
        return None
    each = min(PACE_OVER, now - progress.first_at) / progress.n_lately
    is_far = (n_wanted - progress.n_done) * each.total_seconds() > FAR.total_seconds()
    ready_at = now + (FAR if is_far else each * (n_wanted - progress.n_done))
    if ready_at <= (ends_at or now + SLOW_AFTER):
        return None
    day = timezone.localtime(ready_at)
    when = "in more than ten years" if is_far else f"on {day.day} {day:%b %Y}"
    lead = f"The study is slow: at its present pace it has its {n_wanted:,} tasks {when}."
    if ends_at is None:
        return StudyProblem(study, SLOW, lead, "Recruit more people, or lower the number.")
    n_by_then = progress.n_done + (ends_at - now) // each
    return StudyProblem(
        study, SLOW, lead, f"It closes before, with about {n_by_then:,}. Recruit more people, or change the last day."
    )


def close_due_studies() -> None:
    """Close the open studies whose closing rules apply, with an alert for each."""
    now = database_now()
    for study in Study.objects.filter(state=Study.State.COLLECTING, is_imported=False):
        try:
            reason = _due_reason(study, now)
            if reason is not None:
                _close(study, reason)
        except Exception as error:  # an error in one study must not keep the others open
            logger.error("the closing rules of study %s fail: %s", study.key, error_text(error, 200))


def _close(study: Study, reason: ClosedBy) -> None:
    with transaction.atomic():
        if not study_close(study=study, reason=reason):
            return  # another process was faster
        content = {
            "title": f"Confab: {study.name} has closed",
            "words": f"The study closed itself: {reason.label}. The link now says that it has ended.",
            "link": reverse("dashboard:study", args=[study.key]),
            "study": study.key,
            "reason": reason.value,
        }
        alerts_tell(event=Alert.Event.STUDY_CLOSED, content=content)
    logger.info("study %s is closed by its rule: %s", study.key, reason.value)


def _due_reason(study: Study, now: datetime) -> ClosedBy | None:
    """Return the closing rule that applies now, or None."""
    closing = study.values.closing
    if closing.ends_at is not None and now >= closing.ends_at:
        return ClosedBy.DATE
    if closing.closes_when_full and has_planned_number(study):
        return ClosedBy.PLANNED_NUMBER
    if closing.budget is not None and committed_pay(study) > closing.budget:
        return ClosedBy.BUDGET
    return None


def committed_pay(study: Study) -> float:
    """Return pay and fee owed so far, with that of those who are inside and of one more participant."""
    values = study.values
    n_inside = open_tasks(study, synthetic=False).count()
    pay = pay_owed(study) + (n_inside + 1) * (pay_in_all(values) or 0.0)
    return pay * (1 + values.recruitment.fee_share)
