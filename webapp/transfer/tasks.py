"""Periodic task of a worker: remove expired exports and uploads."""

from __future__ import annotations

from typing import Any

from celery.signals import worker_ready

from webapp.transfer.job_files import files_expire

EVERY_S = 3600


@worker_ready.connect
def files_expire_hourly(sender: Any, **_: Any) -> None:
    """Remove old files when a worker starts, and then every hour."""
    files_expire()
    sender.timer.call_repeatedly(EVERY_S, files_expire)
