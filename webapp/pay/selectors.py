"""Reads of the jobs that talk with a platform."""

from __future__ import annotations

from webapp.pay.models import HookEvent
from webapp.runs.models import Job, State
from webapp.studies.models import Study


def platform_job(study: Study) -> Job | None:
    """Return the sending or comparing of a study that is under way, or the newest if it came to nothing."""
    newest = Job.objects.filter(kind__in=("pay_send", "pay_compare"), study=study).first()
    is_fine = newest is None or newest.state in (State.DONE, State.CANCELLED)
    return None if is_fine else newest


def hook_newest(study: Study) -> HookEvent | None:
    """Return the newest event of the platform's webhook."""
    return HookEvent.objects.filter(study=study).order_by("-pk").first()


def comparison_newest(study: Study) -> Job | None:
    """Return the newest comparison with the platform."""
    return Job.objects.filter(kind="pay_compare", study=study, state=State.DONE).first()
