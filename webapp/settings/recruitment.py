"""Settings of recruitment platforms. Secrets stand here alone: they are stored nowhere."""

from __future__ import annotations

from webapp.settings.env import env

# A researcher's token for Prolific's interface: without it, payments are decided here and made on Prolific's pages.
CONFAB_PROLIFIC_TOKEN = env.text("CONFAB_PROLIFIC_TOKEN", default="")
# Where Prolific's interface is.
CONFAB_PROLIFIC_URL = env.address("CONFAB_PROLIFIC_URL", default="https://api.prolific.com")
# The secret by which Prolific signs what it tells a webhook; without it nothing that is told is believed.
CONFAB_PROLIFIC_HOOK_SECRET = env.text("CONFAB_PROLIFIC_HOOK_SECRET", default="")
