"""Settings of operation: readers of /metrics, interval of heartbeats, and thresholds of problems."""

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
