"""The report of a study as a file, made of the stored results."""

from __future__ import annotations

from pathlib import Path

from django.utils.translation import gettext_lazy as _

from webapp.core.errors import Refused
from webapp.dashboard.report import pair_report, report_html, report_of, report_steps
from webapp.dashboard.report_files import KIND, ReportAsked, report_path, reports_of
from webapp.ratings.pairs import compares_pairs
from webapp.results.flags import flags_now
from webapp.results.making import PARTS
from webapp.results.stored import Made, Question, made_now
from webapp.results.study_data import study_frame
from webapp.runs.kinds.base import Kind, ShardPlan, Work, register_kind
from webapp.runs.models import Job, State
from webapp.studies.models import Study


@register_kind
class ReportFile(Kind[Job, ReportAsked]):
    """Every part of the analysis, then the page; the result has its bytes and how many ratings it is of."""

    name = KIND
    title = _("Report")
    Payload = ReportAsked

    def plan(self, job: Job, asked: ReportAsked) -> list[ShardPlan]:
        return [ShardPlan(n_total=len(PARTS) + 1)]

    def slice(self, work: Work[Job, ReportAsked]) -> dict[str, int]:
        study = work.job.study
        if study is None or study.pk != work.asked.study:
            raise Refused("no_study", f"there is no study {work.asked.study}")
        if work.asked.without:
            flags_now(study, exact=True)
        counted = {
            "include_synthetic": work.asked.include_synthetic,
            "without": work.asked.without,
        }
        of_pairs = pair_report(study, **counted) if compares_pairs(study) else None  # type: ignore[arg-type]
        if of_pairs is not None:
            work.beat(len(PARTS), note="")
            return self._kept(work, report_html(of_pairs).encode(), of_pairs.frame.facts.n_ratings)
        made: dict[str, Made] = {}
        for n, part in enumerate(PARTS):
            work.beat(n, note=part)
            question = Question(
                study,
                part,
                include_synthetic=work.asked.include_synthetic,
                without=work.asked.without,
            )
            found = made_now(question, wait=work.beat)
            if found is None:
                raise Refused("no_ratings", f"study {study.key} has no ratings any more")
            made[part] = found
        work.beat(len(PARTS), note="")
        n_ratings = made["comparisons"].facts.n_ratings
        return self._kept(work, _page(study, made, work.asked), n_ratings)

    def _kept(self, work: Work[Job, ReportAsked], page: bytes, n_ratings: int) -> dict[str, int]:
        path = report_path(work.job)
        try:
            _write(path, page)
            work.beat(now=True)
        except BaseException:  # stopped, perhaps since somebody of the study was erased
            path.unlink(missing_ok=True)
            raise
        return {"bytes": len(page), "n_ratings": n_ratings}

    def follow_up(self, job: Job) -> None:
        if job.cancel_requested:  # after the last sign of life
            report_path(job).unlink(missing_ok=True)
        assert job.study is not None, "jobs go with their studies"
        asked = ReportAsked.model_validate(job.payload)
        reports = reports_of(
            job.study, include_synthetic=asked.include_synthetic, without=asked.without
        )
        reports.filter(pk__lt=job.pk, state=State.DONE).delete()  # their files go with them


def _page(study: Study, made: dict[str, Made], asked: ReportAsked) -> bytes:
    facts = made["comparisons"].facts
    frame = study_frame(
        study, facts, include_synthetic=asked.include_synthetic, without=asked.without
    )
    sections = [make() for _title, make in report_steps(frame, lambda part: made[part].result)]
    return report_html(report_of(frame, lambda part: made[part].result, sections)).encode()


def _write(path: Path, page: bytes) -> None:
    """Write the file for its owner alone, whole or not at all."""
    path.unlink(missing_ok=True)
    part = path.with_suffix(".part")
    part.touch(mode=0o600)
    part.write_bytes(page)
    part.replace(path)
