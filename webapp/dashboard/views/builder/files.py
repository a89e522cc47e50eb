"""Files in the builder: study files and items.

A study's file is downloaded, or imported after all errors and changes are shown. A worker draws items from stored
conversations; items in files are imported on the page of imports.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from chatbots.validation import Mistake, ValuesError
from webapp.conversations.imported_sets import imported_set_remove
from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.core.rights import Right
from webapp.dashboard.builder.attention_checks import GoldForm, scales_asked
from webapp.dashboard.builder.base import Plan
from webapp.dashboard.builder.item_sources import ItemDrawForm
from webapp.dashboard.navigation import form_view, page, post_view, read_view, study_of
from webapp.jobs.services.jobs import job_create
from webapp.studies.items import item_set_remove
from webapp.studies.lifecycle import Imported, items_import, study_changes, study_import, study_read
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.selectors import study_found
from webapp.studies.study_file import (
    FileItem,
    StudyFile,
    items_lines,
    items_name,
    items_sample,
    study_file_of,
    study_file_text,
)
from webapp.transfer.import_file import conversations_sample
from webapp.transfer.services import records_store

MOST_BYTES = 5_000_000
_TEXT_ENDINGS = (".yaml", ".yml", ".json")


@read_view(Right.ADMINISTER)
def download(request: HttpRequest, study: Study) -> HttpResponseBase:
    """Send the study's file, which contains completion codes.

    `?items` sends the items' file of a large study.
    """
    if "items" in request.GET:
        name = items_name(study)
        answer: HttpResponseBase = StreamingHttpResponse(items_lines(study), content_type="application/x-ndjson")
    else:
        name = f"{study.key}.yaml"
        text = study_file_text(study_file_of(study))
        answer = HttpResponse(text, content_type="application/yaml; charset=utf-8")
    record(DOWNLOAD, study, file="items" if "items" in request.GET else "study_file")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


@form_view(Right.ADMINISTER)
def upload(request: HttpRequest, key: str = "") -> HttpResponse:
    """Import a study's file.

    Without a key in the address, it creates the study that it names, or changes it; with a key, it changes that study.
    """
    study = study_of(key) if key else None
    if request.method != "POST":
        return _page(request, study)
    with tempfile.TemporaryDirectory(prefix="confab-study-") as folder:
        text, wrong = _read_upload(request, Path(folder))
        if wrong:
            return _page(request, study, mistakes=[Mistake("", wrong)])
        try:
            file = study_read(text, key=key)
            existing_study = study_found(file.key)
            changes = study_changes(existing_study, file) if existing_study else []
            if changes and "_sure" not in request.POST and not isinstance(file.items, str):
                return _page(request, existing_study, changes=changes, text=text, file=file)
            done = study_import(file=file, folder=Path(folder), author=request.user.get_username())
        except ValuesError as error:
            return _page(request, study, mistakes=list(error.mistakes), text=text)
    _tell(request, done)
    return redirect("dashboard:study_build_step", done.study.key, "check")


def _read_upload(request: HttpRequest, folder: Path) -> tuple[str, str]:
    """Return the text of a study's file, or the error.

    A file of items sent along is stored in the folder.
    """
    text = request.POST.get("text", "")
    for file in request.FILES.getlist("file"):
        name = Path(file.name or "").name
        if name.lower().endswith(_TEXT_ENDINGS):
            if (file.size or 0) > MOST_BYTES:
                return "", f"“{name}” has more than {MOST_BYTES // 1_000_000} MB."
            try:
                text = file.read().decode("utf-8-sig")
            except UnicodeDecodeError:
                return "", f"“{name}” is not UTF-8 text."
        elif name.lower().endswith((".jsonl", ".jsonl.gz")):
            with (folder / name).open("wb") as handle:
                handle.writelines(file.chunks())
        else:
            return "", f"“{name}” is not a .yaml or .json file."
    return text, "" if text.strip() else "Choose a study file first."


def _tell(request: HttpRequest, done: Imported) -> None:
    if done.is_new:
        message = f"{done.study.name} is a draft."
    elif done.changes:
        n = len(done.changes)
        message = plural(n, "%(n)d setting has changed.", "%(n)d settings have changed.") % {"n": n}
    else:
        message = "The study already matches the file."
    if done.n_items:
        item_message = plural(done.n_items, "%(n)d item was added.", "%(n)d items were added.")
        message = f"{message} {item_message % {'n': done.n_items}}"
    messages.success(request, message)


def _page(
    request: HttpRequest,
    study: Study | None,
    *,
    mistakes: list[Mistake] | None = None,
    changes: list[Any] | None = None,
    text: str = "",
    file: StudyFile | None = None,
) -> HttpResponse:
    return page(
        request,
        "builder/file.html",
        "studies",
        status=422 if mistakes else 200,
        study=study,
        mistakes=[
            # The page shows the path separately, so the sentence does not repeat it.
            (mistake.path, mistake.message.removeprefix(mistake.path).lstrip(": "))
            for mistake in mistakes or ()
        ],
        changes=changes or [],
        text=text,
        file=file,
        n_next=study.version.number + 1 if study else 1,
    )


@post_view(to_post=[Right.ADMINISTER, Right.RUN])
def items_add(request: HttpRequest, study: Study) -> HttpResponse:
    """Add or remove items.

    The sample is stored at once, a worker draws items, and a set can be removed.
    """
    if "_take_out" in request.POST:
        _take_out(request, study)
        return redirect("dashboard:study_build_step", study.key, "bots")
    if get_protocol(study).judges_conversations:
        _report_new(request, records_store(study=study, records=conversations_sample()).conversations)
        return redirect("dashboard:study_build_step", study.key, "bots")
    if not get_protocol(study).judges_items:
        raise Http404(f"participants do not rate items in {study.key}")
    if "_sample" in request.POST:
        sample = [FileItem.model_validate(entry) for entry in items_sample(protocols.get(study.protocol))]
        report = items_import(study=study, lines=enumerate(sample, start=1))
        messages.success(
            request, plural(report.items, "%(n)d item was added.", "%(n)d items were added.") % {"n": report.items}
        )
    else:
        job = _draw_items(request, study)
        if job is not None:
            return redirect("dashboard:job", "items", job)
    return redirect("dashboard:study_build_step", study.key, "bots")


@post_view(to_post=[Right.ADMINISTER])
def gold(request: HttpRequest, study: Study) -> HttpResponse:
    """Store the right answers to one item."""
    form = GoldForm(request.POST, study=study, questions=scales_asked(Plan(study)))
    if not form.is_valid():
        messages.error(request, " ".join(str(error) for errors in form.errors.values() for error in errors))
    else:
        try:
            form.store()
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
        else:
            messages.success(request, "Right answers saved.")
    return redirect("dashboard:study_build_step", study.key, "checks")


def _report_new(request: HttpRequest, n: int) -> None:
    message = plural(n, "%(n)d conversation was added.", "%(n)d conversations were added.")
    messages.success(request, message % {"n": n})


def _take_out(request: HttpRequest, study: Study) -> None:
    remove = imported_set_remove if get_protocol(study).judges_conversations else item_set_remove
    try:
        n, n_kept = remove(study=study, name=request.POST["_take_out"])
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
        return
    message = plural(n, "%(n)d was removed.", "%(n)d were removed.") % {"n": n}
    if n_kept:
        stay = plural(n_kept, "%(n)d cannot be removed.", "%(n)d cannot be removed.") % {"n": n_kept}
        message = f"{message} {stay}"
    messages.success(request, message)


def _draw_items(request: HttpRequest, study: Study) -> int | None:
    form = ItemDrawForm(request.POST, study=study)
    if not form.is_valid():
        for field, sentences in form.errors.items():
            label = form.fields[field].label if field in form.fields else ""
            messages.error(request, f"{label}: {' '.join(map(str, sentences))}")
        return None
    try:
        job = job_create(
            kind="items",
            payload=form.build_payload(),
            study=study,
            created_by=request.user,  # type: ignore[arg-type]
        )
    except Refused as refused:
        messages.error(request, str(refused))
        return None
    messages.success(request, "Items are being created. Each one appears in the study as soon as it is ready.")
    return job.pk
