"""Messages to the researchers: page and form.

The form is in a dialog on every page.
"""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from webapp.core.errors import Refused
from webapp.core.pages import not_found
from webapp.participant.access import ParticipantRequest, is_here, known_of, moved_page, study_page
from webapp.participant.page_texts import study_texts
from webapp.participant.recruitment_links import recruitment_unsign
from webapp.participant.selectors import participant_of_form, visit_ending
from webapp.studies.messages import message_send
from webapp.studies.models import Participant, Study


@require_http_methods(["GET", "HEAD", "POST"])
@study_page
def messages(request: HttpRequest, study: Study, visit: ParticipantRequest) -> HttpResponse:
    """Show the participant's messages, or store a new one.

    The page has the answers and a form.
    """
    known = known_of(request.session, visit.token)
    participant = visit.participant or Participant.objects.filter(study=study, pk__in=known).first()
    finished = None
    if participant is None:
        entry = request.POST.get("_entry", "") or request.GET.get("_entry", "")
        participant = finished = _finished_participant(study, entry)
        visit = replace(visit, entry=entry, study_key=study.key)
    if participant is None:
        return not_found(request)
    if not finished and not is_here(known, participant):
        return moved_page(request, study, participant)
    error, is_sent = "", request.GET.get("note") == "sent"
    if request.method == "POST":
        try:
            message_send(participant=participant, text=request.POST.get("text", ""))
            if not finished:
                return redirect(visit.link("messages", study.key, note="sent"))
            is_sent = True
        except Refused as refused:
            error = refused.message
    if participant.n_new_answers and not finished:
        participant.n_new_answers = 0  # mark them as read
        participant.save(update_fields=["n_new_answers"])
    context = {
        **study_texts(study, study.version),
        "visit": visit if finished else replace(visit, person=participant),
        "sent": () if finished else participant.messages.all(),
        "is_sent": is_sent and not error,
        "message_error": error,
        "given": request.POST.get("text", "") if error or not finished else "",
    }
    return render(request, "participant/messages.html", context, status=400 if error else 200)


def _finished_participant(study: Study, entry: str) -> Participant | None:
    """Return the participant of a platform's ended visit.

    They are identified by the signed parameters of its link; else None. Only the platform and the participant know the
    id of a visit.
    """
    recruitment = recruitment_unsign(study, entry)
    if recruitment is None or not recruitment.external_id or not recruitment.submission:
        return None
    participant = participant_of_form(study, recruitment)
    if participant is None or visit_ending(participant=participant, recruitment=recruitment, is_theirs=False) is None:
        return None
    return participant
