"""Downloads: tables of studies and runs, data packages, and human evaluation datasheets.

Tables are streamed in constant memory; workers make large files.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from itertools import groupby

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_safe

from webapp.core.pages import staff_refusal
from webapp.core.rights import Right, may
from webapp.dashboard.filters import apply_flag_filter
from webapp.dashboard.forms import ExportForm, PackageForm
from webapp.dashboard.navigation import requires, staff_only
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.studies import study_of, study_page
from webapp.jobs.models import Job, SelfPlayRun, State
from webapp.jobs.services.jobs import jobs_settle
from webapp.results.refresh import refresh_flags
from webapp.studies.lifecycle import MOST_DATASHEET_CHARS, datasheet_store
from webapp.studies.models import Study
from webapp.studies.selectors import judges_items
from webapp.transfer.datasheet import datasheet_json, datasheet_md, datasheet_of
from webapp.transfer.datasheet_questions import SECTIONS
from webapp.transfer.exporters.base import (
    Exporter,
    ExportOptions,
    exporter_counts,
    exporter_get,
    exporter_list,
    run_exporters,
    search_check,
    table_of_run,
)
from webapp.transfer.job_files import (
    EXPORTS_KEPT,
    LARGE_EXPORT,
    PACKAGE,
    export_make,
    export_path,
    export_rights,
    export_size,
    export_title,
    exports_expire,
    exports_of,
)
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.package.tables import packaged_tables
from webapp.transfer.writers import Format, pieces_of, sent, stream

_ORDER = ["ratings", "conversations", "messages", "metrics", "participants", "consent_texts"]


def _tables(study: Study, options: ExportOptions) -> list[tuple[Exporter, int | None]]:
    """Return the exporters, the main ones first, with how many rows of the database each reads."""
    counts = exporter_counts(study, options)
    known = {name: i for i, name in enumerate(_ORDER)}
    exporters = sorted(exporter_list(), key=lambda e: (known.get(e.name, len(known)), e.name))
    return [(exporter, counts.get(exporter.name)) for exporter in exporters]


@require_http_methods(["GET", "HEAD", "POST"])
@staff_only
def export(request: HttpRequest, key: str) -> HttpResponseBase:
    """Show the form and the files that were made; send the file that is asked for, or let a worker make it.

    The form posts. A script may have `what` and `format` in the address, and gets the file of any table directly.
    """
    study = study_of(key)
    choices = [(exporter.name, exporter.title) for exporter in exporter_list()]
    asked = request.POST if request.method == "POST" else request.GET
    without = apply_flag_filter(request, study)
    form = ExportForm(asked if "what" in asked or asked is request.POST else None, tables=choices)
    search, wrong = " ".join(asked.get("q", "").split()), _wrong(study, asked)
    if form.is_bound and form.is_valid() and not wrong:
        exporter, options = exporter_get(form.cleaned_data["what"]), _options(form)
        if (refused := staff_refusal(request, *export_rights(exporter.name, options))) is not None:
            return refused
        file_format = form.cleaned_data["format"]
        if request.method == "POST" and export_size(exporter.name, study, options) > LARGE_EXPORT:
            payload = {"what": exporter.name, "format": file_format, **asdict(options)}
            export_make(study=study, asked=payload, created_by=request.user)  # type: ignore[arg-type]
            return redirect("dashboard:study_export", study.key)
        return _download(study, exporter, options, file_format)
    files = [job for job in exports_open_to(request, study) if job.payload["what"] != PACKAGE]
    running = next((job for job in files if not job.is_over), None)
    counted = ExportOptions(
        include_synthetic=bool(asked.get("include_synthetic")),
        include_failed=bool(asked.get("include_failed")),
        without=without,
        search="" if wrong else search,
    )
    tables = [
        (exporter, n)
        for exporter, n in _tables(study, counted if search else ExportOptions(without=without))
        if may(request.user, *export_rights(exporter.name, ExportOptions()))
        and (not search or hasattr(exporter, "is_searched"))
    ]
    return study_page(
        request,
        "export.html",
        study,
        "export",
        leaves_out=True,
        tables=[(e, n) for e, n in tables if n is not None],
        others=[e for e, n in tables if n is None],
        form=form,
        search=search,
        wrong=wrong,
        ticked=counted,
        judges_items=judges_items(study),
        files=[(job, export_title(job.payload["what"])) for job in files],
        running=job_context(running, "export") if running is not None else None,
        kept_days=EXPORTS_KEPT.days,
        large=LARGE_EXPORT,
        command=f"{settings.CONFAB_PROGRAM} export --study {shlex.quote(study.key)} --what ratings --format csv "
        "--output ratings.csv",
        status=400 if form.is_bound or wrong else 200,
    )


def _wrong(study: Study, asked: QueryDict) -> ValueError | None:
    """Return the error if the requested table cannot be filtered by the search, else None."""
    options = ExportOptions(search=" ".join(asked.get("q", "").split()))
    try:
        search_check(study, asked.get("what", "conversations"), options)
    except ValueError as error:
        return error
    return None


@require_safe
@staff_only
def run_export(request: HttpRequest, run_id: int) -> HttpResponseBase:
    """Send a table of a self-play run while it is read, of any size."""
    run = get_object_or_404(SelfPlayRun, pk=run_id)
    choices = [(exporter.name, exporter.title) for exporter in run_exporters()]
    form = ExportForm(request.GET, tables=choices)
    if not form.is_valid():
        raise Http404("There is no such table of a self-play run, or no such format.")
    options = ExportOptions(
        include_failed=form.cleaned_data["include_failed"],
        search=" ".join(form.cleaned_data["q"].split()),
    )
    try:
        search_check(run, form.cleaned_data["what"], options)
    except ValueError as error:
        raise Http404(str(error)) from None
    table = table_of_run(run, form.cleaned_data["what"], options)
    file_format: Format = form.cleaned_data["format"]
    pieces = stream(file_format, table.columns, table.rows)
    return sent(pieces, f"selfplay-{run.pk}", table.exporter.name, file_format, is_private=False)


@require_safe
@staff_only
def made(request: HttpRequest, key: str, pk: int) -> HttpResponseBase:
    """Send a file that a worker made."""
    job = get_object_or_404(Job, pk=pk, kind="export", study__key=key, state=State.DONE)
    if (refused := staff_refusal(request, *_rights_of_file(job))) is not None:
        return refused
    exports_expire()
    try:
        file = export_path(job).open("rb")
    except FileNotFoundError:
        raise Http404("This file is no longer kept. Make it again.") from None
    what, is_private = job.payload["what"], job.payload["include_private"]
    return sent(pieces_of(file), key, what, job.payload["format"], is_private=is_private)


def exports_open_to(request: HttpRequest, study: Study) -> list[Job]:
    """Return the files of the study that were made or are being made, of those that this user may have."""
    jobs_settle()
    exports_expire()
    return [job for job in exports_of(study) if may(request.user, *_rights_of_file(job))]


def _rights_of_file(job: Job) -> set[Right]:
    """Return the rights that a made file needs: those that making it needed."""
    private = ExportOptions(include_private=job.payload["include_private"])
    return export_rights(job.payload["what"], private)


def _options(form: ExportForm) -> ExportOptions:
    data = form.cleaned_data
    return ExportOptions(
        include_synthetic=data["include_synthetic"],
        include_failed=data["include_failed"],
        include_private=data["include_private"],
        without=data["without"],
        search=" ".join(data["q"].split()),
    )


def _download(study: Study, exporter: Exporter, options: ExportOptions, file_format: Format) -> StreamingHttpResponse:
    if options.without:
        refresh_flags(study, exact=True)
    pieces = stream(file_format, exporter.columns(study, options), exporter.rows(study, options))
    is_private = options.include_private
    return sent(pieces, study.key, exporter.name, file_format, is_private=is_private)


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Right.PAY)
def package(request: HttpRequest, key: str) -> HttpResponseBase:
    """Show what a package holds and the packages that were made; send one, or let a worker make it."""
    study = study_of(key)
    form = PackageForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        options = ExportOptions(**form.cleaned_data)
        if (refused := staff_refusal(request, *export_rights(PACKAGE, options))) is not None:
            return refused
        if export_size(PACKAGE, study, options) > LARGE_EXPORT:
            payload = {"what": PACKAGE, "format": "zip", **asdict(options)}
            export_make(study=study, asked=payload, created_by=request.user)  # type: ignore[arg-type]
            return redirect("dashboard:study_package", study.key)
        if options.without:
            refresh_flags(study, exact=True)
        pieces = package_pieces(study, options)
        return sent(pieces, study.key, PACKAGE, "zip", is_private=options.include_private)
    files = [job for job in exports_open_to(request, study) if job.payload["what"] == PACKAGE]
    running = next((job for job in files if not job.is_over), None)
    tables = packaged_tables(study, ExportOptions())
    tables.sort(key=lambda table: table.exporter.title)
    without = apply_flag_filter(request, study)
    counts = exporter_counts(study, ExportOptions(without=without))
    return study_page(
        request,
        "package.html",
        study,
        "package",
        leaves_out=True,
        tables=[(table, counts.get(table.exporter.name)) for table in tables],
        files=files,
        running=job_context(running, "export") if running is not None else None,
        kept_days=EXPORTS_KEPT.days,
        large=LARGE_EXPORT,
        command=f"{settings.CONFAB_PROGRAM} export --study {shlex.quote(study.key)} --what package "
        f"--output {shlex.quote(study.key)}.zip" + (f" --without {','.join(without)}" if without else ""),
    )


_FILES = {
    "md": (datasheet_md, "text/markdown; charset=utf-8"),
    "json": (datasheet_json, "application/json"),
}


@require_http_methods(["GET", "HEAD", "POST"])
@requires(to_post=[Right.ADMINISTER])
def datasheet(request: HttpRequest, key: str) -> HttpResponseBase:
    """Show the datasheet, keep what people answer; with `format` in the address send it as a file."""
    study = study_of(key)
    entries = datasheet_of(study)
    if request.method == "POST":
        answers = {one.key: request.POST[one.key] for one in entries if one.key in request.POST}
        datasheet_store(study=study, answers=answers)
        messages.success(request, "Your answers are kept, and stand in the datasheet.")
        return redirect("dashboard:study_datasheet", study.key)
    if (ending := request.GET.get("format", "")) in _FILES:
        write, kind = _FILES[ending]
        answer = HttpResponse(write(study, entries), content_type=kind)
        name = f'attachment; filename="{study.key}-heds.{ending}"'
        answer["Content-Disposition"] = name
        return answer
    sections = [
        (f"{number} {SECTIONS[number]}" + (f": {criterion}" if criterion else ""), list(found))
        for (number, criterion), found in groupby(entries, key=lambda one: (one.question.section, one.criterion))
    ]
    return study_page(
        request,
        "datasheet.html",
        study,
        "datasheet",
        sections=sections,
        n_open=sum(one.is_open for one in entries),
        n=len(entries),
        may_answer=may(request.user, Right.ADMINISTER),
        most_chars=MOST_DATASHEET_CHARS,
    )
