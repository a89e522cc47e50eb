"""Limits of the concurrent work of a web process."""

from __future__ import annotations

from webapp.settings.env import env

# Threads for pages, and so the most database connections that they take; further requests wait in line.
CONFAB_WEB_THREADS = env.whole("CONFAB_WEB_THREADS", default=16, least=1)
# Who has waited in line for longer is asked to come back in a few seconds (503).
CONFAB_WEB_WAIT_S = env.number("CONFAB_WEB_WAIT_S", default=20.0)
