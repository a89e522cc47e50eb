"""What pages show and export: tables, the data package, parts of the analysis, and lists of bots and metrics."""

from __future__ import annotations

from typing import Any, Literal

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Router, Schema

from chatbots.release import release
from evaluation.metrics.registry import metric_list
from evaluation.storing import result_dump
from webapp.api.auth import Token, demand
from webapp.api.errors import FAILURES
from webapp.api.routes.jobs import job_out
from webapp.api.schemas import BotOut, Me, MetricOut, ResultOut, TableOut
from webapp.bots.selectors import bot_entry_list
from webapp.quality.selectors import without_read
from webapp.results.flags import flags_now
from webapp.results.making import PARTS
from webapp.results.stored import Question, answer_for
from webapp.studies.selectors import study_by_key
from webapp.transfer.exporters.base import ExportOptions, exporter_get, exporter_list, exporters
from webapp.transfer.exports import PACKAGE, export_rights
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.sending import sent
from webapp.transfer.writers import Format, stream

router = Router(tags=["results"], auth=Token())
FILES = {
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
}


class Included(Schema):
    """What of a study is to be counted or written."""

    include_synthetic: bool = False
    include_failed: bool = False
    include_private: bool = False
    without: str = ""

    def options(self) -> ExportOptions:
        """Return it as exporters have it."""
        return ExportOptions(
            self.include_synthetic,
            self.include_failed,
            self.include_private,
            without_read(self.without),
        )


@router.get("/me", response={200: Me, **FAILURES}, operation_id="me")
def me(request: HttpRequest) -> Any:
    """Return whose token this is and what it may do."""
    token = request.auth  # type: ignore[attr-defined]
    return Me(
        token=token.name,
        user=request.user.get_username(),
        rights=token.rights,
        confab=release(),
    )


@router.get("/bots", response={200: list[BotOut], **FAILURES}, operation_id="bots")
def bots(request: HttpRequest) -> Any:
    """List the bots of this server."""
    return [
        BotOut(
            id=one.id,
            name=str(one.name),
            kind=one.kind,
            is_control=one.is_control,
            is_available=one.available,
            reason=one.reason,
        )
        for one in bot_entry_list()
    ]


@router.get("/metrics", response={200: list[MetricOut], **FAILURES}, operation_id="metrics")
def metrics(request: HttpRequest) -> Any:
    """List the metrics of this server."""
    return [
        MetricOut(
            name=one.name,
            title=str(one.title),
            is_default=getattr(one, "default", True),
            unavailable=one.unavailable_reason(),
            # A name may stand at both levels, of turns and of conversations.
            columns=list(dict.fromkeys(column.name for column in one.columns)),
        )
        for one in metric_list()
    ]


@router.get("/tables", response={200: list[TableOut], **FAILURES}, operation_id="tables")
def tables(request: HttpRequest) -> Any:
    """List the tables that every study has."""
    return [
        TableOut(name=one.name, title=str(one.title), description=str(one.description))
        for one in exporter_list()
    ]


@router.get(
    "/studies/{key}/tables/{table}",
    response=FAILURES,
    operation_id="table",
    openapi_extra={"responses": {200: {"description": "The table", **FILES}}},
)
def table(
    request: HttpRequest,
    key: str,
    table: str,
    included: Query[Included],
    format: Format = "jsonl",
) -> HttpResponseBase:
    """Send a table as CSV, JSON Lines or Parquet while it is read, of any size: the bytes that `export` writes."""
    if table not in exporters:
        raise Http404(f"there is no table {table!r}; there are {', '.join(exporters.names())}")
    study, exporter, options = study_by_key(key), exporter_get(table), included.options()
    demand(request.auth, *export_rights(table, options))  # type: ignore[attr-defined]
    if options.without:
        flags_now(study, exact=True)
    pieces = stream(format, exporter.columns(study, options), exporter.rows(study, options))
    return sent(pieces, study.key, table, format, is_private=options.include_private)


@router.get(
    "/studies/{key}/package",
    response=FAILURES,
    operation_id="package",
    openapi_extra={"responses": {200: {"description": "The zip", **FILES}}},
)
def package(request: HttpRequest, key: str, included: Query[Included]) -> HttpResponseBase:
    """Send a study's data package, a zip with all of its tables."""
    study, options = study_by_key(key), included.options()
    demand(request.auth, *export_rights(PACKAGE, options))  # type: ignore[attr-defined]
    if options.without:
        flags_now(study, exact=True)
    pieces = package_pieces(study, options)
    return sent(pieces, study.key, PACKAGE, "zip", is_private=options.include_private)


@router.get(
    "/studies/{key}/results/{part}", response={200: ResultOut, **FAILURES}, operation_id="result"
)
def result(
    request: HttpRequest,
    key: str,
    part: Literal[
        "comparisons",
        "dimensions",
        "answers",
        "items",
        "models",
        "raters",
        "trajectories",
        "correlations",
        "powered",
    ],
    include_synthetic: bool = False,
    include_failed: bool = False,
    without: str = "",
) -> Any:
    """Return a part of a study's analysis, the one that its pages show; what is missing is asked of a worker."""
    study = study_by_key(key)
    flagged = without_read(without)
    if flagged:
        flags_now(study)
    question = Question(study, part, include_synthetic, include_failed, flagged)
    answer = answer_for(question, created_by=request.user)  # type: ignore[arg-type]
    made = answer.made
    return ResultOut(
        part=part,
        made_at=answer.made_at,
        n_ratings=None if made is None else made.facts.n_ratings,
        document=None if made is None else result_dump(made.result, PARTS[part].type),
        job=None if answer.job is None else job_out(answer.job),
    )
