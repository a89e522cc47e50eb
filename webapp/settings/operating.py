"""Settings of operation: heartbeats, metrics, threads, platforms, and alerts.

Secrets of recruitment platforms and of alerts (webhook, e-mail) stand here alone: they are stored nowhere.
"""

from __future__ import annotations

from webapp.settings.env import env

# With this token /metrics is read from anywhere: "Authorization: Bearer …".
CONFAB_PROMETHEUS_TOKEN = env.text("CONFAB_PROMETHEUS_TOKEN", default="")
# Each process says so often that it lives, how busy it is and what it has counted; 0: never.
CONFAB_SIGN_EVERY_S = env.number("CONFAB_SIGN_EVERY_S", default=10.0)
# With less room for the data folder, in GB, the disk counts as low.
CONFAB_DISK_LOW_GB = env.number("CONFAB_DISK_LOW_GB", default=2.0)
# A queue stands still where a job has waited for so long and no worker has gone on with any.
CONFAB_QUEUE_STILL_S = env.number("CONFAB_QUEUE_STILL_S", default=300.0, least=1.0)


# Threads for pages, and so the most database connections that they take; further requests wait in line.
CONFAB_WEB_THREADS = env.whole("CONFAB_WEB_THREADS", default=16, least=1)
# Threads for sockets and bot hosts, each with a database connection; SQLite has one, whatever stands here.
CONFAB_SOCKET_THREADS = env.whole("CONFAB_SOCKET_THREADS", default=4, least=1)
# Who has waited in line for longer is asked to come back in a few seconds (503).
CONFAB_WEB_WAIT_S = env.number("CONFAB_WEB_WAIT_S", default=20.0)


# A researcher's token for Prolific's interface: without it, payments are decided here and made on Prolific's pages.
CONFAB_PROLIFIC_TOKEN = env.text("CONFAB_PROLIFIC_TOKEN", default="")
# Where Prolific's interface is.
CONFAB_PROLIFIC_URL = env.address("CONFAB_PROLIFIC_URL", default="https://api.prolific.com")
# The secret by which Prolific signs what it tells a webhook; without it nothing that is told is believed.
CONFAB_PROLIFIC_HOOK_SECRET = env.text("CONFAB_PROLIFIC_HOOK_SECRET", default="")


# An address that gets a POST with JSON; none: no alerts by webhook.
CONFAB_ALERT_WEBHOOK = env.address("CONFAB_ALERT_WEBHOOK", default="")
# Secret that signs this POST; none: it is not signed.
CONFAB_ALERT_SECRET = env.text("CONFAB_ALERT_SECRET", default="")
# E-mail addresses that get alerts; none: no alerts by e-mail.
CONFAB_ALERT_EMAILS = env.mailboxes("CONFAB_ALERT_EMAILS", default=[])
# The mail server, smtp+tls://user:password@host:587; without one, e-mails go to the log.
_server = env.mail_server("CONFAB_EMAIL_URL", default="consolemail://")
EMAIL_BACKEND = _server["EMAIL_BACKEND"]
EMAIL_HOST = _server.get("EMAIL_HOST") or "localhost"
EMAIL_PORT = _server.get("EMAIL_PORT") or 25
EMAIL_HOST_USER = _server.get("EMAIL_HOST_USER") or ""
EMAIL_HOST_PASSWORD = _server.get("EMAIL_HOST_PASSWORD") or ""
EMAIL_USE_TLS = bool(_server.get("EMAIL_USE_TLS"))
EMAIL_USE_SSL = bool(_server.get("EMAIL_USE_SSL"))
EMAIL_TIMEOUT = 20
# Sender of the e-mails.
DEFAULT_FROM_EMAIL = env.mailbox("CONFAB_EMAIL_FROM", default="confab@localhost")
# Address at which researchers open Confab, for links in alerts.
CONFAB_PUBLIC_URL = env.address("CONFAB_PUBLIC_URL", default="").rstrip("/")
