"""App configuration: registers bots at first use, and limits caches.

Encoders and prefix caches get their memory limits.
"""

from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings


class BotsConfig(AppConfig):
    name = "webapp.bots"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatbots.encoders.cache import cache_folder_set
        from chatbots.generation.prefix_cache import PREFIX_CACHE
        from chatbots.registry import bots
        from webapp.bots.selectors import bots_refresh

        bots.refresh_by(bots_refresh)
        cache_folder_set(settings.DATA_DIR / "cache")
        PREFIX_CACHE.limit_bytes = settings.CONFAB_KEPT_TURNS_MB * 1_000_000
