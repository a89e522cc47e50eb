"""Settings of alerts: recipients, by webhook and e-mail. Secrets stand here alone: they are stored nowhere."""

from __future__ import annotations

from webapp.settings.env import env

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
