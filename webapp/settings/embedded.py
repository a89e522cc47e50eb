"""`make run`: one machine, no servers needed, nothing downloaded.

PostgreSQL and Redis are used all the same where `DATABASE_URL` and `REDIS_URL` name them.
"""

from __future__ import annotations

import secrets

from webapp.settings.base import *  # noqa: F403
from webapp.settings.base import HOST
from webapp.settings.bots import *  # noqa: F403
from webapp.settings.celery import *  # noqa: F403
from webapp.settings.channels import channel_layers
from webapp.settings.database import databases
from webapp.settings.env import DATA_DIR, env
from webapp.settings.logging import LOGGING  # noqa: F401

DATABASES = databases()
CHANNEL_LAYERS = channel_layers()
WHITENOISE_USE_FINDERS = True
ALLOWED_HOSTS = [
    "localhost",
    "127.0.0.1",
    "[::1]",
    *env.list("CONFAB_HOSTS", default=[]),
]
ALLOWED_HOSTS += ["*"] if HOST in ("0.0.0.0", "::") else [HOST]  # noqa: S104
CSRF_TRUSTED_ORIGINS = env.list("CONFAB_TRUSTED_ORIGINS", default=[])


def _secret_key() -> str:
    """The key of this data folder, made once; readable by its owner alone."""
    file = DATA_DIR / "secret_key"
    if not file.exists():
        DATA_DIR.mkdir(parents=True, exist_ok=True)
        try:
            with file.open("x") as handle:
                file.chmod(0o600)
                handle.write(secrets.token_urlsafe(50))
        except FileExistsError:
            pass  # a process beside this one made it first
    return file.read_text().strip()


SECRET_KEY = env.str("CONFAB_SECRET_KEY", default="") or _secret_key()
