"""Tables of the questions after a task."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from webapp.core.models import TimeStamped
from webapp.studies.questions import DEFAULT_SCALE


class Rubric(TimeStamped):
    """Questions after a task, by default on one scale.

    The first answer freezes it; an edit creates a new version.
    """

    name = models.CharField(max_length=100)
    version = models.PositiveIntegerField(default=1)
    low = models.FloatField(default=DEFAULT_SCALE[0], help_text=_("Smallest value of the scale."))
    high = models.FloatField(default=DEFAULT_SCALE[1], help_text=_("Largest value of the scale."))
    scale_inferred = models.BooleanField(
        default=False, help_text=_("The scales of these questions were inferred from imported ratings.")
    )
    frozen_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "version"], name="rubric_version_unique"),
            models.CheckConstraint(condition=Q(low__lt=F("high")), name="rubric_low_below_high"),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


class Dimension(models.Model):
    """Question of a rubric, with labels for both ends of its scale."""

    rubric = models.ForeignKey(Rubric, on_delete=models.CASCADE, related_name="dimensions")
    key = models.CharField(
        max_length=50,
        validators=[
            RegexValidator(r"^[a-z][a-z0-9_]*$", _("Lower-case letters, digits and _.")),
            # The rating form has fields of these names.
            RegexValidator(
                r"^(comments|csrfmiddlewaretoken)$",
                _("This name is taken by the form; choose another."),
                inverse_match=True,
            ),
        ],
    )
    title = models.CharField(max_length=100)
    question = models.CharField(max_length=300)
    low_label = models.CharField(max_length=60, blank=True)
    high_label = models.CharField(max_length=60, blank=True)
    labels = models.JSONField(default=dict, blank=True, help_text=_("{point of the scale: words at it}"))
    required = models.BooleanField(default=True)
    reversed = models.BooleanField(
        null=True,
        blank=True,
        default=None,
        help_text=_(
            "Yes: lower is better. Analyses reverse the answers; exports keep them as given. No: it is a good one. "
            "Unknown: answers count as they are."
        ),
    )
    position = models.PositiveSmallIntegerField(default=0)
    low = models.FloatField(null=True, blank=True, help_text=_("Own scale, if not the rubric's."))
    high = models.FloatField(null=True, blank=True)
    scale_inferred = models.BooleanField(
        default=False,
        help_text=_("The scale was inferred from imported ratings, so intervals are not cut off at its ends."),
    )

    class Meta:
        ordering = ["position", "id"]
        constraints = [models.UniqueConstraint(fields=["rubric", "key"], name="dimension_key_unique")]

    def __str__(self) -> str:
        return self.key

    @property
    def scale(self) -> tuple[float, float]:
        """Smallest and largest value of this question."""
        low = self.rubric.low if self.low is None else self.low
        high = self.rubric.high if self.high is None else self.high
        return low, high
