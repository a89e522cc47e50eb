"""Report of a study: page, file, links, and the shared report.

The page has sections for exports, the package and the datasheet. Readers without an account can open a shared report.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.core.rights import Right, may
from webapp.dashboard.filters import apply_flag_filter, requested_flags
from webapp.dashboard.folded_sections import FoldedSection
from webapp.dashboard.forms import ExportForm, PackageForm, ShareForm
from webapp.dashboard.navigation import Link, form_view, post_view, read_view
from webapp.dashboard.render import body_html, report_html
from webapp.dashboard.views.export import (
    datasheet_file,
    datasheet_section,
    export_form,
    export_section,
    package_section,
    plan_file,
    search_error,
    send_file,
)
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.studies import kept_in_address, study_page, synthetic_asked
from webapp.insights.report_document import Document, document_dump, document_load
from webapp.insights.report_files import KIND, report_ask, report_newest, report_read, report_state, reports_of
from webapp.insights.report_paper import LIKE
from webapp.jobs.models import State
from webapp.jobs.services.jobs import jobs_settle
from webapp.results.fingerprint import analysed_counts
from webapp.studies.lifecycle import datasheet_store
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol
from webapp.transfer.datasheet import datasheet_of
from webapp.transfer.job_files import PACKAGE
from webapp.transfer.report_links import (
    share_document,
    share_find,
    share_is_over,
    share_make,
    share_withdraw,
    shares_of,
)

MOST_NAMES = 50
_FOLDS = (
    ("preview", "Read the report", "The report with the sections chosen above, as in the file.", Right.READ),
    ("export", "Export", "Ratings, conversations and other tables as CSV, JSON Lines or Parquet.", Right.READ),
    (
        "package",
        "Data package",
        ("All tables in one zip file for publication, with codebook, study file and digests."),
        Right.PAY,
    ),
    (
        "datasheet",
        "Datasheet",
        "Information that readers need to assess or repeat the evaluation (HEDS 3.0).",
        Right.READ,
    ),
)
"""Folded sections of the page: id, title, summary, and required right."""


def sections_asked(request: HttpRequest) -> list[str]:
    """Return the names of the sections in the address; empty for all."""
    names = [name for value in request.GET.getlist("sections") for name in value.split(",") if name]
    return list(dict.fromkeys(names))[:MOST_NAMES]


def address_with(request: HttpRequest, sections: Sequence[str]) -> str:
    """Return the report's query string (participants, layout, sections)."""
    suffix = kept_in_address(request)
    report_params = {"like": like_asked(request), "sections": ",".join(sections)}
    query = urlencode({name: value for name, value in report_params.items() if value}, safe=",")
    return f"{suffix}{'&' if suffix else '?'}{query}" if query else suffix


def like_asked(request: HttpRequest) -> str:
    """Return the paper whose numbering the address requests.

    "" for Confab's own.

    Raises:
        Http404: reports cannot follow this paper.
    """
    like = request.GET.get("like", "")
    if like and like not in LIKE:
        raise Http404(f"Unknown paper “{like}”. Choose from {', '.join(LIKE)}.")
    return like


@form_view()
def report(request: HttpRequest, study: Study) -> HttpResponse:
    """Show the report and the choice of its sections.

    POST lets a worker create one.
    """
    if request.method == "POST":
        request.GET = _merge_parameters(request)  # type: ignore[assignment]
        try:
            report_ask(
                study=study,
                created_by=request.user,  # type: ignore[arg-type]
                like=like_asked(request),
                **_participant_filter(request, study),
            )
        except Refused as error:
            messages.error(request, error.message)
        suffix = address_with(request, sections_asked(request))
        return redirect(reverse("dashboard:study_report", args=[study.key]) + suffix)
    return _page(request, study)


@never_cache
@post_view(to_post=[Right.ADMINISTER])
def share(request: HttpRequest, study: Study) -> HttpResponse:
    """Create a link to the newest report with the chosen sections.

    The link is shown once.
    """
    form = ShareForm(request.POST)
    document = _newest(request, study)
    if document is None:
        raise Http404("There is no report yet. Create one on the report page.")
    if not form.is_valid():
        return _page(request, study, share_form=form, status=400)
    chosen = document.chosen(sections_asked(request))
    try:
        _row, token = share_make(
            study=study,
            document=document_dump(chosen),
            report_made_at=document.made,
            made_by=request.user,  # type: ignore[arg-type]
            **form.cleaned_data,
        )
    except Refused as error:
        form.add_error(None, error.message)
        return _page(request, study, share_form=form, status=400)
    link = request.build_absolute_uri(reverse("shared:report", args=[token]))
    return _page(request, study, link=link)


@post_view(to_post=[Right.ADMINISTER])
def share_end(request: HttpRequest, study: Study, pk: int) -> HttpResponse:
    """Withdraw a link to a report of the study."""
    selected_share = get_object_or_404(shares_of(study), pk=pk)
    share_withdraw(share=selected_share)
    messages.success(request, f"The link for “{selected_share.name}” has been withdrawn.")
    return redirect("dashboard:study_report", study.key)


def _merge_parameters(request: HttpRequest) -> QueryDict:
    """Merge the parameters of a POST's form into those of its address."""
    merged = request.GET.copy()
    for name in ("synthetic", "without", "like", "sections"):
        if name in request.POST:
            merged.setlist(name, request.POST.getlist(name))
    return merged


def _participant_filter(request: HttpRequest, study: Study) -> dict[str, Any]:
    """Return the participants included in the report."""
    return {"include_synthetic": synthetic_asked(request), "without": apply_flag_filter(request, study)}


def _newest(request: HttpRequest, study: Study) -> Document | None:
    """Return the newest report on the address's participants."""
    excluded_flags = requested_flags(request)
    job = report_newest(
        study, include_synthetic=synthetic_asked(request), without=excluded_flags, like=like_asked(request)
    )
    return report_read(job) if job is not None else None


def report_address(request: HttpRequest, study: Study, part: str) -> str:
    """Return the address of a section of the page, with this page's parameters."""
    query = request.GET.copy()
    query["part"] = part
    return f"{reverse('dashboard:study_report', args=[study.key])}?{query.urlencode()}#{part}"


def _page(
    request: HttpRequest,
    study: Study,
    *,
    share_form: ShareForm | None = None,
    refused: ExportForm | None = None,
    link: str = "",
    status: int = 200,
) -> HttpResponse:
    participant_filter, section_ids = _participant_filter(request, study), sections_asked(request)
    here = reverse("dashboard:study_report", args=[study.key])  # links of a shared report's POST also lead there
    jobs_settle()
    like = like_asked(request)
    newest = reports_of(study, **participant_filter, like=like).first()
    made_job = report_newest(study, **participant_filter, like=like)
    document = report_read(made_job) if made_job is not None else None
    state = report_state(study, **participant_filter)
    counts = analysed_counts(study, n_ratings=state.n_ratings, **participant_filter)
    chosen = address_with(request, section_ids)
    is_export = request.resolver_match.url_name == "study_export"  # type: ignore[union-attr]
    part = "export" if is_export else request.GET.get("part", "")
    of_part: dict[str, Any] = {}
    if part == "preview" and document is not None:
        of_part = {"preview": body_html(document, tuple(section_ids), 2)}
    elif part == "export":
        of_part = export_section(request, study, form=refused)
    elif part == "package" and may(request.user, Right.PAY):
        of_part = package_section(request, study)
    elif part == "datasheet":
        of_part = datasheet_section(request, study)
    return study_page(
        request,
        "report.html",
        study,
        "report",
        leaves_out=True,
        n_ratings=counts.n_ratings,
        n_measured=counts.n_measured,
        n_fits=counts.n_fits,
        made=made_job if document is not None else None,
        is_current=document is not None and made_job is not None and made_job.key.endswith(f":{state.digest}"),
        n_since=max(counts.n_ratings - document.n_ratings, 0) if document else 0,
        running=job_context(newest, KIND) if newest is not None and not newest.is_over else None,
        failed=newest if newest is not None and newest.state == State.FAILED else None,
        choices=[(c.id, c.title, not section_ids or c.id in section_ids) for c in document.chapters]
        if document
        else [],
        unknown=document.unknown(section_ids) if document else [],
        known=", ".join(chapter.id for chapter in document.chapters) if document else "",
        sections=",".join(section_ids),
        like=like,
        can_be_like=not (get_protocol(study).judges_items or get_protocol(study).compares_pairs),
        layouts=[
            Link("Confab’s report", here + kept_in_address(request), not like),
            Link(
                "As in the 2019 paper",
                f"{here}{kept_in_address(request) or '?'}&like={LIKE[0]}".replace("?&", "?"),
                bool(like),
            ),
        ],
        chosen=chosen,
        folds=[
            FoldedSection(name, title, conclusion, is_open=name == part)
            for name, title, conclusion, right in _FOLDS
            if (name != "preview" or document is not None) and may(request.user, right)
        ],
        fold_address=here,
        suffix_more=chosen.replace("?", "&"),
        share_form=share_form or ShareForm(),
        shares=list(shares_of(study)),
        link=link,
        now=database_now(),
        status=status,
        **of_part,
    )


@form_view()
def export(request: HttpRequest, study: Study) -> HttpResponseBase:
    """Send the requested table, or let a worker create it.

    Without a table, redirect to the page.

    The form posts. Scripts can put `what` and `format` into the address and get the file of any table directly.
    """
    form_data = request.POST if request.method == "POST" else request.GET
    apply_flag_filter(request, study)
    if request.method != "POST" and "what" not in form_data:
        return redirect(report_address(request, study, "export"))
    form = export_form(form_data)
    if not form.is_valid() or search_error(study, form_data):
        return _page(request, study, refused=form, status=400)
    chosen = form.cleaned_data
    sent = send_file(request, study, chosen.pop("what"), chosen.pop("format"), chosen)
    return sent or redirect(report_address(request, study, "export"))


@form_view(Right.PAY)
def package(request: HttpRequest, study: Study) -> HttpResponseBase:
    """Send the data package, or let a worker create it.

    Without a POST, redirect to the page.
    """
    form = PackageForm(request.POST if request.method == "POST" else None)
    sent = send_file(request, study, PACKAGE, "zip", form.cleaned_data) if form.is_valid() else None
    return sent or redirect(report_address(request, study, "package"))


@form_view(to_post=[Right.ADMINISTER])
def datasheet(request: HttpRequest, study: Study) -> HttpResponseBase:
    """Store answers to the datasheet's questions, or send it as a file.

    `format` selects the file; otherwise redirect to the page.
    """
    if request.method == "POST":
        answers = {entry.key: request.POST[entry.key] for entry in datasheet_of(study) if entry.key in request.POST}
        datasheet_store(study=study, answers=answers)
        messages.success(request, "Your answers have been saved in the datasheet.")
    elif request.GET.get("format") == "plan":
        return plan_file(study)
    elif (ending := request.GET.get("format", "")) in ("md", "json"):
        return datasheet_file(study, ending)
    return redirect(report_address(request, study, "datasheet"))


@read_view()
def report_file(request: HttpRequest, study: Study) -> HttpResponse:
    """Send the newest report with the address's sections, as a file."""
    document = _newest(request, study)
    if document is None:
        raise Http404("There is no report yet. Create one on the report page.")
    section_ids = sections_asked(request)
    if unknown := document.unknown(section_ids):
        known = ", ".join(chapter.id for chapter in document.chapters)
        raise Http404(f"The report has no section “{unknown[0]}”. Available sections: {known}.")
    record(DOWNLOAD, study, file="report")
    # Send as an attachment: the file has its own policy, and the site's would disable its style.
    return HttpResponse(
        report_html(document.chosen(section_ids)),
        content_type="text/html; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{study.key}-{like_asked(request) or "report"}.html"'},
    )


_PRIVATE = {
    "X-Robots-Tag": "noindex, nofollow, noarchive",
    # The address is the key, so it must not reach other sites or caches.
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}


@require_safe
def shared(request: HttpRequest, token: str) -> HttpResponse:
    """Show the report as it was when it was shared.

    404 for an unknown link, 410 for an ended one.
    """
    share = share_find(token)
    if share is None:
        return _closed(request, "Check the link; a part of it may be missing.")
    if reason := share_is_over(share):
        return _closed(request, reason, status=410)
    document = _document(share.digest)
    if document is None:
        return _closed(
            request, ("It was created by an earlier version of Confab and cannot be read any more."), status=410
        )
    context = {"name": document.name, "body": body_html(document, (), 1), "share": share}
    return _answer(request, "shared_report.html", context, 200)


@lru_cache(maxsize=4)
def _document(digest: str) -> Document | None:
    """Return the document of a link, which never changes.

    None if it cannot be read.
    """
    try:
        return document_load(share_document(digest))
    except ValueError:
        return None


def _closed(request: HttpRequest, reason: str, status: int = 404) -> HttpResponse:
    return _answer(request, "shared_closed.html", {"why": reason}, status)


def _answer(request: HttpRequest, template: str, context: dict[str, Any], status: int) -> HttpResponse:
    answer = render(request, f"dashboard/{template}", context, status=status)
    for name, value in _PRIVATE.items():
        answer[name] = value
    return answer
