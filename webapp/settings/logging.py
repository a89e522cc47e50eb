"""Logs to standard error, and to a file if one is named: one line each, without participant tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from webapp.settings.env import env, folder_made

LOG_LEVEL = env.choice("CONFAB_LOG_LEVEL", default="INFO", of=("DEBUG", "INFO", "WARNING", "ERROR"))
LOG_FILE = env.text("CONFAB_LOG_FILE", default="")
LOG_FILE_MB = env.whole("CONFAB_LOG_FILE_MB", default=10, least=1)
LOG_FILES_KEPT = env.whole("CONFAB_LOG_FILES_KEPT", default=5, least=0)
# For people, or for programs that collect lines: `line` or `json`.
LOG_FORMAT = env.choice("CONFAB_LOG_FORMAT", default="line", of=("line", "json"))
# A line for each request and socket: the page's name and how long it took, never its address.
LOG_REQUESTS = env.flag("CONFAB_LOG_REQUESTS", default=LOG_FORMAT == "json")
# Celery would take the root logger for itself, and what workers say would come in its own format and to no file.
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "redact": {"()": "webapp.core.logs.RedactTokens"},
        "health": {"()": "webapp.core.health.HealthLogFilter"},
        "redis": {"()": "webapp.core.health.RedisOutageFilter"},
    },
    "formatters": {"line": {"()": "webapp.core.logs.LogLineFormatter", "style": LOG_FORMAT}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["redact"]}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "webapp": {"level": LOG_LEVEL},
        "chatbots": {"level": LOG_LEVEL},
        "evaluation": {"level": LOG_LEVEL},
        "webapp.core.middleware": {"level": "INFO" if LOG_REQUESTS else "WARNING"},
        "django.request": {"filters": ["health"]},
        "channels_redis.pubsub": {"filters": ["redis"]},
        "webapp.conversations.bot_host": {"filters": ["redis"]},
        # Started by its own command, uvicorn has handlers with a format of its own.
        "uvicorn": {"handlers": []},
        "uvicorn.error": {"level": "WARNING"},
        # A line for each request, with the ids of people and the tokens that their addresses carry.
        "uvicorn.access": {"level": "WARNING"},
        # The file broker has no host name, and says so each time.
        "kombu.connection": {"level": "ERROR"},
    },
}

if LOG_FILE:
    _file = Path(LOG_FILE).resolve()
    if _file.is_dir():
        raise ImproperlyConfigured(f"CONFAB_LOG_FILE is {LOG_FILE!r}, a folder; it must be a file in one")
    folder_made(_file.parent, "CONFAB_LOG_FILE")
    LOGGING["handlers"]["file"] = {
        "class": "webapp.core.logs.SharedRotatingFile",
        "filename": str(_file),
        "maxBytes": LOG_FILE_MB * 1_000_000,
        "backupCount": LOG_FILES_KEPT,
        "formatter": "line",
        "filters": ["redact"],
    }
    LOGGING["root"]["handlers"].append("file")
