"""Table of items; other modules import it from `webapp.studies.models`."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from webapp.core.models import TimeStamped


class Item(TimeStamped):
    """Item that participants judge: replies to a context, with or without a reference.

    Attention checks, gold items and repeated items are items too, so that nothing distinguishes them from the
    others; no result counts them.
    """

    class Purpose(models.TextChoices):
        JUDGED = "", _("Judged")
        CHECK = "check", _("Attention check")
        GOLD = "gold", _("Has a known right answer")
        REPEAT = "repeat", _("Another item once more")
        QUESTION = "question", _("Stands for the question itself")

    UNCOUNTED = (Purpose.CHECK, Purpose.GOLD, Purpose.REPEAT)
    """What people judge besides, for checks."""

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="items")
    key = models.CharField(max_length=200, help_text=_("Its name in the study."))
    context = models.JSONField(default=list, help_text=_("Utterances, oldest first."))
    responses = models.JSONField(help_text=_("[{model, text}]"))
    # Null differs from an empty reference.
    reference = models.TextField(  # noqa: DJ001
        null=True, blank=True, help_text=_("A reply written by a person.")
    )
    reference_score = models.FloatField(
        null=True, blank=True, help_text=_("How the reference was rated before.")
    )
    task = models.CharField(
        max_length=50,
        blank=True,
        help_text=_(
            "What kind of talk it is from (chitchat, persona); some questions are for one kind alone."
        ),
    )
    panel = models.JSONField(
        default=dict,
        blank=True,
        help_text=_("What is shown beside: {persona: [lines], emotion, topic}"),
    )
    purpose = models.CharField(max_length=10, choices=Purpose, blank=True, default="")
    expected = models.JSONField(
        default=dict,
        blank=True,
        help_text=_("Of a check or a gold item: {question: [answers that pass]}"),
    )
    original = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="repeats",
        help_text=_("Of an item that is shown once more: the one it is like."),
    )
    conversation = models.ForeignKey(
        "conversations.Conversation",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="items",
        help_text=_("Whose words it holds; it goes with it."),
    )
    origin = models.JSONField(
        default=dict, blank=True, help_text=_("How it was drawn: place, seed, filters, bots.")
    )
    digest = models.CharField(
        max_length=32,
        blank=True,
        editable=False,
        help_text=_("Of the texts of one that was drawn."),
    )

    class Meta:
        indexes = [models.Index(fields=["study", "digest"], name="item_digest")]
        constraints = [models.UniqueConstraint(fields=["study", "key"], name="item_key_unique")]

    def __str__(self) -> str:
        return self.key
