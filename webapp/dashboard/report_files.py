"""Reports that workers made: asked for, found again, and removed.

They lie beside the files of exports and go with them: after `KEPT`, and at once when a person of their study is erased.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from chatbots.outside import Many, Values
from webapp.results.stored import Question
from webapp.runs.models import UNFINISHED, Job, State
from webapp.runs.services.jobs import job_ask, job_cancel, job_key, job_restart
from webapp.studies.models import Study
from webapp.transfer.exports import export_folder, exports_expire

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.db.models import QuerySet

KIND = "report"


class ReportAsked(Values):
    """The report of the job's study, which is named besides, for two studies have two reports."""

    study: int
    include_synthetic: bool = False
    without: Many[str] = ()


def report_state(
    study: Study, *, include_synthetic: bool, without: tuple[str, ...] = ()
) -> Question:
    """Return the question whose data are all that a report is made of."""
    return Question(study, "correlations", include_synthetic=include_synthetic, without=without)


def report_path(job: Job) -> Path:
    """Return where the file of a job lies once it is made."""
    return export_folder() / f"report-{job.pk}.html"


def report_ask(
    *,
    study: Study,
    include_synthetic: bool = False,
    without: tuple[str, ...] = (),
    created_by: User | None = None,
) -> Job:
    """Return the job that makes the report of the data as they are now; where it failed, it is tried again."""
    exports_expire()
    asked = ReportAsked(study=study.pk, include_synthetic=include_synthetic, without=without)
    question = report_state(study, include_synthetic=include_synthetic, without=without)
    state = question.state.digest
    there = Job.objects.filter(kind=KIND, key=job_key(asked, state)).first()
    if there is not None and there.state == State.DONE and not report_path(there).is_file():
        there.delete()
    job = job_ask(
        kind=KIND, payload=asked.model_dump(), state=state, study=study, created_by=created_by
    )
    if job.state in (State.FAILED, State.CANCELLED):
        return job_restart(job=job, enqueue=True)
    return job


def reports_of(
    study: Study, *, include_synthetic: bool = False, without: tuple[str, ...] = ()
) -> QuerySet[Job]:
    """Return the jobs of a study's report, the newest first."""
    asked = ReportAsked(study=study.pk, include_synthetic=include_synthetic, without=without)
    return Job.objects.filter(kind=KIND, key__startswith=job_key(asked, "")).order_by("-pk")


def report_newest(
    study: Study, *, include_synthetic: bool = False, without: tuple[str, ...] = ()
) -> Job | None:
    """Return the newest report whose file is there; None without one."""
    exports_expire()
    reports = reports_of(study, include_synthetic=include_synthetic, without=without)
    made = reports.filter(state=State.DONE)
    return next((job for job in made if report_path(job).is_file()), None)


def reports_forget(studies: Collection[int]) -> None:
    """Remove the reports of these studies, and stop those that are being made: somebody was erased."""
    jobs = Job.objects.filter(kind=KIND, study__in=studies)
    for job in jobs.filter(state__in=UNFINISHED):
        job_cancel(job=job)
    for job in jobs:
        report_path(job).unlink(missing_ok=True)
    jobs.exclude(state__in=UNFINISHED).delete()
