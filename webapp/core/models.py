"""The base model."""

from __future__ import annotations

from django.db import models


class TimeStamped(models.Model):
    """When a row was made and last changed, UTC."""

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True
