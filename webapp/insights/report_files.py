"""Reports that workers made: request, lookup and removal.

They are stored with the exports and expire like them: after `KEPT`, and at once when a participant of their study is
erased.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.db.models import Count, Max, Q

from chatbots.identity import canonical_json
from chatbots.validation import InputModel, Many
from evaluation.number_format import result_load
from webapp.core.clean_up import clean_up_kind
from webapp.insights.report_document import Document, Past, document_load
from webapp.jobs.models import Job, State
from webapp.jobs.services.jobs import job_ask, job_key, job_restart, jobs_forget
from webapp.results.cache import AnalysisKey
from webapp.results.fingerprint import DataState
from webapp.studies.models import Study, Task
from webapp.transfer.job_files import export_folder, files_expire

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.db.models import QuerySet

KIND = "report"


class ReportParams(InputModel):
    """Report of the job's study.

    The study is also a parameter, because two studies have two reports.

    Attributes:
        like: paper whose numbering it follows; "" for Confab's own.
    """

    study: int
    include_synthetic: bool = False
    without: Many[str] = ()
    like: str = ""

    @property
    def counted_work(self) -> dict[str, Any]:
        """The work to report: all parameters but the study and `like`."""
        return {"include_synthetic": self.include_synthetic, "without": self.without}


def report_state(study: Study, **counted_work: Any) -> DataState:
    """Return the state of the data.

    Its digest changes with anything that a report contains.
    """
    question = AnalysisKey(study, "correlations", **counted_work)
    fits = study.hybrid_fits.filter(result__isnull=False).aggregate(n=Count("pk"), newest=Max("pk"))
    has_left = Q(state__in=(Task.State.WITHDRAWN, Task.State.EXPIRED))
    task_counts = Task.objects.filter(participant__study=study).aggregate(
        left=Count("pk", filter=has_left), over=Count("pk", filter=~Q(state=Task.State.OPEN))
    )
    parts = [question.state.digest, study.name, *fits.values(), *task_counts.values()]
    digest = hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]
    return replace(question.state, digest=digest)


def report_path(job: Job) -> Path:
    """Return the path of the document that a job creates."""
    return export_folder() / f"report-{job.pk}.json.gz"


def report_remove(pk: int) -> None:
    """Remove a job's document.

    Also the page that an earlier version stored instead.
    """
    for ending in ("json.gz", "html", "json.part"):
        (export_folder() / f"report-{pk}.{ending}").unlink(missing_ok=True)


CLEAN_UP = "report_file"
clean_up_kind(CLEAN_UP, "File of a deleted report", report_remove)


def report_read(job: Job) -> Document | None:
    """Return the report that a job made.

    None if its file is missing or was written by an earlier version.
    """
    path = report_path(job)
    try:
        return _read(path, path.stat().st_mtime_ns)
    except (FileNotFoundError, ValueError):
        return None


@lru_cache(maxsize=8)
def _read(path: Path, _changed: int) -> Document:
    """Return the report in a file, cached until the file is written again."""
    return document_load(path.read_bytes())


def report_before(study: Study, digest: str, *, like: str = "", **counted_work: Any) -> Past | None:
    """Return the summary of the newest report on other data.

    None without one.

    Args:
        digest: digest digest of the current state.
    """
    finished_jobs = (
        reports_of(study, like=like, **counted_work).filter(state=State.DONE).exclude(key__endswith=f":{digest}")
    )
    for job in finished_jobs:
        try:
            return result_load((job.result or {}).get("past"), Past)
        except ValueError:
            continue
    return None


def report_ask(*, study: Study, like: str = "", created_by: User | None = None, **counted_work: Any) -> Job:
    """Return the job for a report on current data.

    A failed job is retried.
    """
    files_expire()
    params = ReportParams(study=study.pk, like=like, **counted_work)
    state = report_state(study, **counted_work).digest
    earlier_job = Job.objects.filter(kind=KIND, key=job_key(params, state)).first()
    if earlier_job is not None and earlier_job.state == State.DONE and report_read(earlier_job) is None:
        earlier_job.delete()
    job = job_ask(kind=KIND, payload=params.model_dump(), state=state, study=study, created_by=created_by)
    if job.state in (State.FAILED, State.CANCELLED):
        return job_restart(job=job, enqueue=True)
    return job


def reports_of(study: Study, *, like: str = "", **counted_work: Any) -> QuerySet[Job]:
    """Return the report jobs of a study, newest first."""
    params = ReportParams(study=study.pk, like=like, **counted_work)
    return Job.objects.filter(kind=KIND, key__startswith=job_key(params, "")).order_by("-pk")


def report_newest(study: Study, *, like: str = "", **counted_work: Any) -> Job | None:
    """Return the newest report with an existing file, or None."""
    files_expire()
    finished_jobs = reports_of(study, like=like, **counted_work).filter(state=State.DONE)
    return next((job for job in finished_jobs if report_path(job).is_file()), None)


def reports_forget(studies: Collection[int]) -> None:
    """Remove these studies' reports and stop running ones, after an erasure."""
    jobs = list(Job.objects.filter(kind=KIND, study__in=studies).values_list("pk", flat=True))
    jobs_forget([KIND], studies)
    for pk in jobs:
        report_remove(pk)
