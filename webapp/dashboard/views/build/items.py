"""Bringing items into a study, from a file or drawn from stored conversations by a worker, and taking them out."""

from __future__ import annotations

import tempfile
from pathlib import Path

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from evaluation.items import items_read
from webapp.conversations.brought_in import conversation_set_remove
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.core.speaking import plural
from webapp.dashboard.access import needs
from webapp.dashboard.build.base import Plan
from webapp.dashboard.build.checking import scales_asked
from webapp.dashboard.build.gold import GoldForm
from webapp.dashboard.build.items import ItemDrawForm, ItemFileForm, compares_pairs
from webapp.dashboard.build.sources import ConversationFileForm
from webapp.dashboard.views.study import study_of
from webapp.runs.services.jobs import job_create
from webapp.studies.examples import items_sample
from webapp.studies.importing import items_bring
from webapp.studies.item_sets import item_set_remove
from webapp.studies.items import ItemsReport, items_import, origin_of_file
from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import judges_conversations, judges_items
from webapp.studies.study_file import FileItem, items_of_file
from webapp.transfer.jobs import import_conversations
from webapp.transfer.samples import conversations_sample
from webapp.transfer.services import records_store
from webapp.transfer.uploads import upload_errors

_TOLD = 10


@require_POST
@needs(to_post=[Right.ADMINISTER, Right.RUN])
def items_add(request: HttpRequest, key: str) -> HttpResponse:
    """Take in a file of items or conversations, or a sample of them, ask a worker to draw items, or take a set out."""
    study = study_of(key)
    if "_take_out" in request.POST:
        _take_out(request, study)
        return redirect("dashboard:study_build_step", key, "bots")
    if judges_conversations(study):
        _conversations(request, study)
        return redirect("dashboard:study_build_step", key, "bots")
    if not judges_items(study):
        raise Http404(f"nobody judges items in {key}")
    if "_sample" in request.POST:
        sample = [
            FileItem.model_validate(one) for one in items_sample(protocols.get(study.protocol))
        ]
        _tell(request, ItemsReport(items=items_bring(study, sample)))
    elif request.FILES:
        _load(request, study)
    else:
        job = _draw(request, study)
        if job is not None:
            return redirect("dashboard:job", "items", job)
    return redirect("dashboard:study_build_step", key, "bots")


@require_POST
@needs(to_post=[Right.ADMINISTER])
def gold(request: HttpRequest, key: str) -> HttpResponse:
    """Store the right answers to one item."""
    study = study_of(key)
    form = GoldForm(request.POST, study=study, questions=scales_asked(Plan(study)))
    if not form.is_valid():
        messages.error(request, " ".join(str(one) for told in form.errors.values() for one in told))
    else:
        try:
            form.store()
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
        else:
            messages.success(request, "The right answers are saved.")
    return redirect("dashboard:study_build_step", key, "checks")


def _load(request: HttpRequest, study: Study) -> None:
    form = ItemFileForm(request.POST, request.FILES, study=study)
    if not form.is_valid():
        messages.error(request, " ".join(map(str, form.errors["file"])))
        return
    upload = form.cleaned_data["file"]
    with tempfile.TemporaryDirectory(prefix="confab-items-") as folder:
        ending = ".jsonl.gz" if upload.name.lower().endswith(".gz") else ".jsonl"
        path = Path(folder) / f"items{ending}"
        _write(upload, path)
        try:
            with upload_errors(path, upload.name):
                origin = origin_of_file(study, upload.name, path)
                if compares_pairs(study):
                    new = items_bring(study, items_of_file(path), origin=origin)
                    report = ItemsReport(items=new)
                else:
                    report = items_import(study=study, lines=items_read(path), origin=origin)
        except Refused as error:
            messages.error(request, f"The file could not be read: {error}")
            return
    _tell(request, report)


def _conversations(request: HttpRequest, study: Study) -> None:
    """Store the conversations of a file or of the sample; done twice it changes nothing."""
    if "_sample" in request.POST:
        n = records_store(study=study, records=conversations_sample()).conversations
        _told_new(request, n)
        return
    form = ConversationFileForm(request.POST, request.FILES)
    if not form.is_valid():
        messages.error(request, " ".join(str(one) for told in form.errors.values() for one in told))
        return
    upload = form.cleaned_data["file"]
    with tempfile.TemporaryDirectory(prefix="confab-conversations-") as folder:
        path = Path(folder) / f"upload{''.join(Path(upload.name.lower()).suffixes[-2:])}"
        _write(upload, path)
        try:
            with upload_errors(path, upload.name):
                report = import_conversations(
                    path, study_key=study.key, language=form.cleaned_data["language"]
                )
        except Refused as error:
            messages.error(request, f"The file could not be read: {error}")
            return
    _told_new(request, report.conversations)
    for one in report.skipped[:_TOLD]:
        words = "Line %(line)d was left out: %(reason)s"
        messages.warning(request, words % {"line": one.line, "reason": one.reason})


def _told_new(request: HttpRequest, n: int) -> None:
    said = plural(n, "%(n)d conversation is new.", "%(n)d conversations are new.")
    messages.success(request, said % {"n": n})


def _take_out(request: HttpRequest, study: Study) -> None:
    remove = conversation_set_remove if judges_conversations(study) else item_set_remove
    try:
        n, n_kept = remove(study=study, name=request.POST["_take_out"])
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
        return
    said = plural(n, "%(n)d is taken out.", "%(n)d are taken out.") % {"n": n}
    if n_kept:
        stay = plural(n_kept, "%(n)d stays.", "%(n)d stay.") % {"n": n_kept}
        said = f"{said} {stay}"
    messages.success(request, said)


def _write(upload: UploadedFile, path: Path) -> None:
    with path.open("wb") as handle:
        for chunk in upload.chunks():
            handle.write(chunk)


def _tell(request: HttpRequest, report: ItemsReport) -> None:
    said = plural(report.items, "%(n)d item is new", "%(n)d items are new") % {"n": report.items}
    there = plural(report.unchanged, "%(n)d was there", "%(n)d were there")
    if report.unchanged:
        said = f"{said}, {there % {'n': report.unchanged}}"
    messages.success(request, f"{said}.")
    for one in report.skipped[:_TOLD]:
        words = "Line %(line)d was left out: %(reason)s"
        messages.warning(request, words % {"line": one.line, "reason": one.reason})
    more = len(report.skipped) - _TOLD
    if more > 0:
        told = plural(more, "And %(n)d more line.", "And %(n)d more lines.")
        messages.warning(request, told % {"n": more})


def _draw(request: HttpRequest, study: Study) -> int | None:
    form = ItemDrawForm(request.POST, study=study)
    if not form.is_valid():
        for field, sentences in form.errors.items():
            label = form.fields[field].label if field in form.fields else ""
            messages.error(request, f"{label}: {' '.join(map(str, sentences))}")
        return None
    try:
        job = job_create(
            kind="items",
            payload=form.asked(),
            study=study,
            created_by=request.user,  # type: ignore[arg-type]
        )
    except Refused as refused:
        messages.error(request, str(refused))
        return None
    messages.success(request, "Items are being made. They stand in the study as they come.")
    return job.pk
