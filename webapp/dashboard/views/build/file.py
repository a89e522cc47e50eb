"""A study as a file in the browser: downloaded, and brought in with every mistake, or what it would change, told."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_safe

from chatbots.outside import Mistake, ValuesError
from webapp.core.rights import Right
from webapp.core.speaking import plural
from webapp.dashboard.access import needs
from webapp.dashboard.context import page
from webapp.dashboard.views.study import study_of
from webapp.studies.importing import Imported, study_changes, study_import, study_read
from webapp.studies.models import Study
from webapp.studies.selectors import study_found
from webapp.studies.study_file import (
    StudyFile,
    items_lines,
    items_name,
    study_file_of,
    study_file_text,
)

MOST_BYTES = 5_000_000
_TEXT_ENDINGS = (".yaml", ".yml", ".json")


@require_safe
@needs(Right.ADMINISTER)
def download(request: HttpRequest, key: str) -> HttpResponseBase:
    """Send the study's file, which holds completion codes, or with `?items` the items' file of a large study."""
    study = study_of(key)
    if "items" in request.GET:
        name, answer = (
            items_name(study),
            StreamingHttpResponse(items_lines(study), content_type="application/x-ndjson"),
        )
    else:
        name = f"{study.key}.yaml"
        text = study_file_text(study_file_of(study))
        answer = HttpResponse(text, content_type="application/yaml; charset=utf-8")  # type: ignore[assignment]
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def upload(request: HttpRequest, key: str = "") -> HttpResponse:
    """Take a study's file: without a key a new study or a change of the one it names, with one a change of that."""
    study = study_of(key) if key else None
    if request.method != "POST":
        return _page(request, study)
    with tempfile.TemporaryDirectory(prefix="confab-study-") as folder:
        text, wrong = _taken(request, Path(folder))
        if wrong:
            return _page(request, study, mistakes=[Mistake("", wrong)])
        try:
            file = study_read(text, key=key)
            there = study_found(file.key)
            changes = study_changes(there, file) if there else []
            if changes and "_sure" not in request.POST and not isinstance(file.items, str):
                return _page(request, there, changes=changes, text=text, file=file)
            done = study_import(file=file, folder=Path(folder), author=request.user.get_username())
        except ValuesError as error:
            return _page(request, study, mistakes=list(error.mistakes), text=text)
    _tell(request, done)
    return redirect("dashboard:study_build_step", done.study.key, "check")


def _taken(request: HttpRequest, folder: Path) -> tuple[str, str]:
    """Return the text of the study's file, and why there is none; a file of items beside it is put into the folder."""
    text = request.POST.get("text", "")
    for file in request.FILES.getlist("file"):
        name = Path(file.name or "").name
        if name.lower().endswith(_TEXT_ENDINGS):
            if (file.size or 0) > MOST_BYTES:
                return "", f"“{name}” has more than {MOST_BYTES // 1_000_000} MB."
            try:
                text = file.read().decode("utf-8-sig")
            except UnicodeDecodeError:
                return "", f"“{name}” is no text in UTF-8."
        elif name.lower().endswith((".jsonl", ".jsonl.gz")):
            with (folder / name).open("wb") as handle:
                for chunk in file.chunks():
                    handle.write(chunk)
        else:
            return "", f"“{name}” is no .yaml or .json file."
    return text, "" if text.strip() else "Choose a study’s file first."


def _tell(request: HttpRequest, done: Imported) -> None:
    if done.is_new:
        said = f"{done.study.name} is a draft."
    elif done.changes:
        n = len(done.changes)
        said = plural(n, "%(n)d setting has changed.", "%(n)d settings have changed.") % {"n": n}
    else:
        said = "The study is as the file says already."
    if done.n_items:
        told = plural(done.n_items, "%(n)d item is new.", "%(n)d items are new.")
        said = f"{said} {told % {'n': done.n_items}}"
    messages.success(request, said)


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
        "build/file.html",
        "studies",
        status=422 if mistakes else 200,
        study=study,
        mistakes=[
            # The path stands by itself on the page, and not once more in the sentence.
            (one.path, one.message.removeprefix(one.path).lstrip(": "))
            for one in mistakes or ()
        ],
        changes=changes or [],
        text=text,
        file=file,
        n_next=study.version.number + 1 if study else 1,
    )
