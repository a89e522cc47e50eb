"""Readers' notes and searches, and the search index of conversations.

`Series`, `Figure` and `ConversationWords` hold derived data only. Database triggers maintain them
(`webapp.search.index`) after any write, and they can be rebuilt at any time.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models

from webapp.conversations.models import Conversation
from webapp.core.models import DatabaseTimeField
from webapp.core.project_scope import ProjectManager
from webapp.jobs.models import SelfPlayRun
from webapp.studies.models import Study


class Series(models.Model):
    """One kind of number that conversations have: a count, the mean of a rating, the difference between its raters, a
    column of a metric's version, the residual of a hybrid fit, a time.

    The one time is `rated`: when a rating was last changed, in seconds since 1970.
    """

    class Kind(models.TextChoices):
        COUNT = "count"
        RATING = "rating"
        METRIC = "metric"
        TIME = "time"
        SPREAD = "spread"
        FIT = "fit"

    is_derived = True

    kind = models.CharField(max_length=10, choices=Kind)
    name = models.CharField(max_length=200)
    metric = models.PositiveBigIntegerField(
        default=0, help_text="Primary key of the metric version or hybrid fit; 0 for other series."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "name", "metric"], name="series_unique")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Figure(models.Model):
    """Number of a conversation; undefined ones have no row."""

    is_derived = True

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="figures", db_index=False)
    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="figures", db_index=False)
    study = models.ForeignKey(Study, null=True, on_delete=models.CASCADE, related_name="+", db_index=False)
    value = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["conversation", "series"], name="figure_once")]
        indexes = [
            # Lets ranges and orders within a study read the index alone.
            models.Index(fields=["study", "series", "value", "conversation"], name="figure_sorted")
        ]

    def __str__(self) -> str:
        return f"{self.conversation_id}: {self.value}"


class ConversationWords(models.Model):
    """Words of a conversation and of its comments, for PostgreSQL.

    SQLite has FTS5 tables instead.
    """

    is_derived = True

    conversation = models.OneToOneField(Conversation, primary_key=True, on_delete=models.CASCADE, related_name="words")
    document = SearchVectorField()

    class Meta:
        indexes = [GinIndex(fields=["document"], name="conversation_words")]

    def __str__(self) -> str:
        return str(self.conversation_id)


class Note(models.Model):
    """Star, tag or note on a conversation, visible to all its readers."""

    class Kind(models.TextChoices):
        STAR = "star"
        TAG = "tag"
        NOTE = "note"

    LONGEST_TAG = 40
    LONGEST = 5000

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="notes")
    kind = models.CharField(max_length=4, choices=Kind)
    text = models.TextField(blank=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "kind", "text"], condition=~models.Q(kind="note"), name="note_tag_once"
            ),
            models.CheckConstraint(condition=~models.Q(kind="star") | models.Q(text=""), name="note_star_says_nothing"),
        ]
        indexes = [
            models.Index(fields=["kind", "text", "conversation"], condition=~models.Q(kind="note"), name="note_tags")
        ]

    def __str__(self) -> str:
        return f"{self.kind} at {self.conversation_id}"


class SavedSearch(models.Model):
    """Named query of a user for a study or a self-play run."""

    study = models.ForeignKey(Study, null=True, blank=True, on_delete=models.CASCADE, related_name="saved_searches")
    run = models.ForeignKey(SelfPlayRun, null=True, blank=True, on_delete=models.CASCADE, related_name="saved_searches")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_searches")
    name = models.CharField(max_length=80)
    line = models.CharField(max_length=1000)
    columns = models.CharField(max_length=500, blank=True)
    created_at = DatabaseTimeField(auto_now_add=True)

    project_paths = ("study", "run")

    objects = ProjectManager()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["study", "owner", "name"], name="saved_search_name"),
            models.UniqueConstraint(fields=["run", "owner", "name"], name="saved_search_of_run"),
            models.CheckConstraint(
                condition=models.Q(study=None, run__isnull=False) | models.Q(study__isnull=False, run=None),
                name="saved_search_of_one",
            ),
        ]

    def __str__(self) -> str:
        return self.name
