"""App configuration: tells the encoders where to keep what they make, and bots how much they may keep between turns."""

from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings


class BotsConfig(AppConfig):
    name = "webapp.bots"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatbots.encoders.cache import cache_folder_set
        from chatbots.generation.prefix_cache import PREFIX_CACHE

        cache_folder_set(settings.DATA_DIR / "cache")
        PREFIX_CACHE.limit_bytes = settings.CONFAB_KEPT_TURNS_MB * 1_000_000
