"""Celery tasks for long work.

A task processes one slice of the job that waited longest, and sends the next message.

The parent of a worker imports this module, so nothing here may import torch, transformers or statsmodels
(OpenMP does not survive a fork); kinds import what they need in the child.
"""

from __future__ import annotations

import logging
from typing import Any

from celery.signals import celeryd_after_setup, worker_ready, worker_shutdown
from django.conf import settings
from django.db import OperationalError, connections

from chatbots.devices import batches_made_exact
from webapp.audit.chain import chains_check_due, pending_write
from webapp.audit.retention import months_delete
from webapp.celery import app
from webapp.conversations.images import images_sweep
from webapp.core.backup_leftovers import backups_sweep
from webapp.core.errors import Refused
from webapp.core.processes import WORKER, signs
from webapp.jobs import queue
from webapp.jobs.alerts import alerts_ask
from webapp.jobs.engine import run_job_for
from webapp.jobs.queue import STALE_AFTER
from webapp.jobs.selectors.jobs import jobs_for_workers, jobs_unfinished, queue_of, seconds_to_start
from webapp.jobs.services.jobs import jobs_settle
from webapp.studies.privacy.retention import retention_run

log = logging.getLogger(__name__)

RETRY_IN_S = 5
CLOCKS_EVERY_S = 3600
WATCH_IN_S = STALE_AFTER.total_seconds() + 1

batches_made_exact()


@app.task(name="webapp.runs.tasks.work", ignore_result=True)
def work(queue_name: str, watches: bool = False) -> None:
    """Work for about a minute on a job of this queue, if there is one.

    Args:
        watches: True for a follow-up message: if other processes hold the remaining work, check later whether they
            died.
    """
    try:
        jobs_settle()
        jobs = jobs_for_workers(queue_name)
        for job in jobs:
            if run_job_for(job).worked:
                queue.wake(queue_name, watches=True)
                return
    except OperationalError:
        log.warning("the database is unavailable; trying again")
        queue.wake(queue_name, countdown_s=RETRY_IN_S, watches=watches)
        return
    if jobs and watches:
        queue.wake(queue_name, countdown_s=WATCH_IN_S, watches=True)


@app.task(name="webapp.runs.tasks.alerts", ignore_result=True)
def alerts() -> None:
    """Request the job that sends waiting alerts."""
    alerts_ask()


@app.task(name="webapp.runs.tasks.retention", ignore_result=True)
def retention() -> None:
    """Erase data due under the retention rules, and unsent images; finish and check the audit log.

    Safe to run concurrently: the second process finds nothing to erase.
    """
    try:
        pending_write()
        images_sweep()
        backups_sweep()
        retention_run()
        months_delete()
        chains_check_due()
    except Refused as error:
        log.error("retention: %s", error)
    except OperationalError:
        log.warning("the database is unavailable; the retention job runs again in an hour")


@celeryd_after_setup.connect
def analyses_add(instance: Any, **_: Any) -> None:
    """Let `default` workers also take analyses.

    Only if no worker is dedicated to analyses.
    """
    queues = instance.app.amqp.queues
    if "default" in queues.consume_from:
        queues.select_add("analysis")


@worker_ready.connect
def clocks_wind_up(sender: Any, **_: Any) -> None:
    """Run the retention job now and every hour while this worker runs."""
    queue.clocks_look()
    sender.timer.call_repeatedly(CLOCKS_EVERY_S, queue.clocks_look)


@worker_ready.connect
def signs_begin(sender: Any, **_: Any) -> None:
    """Start this worker's heartbeats from its parent's timer.

    A thread must not exist when children are forked.
    """
    queues = sorted(sender.app.amqp.queues.consume_from)
    signs.begin(WORKER, in_thread=False, queues=queues, children=sender.controller.concurrency)
    if signs.roles:
        _sign_give()
        sender.timer.call_repeatedly(settings.CONFAB_SIGN_EVERY_S, _sign_give)


def _sign_give() -> None:
    try:
        signs.give()
    finally:
        connections.close_all()  # children that are forked later must not share a connection


@worker_shutdown.connect
def signs_end(**_: Any) -> None:
    """Report that this worker is shutting down normally."""
    signs.end()


@worker_ready.connect
def unfinished_pick_up(**_: Any) -> None:
    """Wake a worker for every unfinished job.

    A job whose holder may be alive is checked again after the holder's timeout.
    """
    try:
        jobs_settle()
        alerts_ask()
        for job in jobs_unfinished():
            if name := queue_of(job):
                queue.wake(name, countdown_s=seconds_to_start(job), watches=True)
    except Exception:
        log.exception("unfinished jobs could not be picked up")
    finally:
        connections.close_all()  # children that are forked later must not share a connection
