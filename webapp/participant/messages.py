"""Messages to the researchers: the participant's page, to which the form of every page's dialog is sent."""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from webapp.core.errors import Refused
from webapp.core.pages import not_found
from webapp.participant.access import ParticipantRequest, is_here, known_of, moved_page, study_page
from webapp.participant.page_texts import study_texts
from webapp.studies.messages import message_send
from webapp.studies.models import Participant, Study


@require_http_methods(["GET", "HEAD", "POST"])
@study_page
def messages(request: HttpRequest, study: Study, visit: ParticipantRequest) -> HttpResponse:
    """Show the participant's messages with their answers and a form, or store a message."""
    known = known_of(request.session, visit.token)
    participant = visit.participant or Participant.objects.filter(study=study, pk__in=known).first()
    if participant is None:
        return not_found(request)
    if not is_here(known, participant):
        return moved_page(request, study, participant)
    error = ""
    if request.method == "POST":
        try:
            message_send(participant=participant, text=request.POST.get("text", ""))
            return redirect(visit.link("messages", study.key, note="sent"))
        except Refused as refused:
            error = refused.message
    if participant.n_new_answers:
        participant.n_new_answers = 0  # they are read now
        participant.save(update_fields=["n_new_answers"])
    context = {
        **study_texts(study, study.version),
        "visit": replace(visit, person=participant),
        "sent": participant.messages.all(),
        "is_sent": request.GET.get("note") == "sent" and not error,
        "message_error": error,
        "given": request.POST.get("text", ""),
    }
    return render(request, "participant/messages.html", context, status=400 if error else 200)
