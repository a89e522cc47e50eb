"""Decisions about pay, messages, and files of Mechanical Turk.

Decisions are approval, rejection, bonus, undo and submission.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID, uuid4

from django.contrib import messages
from django.core.cache import caches
from django.db import transaction
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

from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.core.rights import Right
from webapp.core.thread_pool import PIECE_BYTES
from webapp.dashboard.navigation import form_view, post_view
from webapp.dashboard.people_forms import BonusForm, MessageForm, PeopleForm, RejectForm, ResultsFileForm
from webapp.dashboard.people_list import APPROVE, NO_FLAGS, OURS, PeopleFilters, state_of
from webapp.dashboard.views.participants import people_reader, person_page
from webapp.dashboard.views.studies import study_page
from webapp.pay import prolific, services
from webapp.pay.flags.base import flags_of
from webapp.pay.prolific import Prolific, ProlificError, codes_by_setting, codes_left
from webapp.pay.services import mturk_file, results_filled
from webapp.pay.submissions import INSIDE, Submission, SubmissionKey, Submissions, submissions_of
from webapp.studies.models import Study
from webapp.studies.recruitment.completion import money_text

_IN_MEMORY_BYTES = 2_500_000
"""Larger results files are on disk while they are filled in and sent back."""


@post_view(Right.PAY)
def decide(request: HttpRequest, study: Study) -> HttpResponse:
    """Carry out the form's button.

    It decides, revokes, sends, marks as sent, or compares with the platform.
    """
    action = _ACTIONS.get(request.POST.get("action", ""))
    if action is None:
        raise Http404("no such action")
    try:
        return action(request, study) or _back(request, study)
    except Refused as refused:
        messages.error(request, refused.message)
        return _back(request, study)


def _approve(request: HttpRequest, study: Study) -> None:
    by_name = submissions_of(study).by_name
    keys = [by_name[name].key for name in request.POST.getlist("visit") if name in by_name]
    if not keys:
        raise Refused("no_visit", "Select visits to approve first.")
    _approved(request, study, keys)


def _approve_all(request: HttpRequest, study: Study) -> None:
    """Approve all waiting visits without flags, or all that our fault ended."""
    target_state = OURS if request.POST.get("of") == OURS else APPROVE
    visits = submissions_of(study)
    flags = flags_of(visits, exact=True)
    keys = [visit.key for visit in visits.all if state_of(visit, flags.get(visit.key, NO_FLAGS)) == target_state]
    _approved(request, study, keys)


def _approved(request: HttpRequest, study: Study, keys: Sequence[SubmissionKey]) -> None:
    n = services.visits_approve(study=study, keys=keys, user=request.user)  # type: ignore[arg-type]
    if not n:
        messages.info(request, "There was nothing left to approve.")
        return
    words = plural(n, "%(n)d visit was approved", "%(n)d visits were approved") % {"n": n}
    messages.success(request, f"{words}. Nothing has been sent yet.")


def _reject(request: HttpRequest, study: Study) -> HttpResponse | None:
    """Reject visits after confirmation, all or none."""
    visits, chosen = _chosen(request, study)
    if any(visit.outcome == INSIDE for visit in chosen):
        raise Refused("inside", "A participant who is still active cannot be rejected.")
    least = max(services.REASON_LEAST_CHARS.get(visit.platform, 0) for visit in chosen)
    is_sure = "sure" in request.POST
    form = RejectForm(request.POST if is_sure else None, initial=request.POST.dict())
    form.fields["reason"].widget.attrs["minlength"] = least or None
    if not least:
        del form.fields["category"]
    if not is_sure or not form.is_valid():
        return _sure(request, visits, chosen, "reject", form)
    data = {"reason": form.cleaned_data["reason"], "category": form.cleaned_data.get("category", "OTHER")}
    try:
        with transaction.atomic():
            for visit in chosen:
                services.visit_reject(study=study, key=visit.key, user=request.user, **data)  # type: ignore[arg-type]
    except Refused as refused:
        if refused.code != "short_reason":
            raise
        form.add_error("reason", refused.message)
        return _sure(request, visits, chosen, "reject", form)
    words = plural(len(chosen), "The visit was rejected.", "%(n)d visits were rejected.") % {"n": len(chosen)}
    messages.success(request, f"{words} Nothing has been sent yet.")
    return None


def _bonus(request: HttpRequest, study: Study) -> HttpResponse | None:
    """Give one visit a bonus after its name is confirmed."""
    visits, [visit, *_rest] = _chosen(request, study)
    form = BonusForm(request.POST)
    if not form.is_valid():
        return person_page(request, visits, visit, _filters(request), bonus=form)
    if "sure" not in request.POST:
        return _sure(request, visits, [visit], "bonus", form)
    services.visit_bonus(
        study=study,
        key=visit.key,
        amount=form.cleaned_data["amount"],
        reason=form.cleaned_data["note"],
        form_id=form.cleaned_data["asked"],
        user=request.user,  # type: ignore[arg-type]
    )
    messages.success(request, "The bonus was saved. Nothing has been sent yet.")
    return None


def _message(request: HttpRequest, study: Study) -> None:
    """Write to one participant by Prolific.

    A form that is sent twice writes once.
    """
    _visits, [visit, *_rest] = _chosen(request, study)
    request_key = f"message:{request.POST.get('asked', '')[:36]}"
    shared = caches["shared"]  # a second click may reach another process
    if not shared.add(request_key, True, timeout=3600):
        raise Refused("sent_before", "This message was already sent.")
    try:
        prolific.message_send(
            study=study, participant_id=visit.key.participant, text=request.POST.get("text", "").strip()
        )
    except Refused:
        shared.delete(request_key)
        raise
    messages.success(request, "The message was sent.")


def _messages(request: HttpRequest, study: Study) -> HttpResponse:
    """Message several participants after confirmation; a worker sends it once to each."""
    visits, chosen = _chosen(request, study, "write to")
    reached = {visit.key.participant: visit for visit in chosen if visit.can_be_written_to}
    if not reached:
        raise Refused("no_recipient", "None of them came from Prolific, and only Prolific can send messages.")
    form = MessageForm(request.POST if "sure" in request.POST else None, initial={"asked": uuid4()})
    if not form.is_valid():
        return _sure(request, visits, list(reached.values()), "messages", form)
    job = prolific.messages_start(
        study=study,
        participants=list(reached),
        user=request.user,  # type: ignore[arg-type]
        text=form.cleaned_data["text"],
        form_id=form.cleaned_data["asked"],
    )
    return redirect("dashboard:job", job.kind, job.pk)


def _undo(request: HttpRequest, study: Study) -> None:
    services.decision_undo(study=study, pk=_number(request), user=request.user)  # type: ignore[arg-type]
    messages.success(request, "The decision was undone.")


def _sent(request: HttpRequest, study: Study) -> None:
    """Mark the decisions shown on the page as sent.

    Other users may have added decisions since.
    """
    n = services.decisions_mark_sent(study=study, up_to=_number(request), user=request.user)  # type: ignore[arg-type]
    words = plural(n, "%(n)d decision is", "%(n)d decisions are") % {"n": n}
    messages.success(request, f"{words} marked as sent.")


def _retry(request: HttpRequest, study: Study) -> None:
    """Send failed decisions again.

    If Confab cannot send them, they wait for a user again.
    """
    prolific.decision_retry(study=study, pk=_number(request))
    if prolific.can_send():
        _send(request, study)


def _retry_all(request: HttpRequest, study: Study) -> None:
    if not prolific.can_send():
        raise Refused("no_token", "Confab has no token for Prolific.")
    if prolific.decisions_retry(study=study):
        _send(request, study)
    else:
        messages.info(request, "There was nothing left to retry.")


def _bonus_all(request: HttpRequest, study: Study) -> None:
    n = services.all_parts_bonus(study=study, user=request.user)  # type: ignore[arg-type]
    words = plural(n, "%(n)d person gets the bonus", "%(n)d people get the bonus") % {"n": n}
    messages.success(request, f"{words} for completing all parts. Nothing has been sent yet.")


def _send(request: HttpRequest, study: Study) -> None:
    prolific.sending_start(study=study, user=request.user)  # type: ignore[arg-type]


def _cancel_send(request: HttpRequest, study: Study) -> None:
    prolific.sending_cancel(study=study)
    messages.success(request, "Nothing was sent. The decisions are kept, and you can still undo them.")


def _compare(request: HttpRequest, study: Study) -> None:
    prolific.comparing_start(study=study, user=request.user)  # type: ignore[arg-type]


_ACTIONS: dict[str, Callable[[HttpRequest, Study], HttpResponse | None]] = {
    "approve": _approve,
    "approve_all": _approve_all,
    "reject": _reject,
    "bonus": _bonus,
    "bonus_all": _bonus_all,
    "message": _message,
    "messages": _messages,
    "undo": _undo,
    "sent": _sent,
    "retry": _retry,
    "retry_all": _retry_all,
    "send": _send,
    "cancel_send": _cancel_send,
    "compare": _compare,
}
"""Actions by the value of the button; those that return nothing redirect back."""


def _number(request: HttpRequest) -> int:
    number = request.POST.get("decision", "")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise Http404("no such decision")
    return int(number)


def _chosen(request: HttpRequest, study: Study, verb: str = "reject") -> tuple[Submissions, list[Submission]]:
    """Return all visits, and those selected in the form.

    At least one must be selected.

    Raises:
        Http404: one of them belongs to another study.
        Refused: none is selected.
    """
    visits, names = submissions_of(study), request.POST.getlist("visit")
    if not names:
        raise Refused("no_visit", f"Select visits to {verb} first.")
    if not visits.by_name.keys() >= set(names):
        raise Http404("no such visit")
    return visits, [visits.by_name[name] for name in dict.fromkeys(names)]


def _sure(
    request: HttpRequest, visits: Submissions, chosen: Sequence[Submission], action: str, form: PeopleForm
) -> HttpResponse:
    """Ask for confirmation, naming the participants and the effect."""
    amount = form.cleaned_data.get("amount") if action == "bonus" else None
    return study_page(
        request,
        "pay_sure.html",
        visits.study,
        "people",
        status=400 if form.errors else 200,
        rows=people_reader(request, visits, None).rows(chosen),
        action=action,
        form=form,
        amount=money_text(amount, visits.study.values.recruitment.currency) if amount else "",
        person=request.POST.get("person", ""),
        back=_address(request, visits.study),
        query=_filters(request).query(),
    )


def _filters(request: HttpRequest) -> PeopleFilters:
    return PeopleFilters.from_query(QueryDict(request.POST.get("query", "")), pays=True)


def _back(request: HttpRequest, study: Study) -> HttpResponse:
    return redirect(_address(request, study))


def _address(request: HttpRequest, study: Study) -> str:
    """Return the address of the filtered list, or of the form's participant."""
    query = _filters(request).query()
    person, _mark, visit = request.POST.get("person", "").partition("~")
    try:
        participant = UUID(hex=person)
    except ValueError:
        return f"{reverse('dashboard:study_people', args=[study.key])}{'?' if query else ''}{query}#participants"
    visit_query = QueryDict(mutable=True)
    visit_query["visit"] = visit
    path = reverse("dashboard:study_person", args=[study.key, participant])
    return f"{path}?{visit_query.urlencode()}{'&' if query else ''}{query}"


@post_view(Right.ADMINISTER)
def codes(request: HttpRequest, study: Study) -> JsonResponse:
    """Return a study's completion codes at Prolific, by setting."""
    try:
        with Prolific() as prolific:
            prolific_codes = prolific.codes(request.POST.get("prolific_study", "").strip())
    except ProlificError as error:
        return JsonResponse({"error": error.message}, status=502)
    return JsonResponse(
        {
            "codes": codes_by_setting(prolific_codes),
            "others": [{"code": code.code, "kind": code.kind} for code in codes_left(prolific_codes)],
        }
    )


@form_view(Right.PAY, Right.PRIVATE)
def mturk(request: HttpRequest, study: Study) -> HttpResponseBase:
    """Send the decisions as Mechanical Turk's upload file.

    Or fill in its own results file.
    """
    if request.method == "POST":
        return _mturk_filled(request, study)
    record(DOWNLOAD, study, file="mturk")
    return _file((line.encode() for line in mturk_file(study)), f"{study.key}-mturk.csv")


def _mturk_filled(request: HttpRequest, study: Study) -> HttpResponseBase:
    """Send back Mechanical Turk's results file with decisions filled in.

    If none could be filled in, show a message.
    """
    form = ResultsFileForm(request.POST, request.FILES)
    if not form.is_valid():
        messages.error(request, " ".join(map(str, form.errors["file"])))
        return _back(request, study)
    results_file = io.TextIOWrapper(form.cleaned_data["file"], "utf-8-sig", newline="")
    filled_file = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 (closed once it is sent)
    out = io.TextIOWrapper(filled_file, "utf-8", newline="")  # type: ignore[type-var]
    try:
        filled = results_filled(study, results_file, out)
    except Refused as refused:
        out.close()
        messages.error(request, refused.message)
        return _back(request, study)
    if not filled.n_filled:
        out.close()
        summary = (
            f"{filled.n_open} rows have no decision yet, and {filled.n_unknown} do not belong to a participant of "
            "this study."
        )
        messages.error(request, f"No decision could be filled in: {summary}")
        return _back(request, study)
    out.flush()
    filled_file.seek(0)
    record(DOWNLOAD, study, file="mturk_results")
    response = _file(iter(lambda: filled_file.read(PIECE_BYTES), b""), f"{study.key}-mturk-results.csv")
    response._resource_closers.append(out.close)  # type: ignore[attr-defined]
    return response


def _file(pieces: Iterator[bytes], name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(pieces, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
