"""Periodic task of a worker: remove expired files of exports."""

from __future__ import annotations

from typing import Any

from celery.signals import worker_ready

from webapp.transfer.job_files import exports_expire

EVERY_S = 3600


@worker_ready.connect
def exports_expire_hourly(sender: Any, **_: Any) -> None:
    """Remove old files when a worker starts, and every hour while it runs."""
    exports_expire()
    sender.timer.call_repeatedly(EVERY_S, exports_expire)
