"""App configuration: brings in plug-ins, and tells the encoders where to keep what they make."""

from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings


class BotsConfig(AppConfig):
    name = "webapp.bots"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatbots.encoders.cache import cache_folder_set
        from chatbots.registry import PluginError, plugins_import

        cache_folder_set(settings.DATA_DIR / "cache")
        # Here, so that every process and command knows the same bots, metrics and protocols.
        try:
            plugins_import(list(settings.CONFAB_PLUGINS))
        except PluginError as error:
            # One clear line and exit code 1, for every command and the web's start.
            raise SystemExit(f"CONFAB_PLUGINS names {error}. Correct it or take it out.") from error
