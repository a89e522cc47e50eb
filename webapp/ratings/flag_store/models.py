"""Flags of tasks as last computed, and their state for each study."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from webapp.studies.models import Participant, Study, Task


class TaskFlag(models.Model):
    """Flag of a task: its kind and the numbers for its explanation."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="flags")
    participant = models.ForeignKey(
        Participant,
        on_delete=models.CASCADE,
        related_name="flags",
        help_text=_("Participant who did the task; flag filters exclude participants with all of their work."),
    )
    name = models.CharField(max_length=50)
    figures = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task", "name"], name="task_flag_once")]
        indexes = [models.Index(fields=["name", "participant"], name="task_flag_people")]

    def __str__(self) -> str:
        return f"{self.task_id}: {self.name}"


class OriginMark(models.Model):
    """A person's decision that a participant is a person, or a program."""

    participant = models.OneToOneField(Participant, on_delete=models.CASCADE, related_name="origin_mark")
    is_human = models.BooleanField()
    made_by = models.CharField(max_length=150, help_text=_("Name of the user who decided."))
    made_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.participant_id}: {'person' if self.is_human else 'program'}"


class FlagState(models.Model):
    """State of a study's flags: data digest and results by kind."""

    study = models.OneToOneField(Study, on_delete=models.CASCADE, related_name="flag_state")
    data = models.CharField(max_length=32, help_text=_("Digest of the data that the flags were computed from."))
    n_tasks = models.PositiveIntegerField(help_text=_("Number of tasks checked."))
    n_people = models.PositiveIntegerField(help_text=_("Number of participants checked."))
    found = models.JSONField(default=dict, help_text=_("{kind: {n, of, why, digest}}, and the durations of tasks."))
    made_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.study_id}: {self.n_tasks} tasks"

    def get_kind_results(self, name: str) -> dict[str, Any]:
        """Return the stored results of a kind.

        Empty for a newer kind.
        """
        return dict(self.found.get("kinds", {}).get(name, {}))
