"""`make run`: one machine, no servers needed, nothing downloaded.

PostgreSQL and Redis are still used if `DATABASE_URL` and `REDIS_URL` are set.
"""

from __future__ import annotations

import os
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial

from webapp.settings.base import *  # noqa: F403
from webapp.settings.base import HOST, channel_layers, databases, shared_caches
from webapp.settings.env import DATA_DIR, env, folder_made, owner_only, proxy_count

DATABASES = databases()
CHANNEL_LAYERS = channel_layers()
CACHES = shared_caches()
WHITENOISE_USE_FINDERS = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", *env.hosts("CONFAB_HOSTS", default=[])]
ALLOWED_HOSTS += ["*"] if HOST in ("0.0.0.0", "::") else [HOST]  # noqa: S104
CONFAB_PROXY_COUNT = proxy_count(0)
_THIS_MACHINE = ["127.0.0.0/8", "::1"]
# Addresses from which /metrics can be read without a token.
CONFAB_PROMETHEUS_ALLOW = env.networks("CONFAB_PROMETHEUS_ALLOW", default=_THIS_MACHINE)
# Lets forms work through a TLS tunnel; forging the header only affects the forger's own request.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
CSRF_TRUSTED_ORIGINS = env.origins("CONFAB_TRUSTED_ORIGINS", default=[])


def _kept_key(name: str, make: Callable[[], str]) -> str:
    """Return a key of this data folder.

    It is created once and readable by its owner only.
    """
    file = DATA_DIR / name
    if not file.exists():
        folder_made(DATA_DIR, "CONFAB_DATA_DIR")
        try:
            with open(file, "x", opener=partial(os.open, mode=0o600)) as handle:
                handle.write(make())
        except FileExistsError:
            pass  # another process was faster
    owner_only(file)
    return file.read_text().strip()


SECRET_KEY = env.key("CONFAB_SECRET_KEY", default="") or _kept_key("secret_key", lambda: secrets.token_urlsafe(50))
SECRET_KEY_FALLBACKS = env.fallback_keys("CONFAB_SECRET_KEY_FALLBACKS", default=[])
# Keys that encrypt stored secrets, newest first; the key of the data folder still decrypts older ones.
CONFAB_SECRETS_KEYS = env.fernet_keys("CONFAB_SECRETS_KEY", default=[])
if not CONFAB_SECRETS_KEYS or (DATA_DIR / "secrets_key").exists():
    CONFAB_SECRETS_KEYS.append(_kept_key("secrets_key", lambda: urlsafe_b64encode(os.urandom(32)).decode()))
# Bots added in the browser may use addresses of this machine and of private networks.
CONFAB_PRIVATE_ADDRESSES = env.flag("CONFAB_PRIVATE_ADDRESSES", default=HOST in ("127.0.0.1", "::1", "localhost"))

# Unused variables, each with the setting that was probably meant.
CONFAB_MISSPELT = env.misspelt()
