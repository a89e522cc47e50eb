"""App configuration; adds the bot hosts' state to the health page, and the paid bots' meter."""

from __future__ import annotations

from django.apps import AppConfig


class ConversationsConfig(AppConfig):
    name = "webapp.conversations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatbots.metering import meter_set
        from webapp.conversations.bot_health import bots_health
        from webapp.conversations.spending import DatabaseMeter
        from webapp.core.health import health_check

        health_check("bots", bots_health)
        meter_set(DatabaseMeter())
