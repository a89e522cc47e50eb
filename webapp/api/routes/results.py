"""Routes of results: tables, data package, analysis, report and datasheet.

Also the list of metrics and the rights of the token.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from ninja import Query, Router, Schema, Status

from chatbots.installation import release
from chatbots.text import quote
from evaluation.analysis.formula_model import Kind
from webapp.api.errors import BODY_FAILURES, FAILURES, Token, demand, rights_of
from webapp.api.routes.studies import Counted
from webapp.api.schemas import (
    AskReport,
    JobOut,
    Me,
    MetricOut,
    RealismOut,
    ResultOut,
    SearchedTable,
    TableOut,
    fields_of,
    file_described,
    table_line,
)
from webapp.api.schemas_study import DatasheetOut, PlanOut, ReportOut
from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.insights.report_document import Document
from webapp.insights.report_files import KIND, ReportParams, report_ask, report_newest, report_read, report_state
from webapp.insights.report_page import report_page as write_report
from webapp.jobs.models import Job, State
from webapp.jobs.selectors.metrics import metrics_all
from webapp.ratings.flag_selectors import without_read
from webapp.results.cache import AnalysisKey, get_result
from webapp.results.formula_models import model_params
from webapp.results.realism import realism_ask, realism_newest
from webapp.results.refresh import refresh_flags
from webapp.studies.models import Study
from webapp.studies.plans import plan_deviations
from webapp.studies.selectors import study_by_key
from webapp.transfer.datasheet import datasheet_json, datasheet_md, datasheet_of
from webapp.transfer.exporters.base import ExportOptions, exporter_list, exporters, table_of
from webapp.transfer.import_scores import imported_metric_delete
from webapp.transfer.job_files import PACKAGE, export_record, export_rights
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.package.tables import package_rights
from webapp.transfer.writers import Format, sent, stream

router = Router(tags=["results"], auth=Token())


class Included(Schema):
    """Options that select the work to count or export."""

    include_synthetic: bool = False
    include_failed: bool = False
    include_private: bool = False
    include_images: bool = False
    without: str = ""

    def options(self) -> ExportOptions:
        """Return these options as exporters expect them."""
        return ExportOptions(
            self.include_synthetic,
            self.include_failed,
            self.include_private,
            without_read(self.without),
            include_images=self.include_images,
        )


@router.get("/me", response={200: Me, **FAILURES}, operation_id="me")
def me(request: HttpRequest) -> Any:
    """Return the token's user and rights."""
    token = request.auth  # type: ignore[attr-defined]
    return Me(token=token.name, user=request.user.get_username(), rights=token.rights, confab=release())


@router.get("/metrics", response={200: list[MetricOut], **FAILURES}, operation_id="metrics")
def metrics(request: HttpRequest) -> Any:
    """List the metrics of this server."""
    return [
        MetricOut(
            name=metric.name,
            title=str(metric.title),
            is_default=getattr(metric, "default", True),
            unavailable=metric.unavailable_reason(),
            # A metric name can exist at both levels, turns and conversations.
            columns=list(dict.fromkeys(column.name for column in metric.columns)),
        )
        for metric in metrics_all()
    ]


@router.delete(
    "/metrics/{name}", auth=Token(Right.RUN), response={200: dict[str, int], **FAILURES}, operation_id="metric_delete"
)
def metric_delete(request: HttpRequest, name: str) -> Any:
    """Delete an imported metric with its values, and return their number."""
    return {"values": imported_metric_delete(name)}


@router.get("/tables", response={200: list[TableOut], **FAILURES}, operation_id="tables")
def tables(request: HttpRequest) -> Any:
    """List the tables that every study has."""
    return exporter_list()


@router.get(
    "/studies/{key}/tables/{table}", response=FAILURES, operation_id="table", openapi_extra=file_described("The table")
)
def table(
    request: HttpRequest,
    key: str,
    table: str,
    included: Query[Included],
    searched: Query[SearchedTable],
    format: Format = "jsonl",
) -> HttpResponseBase:
    """Stream a table as CSV, JSON Lines or Parquet.

    The bytes are the same as those of `export`, at any size.

    `q` filters tables of conversations, as `export --search` does.
    """
    if table not in exporters:
        raise Http404(f"there is no table {quote(table)}; the tables are {', '.join(exporters.names())}")
    study = study_by_key(key)
    options = replace(included.options(), search=table_line(study, table, searched.q))
    demand(request.auth, *export_rights(table, options))  # type: ignore[attr-defined]
    if options.without:
        refresh_flags(study, exact=True)
    table_data = table_of(study, table, options)
    pieces = stream(format, table_data.columns, table_data.rows)
    export_record(study, table, format, options)
    return sent(pieces, study.key, table, format, is_private=options.include_private)


@router.get(
    "/studies/{key}/package", response=FAILURES, operation_id="package", openapi_extra=file_described("The zip")
)
def package(request: HttpRequest, key: str, included: Query[Included]) -> HttpResponseBase:
    """Stream a study's data package as a zip.

    Tables that the token may not read are left out, and the package lists them.
    """
    study, options = study_by_key(key), included.options()
    rights = rights_of(request)
    if options.include_private:
        demand(request.auth, *package_rights(options))  # type: ignore[attr-defined]
    if options.without:
        refresh_flags(study, exact=True)
    pieces = package_pieces(study, options, rights=rights)
    export_record(study, PACKAGE, "zip", options)
    return sent(pieces, study.key, PACKAGE, "zip", is_private=options.include_private)


@router.get("/studies/{key}/results/realism", response={200: RealismOut, **FAILURES}, operation_id="realism")
def realism(request: HttpRequest, key: str, run: int, participant: str = "") -> Any:
    """Return the comparison of simulated with real participants.

    A missing one is computed by a worker.

    Without `participant`, the run's first simulated participant is compared.
    """
    study = study_by_key(key)
    simulation = study.simulations.filter(pk=run).first()
    if simulation is None:
        raise Http404(f"{key} has no simulation {run}")
    job = realism_ask(simulation, participant, created_by=request.user)  # type: ignore[arg-type]
    newest = realism_newest(study, run=simulation.pk, participant=job.payload["participant"])
    return {
        "run": simulation.pk,
        "participant": job.payload["participant"],
        "made_at": None if newest is None else newest[0].ended_at,
        "document": None if newest is None else newest[1].to_json(),
        "job": None if newest is not None and newest[0].pk == job.pk else job,
    }


@router.get("/studies/{key}/results/{part}", response={200: ResultOut, **FAILURES}, operation_id="result")
def result(
    request: HttpRequest,
    key: str,
    part: Literal[
        "comparisons",
        "dimensions",
        "conditions",
        "population",
        "answers",
        "helped",
        "items",
        "models",
        "formula",
        "raters",
        "trajectories",
        "correlations",
        "powered",
        "replacement",
    ],
    include_synthetic: bool = False,
    include_failed: bool = False,
    without: str = "",
    formula: str = "",
    kind: Kind = "linear",
) -> Any:
    """Return one part of a study's analysis, as shown on its pages.

    A missing one is computed by a worker.

    `formula` and `kind` belong to the part `formula`, for example `y ~ bot * scenario + (1|rater)`. Without a formula,
    the study's default model is used.
    """
    study = study_by_key(key)
    if formula and part != "formula":
        raise Refused("bad_formula", f"formula can only be used with the part formula, not with {part}")
    if kind != "linear" and not formula:
        raise Refused("bad_formula", f"kind is {quote(kind)}, which needs a formula; add formula")
    model = model_params(study, formula, kind) if formula else None
    excluded_flags = without_read(without)
    if excluded_flags:
        refresh_flags(study)
    question = AnalysisKey(study, part, include_synthetic, include_failed, excluded_flags, model)
    answer = get_result(question, created_by=request.user)  # type: ignore[arg-type]
    computed = answer.computed_result
    return {
        "part": part,
        "made_at": answer.made_at,
        "n_ratings": None if computed is None else computed.facts.n_ratings,
        "document": None if computed is None else computed.result.to_json(),
        "job": answer.job,
    }


reports_router = Router(tags=["reports"], auth=Token())
Like = Literal["", "ghandeharioun2019"]


@reports_router.get("/studies/{key}/report", response={200: ReportOut, **FAILURES}, operation_id="report")
def report(
    request: HttpRequest, key: str, participant_filter: Query[Counted], like: Like = "", sections: str = ""
) -> Any:
    """Return a study's newest report: texts, headline numbers and tables.

    `sections` selects sections by comma-separated ids. Send a POST to create a report of the current data.
    """
    study = study_by_key(key)
    job, document = _get_newest_report(study, participant_filter, like, sections)
    state = report_state(
        study, include_synthetic=participant_filter.include_synthetic, without=without_read(participant_filter.without)
    )
    is_current = job.key.endswith(f":{state.digest}")
    return fields_of(ReportOut, document, is_current=is_current, headlines=document.numbers)


@reports_router.get(
    "/studies/{key}/report.html",
    response=FAILURES,
    operation_id="report_html",
    openapi_extra=file_described("The report as one page", "text/html"),
)
def report_page(
    request: HttpRequest, key: str, participant_filter: Query[Counted], like: Like = "", sections: str = ""
) -> HttpResponse:
    """Download the newest report as one self-contained page.

    It is the same as that of `report --output`.
    """
    study = study_by_key(key)
    _job, document = _get_newest_report(study, participant_filter, like, sections)
    record(DOWNLOAD, study, file="report")
    return HttpResponse(
        write_report(document),
        content_type="text/html; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="{study.key}-{like or "report"}.html"',
            "X-Content-Type-Options": "nosniff",
        },
    )


@reports_router.post("/studies/{key}/report", response={202: JobOut, **BODY_FAILURES}, operation_id="report_make")
def report_make(request: HttpRequest, response: HttpResponse, key: str, params: AskReport) -> Any:
    """Create a report of the current data in a worker.

    The right to read is enough, as on its page.

    `Location` is the path to GET the finished report.
    """
    study = study_by_key(key)
    excluded_flags = without_read(",".join(params.without))
    if excluded_flags:
        refresh_flags(study)
    job = report_ask(
        study=study,
        include_synthetic=params.include_synthetic,
        without=excluded_flags,
        like=params.like,
        created_by=request.user,  # type: ignore[arg-type]
    )
    response["Location"] = _build_report_address(study, job)
    return Status(202, job)


@reports_router.get("/studies/{key}/datasheet", response={200: DatasheetOut, **FAILURES}, operation_id="datasheet")
def datasheet(request: HttpRequest, key: str) -> Any:
    """Return a study's human evaluation datasheet, with computed and researchers' answers."""
    study = study_by_key(key)
    return json.loads(datasheet_json(study, datasheet_of(study)))


@reports_router.get(
    "/studies/{key}/datasheet.md",
    response=FAILURES,
    operation_id="datasheet_md",
    openapi_extra=file_described("The datasheet", "text/markdown"),
)
def datasheet_text(request: HttpRequest, key: str) -> HttpResponse:
    """Download the datasheet as Markdown."""
    study = study_by_key(key)
    text = datasheet_md(study, datasheet_of(study))
    record(DOWNLOAD, study, file="datasheet")
    return HttpResponse(text, content_type="text/markdown; charset=utf-8")


@reports_router.get("/studies/{key}/plan", response={200: PlanOut, **FAILURES}, operation_id="plan")
def plan(request: HttpRequest, key: str) -> Any:
    """Return the plan that was stored when a study opened, with its digest and later changes."""
    plans = list(study_by_key(key).plans.all())
    if not plans:
        raise Http404(f"{key} has no plan: it was never opened here")
    return {
        "digest": plans[0].digest,
        "stored_at": plans[0].created_at,
        "n_participants": plans[0].n_participants,
        "document": plans[0].document,
        "deviations": [
            {"part": change.part, "before": change.before, "after": change.after, "stored_at": change.plan.created_at}
            for change in plan_deviations(plans)
        ],
    }


def _get_newest_report(study: Study, participant_filter: Counted, like: str, sections: str) -> tuple[Job, Document]:
    """Return the newest report of these participants, with the requested sections.

    Raises:
        Http404: there is no report yet, or no such section.
    """
    newest_job = report_newest(
        study,
        include_synthetic=participant_filter.include_synthetic,
        without=participant_filter.flags(study),
        like=like,
    )
    document = report_read(newest_job) if newest_job is not None else None
    if newest_job is None or document is None:
        other_jobs = Job.objects.filter(kind=KIND, study=study, state=State.DONE).order_by("-pk")
        other_job = next((job for job in other_jobs if report_read(job) is not None), None)
        elsewhere = f" (a different one is at {_build_report_address(study, other_job)})" if other_job else ""
        raise Http404(
            f"there is no report of {study.key} with these parameters yet{elsewhere}; send a POST to this address "
            "to create it"
        )
    section_ids = [name for name in sections.split(",") if name]
    if unknown := document.unknown(section_ids):
        available_ids = ", ".join(chapter.id for chapter in document.chapters)
        raise Http404(f"the report has no section {quote(unknown[0])}; it has {available_ids}")
    return newest_job, document.chosen(section_ids)


def _build_report_address(study: Study, job: Job) -> str:
    """Build the path to GET the report of a job."""
    params = ReportParams.model_validate(job.payload)
    parameters = {
        "include_synthetic": "true" if params.include_synthetic else "",
        "without": ",".join(params.without),
        "like": params.like,
    }
    query = urlencode({name: value for name, value in parameters.items() if value}, safe=",")
    path = reverse("api:report", args=[study.key])
    return f"{path}?{query}" if query else path
