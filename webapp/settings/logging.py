"""Logs to standard error, and to a file if one is named: one line each, without participant tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webapp.settings.env import env, folder_made

LOG_LEVEL = env.str("CONFAB_LOG_LEVEL", default="INFO")
LOG_FILE = env.str("CONFAB_LOG_FILE", default="")
LOG_FILE_MB = env.int("CONFAB_LOG_FILE_MB", default=10)
LOG_FILES_KEPT = env.int("CONFAB_LOG_FILES_KEPT", default=5)
# Celery would take the root logger for itself, and what workers say would not reach the file.
CELERY_WORKER_HIJACK_ROOT_LOGGER = not LOG_FILE

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "redact": {"()": "webapp.core.redaction.RedactTokens"},
        "health": {"()": "webapp.core.health.HealthAnswers"},
    },
    "formatters": {
        "line": {
            "class": "webapp.core.redaction.StorableFormatter",
            "format": "{asctime} {levelname} {name}: {message}",
            "style": "{",
        }
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["redact"],
        }
    },
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "webapp": {"level": LOG_LEVEL},
        "chatbots": {"level": LOG_LEVEL},
        "evaluation": {"level": LOG_LEVEL},
        "django.request": {"filters": ["health"]},
        "uvicorn.error": {"level": "WARNING"},
        # A line for each request, with the ids of people and the tokens that their addresses carry.
        "uvicorn.access": {"level": "WARNING"},
        # The file broker has no host name, and says so each time.
        "kombu.connection": {"level": "ERROR"},
    },
}

if LOG_FILE:
    _file = Path(LOG_FILE).resolve()
    folder_made(_file.parent, "CONFAB_LOG_FILE")
    LOGGING["handlers"]["file"] = {
        "class": "webapp.core.log_files.SharedRotatingFile",
        "filename": str(_file),
        "maxBytes": LOG_FILE_MB * 1_000_000,
        "backupCount": LOG_FILES_KEPT,
        "formatter": "line",
        "filters": ["redact"],
    }
    LOGGING["root"]["handlers"].append("file")
