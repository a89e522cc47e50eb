"""Erasure of texts in ratings, and open tasks whose texts were deleted.

Comments and written answers are blanked, both current ones and those before a change. Django announces each deleted
item of a task, however its text is deleted; a task with nothing left to rate is then ended.
"""

from __future__ import annotations

from typing import Any

from django.db import connections, transaction
from django.db.models import Q, QuerySet
from django.db.models.signals import post_delete

from webapp.ratings.models import Rating, RatingRevision
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.services import task_judged
from webapp.studies.models import Slot, Study, Task
from webapp.studies.privacy.retention import TextsKind, answers_without, having_keys, texts_kind, written_keys
from webapp.studies.services import task_close


def ratings_of(study: Study) -> QuerySet[Rating]:
    """Return ratings of the study, of its conversations and of its items."""
    return Rating.objects.filter(
        Q(participant__study=study)
        | Q(conversation__study=study)
        | Q(turn__conversation__study=study)
        | Q(item__study=study)
    )


def connect_texts() -> None:
    """Register the places where this app stores texts."""
    texts_kind("ratings", _build_texts_kind(ratings_of))
    texts_kind(
        "rating_revisions", _build_texts_kind(lambda study: RatingRevision.objects.filter(rating__in=ratings_of(study)))
    )


def _build_texts_kind(select_rows: Any) -> TextsKind:
    def rows(study: Study) -> QuerySet[Any]:
        ratings = select_rows(study)
        written = having_keys(ratings, "other_answers", written_keys(study))
        return ratings.filter(~Q(comment="") | Q(pk__in=written.values("pk")))

    def blank(study: Study, matching_rows: QuerySet[Any]) -> None:
        keys = written_keys(study)
        for row in matching_rows.order_by("pk").iterator(chunk_size=500):
            row.comment = ""
            row.other_answers = answers_without(row.other_answers, keys)
            row.save(update_fields=["comment", "other_answers"])

    return TextsKind(rows, blank)


def task_settle(*, task: Task) -> Task:
    """End an open task whose texts are all rated or deleted.

    Existing ratings count as the complete task. A task without ratings closes as failed, so that its participant can
    start another one. Tasks of chats are unaffected, because their chats end them.
    """
    with transaction.atomic():
        rows = Task.objects.select_for_update(of=("self",))
        task = rows.select_related("participant__study", "version__rubric").get(pk=task.pk)
        if task.state != Task.State.OPEN or _holds_own_chats(task):
            return task
        judgements = requested_ratings(task)
        if any(judgement.rating is None for judgement in judgements):
            return task
        if judgements:
            return task_judged(task)
        return task_close(task=task, state=Task.State.FAILED)


def connect_deletions() -> None:
    """Connect the receiver of slot deletions."""
    post_delete.connect(_slot_deleted, sender=Slot, dispatch_uid="tasks_settle")


class _Settling:
    """Tasks that lose slots in one transaction.

    Called after its commit, when its row locks are released.
    """

    def __init__(self) -> None:
        self.task_ids: set[int] = set()

    def __call__(self) -> None:
        open_ones = Task.objects.filter(pk__in=self.task_ids, state=Task.State.OPEN)
        for task in open_ones.order_by("pk"):
            task_settle(task=task)


def _slot_deleted(*, instance: Slot, using: str, **_: Any) -> None:
    if instance.bot_id:
        return
    waiting = connections[using].run_on_commit
    # The signals of one deletion share one commit hook per savepoint.
    newest = waiting[-1][1] if waiting else None
    if not (isinstance(newest, _Settling) and waiting[-1][0] == set(connections[using].savepoint_ids)):
        newest = _Settling()
        transaction.on_commit(newest, using=using, robust=True)
    newest.task_ids.add(instance.task_id)


def _holds_own_chats(task: Task) -> bool:
    return "turns" not in task.payload and task.slots.exclude(bot_id="").exists()
