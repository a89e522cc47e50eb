"""One row per bot identity ever used."""

from __future__ import annotations

from django.db import models

from webapp.core.models import TimeStamped


class BotVersion(TimeStamped):
    """A bot as it was: name, version and parameters. Conversations point here, rows never change."""

    key = models.CharField(max_length=32, unique=True, help_text="Digest of the identity.")
    bot_id = models.CharField(max_length=100, db_index=True)
    title = models.CharField(max_length=200)
    kind = models.CharField(max_length=50)
    version = models.CharField(max_length=50)
    params = models.JSONField(default=dict)
    is_control = models.BooleanField(default=False)

    class Meta:
        ordering = ["bot_id", "created_at"]

    def __str__(self) -> str:
        return f"{self.bot_id} ({self.version})"
