"""Lists of one-time links: made here, downloaded as CSV, with what became of each."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_safe

from webapp.core.rights import Right
from webapp.dashboard.access import needs
from webapp.dashboard.recruiting import participant_link
from webapp.dashboard.views.study import study_of, study_page
from webapp.studies.one_time_links import (
    MOST_AT_ONCE,
    MOST_DAYS,
    link_table,
    links_make,
    links_of,
)


class LinksForm(forms.Form):
    """Form for one-time links: number, purpose, and days of validity."""

    n = forms.IntegerField(label="How many", min_value=1, max_value=MOST_AT_ONCE)
    label = forms.CharField(
        label="What for",
        required=False,
        max_length=100,
        help_text="For you: the class or mailing that they go to.",
    )
    days = forms.IntegerField(
        label="Days they may be used",
        required=False,
        min_value=1,
        max_value=MOST_DAYS,
        help_text="Empty: for ever.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        for field in self.fields.values():
            field.widget.attrs["class"] = "input"


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def links(request: HttpRequest, key: str) -> HttpResponse:
    """Show the study's lists of links, or make another."""
    study = study_of(key)
    form = LinksForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        links_make(study=study, **form.cleaned_data)
        return redirect("dashboard:study_links", study.key)
    return study_page(
        request,
        "links.html",
        study,
        "links",
        form=form,
        lists=links_of(study),
        is_by_links=study.values.recruitment.platform == "links",
        is_open=not study.values.recruitment.platform,
    )


@require_safe
@needs(Right.ADMINISTER)
def links_csv(request: HttpRequest, key: str) -> StreamingHttpResponse:
    """Give the links of one list, or of all, as CSV."""
    study = study_of(key)
    asked = request.GET.get("list", "")
    batch = int(asked) if asked.isdecimal() else None
    rows = link_table(study, participant_link(request, study), batch)
    response = StreamingHttpResponse(_written(rows), content_type="text/csv; charset=utf-8")
    name = f"{study.key}.links{'' if batch is None else f'-{batch}'}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


class _Line:
    """A file whose last line is asked for as soon as it is written."""

    def write(self, text: str) -> str:
        return text


def _written(rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    writer = csv.writer(_Line())
    for row in rows:
        yield writer.writerow(row)
