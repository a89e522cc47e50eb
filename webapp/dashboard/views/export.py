"""Downloads of a study's tables, streamed in constant memory."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Iterator
from typing import cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from webapp.core.rights import Right, may
from webapp.dashboard.access import refusal, staff_only
from webapp.dashboard.forms import ExportForm
from webapp.dashboard.views.study import study_of, study_page
from webapp.studies.models import Study
from webapp.transfer.exporters.base import (
    Exporter,
    ExportOptions,
    exporter_counts,
    exporter_get,
    exporter_list,
)
from webapp.transfer.writers import CONTENT_TYPES, Format, stream

_ORDER = ["ratings", "conversations", "messages", "metrics", "participants", "consent_texts"]


def _tables(study: Study) -> list[tuple[Exporter, int | None]]:
    """Return the exporters, the main ones first, with how many rows of the database each reads."""
    counts = exporter_counts(study, ExportOptions())
    known = {name: i for i, name in enumerate(_ORDER)}
    exporters = sorted(exporter_list(), key=lambda e: (known.get(e.name, len(known)), e.name))
    return [(exporter, counts.get(exporter.name)) for exporter in exporters]


@require_safe
@staff_only
def export(request: HttpRequest, key: str) -> HttpResponseBase:
    """Show the form; with `what` and `format` in the address, send the file."""
    study = study_of(key)
    choices = [(exporter.name, exporter.title) for exporter in exporter_list()]
    form = ExportForm(request.GET if "what" in request.GET else None, tables=choices)
    if form.is_bound and form.is_valid():
        exporter, options = exporter_get(form.cleaned_data["what"]), _options(form)
        return refusal(request, *rights_of(exporter, options)) or _download(
            study, exporter, options, form.cleaned_data["format"]
        )
    tables = [
        (exporter, n)
        for exporter, n in _tables(study)
        if may(request.user, *rights_of(exporter, ExportOptions()))
    ]
    return study_page(
        request,
        "export.html",
        study,
        "export",
        tables=[(e, n) for e, n in tables if n is not None],
        others=[e for e, n in tables if n is None],
        form=form,
        command=f"{settings.CONFAB_PROGRAM} export --study {shlex.quote(study.key)} --what ratings --format csv "
        "--output ratings.csv",
        status=400 if form.is_bound else 200,
    )


def rights_of(exporter: Exporter, options: ExportOptions) -> list[Right]:
    """Return the rights that a file needs: its table's, and that to private data where such data are asked for."""
    private = [Right.PRIVATE] if options.include_private else []
    return [getattr(exporter, "right", Right.READ), *private]


def _options(form: ExportForm) -> ExportOptions:
    data = form.cleaned_data
    return ExportOptions(
        include_synthetic=data["include_synthetic"],
        include_failed=data["include_failed"],
        include_private=data["include_private"],
    )


def _download(
    study: Study, exporter: Exporter, options: ExportOptions, file_format: Format
) -> StreamingHttpResponse:
    pieces = stream(file_format, exporter.columns(study, options), exporter.rows(study, options))
    response = StreamingHttpResponse(_each(pieces), content_type=CONTENT_TYPES[file_format])
    name = f"{study.key}-{exporter.name}{'-private' if options.include_private else ''}"
    response["Content-Disposition"] = f'attachment; filename="{name}.{file_format}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


async def _each(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces one after another; of a plain iterator the server would read all at once."""
    end = object()
    following = sync_to_async(next)
    while (piece := await following(pieces, end)) is not end:  # type: ignore[call-arg]
        yield cast(bytes, piece)
