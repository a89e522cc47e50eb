"""Reports that workers made: asked for, found again, and removed.

They lie beside the files of exports and go with them: after `KEPT`, and at once when a person of their study is erased.
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
from webapp.dashboard.report_document import Document, Past, document_load
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


class ReportAsked(InputModel):
    """The report of the job's study, which is named besides, for two studies have two reports.

    Attributes:
        like: the paper whose numbering it follows; "" for its own.
    """

    study: int
    include_synthetic: bool = False
    without: Many[str] = ()
    like: str = ""

    @property
    def counted(self) -> dict[str, Any]:
        """The work that counts: all parameters but the study and `like`."""
        return {"include_synthetic": self.include_synthetic, "without": self.without}


def report_state(study: Study, **counted: Any) -> DataState:
    """Return the state of the data; its digest changes with anything that a report is made of."""
    question = AnalysisKey(study, "correlations", **counted)
    fits = study.hybrid_fits.filter(result__isnull=False).aggregate(n=Count("pk"), newest=Max("pk"))
    gone = Q(state__in=(Task.State.WITHDRAWN, Task.State.EXPIRED))
    left = Task.objects.filter(participant__study=study).aggregate(
        left=Count("pk", filter=gone), over=Count("pk", filter=~Q(state=Task.State.OPEN))
    )
    parts = [question.state.digest, study.name, *fits.values(), *left.values()]
    digest = hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]
    return replace(question.state, digest=digest)


def report_path(job: Job) -> Path:
    """Return the path of the document that a job makes."""
    return export_folder() / f"report-{job.pk}.json.gz"


def report_remove(pk: int) -> None:
    """Remove the document of the job with this number, and the page that an earlier Confab kept instead."""
    for ending in ("json.gz", "html", "json.part"):
        (export_folder() / f"report-{pk}.{ending}").unlink(missing_ok=True)


CLEAN_UP = "report_file"
clean_up_kind(CLEAN_UP, "File of a deleted report", report_remove)


def report_read(job: Job) -> Document | None:
    """Return the report that a job made; None where its file is gone or of an earlier Confab."""
    path = report_path(job)
    try:
        return _read(path, path.stat().st_mtime_ns)
    except (FileNotFoundError, ValueError):
        return None


@lru_cache(maxsize=8)
def _read(path: Path, _changed: int) -> Document:
    """Return the report of a file, read once for each time that the file was written."""
    return document_load(path.read_bytes())


def report_before(study: Study, digest: str, *, like: str = "", **counted: Any) -> Past | None:
    """Return the summary of the newest report on another state of the data, or None.

    Args:
        digest: digest of the state that is reported now.
    """
    made = reports_of(study, like=like, **counted).filter(state=State.DONE).exclude(key__endswith=f":{digest}")
    for job in made:
        try:
            return result_load((job.result or {}).get("past"), Past)
        except ValueError:
            continue
    return None


def report_ask(*, study: Study, like: str = "", created_by: User | None = None, **counted: Any) -> Job:
    """Return the job that makes the report of the data as they are now; where it failed, it is tried again."""
    files_expire()
    asked = ReportAsked(study=study.pk, like=like, **counted)
    state = report_state(study, **counted).digest
    there = Job.objects.filter(kind=KIND, key=job_key(asked, state)).first()
    if there is not None and there.state == State.DONE and report_read(there) is None:
        there.delete()
    job = job_ask(kind=KIND, payload=asked.model_dump(), state=state, study=study, created_by=created_by)
    if job.state in (State.FAILED, State.CANCELLED):
        return job_restart(job=job, enqueue=True)
    return job


def reports_of(study: Study, *, like: str = "", **counted: Any) -> QuerySet[Job]:
    """Return the jobs of a study's report, the newest first."""
    asked = ReportAsked(study=study.pk, like=like, **counted)
    return Job.objects.filter(kind=KIND, key__startswith=job_key(asked, "")).order_by("-pk")


def report_newest(study: Study, *, like: str = "", **counted: Any) -> Job | None:
    """Return the newest report whose file is there; None without one."""
    files_expire()
    made = reports_of(study, like=like, **counted).filter(state=State.DONE)
    return next((job for job in made if report_path(job).is_file()), None)


def reports_forget(studies: Collection[int]) -> None:
    """Remove the reports of these studies, and stop those that are being made: somebody was erased."""
    jobs = list(Job.objects.filter(kind=KIND, study__in=studies).values_list("pk", flat=True))
    jobs_forget([KIND], studies)
    for pk in jobs:
        report_remove(pk)
