"""The base model, and where the rights of staff hang."""

from __future__ import annotations

from django.db import models

from webapp.core.rights import Right


class TimeStamped(models.Model):
    """When a row was made and last changed, UTC."""

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True


class StaffRights(models.Model):
    """No table: Django's permissions belong to a model, and these are about all of Confab."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = [(name, title) for name, title in Right.choices]
        verbose_name = "Confab"
        verbose_name_plural = "Confab"

    def __str__(self) -> str:
        return "rights of staff"
