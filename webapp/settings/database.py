"""PostgreSQL by `DATABASE_URL`; otherwise SQLite in the data folder, safe for several processes."""

from __future__ import annotations

from typing import Any

from webapp.settings.env import DATA_DIR, env


def databases() -> dict[str, dict[str, Any]]:
    """The `DATABASES` setting."""
    if env.str("DATABASE_URL", default=""):
        default = env.db_url("DATABASE_URL")
        # Under ASGI every request has a thread of its own: a connection kept open for the next
        # request would never be used again, and forty visitors would exhaust the server.
        default["CONN_MAX_AGE"] = 0
        return {"default": default}
    DATA_DIR.mkdir(parents=True, exist_ok=True)
    return {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATA_DIR / "confab.sqlite3",
            "OPTIONS": {
                # Immediate: a transaction that will write takes its place in the queue at once,
                # instead of failing when it finds the snapshot outdated.
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    }
