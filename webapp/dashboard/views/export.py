"""Downloads: tables, data packages and datasheets.

The page Report has a section for each. Tables are streamed in constant memory; workers make large files.
"""

from __future__ import annotations

import shlex
from itertools import groupby
from typing import Any, Literal

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404

from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.errors import Refused
from webapp.core.pages import staff_refusal
from webapp.core.rights import Right, may
from webapp.dashboard.filters import apply_flag_filter
from webapp.dashboard.forms import ExportForm
from webapp.dashboard.navigation import read_view
from webapp.dashboard.views.jobs import job_context
from webapp.jobs.models import Job, SelfPlayRun, State
from webapp.jobs.services.jobs import jobs_settle
from webapp.results.refresh import refresh_flags
from webapp.studies.lifecycle import MOST_DATASHEET_CHARS
from webapp.studies.models import Study
from webapp.studies.plans import plan_json
from webapp.transfer.datasheet import datasheet_json, datasheet_md, datasheet_of
from webapp.transfer.datasheet_questions import SECTIONS
from webapp.transfer.exporters.base import (
    ExportOptions,
    exporter_counts,
    exporter_get,
    exporter_list,
    rows_of_table,
    run_exporters,
    search_check,
    table_of_run,
)
from webapp.transfer.job_files import (
    EXPORTS_KEPT,
    LARGE_EXPORT,
    PACKAGE,
    export_make,
    export_options,
    export_path,
    export_record,
    export_rights,
    export_size,
    export_title,
    exports_of,
    files_expire,
)
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.package.tables import packaged_tables
from webapp.transfer.writers import Format, pieces_of, sent, stream

_ORDER = ["ratings", "conversations", "messages", "metrics", "participants", "consent_texts"]


def export_form(form_data: QueryDict) -> ExportForm:
    """Return the export form as submitted."""
    return ExportForm(form_data, tables=[(exporter.name, exporter.title) for exporter in exporter_list()])


def export_section(request: HttpRequest, study: Study, *, form: ExportForm | None = None) -> dict[str, Any]:
    """Return the context of the section of tables and their files.

    Args:
        form: the rejected form.
    """
    form_data = request.POST if request.method == "POST" else request.GET
    excluded_flags = apply_flag_filter(request, study)
    search, wrong = " ".join(form_data.get("q", "").split()), search_error(study, form_data)
    options = ExportOptions(
        include_synthetic=bool(form_data.get("include_synthetic")),
        include_failed=bool(form_data.get("include_failed")),
        without=excluded_flags,
        search="" if wrong else search,
    )
    counts = exporter_counts(study, options if search else ExportOptions(without=excluded_flags))
    order = {name: i for i, name in enumerate(_ORDER)}
    tables = [
        (exporter, counts.get(exporter.name))
        for exporter in sorted(exporter_list(), key=lambda e: (order.get(e.name, len(order)), e.name))
        if may(request.user, *export_rights(exporter.name, ExportOptions()))
        and (not search or hasattr(exporter, "is_searched"))
    ]
    return {
        "tables": [(e, n) for e, n in tables if n is not None],
        "others": [e for e, n in tables if n is None],
        "form": form,
        "search": search,
        "wrong": wrong,
        "ticked": options,
        "command": f"{settings.CONFAB_PROGRAM} export --study {shlex.quote(study.key)} --what ratings --format csv "
        "--output ratings.csv",
        **_files(request, study, is_package=False),
    }


def package_section(request: HttpRequest, study: Study) -> dict[str, Any]:
    """Return the context of the section of data packages and their files."""
    excluded_flags = apply_flag_filter(request, study)
    counts = exporter_counts(study, ExportOptions(without=excluded_flags))
    tables = sorted(packaged_tables(study, ExportOptions()), key=lambda table: table.exporter.title)
    return {
        "tables": [(table, counts.get(table.exporter.name)) for table in tables],
        "command": f"{settings.CONFAB_PROGRAM} export --study {shlex.quote(study.key)} --what package "
        f"--output {shlex.quote(study.key)}.zip" + (f" --without {','.join(excluded_flags)}" if excluded_flags else ""),
        **_files(request, study, is_package=True),
    }


def _files(request: HttpRequest, study: Study, *, is_package: bool) -> dict[str, Any]:
    """Return the files of this user that exist or are being made."""
    jobs_settle()
    files_expire()
    files = [
        job
        for job in exports_of(study)
        if (job.payload["what"] == PACKAGE) == is_package and may(request.user, *_rights_of_file(job))
    ]
    running = next((job for job in files if not job.is_over), None)
    return {
        "files": [(job, f"{study.key}-package" if is_package else export_title(job.payload["what"])) for job in files],
        "making": job_context(running, "export") if running is not None else None,
        "kept_days": EXPORTS_KEPT.days,
        "large": LARGE_EXPORT,
    }


def search_error(study: Study, form_data: QueryDict) -> ValueError | None:
    """Return the error if a search cannot filter the requested table.

    None if it can.
    """
    options = ExportOptions(search=" ".join(form_data.get("q", "").split()))
    try:
        search_check(study, form_data.get("what", "conversations"), options)
    except ValueError as error:
        return error
    return None


def send_file(
    request: HttpRequest, study: Study, table_name: str, file_format: Format | Literal["zip"], chosen: dict[str, Any]
) -> HttpResponseBase | None:
    """Stream a table or the package.

    None for a POST of a large one, which a worker makes.

    Args:
        chosen: cleaned values of its form.
    """
    search = " ".join(chosen.pop("q", "").split())
    has_images = chosen.get("include_images", False)
    options = ExportOptions(**{name: chosen[name] for name in _CHOSEN}, search=search, include_images=has_images)
    if (refused := staff_refusal(request, *export_rights(table_name, options))) is not None:
        return refused
    if request.method == "POST" and export_size(table_name, study, options) > LARGE_EXPORT:
        payload = {"what": table_name, "format": file_format, **options.requested()}
        try:
            export_make(study=study, payload=payload, created_by=request.user)  # type: ignore[arg-type]
        except Refused as error:
            messages.error(request, error.message)
        return None
    if options.without:
        refresh_flags(study, exact=True)
    export_record(study, table_name, file_format, options)
    if file_format == "zip":
        pieces = package_pieces(study, options)
    else:
        exporter = exporter_get(table_name)
        pieces = stream(file_format, exporter.columns(study, options), rows_of_table(exporter, study, options))
    return sent(pieces, study.key, table_name, file_format, is_private=options.include_private)


_CHOSEN = ("include_synthetic", "include_failed", "include_private", "without", "is_redacted")


@read_view()
def run_export(request: HttpRequest, run_id: int) -> HttpResponseBase:
    """Stream a table of a self-play run, of any size."""
    run = get_object_or_404(SelfPlayRun, pk=run_id)
    choices = [(exporter.name, exporter.title) for exporter in run_exporters()]
    form = ExportForm(request.GET, tables=choices)
    if not form.is_valid():
        raise Http404("Self-play runs have no such table or format.")
    options = ExportOptions(
        include_failed=form.cleaned_data["include_failed"], search=" ".join(form.cleaned_data["q"].split())
    )
    try:
        search_check(run, form.cleaned_data["what"], options)
    except ValueError as error:
        raise Http404(str(error)) from None
    table = table_of_run(run, form.cleaned_data["what"], options)
    file_format: Format = form.cleaned_data["format"]
    pieces = stream(file_format, table.columns, table.rows)
    export_record(run, table.exporter.name, file_format, options)
    return sent(pieces, run.file_name, table.exporter.name, file_format, is_private=False)


@read_view()
def made_file(request: HttpRequest, key: str, pk: int) -> HttpResponseBase:
    """Send a file that a worker has made."""
    job = get_object_or_404(Job, pk=pk, kind="export", study__key=key, state=State.DONE)
    if (refused := staff_refusal(request, *_rights_of_file(job))) is not None:
        return refused
    files_expire()
    try:
        file = export_path(job).open("rb")
    except FileNotFoundError:
        raise Http404("This file has been deleted. Please create it again.") from None
    table_name, is_private = job.payload["what"], job.payload["include_private"]
    assert job.study is not None
    export_record(job.study, table_name, job.payload["format"], export_options(job))
    return sent(pieces_of(file), key, table_name, job.payload["format"], is_private=is_private)


def _rights_of_file(job: Job) -> set[Right]:
    """Return the rights that a file needs: those needed to make it."""
    private = ExportOptions(include_private=job.payload["include_private"])
    return export_rights(job.payload["what"], private)


_WRITERS = {"md": (datasheet_md, "text/markdown; charset=utf-8"), "json": (datasheet_json, "application/json")}


def datasheet_file(study: Study, ending: str) -> HttpResponse:
    """Send the datasheet as Markdown or JSON.

    Raises:
        KeyError: the format is unknown.
    """
    write, kind = _WRITERS[ending]
    headers = {"Content-Disposition": f'attachment; filename="{study.key}-heds.{ending}"'}
    record(DOWNLOAD, study, file="datasheet")
    return HttpResponse(write(study, datasheet_of(study)), content_type=kind, headers=headers)


def plan_file(study: Study) -> HttpResponse:
    """Send the plan that was stored when the study opened; its bytes have the stored digest."""
    plan = study.plans.first()
    if plan is None:
        raise Http404("No plan is stored: the study was never opened here.")
    record(DOWNLOAD, study, file="plan")
    response = HttpResponse(plan_json(plan.document), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{study.key}-plan.json"'
    return response


def datasheet_section(request: HttpRequest, study: Study) -> dict[str, Any]:
    """Return the context of the section of the datasheet's questions."""
    entries = datasheet_of(study)
    first_open = next((entry for entry in entries if entry.is_open), None)
    return {
        "sections_of_sheet": [
            (
                f"{number} {SECTIONS[number]}" + (f": {criterion}" if criterion else ""),
                answers,
                n_open,
                first_open in answers,
            )
            for (number, criterion), group in groupby(
                entries, key=lambda entry: (entry.question.section, entry.criterion)
            )
            for answers in [sorted(group, key=lambda entry: not entry.is_open)]
            for n_open in [sum(entry.is_open for entry in answers)]
        ],
        "n_open": sum(entry.is_open for entry in entries),
        "n": len(entries),
        "plan": study.plans.first(),
        "may_answer": may(request.user, Right.ADMINISTER),
        "most_chars": MOST_DATASHEET_CHARS,
    }
