"""Routes of results: tables, the data package, parts of the analysis, and the list of metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Router, Schema

from chatbots.release import release
from chatbots.storable import quote
from evaluation.metrics.registry import metric_list
from webapp.api.auth import Token, demand, rights_of
from webapp.api.errors import FAILURES
from webapp.api.files import file_described
from webapp.api.routes.jobs import job_out
from webapp.api.schemas import Me, MetricOut, ResultOut, TableOut
from webapp.api.searching import SearchedTable, table_line
from webapp.quality.selectors import without_read
from webapp.results.flags import flags_now
from webapp.results.stored import Question, answer_for
from webapp.studies.selectors import study_by_key
from webapp.transfer.exporters.base import ExportOptions, exporter_list, exporters, table_of
from webapp.transfer.exports import PACKAGE, export_rights
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.package.tables import package_rights
from webapp.transfer.sending import sent
from webapp.transfer.writers import Format, stream

router = Router(tags=["results"], auth=Token())


class Included(Schema):
    """Options of the work of a study to count or export."""

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
    openapi_extra=file_described("The table"),
)
def table(
    request: HttpRequest,
    key: str,
    table: str,
    included: Query[Included],
    searched: Query[SearchedTable],
    format: Format = "jsonl",
) -> HttpResponseBase:
    """Send a table as CSV, JSON Lines or Parquet while it is read, of any size: the bytes that `export` writes.

    `q` narrows tables of conversations alone to those that it finds, as `export --search` does.
    """
    if table not in exporters:
        raise Http404(f"there is no table {quote(table)}; there are {', '.join(exporters.names())}")
    study = study_by_key(key)
    options = replace(included.options(), search=table_line(study, table, searched.q))
    demand(request.auth, *export_rights(table, options))  # type: ignore[attr-defined]
    if options.without:
        flags_now(study, exact=True)
    whole = table_of(study, table, options)
    pieces = stream(format, whole.columns, whole.rows)
    return sent(pieces, study.key, table, format, is_private=options.include_private)


@router.get(
    "/studies/{key}/package",
    response=FAILURES,
    operation_id="package",
    openapi_extra=file_described("The zip"),
)
def package(request: HttpRequest, key: str, included: Query[Included]) -> HttpResponseBase:
    """Send a study's data package, a zip.

    It leaves out tables whose right the token lacks, and says so.
    """
    study, options = study_by_key(key), included.options()
    rights = rights_of(request)
    if options.include_private:
        demand(request.auth, *package_rights(options))  # type: ignore[attr-defined]
    if options.without:
        flags_now(study, exact=True)
    pieces = package_pieces(study, options, rights=rights)
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
    """Return a part of a study's analysis, the one that its pages show; a worker computes a missing one."""
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
        document=None if made is None else made.result.to_json(),
        job=None if answer.job is None else job_out(answer.job),
    )
