"""Channel layer between processes: Redis by `REDIS_URL`; otherwise memory, for one process."""

from __future__ import annotations

from typing import Any

from webapp.settings.env import env

REDIS_URL = env.redis("REDIS_URL", default="")
# Keeps two installations on one Redis apart, in the channel layer and in Celery's queues.
CHANNEL_PREFIX = env.text("CONFAB_CHANNEL_PREFIX", default="confab")


def channel_layers() -> dict[str, dict[str, Any]]:
    """Return the `CHANNEL_LAYERS` setting.

    `default` brings work to bot hosts: one of those that listen takes a message, and messages wait for it. A full
    queue drops messages without a word, so it is made wide. `frames` brings frames to the open pages of a chat: all
    of them get each frame at once and nothing is kept, which takes Redis one command in place of five.
    """
    if REDIS_URL:
        # Longer than the layer's blocking reads (5 s), or a quiet channel would
        # look like a dead server to redis-py.
        hosts = [{"address": REDIS_URL, "socket_timeout": 30}]
        return {
            "default": {
                "BACKEND": "channels_redis.core.RedisChannelLayer",
                "CONFIG": {
                    "hosts": hosts,
                    "capacity": 5000,
                    "expiry": 60,
                    "prefix": CHANNEL_PREFIX,
                },
            },
            "frames": {
                "BACKEND": "webapp.core.page_layer.PageLayer",
                "CONFIG": {"hosts": hosts, "prefix": f"{CHANNEL_PREFIX}.frames."},
            },
        }
    in_memory = {
        "BACKEND": "channels.layers.InMemoryChannelLayer",
        "CONFIG": {"capacity": 5000, "expiry": 60},
    }
    return {"default": in_memory, "frames": in_memory}


def shared_caches() -> dict[str, dict[str, Any]]:
    """Return the `CACHES` setting.

    `default` is each process's own. `shared` counts calls of the API, in Redis for all processes where there is one.
    """
    own = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    if not REDIS_URL:
        return {"default": own, "shared": {**own, "LOCATION": "shared"}}
    return {
        "default": own,
        "shared": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": REDIS_URL,
            "KEY_PREFIX": CHANNEL_PREFIX,
        },
    }
