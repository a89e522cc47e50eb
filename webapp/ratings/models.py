"""Ratings: answers of a rater to a rubric."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from webapp.conversations.models import Conversation, Turn
from webapp.core.models import TimeStamped
from webapp.studies.models import Item, Participant, Rubric, Slot, Task

_TARGETS = ("conversation", "turn", "item", "first", "second")


def _target_is(*names: str) -> Q:
    """Return the constraint that exactly these fields define the target."""
    return Q(**{f"{name}__isnull": name not in names for name in _TARGETS})


class Rating(TimeStamped):
    """Rating of one target by one rater: `{dimension key: number}`.

    The target is a conversation, a turn, an item, or a pair: the `first` slot of a task compared with the `second`, as
    a whole or by their replies `at_turn`. Imported ratings have no task.
    """

    task = models.ForeignKey(Task, null=True, blank=True, on_delete=models.CASCADE, related_name="ratings")
    conversation = models.ForeignKey(
        Conversation, null=True, blank=True, on_delete=models.CASCADE, related_name="ratings"
    )
    turn = models.ForeignKey(Turn, null=True, blank=True, on_delete=models.CASCADE, related_name="ratings")
    item = models.ForeignKey(Item, null=True, blank=True, on_delete=models.CASCADE, related_name="ratings")
    first = models.ForeignKey(Slot, null=True, blank=True, on_delete=models.CASCADE, related_name="rated_first")
    second = models.ForeignKey(Slot, null=True, blank=True, on_delete=models.CASCADE, related_name="rated_second")
    at_turn = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text=_("Turn whose two replies were compared; null for whole chats and ratings that are not of a pair."),
    )
    participant = models.ForeignKey(
        Participant, null=True, blank=True, on_delete=models.CASCADE, related_name="ratings"
    )
    rater = models.CharField(max_length=200, blank=True, help_text=_("The rater's name in imported data, if any."))
    external_id = models.CharField(max_length=200, blank=True)
    rubric = models.ForeignKey(Rubric, on_delete=models.PROTECT, related_name="ratings")
    answers = models.JSONField(default=dict)
    other_answers = models.JSONField(
        default=dict,
        blank=True,
        help_text=_("{question key: a text, or a list of options}: what was asked beside scales."),
    )
    comment = models.TextField(blank=True)
    submitted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "participant"], condition=Q(participant__isnull=False), name="rating_once_each"
            ),
            models.UniqueConstraint(
                fields=["task", "turn"], condition=Q(turn__isnull=False), name="rating_of_turn_once"
            ),
            models.UniqueConstraint(
                fields=["task", "item"], condition=Q(item__isnull=False), name="rating_of_item_once"
            ),
            models.UniqueConstraint(
                fields=["task", "first", "second"],
                condition=Q(first__isnull=False, at_turn=None),
                name="rating_of_pair_once",
            ),
            models.UniqueConstraint(
                fields=["task", "first", "second", "at_turn"],
                condition=Q(at_turn__isnull=False),
                name="rating_of_pair_turn_once",
            ),
            models.CheckConstraint(
                condition=Q(at_turn=None) | Q(first__isnull=False), name="rating_at_turn_is_of_pair"
            ),
            models.UniqueConstraint(
                fields=["conversation", "external_id"], condition=~Q(external_id=""), name="rating_import_once"
            ),
            models.CheckConstraint(
                condition=_target_is("conversation")
                | _target_is("turn")
                | _target_is("item")
                | (_target_is("first", "second") & ~Q(first=F("second"))),
                name="rating_one_target",
            ),
            models.CheckConstraint(
                condition=Q(task=None) | Q(participant__isnull=False), name="rating_in_task_has_person"
            ),
        ]
        indexes = [
            models.Index(fields=["submitted_at"], name="rating_submitted"),
            # For finding ratings added or changed since a fit without reading all of them.
            models.Index(fields=["updated_at"], name="rating_updated"),
            models.Index(fields=["rater"], condition=~Q(rater=""), name="rating_rater"),
        ]

    def __str__(self) -> str:
        return f"rating {self.pk}"


class RatingRevision(models.Model):
    """Earlier answers of a rating that its participant changed."""

    rating = models.ForeignKey(Rating, on_delete=models.CASCADE, related_name="revisions")
    answers = models.JSONField(default=dict)
    other_answers = models.JSONField(default=dict, blank=True)
    comment = models.TextField(blank=True)
    submitted_at = models.DateTimeField(help_text=_("When these answers were submitted."))

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"rating {self.rating_id} before"
