"""Import of a file: upload, then a preview with the open choices."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from chatbots.compressed_files import is_gzip
from evaluation.data.formats.base import Skipped, formats
from evaluation.data.formats.csv_columns import suggested_roles
from evaluation.data.formats.mapping import FileMapping
from evaluation.data.formats.record_formats import record_formats
from evaluation.data.formats.table_rows import head_rows
from evaluation.data.scores import is_score_file, read_scores
from webapp.core.errors import Refused
from webapp.core.keys import key_from_name
from webapp.core.language import plural
from webapp.core.rights import Right, may
from webapp.dashboard.forms import UPLOAD_LIMIT_MB
from webapp.dashboard.import_forms import (
    STUDY_ENDINGS,
    ColumnsForm,
    ImportForm,
    ItemsForm,
    MappingForm,
    ScoresForm,
    UploadForm,
)
from webapp.dashboard.navigation import form_view, page
from webapp.dashboard.views.builder import files
from webapp.insights.selectors import imported_studies
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.studies.study_file import holds_items, items_of_file
from webapp.transfer.import_file import PREVIEW_RECORDS, PREVIEW_ROWS, FileContents, import_preview
from webapp.transfer.import_mappings import get_mapping, mapping_save, saved_mappings
from webapp.transfer.job_files import (
    is_upload_name,
    upload_errors,
    upload_import,
    upload_job,
    upload_keep,
    upload_kept,
    upload_name,
)

WAITED_FOR_BYTES = 500_000
"""Maximum bytes, about a thousand compressed chats, for a direct import; a worker imports larger files."""
_TOLD, _FIRST, _LISTED = 10, 5, 200
_TABLES = (".csv", ".tsv", ".csv.gz", ".xlsx", ".parquet")


@form_view(Right.RUN)
def imports(request: HttpRequest) -> HttpResponse:
    """Show the upload form; a POST stores the file and opens its preview."""
    form = UploadForm(request.POST, request.FILES) if request.method == "POST" else UploadForm()
    status = 400
    if form.is_valid():
        upload: Any = form.cleaned_data["file"]
        if _is_study(upload):
            return files.upload(request)
        try:
            name = upload_keep(upload, request.user)  # type: ignore[arg-type]
        except Refused as refused:
            form.add_error("file", refused.message)
            status = 507 if refused.code in ("disk_full", "project_disk_full") else 400
        else:
            query = urlencode({"study": request.GET["study"]}) if "study" in request.GET else ""
            address = reverse("dashboard:import_file", args=[name])
            return redirect(f"{address}?{query}" if query else address)
    return page(
        request,
        "imports.html",
        "studies",
        form=form,
        limit_mb=UPLOAD_LIMIT_MB,
        formats=[*formats, *record_formats],
        studies=imported_studies(),
        status=status if form.errors else 200,
    )


@form_view(Right.RUN)
def import_file(request: HttpRequest, name: str) -> HttpResponse:
    """Show the content of a file, and what it leaves open.

    A POST imports it, or reads it again with other columns.
    """
    user: Any = request.user
    if not is_upload_name(name):
        raise Http404
    if (job := upload_job(name, user)) is not None:
        return redirect("dashboard:job", job.kind, job.pk)
    path = upload_kept(name, user)
    if path is None:
        messages.warning(request, "The file has been deleted. Upload it again.")
        return redirect("dashboard:imports")
    if holds_items(path):
        return _items(request, path)
    if is_score_file(path):
        return _scores(request, path)
    data = request.POST if request.method == "POST" else None
    columns, form, error, contents, mapping = None, None, "", FileContents(), FileMapping()
    try:
        with upload_errors(path, upload_name(path)):
            if data is not None and "_apply" in data and data.get("saved"):
                mapping, data = get_mapping(data["saved"]), None
            elif data is not None:
                mapping = MappingForm.read(data)
            columns = _columns_form(path, data, mapping.columns or {})
            if columns is None or not columns.errors:
                roles = columns.roles() if columns is not None else None
                mapping = replace(mapping, columns=roles)
                contents = import_preview(path, mapping)
                key = request.GET.get("study") or key_from_name(upload_name(path).split(".")[0], 60)
                form = ImportForm(
                    data if data and "_import" in data else None,
                    contents=contents,
                    study=key,
                    questions=mapping.questions,
                    entered=data,
                )
    except Refused as refused:
        error = refused.message
    if form is not None and form.is_bound and form.is_valid():
        try:
            mapping = replace(mapping, questions=form.question_choices())
            job = _import(path, user, form.cleaned_data["study"], **mapping.as_dict(), **form.choices())
        except Refused as refused:
            error = refused.message
        else:
            if data is not None and data.get("save_as", "").strip():
                mapping_save(
                    data["save_as"].strip(), replace(mapping, columns=columns.chosen() if columns is not None else None)
                )
            return redirect("dashboard:job", job.kind, job.pk)
    is_wrong = bool(error or (columns and columns.errors) or (form and form.errors))
    return page(
        request,
        "import_file.html",
        "studies",
        name=upload_name(path),
        columns=columns,
        form=form,
        mapping=MappingForm(contents=contents, mapping=mapping, saved=saved_mappings()),
        error=error,
        contents=contents,
        n_more=contents.n_left_out - len(contents.left_out),
        status=400 if is_wrong and data is not None else 200,
    )


def _is_study(upload: Any) -> bool:
    """Return True for a study's file.

    It is YAML, or JSON that contains a study but no conversation or item.
    """
    name = upload.name.lower()
    if not name.endswith(".json") or upload.size > files.MOST_BYTES:
        return name.endswith(STUDY_ENDINGS)
    try:
        plain = json.loads(upload.read().decode("utf-8-sig"))
    except (ValueError, RecursionError):
        plain = None
    upload.seek(0)
    return (
        isinstance(plain, dict) and "protocol" in plain and plain.keys().isdisjoint(("turns", "response", "responses"))
    )


def _columns_form(path: Path, data: Any, saved: Mapping[str, str]) -> ColumnsForm | None:
    """Return the form of a table's columns; None for other files.

    Args:
        saved: roles of a saved mapping, which replace guessed ones.

    Raises:
        ValueError: two columns have the same name.
    """
    if path.name.lower().endswith(".zip") or not path.stat().st_size:
        return None
    if path.name.lower().endswith(".gz") and not is_gzip(path):
        return None  # its import names the damage
    suggested = suggested_roles(path)
    if suggested is None or (suggested[1] and not path.name.lower().endswith(_TABLES)):
        return None
    header, rows = head_rows(path)
    if len(header) < 2:
        return None
    guessed, is_known = suggested
    examples = [next((row[n] for row in rows if row[n].strip()), "") for n in range(len(header))]
    applied = {column: saved.get(column, "" if saved else role) for column, role in guessed.items()}
    return ColumnsForm(data, guessed=applied, examples=examples, is_known=is_known and not saved)


def _import(path: Path, user: Any, study: str, **choices: Any) -> Job:
    """Return the job that imports a file.

    For a small file it has already finished.

    Args:
        choices: further fields of `ImportParams`.

    Raises:
        Refused: a small file cannot be imported; there is no job then, and the file is kept.
    """
    is_small = path.stat().st_size <= WAITED_FOR_BYTES
    job = upload_import(
        path=path, name=upload_name(path), study=study, created_by=user, enqueue=not is_small, **choices
    )
    if is_small:
        run_job(job)
        job.refresh_from_db()
        if job.state == State.FAILED:
            error = job.error
            job.delete()
            raise Refused("bad_file", error)
    return job


def _items(request: HttpRequest, path: Path) -> HttpResponse:
    """Show the items of a file; a POST stores them in a study."""
    name = upload_name(path)
    form = ItemsForm(request.POST if request.method == "POST" else None, study=request.GET.get("study", ""))
    if form.is_valid() and not may(request.user, Right.ADMINISTER):
        form.add_error(None, "Your account does not have the right to change studies.")
    if form.is_valid():
        try:
            job = _import(path, request.user, form.cleaned_data["study"], items=True)
        except Refused as refused:
            form.add_error(None, refused.message)
        else:
            return _report_items(request, job)
    read = list(islice(items_of_file(path), PREVIEW_RECORDS))
    left_out = [record for record in read if isinstance(record, Skipped)]
    return page(
        request,
        "import_items.html",
        "studies",
        name=name,
        form=form,
        n_items=len(read) - len(left_out),
        is_cut=len(read) == PREVIEW_RECORDS,
        first=[record for record in read if not isinstance(record, Skipped)][:_FIRST],
        left_out=left_out[:_LISTED],
        n_more=max(len(left_out) - _LISTED, 0),
        status=400 if form.errors else 200,
    )


def _scores(request: HttpRequest, path: Path) -> HttpResponse:
    """Show the metrics of a file of scores; a POST imports them."""
    titles: dict[str, str] = {}
    counts: Counter[str] = Counter()
    try:
        with upload_errors(path, upload_name(path)):
            rows = list(islice(read_scores(path), PREVIEW_ROWS + 1))
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("dashboard:imports")
    left_out = [row for row in rows if isinstance(row, Skipped)]
    for row in rows:
        if not isinstance(row, Skipped):
            titles.setdefault(row.name, row.title)
            counts[row.name] += row.value is not None
    data = request.POST if request.method == "POST" else None
    form = ScoresForm(data, titles=titles, study=request.GET.get("study", ""))
    if form.is_valid():
        choices = form.choices()
        try:
            job = _import(path, request.user, choices.pop("study"), **choices)
        except Refused as refused:
            form.add_error(None, refused.message)
        else:
            return redirect("dashboard:job", job.kind, job.pk)
    return page(
        request,
        "import_scores.html",
        "studies",
        name=upload_name(path),
        form=form,
        metrics=[(title, name, counts[name]) for name, title in titles.items()],
        is_cut=len(rows) > PREVIEW_ROWS,
        left_out=left_out[:_LISTED],
        n_more=max(len(left_out) - _LISTED, 0),
        status=400 if form.errors else 200,
    )


def _report_items(request: HttpRequest, job: Job) -> HttpResponse:
    """Redirect to the items' study with a report.

    If a worker stores them, redirect to its job.
    """
    if job.state != State.DONE:
        return redirect("dashboard:job", job.kind, job.pk)
    report: Any = job.result
    message = plural(report["items"], "%(n)d new item", "%(n)d new items") % {"n": report["items"]}
    messages.success(request, f"{message}, {report['unchanged']} already present, {job.n_skipped} skipped.")
    for skipped in report["skipped"][:_TOLD]:
        messages.warning(request, f"Line {skipped['line']} was skipped: {skipped['reason']}")
    return redirect("dashboard:study_build_step", job.payload["study"], "bots")
