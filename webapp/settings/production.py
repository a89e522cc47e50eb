"""A server on the internet, behind TLS. Refuses to start without its secrets."""

from __future__ import annotations

from webapp.settings.base import *  # noqa: F403
from webapp.settings.base import STORAGES, channel_layers, databases, shared_caches
from webapp.settings.env import env, proxy_count

DEBUG = False
SECRET_KEY = env.key("CONFAB_SECRET_KEY")
SECRET_KEY_FALLBACKS = env.fallback_keys("CONFAB_SECRET_KEY_FALLBACKS", default=[])
# What stored secrets are encrypted with, newest first; without any, none can be stored.
CONFAB_SECRETS_KEYS = env.fernet_keys("CONFAB_SECRETS_KEY", default=[])
# Bots added in the browser may have addresses of this machine and of private networks.
CONFAB_PRIVATE_ADDRESSES = env.flag("CONFAB_PRIVATE_ADDRESSES", default=False)
ALLOWED_HOSTS = env.hosts("CONFAB_HOSTS")
CSRF_TRUSTED_ORIGINS = env.origins(
    "CONFAB_TRUSTED_ORIGINS", default=[f"https://{host}" for host in ALLOWED_HOSTS if host != "*"]
)
DATABASES = databases()
CHANNEL_LAYERS = channel_layers()
CACHES = shared_caches()

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = env.flag("CONFAB_SSL_REDIRECT", default=True)
SECURE_REDIRECT_EXEMPT = [r"^(.*/)?healthz$"]
SECURE_HSTS_SECONDS = env.integer("CONFAB_HSTS_S", default=31536000, minimum=0)
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
CONFAB_PROXY_COUNT = proxy_count(1)  # the one with TLS
# From here /metrics is read without a token.
CONFAB_PROMETHEUS_ALLOW = env.networks("CONFAB_PROMETHEUS_ALLOW", default=[])

STORAGES = {**STORAGES, "staticfiles": {"BACKEND": "webapp.core.pages.ModuleManifestStorage"}}

# Variables that nothing has read, with those that are meant.
CONFAB_MISSPELT = env.misspelt()
