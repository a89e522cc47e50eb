"""A study's report and its human evaluation datasheet."""

from __future__ import annotations

import json
from typing import Any, Literal
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Query, Router, Status

from chatbots.storable import quote
from webapp.api.auth import Token
from webapp.api.errors import BODY_FAILURES, FAILURES
from webapp.api.files import file_described
from webapp.api.routes.jobs import job_out
from webapp.api.routes.pages import Counted
from webapp.api.schemas import AskReport, JobOut
from webapp.api.schemas_study import (
    ChapterOut,
    DatasheetOut,
    HeadlineOut,
    ReportCellOut,
    ReportOut,
    ReportPartOut,
)
from webapp.dashboard.report_files import (
    KIND,
    ReportAsked,
    report_ask,
    report_newest,
    report_read,
    report_state,
)
from webapp.dashboard.reporting.document import Document, Part
from webapp.dashboard.reporting.pages import report_html
from webapp.quality.selectors import without_read
from webapp.results.flags import flags_now
from webapp.runs.models import Job, State
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key
from webapp.transfer.datasheet.filling import datasheet_of
from webapp.transfer.datasheet.writing import datasheet_json, datasheet_md

router = Router(tags=["reports"], auth=Token())
Like = Literal["", "ghandeharioun2019"]


@router.get("/studies/{key}/report", response={200: ReportOut, **FAILURES}, operation_id="report")
def report(
    request: HttpRequest,
    key: str,
    counted: Query[Counted],
    like: Like = "",
    sections: str = "",
) -> Any:
    """Return the newest report that was made of a study: its words, headline numbers and tables.

    `sections` chooses some by their ids, with commas. A POST makes a report of the data as they are now.
    """
    study = study_by_key(key)
    job, document = _newest(study, counted, like, sections)
    state = report_state(
        study,
        include_synthetic=counted.include_synthetic,
        without=without_read(counted.without),
    )
    return ReportOut(
        study=document.study,
        name=document.name,
        like=document.like,
        made=document.made,
        is_current=job.key.endswith(f":{state.digest}"),
        n_ratings=document.n_ratings,
        n_conversations=document.n_conversations,
        summary=list(document.summary),
        headlines=[HeadlineOut.model_validate(one) for one in document.numbers],
        chapters=[
            ChapterOut(
                id=one.id,
                title=one.title,
                lead=list(one.lead),
                points=list(one.points),
                missing=list(one.missing),
                caution=one.caution,
                parts=[_part(part) for part in one.parts],
            )
            for one in document.chapters
        ],
    )


@router.get(
    "/studies/{key}/report.html",
    response=FAILURES,
    operation_id="report_html",
    openapi_extra=file_described("The report as one page", "text/html"),
)
def report_page(
    request: HttpRequest,
    key: str,
    counted: Query[Counted],
    like: Like = "",
    sections: str = "",
) -> HttpResponse:
    """Send the newest report as one self-contained page, as `report --output` writes it."""
    study = study_by_key(key)
    _job, document = _newest(study, counted, like, sections)
    return HttpResponse(
        report_html(document),
        content_type="text/html; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="{study.key}-{like or "report"}.html"',
            "X-Content-Type-Options": "nosniff",
        },
    )


@router.post(
    "/studies/{key}/report",
    response={202: JobOut, **BODY_FAILURES},
    operation_id="report_make",
)
def report_make(request: HttpRequest, response: HttpResponse, key: str, asked: AskReport) -> Any:
    """Let a worker make the report of the present data; the right to read suffices, as on its page.

    `Location` is the address at which a GET finds this report once it is made.
    """
    study = study_by_key(key)
    without = without_read(",".join(asked.without))
    if without:
        flags_now(study)
    job = report_ask(
        study=study,
        include_synthetic=asked.include_synthetic,
        without=without,
        like=asked.like,
        created_by=request.user,  # type: ignore[arg-type]
    )
    response["Location"] = _address(study, job)
    return Status(202, job_out(job))


@router.get(
    "/studies/{key}/datasheet", response={200: DatasheetOut, **FAILURES}, operation_id="datasheet"
)
def datasheet(request: HttpRequest, key: str) -> Any:
    """Return a study's human evaluation datasheet, with what the study answers and what its researchers wrote."""
    study = study_by_key(key)
    return json.loads(datasheet_json(study, datasheet_of(study)))


@router.get(
    "/studies/{key}/datasheet.md",
    response=FAILURES,
    operation_id="datasheet_md",
    openapi_extra=file_described("The datasheet", "text/markdown"),
)
def datasheet_text(request: HttpRequest, key: str) -> HttpResponse:
    """Send the datasheet as Markdown."""
    study = study_by_key(key)
    text = datasheet_md(study, datasheet_of(study))
    return HttpResponse(text, content_type="text/markdown; charset=utf-8")


def _newest(study: Study, counted: Counted, like: str, sections: str) -> tuple[Job, Document]:
    """Return the newest report of these participants, with the requested sections.

    Raises:
        Http404: none was made yet, or it has no such section.
    """
    made = report_newest(
        study,
        include_synthetic=counted.include_synthetic,
        without=counted.flags(study),
        like=like,
    )
    document = report_read(made) if made is not None else None
    if made is None or document is None:
        others = Job.objects.filter(kind=KIND, study=study, state=State.DONE).order_by("-pk")
        other = next((job for job in others if report_read(job) is not None), None)
        elsewhere = f" (another one is at {_address(study, other)})" if other else ""
        raise Http404(
            f"there is no report of {study.key} with these parameters yet{elsewhere}; a POST to this address makes one"
        )
    asked = [name for name in sections.split(",") if name]
    if unknown := document.unknown(asked):
        there = ", ".join(one.id for one in document.chapters)
        raise Http404(f"the report has no section {quote(unknown[0])}; it has {there}")
    return made, document.chosen(asked)


def _address(study: Study, job: Job) -> str:
    """Build the address at which a GET finds the report of a job."""
    asked = ReportAsked.model_validate(job.payload)
    parameters = {
        "include_synthetic": "true" if asked.include_synthetic else "",
        "without": ",".join(asked.without),
        "like": asked.like,
    }
    query = urlencode({name: value for name, value in parameters.items() if value}, safe=",")
    path = reverse("api:report", args=[study.key])
    return f"{path}?{query}" if query else path


def _part(part: Part) -> ReportPartOut:
    return ReportPartOut(
        id=part.id,
        label=part.label,
        title=part.title,
        method=part.method,
        note_lead=part.note_lead,
        note=part.note,
        headers=[one.text for one in part.table.headers],
        rows=[
            [ReportCellOut(text=cell.text, raw=list(cell.raw), why=cell.why) for cell in row]
            for row in part.table.rows
        ],
    )
