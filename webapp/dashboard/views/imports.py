"""Upload of conversations with ratings."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from evaluation.formats.base import formats
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.access import needs
from webapp.dashboard.context import page
from webapp.dashboard.forms import UPLOAD_LIMIT_MB, ImportForm
from webapp.dashboard.selectors import imported_studies
from webapp.transfer.jobs import import_conversations
from webapp.transfer.report import ImportReport
from webapp.transfer.uploads import upload_errors, upload_import, upload_write

_SHOWN = 200
WAITED_FOR_BYTES = 500_000
"""Bytes of a file, about a thousand packed chats; a worker imports a larger one, and its page shows the progress."""


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.RUN)
def imports(request: HttpRequest) -> HttpResponse:
    """Show the form, and after a POST what was stored and what was left out, line by line."""
    form = ImportForm(request.POST or None, request.FILES or None)
    context: dict[str, Any] = {}
    if request.method == "POST" and form.is_valid():
        if form.cleaned_data["file"].size > WAITED_FOR_BYTES:
            job = upload_import(
                upload=form.cleaned_data["file"],
                study=form.cleaned_data["study"],
                scale=form.cleaned_data["scale"],
                language=form.cleaned_data["language"],
                created_by=request.user,  # type: ignore[arg-type]
            )
            return redirect("dashboard:job", job.kind, job.pk)
        try:
            report = _load(form)
        except Refused as error:
            form.add_error("file", f"It could not be imported: {error}")
        else:
            context = imported_context(report, form.cleaned_data["study"])
    return page(
        request,
        "imports.html",
        "imports",
        form=form,
        limit_mb=UPLOAD_LIMIT_MB,
        formats=list(formats),
        studies=imported_studies(),
        status=400 if form.errors else 200,
        **context,
    )


def imported_context(report: ImportReport, study_key: str) -> dict[str, Any]:
    """Return the context of `_imported.html`: records stored and records skipped.

    Args:
        study_key: key of the study that holds the import; empty, and then not linked, if it no longer exists.
    """
    return {
        "report": report,
        "study_key": study_key,
        "shown": report.skipped[:_SHOWN],
        "n_more": max(report.n_skipped - _SHOWN, 0),
    }


def _load(form: ImportForm) -> ImportReport:
    """Write the upload where the import can read it twice, and import it."""
    with tempfile.TemporaryDirectory(prefix="confab-import-") as folder:
        upload = form.cleaned_data["file"]
        path = upload_write(upload, Path(folder), "upload")
        with upload_errors(path, upload.name):
            return import_conversations(
                path,
                study_key=form.cleaned_data["study"],
                scale=form.cleaned_data["scale"],
                language=form.cleaned_data["language"],
            )
