"""The base model, where the rights of staff hang, and the tokens of their programs."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

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


class ApiToken(TimeStamped):
    """By which a program acts for somebody on the staff, with some of their rights; only its digest is kept."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    name = models.CharField(max_length=100, help_text=_("What it is for."))
    digest = models.CharField(max_length=64, unique=True)
    rights = models.JSONField(
        help_text=_("Names of rights; those that the person lacks do nothing.")
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name
