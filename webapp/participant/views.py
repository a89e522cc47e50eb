"""The participant's way: entry, chat, rating, done, and the ways out of a chat."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.conversations.models import Conversation
from webapp.conversations.selectors import can_rate, history
from webapp.conversations.services import (
    chat_elsewhere_close,
    conversation_finish_failed,
    conversation_start,
    conversation_swap,
    conversation_withdraw,
)
from webapp.core.errors import Refused
from webapp.participant.access import (
    Visit,
    conversation_address,
    conversation_page,
    form_action,
    has_cookies,
    study_page,
    with_policy,
)
from webapp.participant.forms import RatingForm
from webapp.participant.ownership import participant_remember
from webapp.participant.presentation import (
    REFUSAL_TEXTS,
    chat_notes,
    own_thanks,
    place_held_until,
    study_texts,
)
from webapp.participant.recruitment import (
    Recruitment,
    mturk_submit_url,
    platform_name,
    recruitment_read,
    recruitment_sign,
    recruitment_unsign,
)
from webapp.participant.selectors import (
    codes_shown,
    conversation_open_id,
    participant_known,
    speaks_for,
)
from webapp.participant.wording import chat_words
from webapp.ratings.selectors import rating_for
from webapp.ratings.services import rating_submit
from webapp.studies.models import Participant, Study
from webapp.studies.selectors import (
    participant_token,
    rehearsal_token_valid,
    study_refusal,
)
from webapp.studies.services import consent_record, participant_enter


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """What this server is. It lists nothing: studies are known by their links."""
    return render(request, "participant/index.html")


@require_safe
@study_page
def entry(request: HttpRequest, study: Study, visit: Visit) -> HttpResponse:
    """Consent and instructions. Creates nothing: link previews must not use up places."""
    recruitment = recruitment_read(request.GET)
    participant = participant_known(
        session=request.session, study=study, recruitment=recruitment, token_of=visit.participant
    )
    refusal = _refusal(study, recruitment, participant)
    if refusal is not None:
        return _refused(request, study, visit, refusal, participant, recruitment)
    return _entry_page(request, study, visit, recruitment, participant)


def _entry_page(
    request: HttpRequest,
    study: Study,
    visit: Visit,
    recruitment: Recruitment,
    participant: Participant | None = None,
    **extra: Any,
) -> HttpResponse:
    # A platform id in a link does not open a chat: only the session or the token does.
    mine = participant if visit.participant or not recruitment.external_id else None
    open_id = conversation_open_id(mine) if mine else None
    context = {
        **study_texts(study),
        "visit": visit,
        "recruitment": recruitment,
        "entry_field": recruitment_sign(study, recruitment),
        "is_preview": recruitment.is_preview,
        "continue_url": visit.link("chat", open_id) if open_id else "",
        "step": 1,
        **extra,
    }
    return render(request, "participant/entry.html", context)


@require_POST
@study_page
def start(request: HttpRequest, study: Study, visit: Visit) -> HttpResponse:
    """Consent given: open the chat, or lead back to the one that is open."""
    field = request.POST.get("_entry", "")
    # Scripts that post without having read the form name the parameters in the address.
    recruitment = recruitment_unsign(study, field) if field else recruitment_read(request.GET)
    if recruitment is None:
        message = _("This page was changed on its way. Open the link you were given again.")
        return _entry_page(request, study, visit, Recruitment(), page_error=message)
    if recruitment.is_preview:
        return _entry_page(request, study, visit, recruitment)
    if request.POST.get("consent") != "on":
        message = _("Tick the box if you agree to take part.")
        return _entry_page(request, study, visit, recruitment, consent_error=message)

    participant = participant_known(
        session=request.session, study=study, recruitment=recruitment, token_of=visit.participant
    )
    refusal = _refusal(study, recruitment, participant)
    if refusal is not None:
        return _refused(request, study, visit, refusal, participant, recruitment)
    if participant is not None and not speaks_for(
        session=request.session, participant=participant, token_of=visit.participant
    ):
        try:
            chat_elsewhere_close(participant=participant, submission=recruitment.submission)
        except Refused as refused:
            return _refused(request, study, visit, refused, participant, recruitment)
    if participant is None or (recruitment.external_id and visit.participant is None):
        participant = participant_enter(
            study=study,
            platform=recruitment.platform,
            external_id=recruitment.external_id,
            recruitment=recruitment.fields,
            is_synthetic=rehearsal_token_valid(study, recruitment.rehearsal),
        )
    try:
        consent_record(participant=participant)
        conversation = conversation_start(participant=participant)
    except Refused as refused:
        return _refused(request, study, visit, refused, participant, recruitment)
    if has_cookies(request):
        participant_remember(request.session, participant)
    elif not visit.token:
        visit = Visit(participant_token(participant), participant)
    return redirect(visit.link("chat", conversation.pk))


@require_safe
@conversation_page
def chat(request: HttpRequest, conversation: Conversation, visit: Visit) -> HttpResponse:
    """The chat itself; its messages come by the socket."""
    if conversation.state != Conversation.State.OPEN:
        return _elsewhere(conversation, visit)
    study = _study(conversation)
    context = {
        **study_texts(study),
        "visit": visit,
        "conversation": conversation,
        "rate_url": visit.link("rate", conversation.pk),
        "words": chat_words(study),
        "note": chat_notes(study).get(request.GET.get("note", "")),
        "held_until": place_held_until(conversation),
        "n_segments": range(min(study.min_exchanges, 20)),
        "step": 2,
    }
    return render(request, "participant/chat.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@conversation_page
def rate(request: HttpRequest, conversation: Conversation, visit: Visit) -> HttpResponse:
    """The rating form with the conversation beside it."""
    study, participant = _study(conversation), _participant(conversation)
    if conversation.state != Conversation.State.OPEN:
        return _elsewhere(conversation, visit)
    if not can_rate(conversation):
        return redirect(visit.link("chat", conversation.pk, note="too_early"))
    form = RatingForm(study.rubric, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            rating_submit(
                conversation=conversation,
                participant=participant,
                answers=form.answers,
                comment=form.cleaned_data["comments"],
            )
        except Refused as refused:
            if refused.code != "bad_answers":
                conversation.refresh_from_db()
                return _elsewhere(conversation, visit)
            form.refuse(refused.details["errors"])
        else:
            return redirect(visit.link("done", conversation.pk))
    questions = form.questions()
    wrong = [question for question in questions if question.errors]
    context = {
        **study_texts(study),
        "visit": visit,
        "conversation": conversation,
        "turns": history(conversation.pk).turns,
        "chat_url": visit.link("chat", conversation.pk),
        "form": form,
        "questions": questions,
        "wrong": wrong,
        "step": 3,
    }
    return render(request, "participant/rate.html", context)


@require_safe
@conversation_page
def done(request: HttpRequest, conversation: Conversation, visit: Visit) -> HttpResponse:
    """Thanks, the completion code and the way back. Opened again it says the same."""
    study, participant = _study(conversation), _participant(conversation)
    assignment = conversation.assignment
    code = assignment.completion_code if assignment else None
    is_withdrawn = conversation.state == Conversation.State.WITHDRAWN
    if not code and not is_withdrawn:
        return _elsewhere(conversation, visit)
    submit_url = mturk_submit_url(participant) if code else ""
    return_url = ""
    if code and study.completion_url and not submit_url:
        return_url = study.completion_url.replace("{code}", quote(code))
    # A platform pays for one chat at a time, so its people come back by its link, not from here.
    again = not participant.platform and study_refusal(study, participant) is None
    context = {
        **study_texts(study),
        "visit": visit,
        "conversation": conversation,
        "code": code,
        "thanks": own_thanks(study),
        "is_withdrawn": is_withdrawn,
        "is_rated": rating_for(conversation, participant) is not None,
        "saved_at": conversation.ended_at,
        "platform": platform_name(participant, study),
        "submit_url": submit_url,
        "assignment_id": participant.recruitment.get("assignmentId", ""),
        "return_url": return_url,
        "again": again,
        "step": 4,
    }
    response = render(request, "participant/done.html", context)
    return with_policy(request, response, form_action(submit_url)) if submit_url else response


@require_POST
@conversation_page
def swap(request: HttpRequest, conversation: Conversation, visit: Visit) -> HttpResponse:
    """After a failure: go on with another chatbot."""
    try:
        return redirect(visit.link("chat", conversation_swap(conversation=conversation).pk))
    except Refused as refused:
        return _after_refusal(conversation, visit, refused)


@require_POST
@conversation_page
def finish(request: HttpRequest, conversation: Conversation, visit: Visit) -> HttpResponse:
    """After a failure: end with credit and without a rating."""
    try:
        conversation_finish_failed(conversation=conversation)
    except Refused as refused:
        return _after_refusal(conversation, visit, refused)
    return redirect(visit.link("done", conversation.pk))


@require_POST
@conversation_page
def withdraw(request: HttpRequest, conversation: Conversation, visit: Visit) -> HttpResponse:
    """Delete the chat's texts at the participant's wish."""
    try:
        conversation_withdraw(conversation=conversation)
    except Refused as refused:
        return _after_refusal(conversation, visit, refused)
    return redirect(visit.link("done", conversation.pk))


def _after_refusal(conversation: Conversation, visit: Visit, refused: Refused) -> HttpResponse:
    """Back to the chat with the reason, or to where a chat belongs that is over meanwhile."""
    conversation.refresh_from_db()
    if conversation.state != Conversation.State.OPEN:
        return _elsewhere(conversation, visit)
    return redirect(visit.link("chat", conversation.pk, note=refused.code))


def _elsewhere(conversation: Conversation, visit: Visit) -> HttpResponse:
    open_id = conversation_open_id(_participant(conversation))
    return redirect(conversation_address(visit, conversation, open_id))


def _refusal(
    study: Study, recruitment: Recruitment, participant: Participant | None
) -> Refused | None:
    """Why this person cannot start a chat. Scripted participants take nobody's place."""
    refusal = study_refusal(study, participant)
    if refusal is None or refusal.code != "full":
        return refusal
    return None if rehearsal_token_valid(study, recruitment.rehearsal) else refusal


def _refused(
    request: HttpRequest,
    study: Study,
    visit: Visit,
    refusal: Refused,
    participant: Participant | None,
    recruitment: Recruitment,
) -> HttpResponse:
    is_theirs = participant is not None and speaks_for(
        session=request.session, participant=participant, token_of=visit.participant
    )
    context = {
        **study_texts(study),
        "visit": visit,
        "code": refusal.code,
        "text": REFUSAL_TEXTS.get(refusal.code, REFUSAL_TEXTS["no_bot"]),
        "assignments": codes_shown(
            participant=participant, recruitment=recruitment, is_theirs=is_theirs
        )
        if participant
        else [],
        "platform": platform_name(participant, study) if participant else "",
        "is_prolific": participant is not None and participant.platform == "prolific",
        "retry_url": request.get_full_path() if request.method == "GET" else "",
    }
    status = 409 if request.method == "POST" else 200
    return render(request, "participant/refused.html", context, status=status)


def _study(conversation: Conversation) -> Study:
    assert conversation.study is not None, f"chat {conversation.pk} without a study"
    return conversation.study


def _participant(conversation: Conversation) -> Participant:
    assert conversation.participant is not None, f"chat {conversation.pk} without a participant"
    return conversation.participant
