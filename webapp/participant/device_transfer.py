"""Continuing on another device: the page with the link, and its target.

Only the button moves the participant, because mail programs and messengers open links for previews.
"""

from __future__ import annotations

from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from webapp.core.errors import Refused
from webapp.core.language import activate_language, locale_for
from webapp.participant.access import ParticipantRequest, checked, has_cookies, participant_remember, task_page
from webapp.participant.page_texts import study_texts
from webapp.participant.steps.base import standing_of, standing_open, to_next_step
from webapp.studies.languages import version_speak
from webapp.studies.models import Participant, Task
from webapp.studies.recruitment.links import (
    MOVE_LINK_LIFETIME,
    move_link_make,
    move_links_take_back,
    move_read,
    move_use,
)
from webapp.studies.selectors import participant_token

_HOURS = int(MOVE_LINK_LIFETIME.total_seconds() // 3600)


@require_http_methods(["GET", "HEAD", "POST"])
@task_page
def elsewhere(request: HttpRequest, task: Task, visit: ParticipantRequest) -> HttpResponse:
    """Create or revoke the link to move to another device."""
    if task.state != Task.State.OPEN:
        return to_next_step(standing_of(task), visit)
    participant, link, is_taken_back = task.participant, "", False
    if request.method == "POST":
        is_taken_back = "_take_back" in request.POST
        if is_taken_back:
            move_links_take_back(participant=participant)
        else:
            token = move_link_make(participant=participant)
            link = request.build_absolute_uri(reverse("participant:go-on", args=[token]))
    study = participant.study
    title = task.version.values.texts.title
    context = {
        **study_texts(study, task.version),
        "visit": visit,
        "task": task,
        "link": link,
        "hours": _HOURS,
        "is_taken_back": is_taken_back,
        "has_link": bool(participant.move_nonce) and request.method != "POST",
        "mail": f"mailto:?subject={quote(title)}&body={quote(link)}" if link else "",
        "back_url": visit.link("elsewhere-back", task.public_id),
    }
    return render(request, "participant/elsewhere.html", context)


@require_http_methods(["GET", "HEAD"])
@task_page
def elsewhere_back(request: HttpRequest, task: Task, visit: ParticipantRequest) -> HttpResponse:
    """Redirect to the participant's current page."""
    return to_next_step(standing_of(task), visit)


@csrf_exempt
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def go_on(request: HttpRequest, token: str) -> HttpResponse:
    """Ask whether to continue on this device.

    The button moves the participant.
    """
    with translation.override(locale_for(request)):  # the study is not known yet
        try:
            participant, _move = move_read(token)
        except Refused as refused:
            return _refused(request, refused)
    version_speak(participant.study.version, participant.language)
    with activate_language(request, ParticipantRequest().locale(participant.study.version)):
        # Without our cookies a forged request has nothing to misuse, and the link itself is signed.
        return checked(_go_on, request, not has_cookies(request))(request, participant, token)


def _go_on(request: HttpRequest, participant: Participant, token: str) -> HttpResponse:
    study = participant.study
    if request.method != "POST":
        context = {**study_texts(study, study.version), "visit": ParticipantRequest()}
        return render(request, "participant/go_on.html", context)
    try:
        participant = move_use(token=token)
    except Refused as refused:  # another device was faster
        return _refused(request, refused)
    visit = ParticipantRequest()
    if has_cookies(request):
        participant_remember(request.session, participant)
    else:
        visit = ParticipantRequest(participant_token(participant), participant)
    progress = standing_open(participant)
    if progress is None:
        newest = participant.tasks.order_by("-created_at", "-pk").first()
        if newest is None:
            return redirect(visit.link("entry", study.key))
        progress = standing_of(newest)
    return to_next_step(progress, visit)


def _refused(request: HttpRequest, refused: Refused) -> HttpResponse:
    """Show why a link does not work, and the participant's next step."""
    what_now = {
        "move_unknown": _("Check that you copied the whole link, or create a new one."),
        "move_expired": _("Links work for %(hours)s hours. Create a new one on the device you started with.")
        % {"hours": _HOURS},
        "move_used": _(
            "Each link works once. If you have used it, continue on that device. If not, write to the researchers."
        ),
        "move_replaced": _("Use the newest link, or create another one on the device you started with."),
    }
    context = {"reason": refused.message, "what_now": what_now[refused.code]}
    return render(request, "participant/go_on_refused.html", context, status=410)
