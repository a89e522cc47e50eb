"""What the workbench reads besides the data itself: numbers and words of every conversation, ready to sort and search.

`Series`, `Figure` and `ConversationWords` hold nothing of their own. Triggers of the database keep them
(`webapp.reading.index`), so they are right whoever writes, and can be made anew at any time.
"""

from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models

from webapp.conversations.models import Conversation
from webapp.studies.models import Study


class Series(models.Model):
    """One kind of number that conversations have: a count, the mean of a rating, a column of a metric's version."""

    class Kind(models.TextChoices):
        COUNT = "count"
        RATING = "rating"
        METRIC = "metric"

    is_derived = True

    kind = models.CharField(max_length=10, choices=Kind)
    name = models.CharField(max_length=200)
    metric = models.PositiveBigIntegerField(
        default=0, help_text="Key of the metric's version; 0 for what is no metric."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "name", "metric"], name="series_unique")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Figure(models.Model):
    """One number of one conversation; none where it is undefined."""

    is_derived = True

    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="figures", db_index=False
    )
    series = models.ForeignKey(
        Series, on_delete=models.CASCADE, related_name="figures", db_index=False
    )
    study = models.ForeignKey(
        Study, null=True, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    value = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "series"], name="figure_once")
        ]
        indexes = [
            # Ranges and orders within a study are read from the index alone.
            models.Index(fields=["study", "series", "value", "conversation"], name="figure_sorted"),
        ]

    def __str__(self) -> str:
        return f"{self.conversation_id}: {self.value}"


class ConversationWords(models.Model):
    """The words of a conversation and of the comments on it, for PostgreSQL's search; SQLite has FTS5 tables instead."""

    is_derived = True

    conversation = models.OneToOneField(
        Conversation, primary_key=True, on_delete=models.CASCADE, related_name="words"
    )
    document = SearchVectorField()

    class Meta:
        indexes = [GinIndex(fields=["document"], name="conversation_words")]

    def __str__(self) -> str:
        return str(self.conversation_id)
