"""The pages from which a study is published: its data package, and its human evaluation datasheet."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from itertools import groupby

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from webapp.core.rights import Right, may
from webapp.core.staff import refusal
from webapp.dashboard.access import needs
from webapp.dashboard.forms import PackageForm
from webapp.dashboard.leaving_out import without_now
from webapp.dashboard.views.export import exports_open_to
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.study import study_of, study_page
from webapp.results.flags import flags_now
from webapp.studies.datasheet import MOST_CHARS, datasheet_keep
from webapp.transfer.datasheet.filling import datasheet_of
from webapp.transfer.datasheet.questions import SECTIONS
from webapp.transfer.datasheet.writing import datasheet_json, datasheet_md
from webapp.transfer.exporters.base import ExportOptions, exporter_counts
from webapp.transfer.exports import (
    KEPT,
    LARGE,
    PACKAGE,
    export_make,
    export_rights,
    export_size,
)
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.package.tables import packaged_tables
from webapp.transfer.sending import sent


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.PAY)
def package(request: HttpRequest, key: str) -> HttpResponseBase:
    """Show what a package holds and the packages that were made; send one, or let a worker make it."""
    study = study_of(key)
    form = PackageForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        options = ExportOptions(**form.cleaned_data)
        if (refused := refusal(request, *export_rights(PACKAGE, options))) is not None:
            return refused
        if export_size(PACKAGE, study, options) > LARGE:
            payload = {"what": PACKAGE, "format": "zip", **asdict(options)}
            export_make(study=study, asked=payload, created_by=request.user)  # type: ignore[arg-type]
            return redirect("dashboard:study_package", study.key)
        if options.without:
            flags_now(study, exact=True)
        pieces = package_pieces(study, options)
        return sent(pieces, study.key, PACKAGE, "zip", is_private=options.include_private)
    files = [job for job in exports_open_to(request, study) if job.payload["what"] == PACKAGE]
    running = next((job for job in files if not job.is_over), None)
    tables = packaged_tables(study, ExportOptions())
    tables.sort(key=lambda table: table.exporter.title)
    without = without_now(request, study)
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
        kept_days=KEPT.days,
        large=LARGE,
        command=f"{settings.CONFAB_PROGRAM} export --study {shlex.quote(study.key)} --what package "
        f"--output {shlex.quote(study.key)}.zip"
        + (f" --without {','.join(without)}" if without else ""),
    )


_FILES = {
    "md": (datasheet_md, "text/markdown; charset=utf-8"),
    "json": (datasheet_json, "application/json"),
}


@require_http_methods(["GET", "HEAD", "POST"])
@needs(to_post=[Right.ADMINISTER])
def datasheet(request: HttpRequest, key: str) -> HttpResponseBase:
    """Show the datasheet, keep what people answer; with `format` in the address send it as a file."""
    study = study_of(key)
    entries = datasheet_of(study)
    if request.method == "POST":
        answers = {one.key: request.POST[one.key] for one in entries if one.key in request.POST}
        datasheet_keep(study=study, answers=answers)
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
        for (number, criterion), found in groupby(
            entries, key=lambda one: (one.question.section, one.criterion)
        )
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
        most_chars=MOST_CHARS,
    )
