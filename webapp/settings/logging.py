"""Logs to standard error, one line each, without participant tokens."""

from __future__ import annotations

from webapp.settings.env import env

LOG_LEVEL = env.str("CONFAB_LOG_LEVEL", default="INFO")

LOGGING = {
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
        # The file broker has no host name, and says so each time.
        "kombu.connection": {"level": "ERROR"},
    },
}
