"""App configuration; adds the bot hosts' state to the health page."""

from __future__ import annotations

from django.apps import AppConfig


class ConversationsConfig(AppConfig):
    name = "webapp.conversations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.conversations.bot_health import bots_health
        from webapp.core.health import health_check

        health_check("bots", bots_health)
