"""Page on which a person decides about personal data in a study's texts."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.navigation import Link, form_view
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.studies import study_page
from webapp.jobs.services.jobs import jobs_settle
from webapp.studies.models import Study
from webapp.transfer.redaction.review import (
    MOST_NAMES_CHARS,
    hit_decide,
    installed_models,
    list_hits,
    redaction_review,
    rest_replace,
    review_finish,
    search_job,
    search_order,
    summarise_redaction,
)
from webapp.transfer.redaction.rules import KINDS

_PAGE_HITS = 50


@form_view(to_post=[Right.ADMINISTER])
def redaction(request: HttpRequest, study: Study) -> HttpResponse:
    """Show hits to decide about, and store decisions.

    A script sends each decision and gets the number of hits that it covers as JSON; without it, the page reloads.
    """
    if request.method == "POST":
        return _act(request, study)
    jobs_settle()
    running, summary, review = search_job(study), summarise_redaction(study), redaction_review(study)
    kind = request.GET.get("kind", "")
    kind, is_decided = kind if kind in KINDS else "", request.GET.get("decided") == "1"
    skipped = _number(request.GET, "skip")
    hits = list_hits(study, kind=kind, decided=is_decided, after=skipped, limit=_PAGE_HITS)
    rows = [
        (key, KINDS[key], counter["replace"], counter["keep"], counter[""])
        for key, counter in (summary.counts.items() if summary else ())
    ]
    n_listed = sum(
        (replaced + kept) if is_decided else undecided
        for key, _title, replaced, kept, undecided in rows
        if kind in ("", key)
    )
    return study_page(
        request,
        "redaction.html",
        study,
        "report",
        review=review,
        summary=summary,
        making=job_context(running, "redaction") if running is not None else None,
        models=installed_models(),
        most_names_chars=MOST_NAMES_CHARS,
        counts=rows,
        kind=kind,
        kind_title=KINDS.get(kind, ""),
        is_decided=is_decided,
        decisions=[
            Link("Undecided", f"{_address(study, kind, False)}#hits", not is_decided),
            Link("Decided", f"{_address(study, kind, True)}#hits", is_decided),
        ],
        hits=hits,
        n_listed=n_listed,
        skipped=skipped,
        next_skip=skipped + _PAGE_HITS if n_listed > skipped + _PAGE_HITS else None,
        here=_address(study, kind, is_decided),
    )


def _act(request: HttpRequest, study: Study) -> HttpResponse:
    form_data = request.POST
    wants_json = request.headers.get("Accept") == "application/json"
    result: dict[str, Any] = {}
    try:
        match form_data.get("what", ""):
            case "search":
                search_order(
                    study=study,
                    names=form_data.get("names", ""),
                    model=form_data.get("model", ""),
                    created_by=request.user,
                )
            case "decide":
                decision, everywhere = form_data.get("decision", ""), form_data.get("everywhere") == "1"
                pk = _number(form_data, "hit")
                result["n"] = hit_decide(study=study, pk=pk, decision=decision, everywhere=everywhere)
            case "rest":
                n_hits = rest_replace(study=study, kind=form_data.get("kind", ""))
                messages.success(request, f"{n_hits} hits will be replaced.")
            case "finish":
                review_finish(study=study)
                messages.success(request, "The review is finished. Redacted files and publish use it.")
    except Refused as error:
        if wants_json:
            return JsonResponse({"error": error.message}, status=400)
        messages.error(request, error.message)
    if wants_json:
        return JsonResponse(result)
    return redirect(_address(study, form_data.get("kind", ""), form_data.get("decided") == "1"))


def _address(study: Study, kind: str, is_decided: bool) -> str:
    query = QueryDict(mutable=True)
    if kind in KINDS:
        query["kind"] = kind
    if is_decided:
        query["decided"] = "1"
    return f"{reverse('dashboard:study_redaction', args=[study.key])}?{query.urlencode()}"


def _number(values: QueryDict, name: str) -> int:
    text = values.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
