"""Problems of the installation in words, and alerts about them.

Disabled bots are reported separately (`bots/services.py`).

There is one alert when a problem begins, and one when it ends. Web processes and bot hosts look for problems after some
of their heartbeats: workers send alerts, and a dead worker cannot report itself. An incident is one row from beginning
to end; the process that writes it creates the alerts in the same transaction, so any number of processes may check.
Without a live worker, the checking process sends the alerts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatbots.text import error_text, sanitise
from webapp.audit.selectors import chains_broken
from webapp.bots.models import Alert
from webapp.core.clock import database_now
from webapp.core.health import is_redis_up
from webapp.core.models import Incident, Installation, Process
from webapp.core.processes import LOOP, WORKER, hangs_since, is_clock_off, is_silent, processes_known, processes_living
from webapp.core.restore_marker import read_restore_marker
from webapp.jobs.alerts import FIRST_AGAIN_S, alert_send, alerts_tell, alerts_waiting
from webapp.jobs.kinds.base import job_models
from webapp.jobs.models import State
from webapp.jobs.selectors.jobs import job_title
from webapp.operating.distress_alerts import distress_alerts_make
from webapp.operating.study_watch import FULL, SLOW, STUCK, close_due_studies, find_study_problems
from webapp.operating.system_load import Queue, disk_usage, job_queues, replies_queue

logger = logging.getLogger(__name__)

SILENT, DISK, STILL, FAILED = "process_silent", "disk_low", "queue_still", "job_failed"
REDIS = "redis_away"
RESTORE, CLOCK, FOLDER, RETENTION = "restore_unfinished", "clock_off", "data_folder_differs", "retention_held"
AUDIT = "audit_broken"
OVER = {
    SILENT: "process_back",
    DISK: "disk_enough",
    STILL: "queue_moves",
    REDIS: "redis_back",
    FAILED: "job_went_on",
    RESTORE: "restore_finished",
    CLOCK: "clock_right",
    FOLDER: "data_folder_shared",
    RETENTION: "retention_resumed",
    AUDIT: "audit_intact",
}
"""Event that reports the end of each kind of problem."""
STUDY_KINDS = (FULL, STUCK, SLOW)
REPORTED_AGAIN_AFTER = timedelta(days=1)
"""A study's problem that comes back sooner is not reported again."""
CHECK = "check"
"""Subject of a problem whose own check fails."""
FAILED_WITHIN = timedelta(days=1)
_ENOUGH = 1.2
"""Factor above the limit at which the disk counts as no longer low, to avoid flapping."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem of the installation.

    Attributes:
        kind: as in alerts.
        subject: affected object; together with the kind it identifies the problem.
        title: short title.
        words: explanation and remedy.
        details: machine-readable values.
        link: page of the problem; empty for the system's.
    """

    kind: str
    subject: str
    title: str
    words: str
    details: dict[str, Any] = field(default_factory=dict)
    link: str = ""


def find_problems(ongoing: Collection[tuple[str, str]] = ()) -> list[Problem]:
    """Return the present problems.

    Args:
        ongoing: kinds and subjects that count as problems until they are clearly over.
    """
    subjects: dict[str, set[str]] = {kind: set() for kind in OVER}
    for kind, subject in ongoing:
        subjects.setdefault(kind, set()).add(subject)
    checks: dict[str, Callable[[], Iterator[Problem]]] = {
        REDIS: _redis_away,
        RESTORE: _unfinished_restore,
        CLOCK: _wrong_clocks,
        FOLDER: _foreign_data_folders,
        RETENTION: _held_retention,
        AUDIT: _broken_chains,
        SILENT: _silent,
        DISK: lambda: _disk_low(is_ongoing=bool(subjects[DISK] - {CHECK})),
        STILL: _still,
        FAILED: lambda: _failed(subjects[FAILED] - {CHECK}),
    }
    return [problem for kind, check in checks.items() for problem in _run_check(kind, check, subjects[kind])]


def _run_check(kind: str, check: Callable[[], Iterator[Problem]], ongoing_subjects: Collection[str]) -> list[Problem]:
    """Run one check.

    If it raises, that is the problem, and earlier problems of its kind continue.
    """
    try:
        with transaction.atomic():
            return list(check())
    except Exception as error:  # a broken check must not end the others
        problem_text = error_text(error, 200)
    logger.error("the check %s failed: %s", kind, problem_text)
    title = _("Confab cannot check “{kind}”").format(kind=kind)
    words = _("The check failed: {why}. Confab cannot detect this kind of problem at the moment.").format(
        why=problem_text
    )
    return [Problem(kind, subject, title, words) for subject in sorted({*ongoing_subjects, CHECK})]


def role_words(process: Process) -> str:
    """Return a process's roles in words."""
    words = {"web": _("Web"), "bot_host": _("Bot host"), "worker": _("Worker")}
    return " + ".join(words.get(role, role) for role in process.roles)


def _redis_away() -> Iterator[Problem]:
    if is_redis_up() is not False:
        return
    yield Problem(
        REDIS,
        "redis",
        _("Redis does not respond"),
        _(
            "Chats continue and are stored, but replies arrive all at once after a few seconds. Workers receive no "
            "jobs and may appear silent. Restart Redis; Confab recovers by itself."
        ),
    )


def _unfinished_restore() -> Iterator[Problem]:
    if marker := read_restore_marker():
        yield Problem(RESTORE, "restore", _("A restore has not finished"), marker.describe())


def _wrong_clocks() -> Iterator[Problem]:
    for process in filter(is_clock_off, processes_living()):
        yield Problem(
            CLOCK,
            str(process.id),
            _("The clock of {host} is wrong").format(host=process.host),
            _(
                "The clock of {process} is {seconds} s off the database's. Confab uses the database's time, but "
                "this process's log lines and signed links have the wrong time. Set the clock, for example with NTP."
            ).format(process=role_words(process), seconds=f"{process.load['clock_off_s']:+g}"),
            {"process": process.label, "host": process.host, "clock_off_s": process.load["clock_off_s"]},
        )


def _foreign_data_folders() -> Iterator[Problem]:
    folder_id = Installation.load().data_folder_id
    for process in processes_living():
        if process.load.get("data_folder", folder_id) != folder_id:
            yield Problem(
                FOLDER,
                str(process.id),
                _("{host} uses a different data folder").format(host=process.host),
                _(
                    "The data folder of {process} does not belong to this database. Its exports and imports are "
                    "missing on other machines, and data in its folder are not erased. Mount the same folder on "
                    "every machine. If the folder was replaced on purpose, run upgrade --adopt-data-folder."
                ).format(process=role_words(process)),
                {"process": process.label, "host": process.host},
            )


def _held_retention() -> Iterator[Problem]:
    held_until = Installation.load().retention_held_until
    if held_until is not None and database_now() < held_until:
        yield Problem(
            RETENTION,
            "retention",
            _("Retention pauses until {time} UTC").format(time=f"{held_until:%Y-%m-%d %H:%M}"),
            _(
                "The database's time has jumped by more than a day, or Confab was off. Check the clock of the "
                "database's machine. If it is right, there is nothing to do."
            ),
            {"held_until": held_until.isoformat(timespec="seconds")},
        )


def _broken_chains() -> Iterator[Problem]:
    for head in chains_broken():
        yield Problem(
            AUDIT,
            head.project,
            _("The audit log of project {key} was changed").format(key=head.project),
            _("The check says: {problem}. Compare the log with a backup; `audit_verify` checks it again.").format(
                problem=head.problem
            ),
        )


def _silent() -> Iterator[Problem]:
    for process in processes_known():
        if not is_silent(process):
            yield from _hanging(process)
            continue
        name = role_words(process)
        yield Problem(
            SILENT,
            str(process.id),
            _("{process} on {host} is silent").format(process=name, host=process.host),
            _(
                "Its last heartbeat was at {time} (UTC). It was killed, hangs, or cannot reach the database. "
                "Restart it; this warning ends when another process replaces it."
            ).format(time=f"{process.heard_at:%H:%M:%S}"),
            {"process": process.label, "roles": process.roles, "host": process.host},
        )


def _hanging(process: Process) -> Iterator[Problem]:
    """Yield problems of hanging processes.

    Kind and subject are those of a silent process, which it may become next.
    """
    if not (hangs := hangs_since(process)):
        return
    time = f"{min(hangs.values()):%H:%M:%S}"
    if LOOP in hangs:
        words = _(
            "The process has been unresponsive since {time} UTC; its users get no replies. Kill it (kill -9 {pid}); "
            "the supervisor restarts it."
        )
    else:
        words = _(
            "All its page threads have been busy with the same pages since {time} UTC; further requests wait and "
            "then fail. Find out what takes so long, such as database locks, or kill it (kill -9 {pid}); the "
            "supervisor restarts it."
        )
    yield Problem(
        SILENT,
        str(process.id),
        _("{process} on {host} hangs").format(process=role_words(process), host=process.host),
        words.format(time=time, pid=process.pid),
        {
            "process": process.label,
            "roles": process.roles,
            "host": process.host,
            "pid": process.pid,
            "hangs": sorted(hangs),
            "since": min(hangs.values()).isoformat(timespec="seconds"),
        },
    )


def _disk_low(*, is_ongoing: bool) -> Iterator[Problem]:
    limit = settings.CONFAB_DISK_LOW_GB * 1e9
    usage = disk_usage()
    if usage.free >= limit * (_ENOUGH if is_ongoing else 1):
        return
    yield Problem(
        DISK,
        "data",
        _("The disk is nearly full"),
        _(
            "{free} GB are free for the data folder. Once the disk is full, no messages can be stored. You can "
            "delete old backups and the cache."
        ).format(free=f"{usage.free / 1e9:.1f}"),
        {"free_bytes": usage.free, "size_bytes": usage.total},
    )


def _still() -> Iterator[Problem]:
    replies = replies_queue()
    if (replies.oldest_s or 0) > settings.CONFAB_REPLY_TIMEOUT_S:
        yield Problem(
            STILL,
            "replies",
            _("No process generates replies"),
            ngettext(
                "{n} participant is waiting for a reply, the first for {seconds} s, and no bot host is responding. "
                "Check that the bot hosts are running.",
                "{n} participants are waiting for a reply, the first for {seconds} s, and no bot host is "
                "responding. Check that the bot hosts are running.",
                replies.n,
            ).format(n=replies.n, seconds=round(replies.oldest_s or 0)),
            {"queue": "replies", "n": replies.n, "oldest_s": round(replies.oldest_s or 0)},
        )
    for queue in job_queues():
        if _stands(queue):
            yield Problem(
                STILL,
                queue.name,
                _("The queue {queue} is stuck").format(queue=queue.name),
                ngettext(
                    "{n} job is waiting, and no worker has made progress for {minutes} min. Check that a worker of "
                    "this queue is running.",
                    "{n} jobs are waiting, and no worker has made progress for {minutes} min. Check that a worker "
                    "of this queue is running.",
                    queue.n,
                ).format(n=queue.n, minutes=round(settings.CONFAB_QUEUE_STILL_S / 60)),
                {"queue": queue.name, "n": queue.n, "oldest_s": round(queue.oldest_s or 0)},
            )


def _stands(queue: Queue) -> bool:
    limit = settings.CONFAB_QUEUE_STILL_S
    return (queue.oldest_s or 0) > limit and (queue.moved_s is None or queue.moved_s > limit)


def _failed(ongoing_subjects: Collection[str]) -> Iterator[Problem]:
    """Yield jobs that failed recently or were shown before.

    Restarted jobs are left out, and so are error texts, which may quote participants.
    """
    since = database_now() - FAILED_WITHIN
    for model in job_models():
        known = [subject.partition(":")[2] for subject in ongoing_subjects]
        recent = Q(updated_at__gte=since) | Q(pk__in=known)
        for job in model._default_manager.filter(recent, state=State.FAILED).order_by("pk"):
            subject = f"{job.kind}:{job.pk}"
            if job.updated_at < since and subject not in ongoing_subjects:
                continue  # of another table with the same number
            title = job_title(job)
            yield Problem(
                FAILED,
                subject,
                _("A job failed: {title}").format(title=title),
                _("Its page shows the reason. Results so far are kept. You can continue the job there or leave it."),
                {"kind": job.kind, "job": job.pk, "title": title},
            )


EVERY_S = 30.0
_looked_at: float | None = None


def look_if_due() -> None:
    """Close studies by their rules and check for problems, unless this process just did."""
    global _looked_at
    now = time.monotonic()
    if _looked_at is None or now - _looked_at >= EVERY_S:
        _looked_at = now
        close_due_studies()
        look()
        distress_alerts_make()
        if not processes_living(WORKER):
            send_here()


def look() -> None:
    """Open incidents for new problems and close resolved ones, with alerts."""
    open_incidents = {
        (incident.kind, incident.subject): incident for incident in Incident.objects.filter(ended_at=None)
    }
    present = find_problems(open_incidents.keys())
    unchecked: tuple[str, ...] = ()
    try:
        present += _problems_of_studies()
    except Exception as error:  # an error in a study must not stop the checks of the server
        unchecked = STUDY_KINDS
        logger.error("the check of the open studies failed: %s", error_text(error, 200))
    problems = {(problem.kind, problem.subject): problem for problem in present}
    for key, problem in problems.items():
        if key not in open_incidents:
            try:
                _begin(problem)
            except Exception as error:  # an error in one incident must not stop the checks of the others
                logger.error("the incident %s cannot be stored: %s", key, error_text(error, 200))
    for key, incident in open_incidents.items():
        if key not in problems and incident.kind not in unchecked:
            try:
                _end(incident)
            except Exception as error:
                logger.error("the end of %s cannot be stored: %s", key, error_text(error, 200))


def _problems_of_studies() -> list[Problem]:
    """Return the problems of all open studies, without those that come back within a day."""
    since = database_now() - REPORTED_AGAIN_AFTER
    reported = set(Incident.objects.filter(kind__in=STUDY_KINDS, ended_at__gte=since).values_list("kind", "subject"))
    return [
        Problem(
            problem.kind,
            str(problem.study.pk),
            f"{problem.study.name}: {problem.lead}",
            problem.rest,
            {"study": problem.study.key},
            problem.address,
        )
        for problem in find_study_problems()
        if (problem.kind, str(problem.study.pk)) not in reported
    ]


def send_here() -> None:
    """Send waiting alerts from this process if no worker runs.

    Failed alerts wait for their retry time, as with workers.
    """
    now = database_now()
    for alert in alerts_waiting().select_related("aside"):
        pause = timedelta(seconds=FIRST_AGAIN_S * 2 ** max(0, alert.n_tries - 1))
        if alert.tried_at is None or now - alert.tried_at >= pause:
            alert_send(alert=alert)


def alert_try() -> int:
    """Send a test alert; return the number of configured channels."""
    alert_fields = {
        "title": _("Confab: a test"),
        "words": _("A user clicked “Send a test alert”. Nothing is wrong."),
        "link": reverse("dashboard:system"),
    }
    return len(alerts_tell(event=Alert.Event.TEST, content=alert_fields))


def _begin(problem: Problem) -> None:
    alert_fields = {
        "title": f"Confab: {problem.title}",
        "words": problem.words,
        "link": problem.link or reverse("dashboard:system"),
        **problem.details,
    }
    title = sanitise(problem.title, Incident._meta.get_field("title").max_length)
    try:
        with transaction.atomic():
            incident = Incident.objects.create(
                kind=problem.kind, subject=problem.subject, title=title, details=alert_fields
            )
            alerts_tell(event=problem.kind, content=alert_fields, incident=incident)
    except IntegrityError:  # another process was faster
        return
    logger.warning("%s", problem.title)


def _end(incident: Incident) -> None:
    with transaction.atomic():
        open_incident = Incident.objects.filter(pk=incident.pk, ended_at=None)
        if not open_incident.update(ended_at=database_now()):
            return
        if incident.kind in STUDY_KINDS:
            return  # its pages show it; only the beginning is reported
        words = _("Resolved: {title}.").format(title=incident.title)
        alert_fields = {
            **incident.details,
            "title": _("Confab, resolved: {title}").format(title=incident.title),
            "words": words,
        }
        alerts_tell(event=OVER[incident.kind], content=alert_fields, incident=incident)
    logger.warning("over: %s", incident.title)
