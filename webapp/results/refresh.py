"""Refresh of a study's flags and ranking after its data have changed.

Small studies are refreshed at once, larger ones by a worker. Call `refresh_flags` before flags are shown, or
participants excluded by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef

from webapp.core.clock import database_now
from webapp.jobs.models import UNFINISHED, Job
from webapp.jobs.services.jobs import job_create
from webapp.ratings.flag_selectors import flags_data, flags_state, tasks_to_look_at
from webapp.ratings.flag_store.models import FlagState
from webapp.ratings.flags.base import flag_kinds
from webapp.ratings.models import Rating
from webapp.ratings.services import flags_make
from webapp.studies.assignment.capacity import is_collecting
from webapp.studies.assignment.rules.base import rules
from webapp.studies.models import OrderState, Study
from webapp.studies.protocols.base import get_protocol

FLAGS_KIND = "flags"
DIRECT_TASKS = 200
"""Maximum number of tasks checked while a page waits."""
FLAGS_NOT_SOONER_THAN = timedelta(seconds=20)
"""Minimum seconds between two checks by a worker, as participants arrive one by one."""


@dataclass(frozen=True, slots=True)
class FlagsNow:
    """State of a study's flags.

    Attributes:
        state: None until a worker has computed them for the first time.
        is_current: True if they match the current data.
        job: job that recomputes them; None if none was requested.
    """

    state: FlagState | None
    is_current: bool = True
    job: Job | None = None


def flags_there(study: Study) -> list[tuple[str, Any]]:
    """Return name and title of the flags present in a study.

    Returns all kinds before the first computation.
    """
    if study.is_imported:
        return []
    state = flags_state(study)
    return [
        (kind.name, kind.title) for kind in flag_kinds if state is None or state.get_kind_results(kind.name).get("n")
    ]


def refresh_flags(study: Study, *, exact: bool = False) -> FlagsNow:
    """Return a study's flags, refreshing them if outdated.

    Args:
        exact: True to refresh at once for any amount of data: for commands, workers and decisions.
    """
    state = flags_state(study)
    if state is not None and state.data == flags_data(study):
        return FlagsNow(state)
    if exact or tasks_to_look_at(study) <= DIRECT_TASKS:
        return FlagsNow(flags_make(study=study))
    if state is not None and state.made_at >= database_now() - FLAGS_NOT_SOONER_THAN:
        return FlagsNow(state, is_current=False)
    under_way = Job.objects.filter(kind=FLAGS_KIND, study=study, state__in=UNFINISHED).first()
    job = under_way or job_create(kind=FLAGS_KIND, payload={"study": study.pk}, study=study)
    return FlagsNow(state, is_current=False, job=job)


RANKING_KIND = "order"
RANKING_NOT_SOONER_THAN = timedelta(seconds=20)
"""Minimum seconds between two checks of the ratings, because each check reads all ratings."""


def has_order(study: Study) -> bool:
    """Return True if participants' ratings or comparisons can rank the bots.

    Annotations of single replies and choices among questions give no order.
    """
    protocol = get_protocol(study)
    if protocol.marks_turns:
        return False
    if protocol.compares_pairs:
        return True
    rates = any(step.name == "form" for step in protocol.steps)
    return rates or (protocol.judges_items and "approval" not in protocol.results)


def order_refresh(study: Study) -> Job | None:
    """Request a new ranking; None if it is recent or already requested."""
    if not has_order(study):
        return None
    fresh = database_now() - RANKING_NOT_SOONER_THAN
    if OrderState.objects.filter(study=study, made_at__gte=fresh).exists():
        return None
    if Job.objects.filter(kind=RANKING_KIND, study=study, state__in=UNFINISHED).exists():
        return None
    return job_create(kind=RANKING_KIND, payload={"study": study.pk}, study=study)


def ranking_newest(study: Study) -> OrderState | None:
    """Return the newest ranking, and request a new one if ratings have come since; None if there is none yet."""
    if not has_order(study):
        return None
    state = OrderState.objects.filter(study=study).first()
    if is_collecting(study) and _has_new_ratings(study, state):
        order_refresh(study)
    return state


def _has_new_ratings(study: Study, state: OrderState | None) -> bool:
    """Return True if ratings were submitted since a worker last computed the order."""
    if state:
        lately = Rating.objects.filter(submitted_at__gt=state.made_at)
        return lately.filter(participant__study=study).exists()
    # Query participants first: for a study without ratings the database would scan every rating.
    theirs = Rating.objects.filter(participant=OuterRef("pk"))
    return study.participants.filter(Exists(theirs)).exists()


def order_refresh_for_rule(study: Study) -> None:
    """Request a ranking after a rating, if the study's rule needs it."""
    if study.rule in rules and rules.get(study.rule).reads_needs:
        order_refresh(study)
