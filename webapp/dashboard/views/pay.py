"""Pay screen: the list of submissions, details of one, and decisions."""

from __future__ import annotations

import io
import tempfile
import uuid
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    QueryDict,
    StreamingHttpResponse,
)
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.core.rights import Right, may
from webapp.dashboard import pay_list
from webapp.dashboard.navigation import requires
from webapp.dashboard.pay_forms import BonusForm, RejectForm, ResultsFileForm
from webapp.dashboard.pay_list import pay_details
from webapp.dashboard.recruitment import participant_link, webhook_link
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.studies import study_of, study_page
from webapp.jobs.services.jobs import jobs_settle
from webapp.pay import sending, services
from webapp.pay.flags.base import flags_of
from webapp.pay.mturk import mturk_file, results_filled
from webapp.pay.platform_status import comparison_newest, hook_newest, platform_job
from webapp.pay.prolific import Prolific, ProlificError, codes_by_setting, codes_left
from webapp.pay.submissions import Submission, codes_shown, submissions_of
from webapp.studies.models import Study

_IN_MEMORY_BYTES = 2_500_000
"""A larger results file lies on the disk while it is filled in and sent back."""
_PIECE_BYTES = 65_536


@require_safe
@requires(Right.PAY)
def pay(request: HttpRequest, key: str) -> HttpResponse:
    """Show everybody who began."""
    return _page(request, study_of(key), pay_list.PayFilters.of(request.GET))


@require_safe
@requires(Right.PAY)
def person(request: HttpRequest, key: str, participant_id: UUID) -> HttpResponse:
    """Show one person's visit, beside the list where there is room."""
    filters = pay_list.PayFilters.of(request.GET)
    name = f"{participant_id.hex}~{request.GET.get('visit', '')}"
    return _page(request, study_of(key), filters, name)


def _page(
    request: HttpRequest,
    study: Study,
    filters: pay_list.PayFilters,
    chosen: str | None = None,
    *,
    forms: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    with_ids = may(request.user, Right.PRIVATE)
    visits = submissions_of(study)
    flags = flags_of(visits)
    found = pay_list.pay_list(visits, flags, filters, codes_shown, with_ids=with_ids)
    shown = None
    if chosen is not None:
        visit = visits.by_name.get(chosen)
        if visit is None:
            raise Http404("no such visit")
        shown = pay_details(study, visit, flags.get(visit.key, []), with_ids=with_ids)
    return study_page(
        request,
        "pay.html",
        study,
        "pay",
        status=status,
        found=found,
        filters=filters,
        query=filters.query(),
        earlier=filters.query(page=filters.page - 1),
        later=filters.query(page=filters.page + 1),
        shown=[(name, title, n, filters.query(show=name, page=1)) for name, title, n in found.shown],
        person=shown,
        asked=uuid.uuid4(),
        forms=forms or {"reject": RejectForm(), "bonus": BonusForm()},
        with_ids=with_ids,
        platform=study.values.recruitment.platform,
        can_send=sending.can_send(),
        compared=comparison_newest(study),
        **_hook(request, study),
        running=_running(study),
        reason_least=services.REASON_LEAST_CHARS.get(shown.platform, 0) if shown else 0,
    )


def _hook(request: HttpRequest, study: Study) -> dict[str, Any]:
    """Return the setup and newest event of Prolific's webhook; empty for other platforms."""
    if study.values.recruitment.platform != "prolific":
        return {}
    return {
        "hook": webhook_link(study, participant_link(request, study)),
        "has_hook_secret": bool(settings.CONFAB_PROLIFIC_HOOK_SECRET),
        "hook_told": hook_newest(study),
    }


def _running(study: Study) -> dict[str, Any] | None:
    """Return the progress of what is under way with the platform, or of what failed last."""
    jobs_settle()
    job = platform_job(study)
    return job_context(job, job.kind) if job is not None else None


@require_POST
@requires(Right.PAY)
def decide(request: HttpRequest, key: str) -> HttpResponse:
    """Do what the form's button says: decide, take back, send, mark as sent, or compare with the platform."""
    study = study_of(key)
    actions = {
        "approve": _approve,
        "approve_all": _approve_all,
        "reject": _reject,
        "bonus": _bonus,
        "undo": _undo,
        "sent": _sent,
        "retry": _retry,
        "retry_all": _retry_all,
        "send": _send,
        "compare": _compare,
    }
    action = actions.get(request.POST.get("action", ""))
    if action is None:
        raise Http404("no such action")
    try:
        return action(request, study)
    except Refused as refused:
        messages.error(request, refused.message)
        return _back(request, study)


def _approve(request: HttpRequest, study: Study) -> HttpResponse:
    by_name = submissions_of(study).by_name
    keys = [by_name[name].key for name in request.POST.getlist("visit") if name in by_name]
    if not keys:
        messages.error(request, "Tick whom to approve first.")
        return _back(request, study)
    _approved(request, services.visits_approve(study=study, keys=keys, by=request.user))  # type: ignore[arg-type]
    return _back(request, study)


def _approve_all(request: HttpRequest, study: Study) -> HttpResponse:
    """Approve all visits that wait for it and have no flags, or all that broke through our fault."""
    wanted = pay_list.OURS if request.POST.get("of") == pay_list.OURS else pay_list.APPROVE
    visits = submissions_of(study)
    flags = flags_of(visits, exact=True)
    keys = [visit.key for visit in visits.all if pay_list.state_of(visit, flags.get(visit.key, [])) == wanted]
    _approved(request, services.visits_approve(study=study, keys=keys, by=request.user))  # type: ignore[arg-type]
    return _back(request, study)


def _approved(request: HttpRequest, n: int) -> None:
    if not n:
        messages.info(request, "Nothing was left to approve.")
        return
    words = plural(n, "%(n)d visit is approved", "%(n)d visits are approved") % {"n": n}
    messages.success(request, f"{words}. Nothing is sent yet.")


def _reject(request: HttpRequest, study: Study) -> HttpResponse:
    """Reject one visit once its name is confirmed."""
    visit = _visit(request, study)
    form = RejectForm(request.POST)
    if not form.is_valid():
        return _again(request, study, visit, reject=form)
    data = form.cleaned_data
    try:
        services.rejection_check(study=study, key=visit.key, **data)
    except Refused as refused:
        if refused.code != "short_reason":
            raise
        form.add_error("reason", refused.message)
        return _again(request, study, visit, reject=form)
    if "sure" not in request.POST:
        return _sure(request, study, visit, "reject", form)
    services.visit_reject(study=study, key=visit.key, by=request.user, **data)  # type: ignore[arg-type]
    messages.success(request, "The visit is rejected. Nothing is sent yet.")
    return _back(request, study)


def _bonus(request: HttpRequest, study: Study) -> HttpResponse:
    """Give one visit a bonus once its name is confirmed."""
    visit = _visit(request, study)
    form = BonusForm(request.POST)
    if not form.is_valid():
        return _again(request, study, visit, bonus=form)
    if "sure" not in request.POST:
        return _sure(request, study, visit, "bonus", form)
    services.visit_bonus(
        study=study,
        key=visit.key,
        amount=form.cleaned_data["amount"],
        reason=form.cleaned_data["note"],
        asked=form.cleaned_data["asked"],
        by=request.user,  # type: ignore[arg-type]
    )
    messages.success(request, "The bonus is decided. Nothing is sent yet.")
    return _back(request, study)


def _undo(request: HttpRequest, study: Study) -> HttpResponse:
    services.decision_undo(study=study, pk=_number(request), by=request.user)  # type: ignore[arg-type]
    messages.success(request, "The decision is undone.")
    return _back(request, study)


def _sent(request: HttpRequest, study: Study) -> HttpResponse:
    """Note as sent what stood on the page: somebody else may have decided more since."""
    n = services.decisions_mark_sent(study=study, up_to=_number(request), by=request.user)  # type: ignore[arg-type]
    words = plural(n, "%(n)d decision is", "%(n)d decisions are") % {"n": n}
    messages.success(request, f"{words} marked as sent.")
    return _back(request, study)


def _retry(request: HttpRequest, study: Study) -> HttpResponse:
    """Send once more what could not be sent; where Confab cannot send, it waits for a person again."""
    sending.decision_retry(study=study, pk=_number(request))
    if sending.can_send():
        sending.sending_start(study=study, by=request.user)  # type: ignore[arg-type]
    return _back(request, study)


def _retry_all(request: HttpRequest, study: Study) -> HttpResponse:
    if not sending.can_send():
        raise Refused("no_token", "Confab has no token for Prolific.")
    if not sending.decisions_retry(study=study):
        messages.info(request, "Nothing was left to try again.")
        return _back(request, study)
    return _send(request, study)


def _send(request: HttpRequest, study: Study) -> HttpResponse:
    sending.sending_start(study=study, by=request.user)  # type: ignore[arg-type]
    return _back(request, study)


def _compare(request: HttpRequest, study: Study) -> HttpResponse:
    sending.comparing_start(study=study, by=request.user)  # type: ignore[arg-type]
    return _back(request, study)


def _number(request: HttpRequest) -> int:
    number = request.POST.get("decision", "")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise Http404("no such decision")
    return int(number)


def _visit(request: HttpRequest, study: Study) -> Submission:
    found = submissions_of(study).by_name.get(request.POST.get("visit", ""))
    if found is None:
        raise Http404("no such visit")
    return found


def _sure(request: HttpRequest, study: Study, visit: Submission, action: str, form: Any) -> HttpResponse:
    """Ask once more, naming the person and what will happen."""
    with_ids = may(request.user, Right.PRIVATE)
    settings = study.values.recruitment
    amount = form.cleaned_data.get("amount")
    return study_page(
        request,
        "pay_sure.html",
        study,
        "pay",
        person=pay_details(study, visit, [], with_ids=with_ids),
        action=action,
        fields=[(name, request.POST.get(name, "")) for name in form.fields],
        reason=form.cleaned_data.get("reason") or form.cleaned_data.get("note"),
        amount=pay_list.money(amount, settings.currency) if amount else "",
        query=_filters(request).query(),
    )


def _again(request: HttpRequest, study: Study, visit: Submission, **forms: Any) -> HttpResponse:
    """Show the person with the form that was not taken, and why."""
    return _page(
        request,
        study,
        _filters(request),
        str(visit.key),
        forms={"reject": RejectForm(), "bonus": BonusForm(), **forms},
        status=400,
    )


def _filters(request: HttpRequest) -> pay_list.PayFilters:
    return pay_list.PayFilters.of(QueryDict(request.POST.get("query", "")))


def _back(request: HttpRequest, study: Study) -> HttpResponse:
    """Lead back to the list with its filters, or to the person that it was about."""
    query = _filters(request).query()
    person, _mark, visit = request.POST.get("person", "").partition("~")
    try:
        participant = UUID(hex=person)
    except ValueError:
        where = reverse("dashboard:study_pay", args=[study.key])
        return redirect(f"{where}?{query}" if query else where)
    where = reverse("dashboard:study_pay_person", args=[study.key, participant])
    own = QueryDict(mutable=True)
    own["visit"] = visit
    # To the person's heading, where whoever goes by keyboard was.
    return redirect(f"{where}?{own.urlencode()}{'&' if query else ''}{query}#c-person")


@require_POST
@requires(Right.ADMINISTER)
def codes(request: HttpRequest, key: str) -> JsonResponse:
    """Return the completion codes that a study has at Prolific, by the settings that they belong in."""
    study_of(key)
    try:
        with Prolific() as prolific:
            found = prolific.codes(request.POST.get("prolific_study", "").strip())
    except ProlificError as error:
        return JsonResponse({"error": error.message}, status=502)
    return JsonResponse(
        {
            "codes": codes_by_setting(found),
            "others": [{"code": one.code, "kind": one.kind} for one in codes_left(found)],
        }
    )


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Right.PAY, Right.PRIVATE)
def mturk(request: HttpRequest, key: str) -> HttpResponseBase:
    """Send the decisions as the file that Mechanical Turk's requester page takes, or fill in the one that it gave."""
    study = study_of(key)
    if request.method == "POST":
        return _mturk_filled(request, study)
    lines = (line.encode() for line in mturk_file(study))
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{study.key}-mturk.csv"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _mturk_filled(request: HttpRequest, study: Study) -> HttpResponseBase:
    """Send back Mechanical Turk's own results file with the decisions in it; where nothing could be, say so."""
    form = ResultsFileForm(request.POST, request.FILES)
    if not form.is_valid():
        messages.error(request, " ".join(map(str, form.errors["file"])))
        return _back(request, study)
    given = io.TextIOWrapper(form.cleaned_data["file"], "utf-8-sig", newline="")
    kept = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 (closed once it is sent)
    out = io.TextIOWrapper(kept, "utf-8", newline="")  # type: ignore[type-var]
    try:
        filled = results_filled(study, given, out)
    except Refused as refused:
        out.close()
        messages.error(request, refused.message)
        return _back(request, study)
    if not filled.n_filled:
        out.close()
        messages.error(
            request,
            (
                f"Nothing could be filled in: {filled.n_open} rows have no decision yet, and {filled.n_unknown} "
                "belong to no participant of this study."
            ),
        )
        return _back(request, study)
    out.flush()
    kept.seek(0)
    response = StreamingHttpResponse(
        iter(lambda: kept.read(_PIECE_BYTES), b""),
        content_type="text/csv; charset=utf-8",
    )
    response._resource_closers.append(out.close)  # type: ignore[attr-defined]
    response["Content-Disposition"] = f'attachment; filename="{study.key}-mturk-results.csv"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
