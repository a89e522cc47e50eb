"""The page from which a study's data package is taken."""

from __future__ import annotations

import shlex
from dataclasses import asdict

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from webapp.core.rights import Right
from webapp.core.staff import refusal
from webapp.dashboard.access import needs
from webapp.dashboard.forms import PackageForm
from webapp.dashboard.views.export import exports_open_to, sent
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.study import study_of, study_page
from webapp.results.flags import flags_now
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
    counts = exporter_counts(study, ExportOptions())
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
        f"--output {shlex.quote(study.key)}.zip",
    )
