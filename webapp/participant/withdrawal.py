"""Withdrawal by a personal link: data deleted, data kept, and confirmation.

The page also names the time limit.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe

from webapp.conversations.events import publish_end
from webapp.core.errors import Refused
from webapp.core.language import activate_language, locale_for
from webapp.participant.access import (
    ParticipantRequest,
    checked,
    framed,
    has_cookies,
    is_here,
    known_of,
    task_page,
    visit_of,
)
from webapp.participant.page_texts import study_texts
from webapp.participant.recruitment_links import platform_name
from webapp.studies.languages import version_speak
from webapp.studies.models import Participant, Task
from webapp.studies.privacy import (
    erasure_kinds,
    may_withdraw,
    participant_withdraw,
    withdrawal_loss,
    withdrawal_of,
    withdrawal_token,
    withdrawal_until,
)
from webapp.studies.recruitment.completion import endings_of


@require_safe
@task_page
def withdraw_here(request: HttpRequest, task: Task, visit: ParticipantRequest) -> HttpResponse:
    """Redirect from a task's page to the page for withdrawing."""
    return redirect(visit.link("withdraw-all", withdrawal_token(task.participant)))


@csrf_exempt
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def withdraw_all(request: HttpRequest, token: str) -> HttpResponse:
    """Show what withdrawal deletes and keeps.

    Data are deleted after confirmation.
    """
    participant = withdrawal_of(token)
    if participant is None:
        with translation.override(locale_for(request)):
            return render(request, "participant/withdraw_unknown.html", status=410)
    visit = visit_of(request)
    version_speak(participant.study.version, participant.language)
    with activate_language(request, visit.locale(participant.study.version)):
        # Without our cookies a forged request has nothing to misuse, and the link itself is signed.
        view = checked(_withdraw_all, request, not has_cookies(request))
        response = view(request, participant, token, visit)
    return framed(request, participant.study, participant.platform, response)


def _withdraw_all(
    request: HttpRequest, participant: Participant, token: str, visit: ParticipantRequest
) -> HttpResponse:
    if request.method != "POST":
        return _page(request, participant, visit)
    if request.POST.get("confirm") != "on":
        error = _("Tick the box if you want everything deleted.")
        return _page(request, participant, visit, error=error)
    chat_ids = list(participant.conversations.values_list("pk", flat=True))
    try:
        participant_withdraw(participant=participant)
    except Refused:  # the page says that the time is over
        return _page(request, participant, visit)
    publish_end(chat_ids)
    return redirect(visit.link("withdraw-all", token))


def _ending_url(request: HttpRequest, participant: Participant, visit: ParticipantRequest) -> str:
    """Return the address of the last task's outcome and return link.

    Empty for another visitor.
    """
    newest = participant.tasks.exclude(outcome="").order_by("-created_at", "-pk").first()
    known = known_of(request.session, visit.token)
    if newest is None or not is_here(known, participant):
        return ""
    return visit.link("task-done", newest.public_id)


def _page(request: HttpRequest, participant: Participant, visit: ParticipantRequest, error: str = "") -> HttpResponse:
    study, until = participant.study, withdrawal_until(participant)
    loss = withdrawal_loss(participant) if participant.withdrawn_at is None else {}
    titles = {name: kind.title for name, kind in erasure_kinds().items()}
    context: dict[str, Any] = {
        **study_texts(study, study.version),
        "visit": visit,
        "withdrawn_at": participant.withdrawn_at,
        "may_withdraw": may_withdraw(participant, until),
        "until": until,
        "loss": [(titles[name], n) for name, n in loss.items()],
        "platform": platform_name(participant, study) or participant.platform,
        "has_ids": bool(participant.external_id or participant.submission),
        "endings": [ending for ending in endings_of(participant) if ending.code],
        "ending_url": _ending_url(request, participant, visit),
        "error": error,
    }
    return render(request, "participant/withdraw.html", context)
