"""Job that stores a study's report as a document, from stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evaluation.number_format import result_dump
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.core.project_disk import disk_keep
from webapp.insights.report_document import Document, Past, document_dump, past_of, with_changes
from webapp.insights.report_files import KIND, ReportParams, report_before, report_path, reports_of
from webapp.insights.report_paper import paper_report
from webapp.insights.report_sections import pair_report, report_of, report_steps
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job, State
from webapp.results.cache import AnalysisKey, ComputedResult, compute_now
from webapp.results.compute import PARTS, parts_of
from webapp.results.kinds.analysis import study_of_job
from webapp.results.refresh import refresh_flags
from webapp.results.study_data import read_once, study_frame
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol


@register_kind
class ReportFile(JobKind[Job, ReportParams]):
    """Job that computes all parts of the analysis and the document.

    Its result has the size of the report, and the values that later reports are compared with.
    """

    name = KIND
    title = "Report"
    writes_files = True
    Payload = ReportParams

    def plan(self, job: Job, params: ReportParams) -> list[ShardPlan]:
        return [ShardPlan(n_total=len(PARTS) + 1)]

    def slice(self, work: ShardWork[Job, ReportParams]) -> dict[str, int]:
        study = study_of_job(work.job, work.params.study)
        if work.params.without:
            refresh_flags(study, exact=True)
        of_pairs = pair_report(study, **work.params.counted_work) if get_protocol(study).compares_pairs else None
        if of_pairs is not None:
            work.beat(len(PARTS), note="")
            return self._store_document(work, study, of_pairs)
        results: dict[str, ComputedResult] = {}
        with read_once():
            for n, part in enumerate(parts_of(study)):
                work.beat(n, note=part)
                computed_result = compute_now(AnalysisKey(study, part, **work.params.counted_work), wait=work.beat)
                if computed_result is None:
                    raise Refused("no_ratings", f"study {study.key} no longer has ratings")
                results[part] = computed_result
        work.beat(len(PARTS), note="")
        return self._store_document(work, study, _document(study, results, work.params))

    def _store_document(self, work: ShardWork[Job, ReportParams], study: Study, document: Document) -> dict[str, Any]:
        """Store the document with changes since the previous one."""
        digest = work.job.key.rpartition(":")[2]
        before = report_before(study, digest, like=work.params.like, **work.params.counted_work)
        path = report_path(work.job)
        try:
            stored_document = document if work.params.like else with_changes(document, before)
            _write(path, document_dump(stored_document))
            disk_keep(path, project=study.project_id)
            work.beat(now=True)
        except BaseException:  # stopped, perhaps because a participant was erased
            path.unlink(missing_ok=True)
            raise
        return {"n_ratings": document.n_ratings, "past": result_dump(past_of(document), Past)}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        n = result["n_ratings"]
        return [plural(n, "The report covers 1 rating.", "The report covers %(n)d ratings.") % {"n": n}]

    def follow_up(self, job: Job) -> None:
        if job.cancel_requested:  # after the last heartbeat
            report_path(job).unlink(missing_ok=True)
        assert job.study is not None, "jobs are deleted with their study"
        params = ReportParams.model_validate(job.payload)
        reports = reports_of(job.study, like=params.like, **params.counted_work)
        for n, older in enumerate(reports.filter(pk__lt=job.pk, state=State.DONE)):
            report_path(older).unlink(missing_ok=True)
            if n:  # the previous report shows what has changed
                older.delete()


def _document(study: Study, results: dict[str, ComputedResult], params: ReportParams) -> Document:
    facts = results["comparisons"].facts
    frame = study_frame(study, facts, **params.counted_work)

    def result(part: str) -> Any:
        return results[part].result

    if params.like:
        return paper_report(frame, result)
    return report_of(frame, result, [step.make() for step in report_steps(frame, result)])


def _write(path: Path, document: bytes) -> None:
    """Write the file atomically, readable by its owner only."""
    path.unlink(missing_ok=True)
    part = path.with_suffix(".part")
    part.touch(mode=0o600)
    part.write_bytes(document)
    part.replace(path)
