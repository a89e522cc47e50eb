"""Lookup of visits: shown codes, and search by id or code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Q

from webapp.pay.submissions import Submission, SubmissionKey, Submissions
from webapp.studies.models import Outcome, Task
from webapp.studies.recruitment.completion import ending_of, tasks_with_endings


def codes_shown(visits: Iterable[Submission]) -> dict[SubmissionKey, str]:
    """Return the final code shown in each of these visits, if any."""
    visits_by_key = {visit.key: visit for visit in visits}
    people = {key.participant for key in visits_by_key}
    tasks = tasks_with_endings(Task.objects.filter(participant__in=people).order_by("pk"))
    codes: dict[SubmissionKey, str] = {}
    for task in tasks:
        key = SubmissionKey(task.participant_id, task.submission)
        ending = ending_of(task)
        if ending is not None and key in visits_by_key and ending.outcome == visits_by_key[key].outcome:
            codes[key] = ending.code
    return codes


def submissions_searched(
    visits: Submissions,
    words: str,
    *,
    among: Sequence[Submission] | None = None,
    by_id: bool = True,
    by_code: bool = True,
) -> list[Submission]:
    """Return the visits whose ids or codes contain these words.

    Case is ignored.

    Args:
        among: visits to search; None: all.
        by_id: whether to search the platform's ids, too.
        by_code: whether to search codes.
    """
    candidates = visits.all if among is None else list(among)
    sought = words.strip().lower()
    if not sought:
        return candidates
    recruitment = visits.study.values.recruitment
    outcomes = {outcome.value for outcome in Outcome if sought in recruitment.code(outcome).lower()}
    has_code = Q(completion_code__icontains=sought) | Q(told__code__icontains=sought)
    tasks = Task.objects.filter(has_code, participant__study=visits.study).values_list("participant", "submission")
    by_own_code = {SubmissionKey(*key) for key in tasks} if by_code else set()
    participant_hex = sought.replace("-", "")
    return [
        visit
        for visit in candidates
        if (by_id and sought in f"{visit.external_id} {visit.key.submission}".lower())
        or visit.key.participant.hex.startswith(participant_hex)
        # Participants who ended before a code was added or corrected have not seen it.
        or (by_code and visit.shown_code is None and visit.outcome in outcomes)
        or visit.key in by_own_code
    ]
