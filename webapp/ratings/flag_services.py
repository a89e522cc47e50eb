"""Writes of flags, and the option `--without` of commands that exclude participants.

All flags of a study are computed at once and replace those stored before.
"""

from __future__ import annotations

import hashlib
from argparse import ArgumentParser
from collections.abc import Collection, Iterable
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from chatbots.identity import canonical_json
from webapp.ratings.flag_selectors import flags_data, flags_state, without_read
from webapp.ratings.flag_store.models import FlagState, TaskFlag
from webapp.ratings.flags.base import FlagFindings, StudyWork, compute_statistics, flag_kinds
from webapp.ratings.flags.speed import durations_of
from webapp.studies.models import Study, Task

_BATCH = 1000


def flags_make(*, study: Study) -> FlagState:
    """Find the flags of a study's tasks and store them; of two who do this at once, the later one's stay."""
    try:
        return _make(study)
    except IntegrityError:  # a participant was erased while their flags were stored
        return _make(study)


def flags_ensure(*, study: Study) -> FlagState:
    """Return the flags of a study's tasks as they are now; they are found where data have changed since."""
    state = flags_state(study)
    if state is not None and state.data == flags_data(study):
        return state
    return flags_make(study=study)


def _make(study: Study) -> FlagState:
    data = flags_data(study)
    work = StudyWork(study)
    found = {kind.name: kind.find(work) for kind in flag_kinds}
    beside = compute_statistics(study)
    person = {task.pk: task.participant for task in work.done}
    rows = [
        TaskFlag(task_id=task, participant_id=person[task], name=name, figures=dict(figures))
        for name, one in found.items()
        for task, figures in one.tasks.items()
    ]
    with transaction.atomic():
        Study.objects.select_for_update(of=("self",)).get(pk=study.pk)
        # Somebody may have been erased since the work was read.
        still = set(Task.objects.filter(participant__study=study).values_list("pk", flat=True))
        TaskFlag.objects.filter(participant__study=study).delete()
        TaskFlag.objects.bulk_create([row for row in rows if row.task_id in still], batch_size=_BATCH)
        state, _made = FlagState.objects.update_or_create(
            study=study,
            defaults={
                "data": data,
                "n_tasks": len(work.done),
                "n_people": len(set(person.values())),
                "found": {
                    "kinds": {name: _told(one) for name, one in found.items()},
                    "durations": durations_of(work),
                    **beside,
                },
                "made_at": timezone.now(),
            },
        )
    return state


def flags_forget(studies: Collection[int]) -> None:
    """Have the flags of these studies made again: a participant was erased, and the others' shares have changed."""
    FlagState.objects.filter(study__in=studies).delete()


def _told(found: FlagFindings) -> dict[str, Any]:
    """Return the stored values of a kind; the digest changes with the tasks that have the flag."""
    who = canonical_json(sorted(found.tasks))
    return {
        "n": len(found.tasks),
        "of": found.of,
        "why_none": found.why_none,
        "about": dict(found.about),
        "digest": hashlib.sha256(who.encode()).hexdigest()[:16],
    }


def without_argument(parser: ArgumentParser) -> None:
    """Add the option that leaves participants out."""
    parser.add_argument(
        "--without",
        default="",
        metavar="a,b",
        help=f"leave out what people with one of these flags did: {', '.join(flag_kinds.names())}",
    )


def without_option(studies: Iterable[Study], text: str) -> tuple[str, ...]:
    """Return the flags that a command was given, looked for in the studies' data as they are now.

    Raises:
        UnknownName: for a flag that there is not, with the nearest names.
    """
    without = without_read(text)
    if without:
        for study in studies:
            flags_ensure(study=study)
    return without
