"""Flags that belong to the data as they are now: found at once where there is little, by a worker where there is more.

Whoever shows flags, or leaves people out by them, asks `flags_now` first.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from webapp.quality.flags.base import flag_kinds
from webapp.quality.models import FlagState
from webapp.quality.selectors import flags_data, flags_state, tasks_to_look_at
from webapp.quality.services import flags_make
from webapp.runs.models import UNFINISHED, Job
from webapp.runs.services.jobs import job_create
from webapp.studies.models import Study

KIND = "flags"
DIRECT_TASKS = 200
"""So many tasks are looked at while a page waits."""
NOT_SOONER_THAN = timedelta(seconds=20)
"""One look in so long a time, where a worker does it: people come one by one."""


@dataclass(frozen=True, slots=True)
class FlagsNow:
    """State of a study's flags.

    Attributes:
        state: None where a worker has still to make them for the first time.
        is_current: True if they belong to the data as they are now.
        job: the job that makes them again; None where none was requested.
    """

    state: FlagState | None
    is_current: bool = True
    job: Job | None = None


def flags_there(study: Study) -> list[tuple[str, Any]]:
    """Return name and title of the flags that some task of a study has; before they are first made, of all kinds."""
    if study.is_imported:
        return []
    state = flags_state(study)
    return [
        (kind.name, kind.title)
        for kind in flag_kinds
        if state is None or state.of(kind.name).get("n")
    ]


def flags_now(study: Study, *, exact: bool = False) -> FlagsNow:
    """Return the flags of a study as they stand, and see that they are brought up to date.

    Args:
        exact: do it now, however much there is: for commands, workers, and whoever decides by them.
    """
    state = flags_state(study)
    if state is not None and state.data == flags_data(study):
        return FlagsNow(state)
    if exact or tasks_to_look_at(study) <= DIRECT_TASKS:
        return FlagsNow(flags_make(study=study))
    if state is not None and state.made_at >= timezone.now() - NOT_SOONER_THAN:
        return FlagsNow(state, is_current=False)
    under_way = Job.objects.filter(kind=KIND, study=study, state__in=UNFINISHED).first()
    job = under_way or job_create(kind=KIND, payload={"study": study.pk}, study=study)
    return FlagsNow(state, is_current=False, job=job)
