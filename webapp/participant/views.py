"""The participant's way: entry, chat, rating, done, and the ways out of a chat."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.conversations.entering import conversation_enter
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
    has_cookies,
    study_page,
)
from webapp.participant.done import done_page
from webapp.participant.forms import RatingForm
from webapp.participant.ownership import participant_remember
from webapp.participant.presentation import (
    chat_notes,
    place_held_until,
    refusal_text,
    study_texts,
    way_at,
)
from webapp.participant.recruitment import (
    Recruitment,
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
    visit_ending,
)
from webapp.participant.wording import chat_words
from webapp.ratings.services import (
    WAITS_FOR_REPLY,
    answers_check,
    rating_draft_store,
    rating_submit,
)
from webapp.studies.models import Participant, Study
from webapp.studies.outcomes import ending_of
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import (
    participant_token,
    rehearsal_token_valid,
    study_refusal,
)
from webapp.studies.services import consent_record
from webapp.studies.terms import consent_version

_CHECK = "check"  # the note of an address whose form says what is wrong with it


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """What this server is. It lists nothing: studies are known by their links."""
    return render(request, "participant/index.html")


@require_safe
@study_page
def entry(request: HttpRequest, study: Study, visit: Visit) -> HttpResponse:
    """Consent and instructions. Creates nothing: link previews must not use up places."""
    recruitment = recruitment_read(request.GET)
    if recruitment.is_unfilled:
        return _unfilled(request, study, visit, recruitment)
    participant = _known(request, study, visit, recruitment)
    ended = _ended(request, visit, recruitment, participant)
    if ended is not None:
        return ended
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
        "way": way_at(study, "consent"),
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
    if recruitment.is_unfilled:
        return _unfilled(request, study, visit, recruitment)
    if recruitment.is_preview:
        return _entry_page(request, study, visit, recruitment)
    if recruitment.consent and recruitment.consent != consent_version(study):
        message = _("The study was changed since you opened this page. Please read it again.")
        return _entry_page(request, study, visit, recruitment, page_error=message)
    if request.POST.get("consent") != "on":
        message = _("Tick the box if you agree to take part.")
        return _entry_page(request, study, visit, recruitment, consent_error=message)

    participant = _known(request, study, visit, recruitment)
    if recruitment.submission:
        # A platform pays for one chat in each of its visits.
        ended = _ended(request, visit, recruitment, participant)
        if ended is not None:
            return ended
    refusal = _refusal(study, recruitment, participant)
    if refusal is not None and participant is None:
        # The same form, sent twice, may just have taken the last place.
        participant = _known(request, study, visit, recruitment)
        refusal = _refusal(study, recruitment, participant)
    if refusal is not None:
        return _refused(request, study, visit, refusal, participant, recruitment)
    try:
        if participant is not None and not _is_theirs(request, visit, participant, recruitment):
            chat_elsewhere_close(participant=participant, submission=recruitment.submission)
        if participant is None or (recruitment.external_id and visit.participant is None):
            conversation = conversation_enter(
                study=study,
                platform=recruitment.platform,
                external_id=recruitment.external_id,
                recruitment=recruitment.fields,
                entry_nonce=recruitment.nonce,
                is_synthetic=rehearsal_token_valid(study, recruitment.rehearsal),
            )
        else:
            consent_record(participant=participant)
            conversation = conversation_start(participant=participant)
    except Refused as refused:
        return _refused(request, study, visit, refused, participant, recruitment)
    participant = _participant(conversation)
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
        "way": way_at(study, "chat"),
    }
    return render(request, "participant/chat.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@conversation_page
def rate(request: HttpRequest, conversation: Conversation, visit: Visit) -> HttpResponse:
    """The rating form with the conversation beside it."""
    study, participant = _study(conversation), _participant(conversation)
    rubric = protocols.get(study.protocol).form(study)
    if conversation.state != Conversation.State.OPEN:
        return _elsewhere(conversation, visit)
    is_early = conversation.n_exchanges < study.min_exchanges
    is_waiting = not can_rate(conversation)
    if is_early or (is_waiting and request.method != "POST" and not conversation.rating_draft):
        note = "too_early" if is_early else "waiting_for_reply"
        return redirect(visit.link("chat", conversation.pk, note=note))
    if request.method == "POST":
        return _rate(conversation, participant, visit, RatingForm(rubric, request.POST))
    # What was sent before and could not be taken is still there, on every way to this page.
    is_checked = request.GET.get("note") == _CHECK
    sent = conversation.rating_draft if conversation.rating_draft or is_checked else None
    form = RatingForm(rubric, sent, show_errors=is_checked)
    if is_checked and form.is_valid():
        form.refuse(answers_check(rubric=rubric, answers=form.answers))
        if is_waiting:
            form.refuse({"": str(WAITS_FOR_REPLY)})
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
        "way": way_at(study, "form"),
    }
    return render(request, "participant/rate.html", context)


def _rate(
    conversation: Conversation, participant: Participant, visit: Visit, form: RatingForm
) -> HttpResponse:
    """Take the rating, or keep what was sent and lead to the form, which says what is wrong.

    A page that answers a form cannot be reloaded or gone back to without sending it again; the one it
    leads to can.
    """
    try:
        if not form.is_valid():
            raise Refused("bad_answers", _("Some answers are missing."))
        rating_submit(
            conversation=conversation,
            participant=participant,
            answers=form.answers,
            comment=form.cleaned_data["comments"],
        )
    except Refused as refused:
        if refused.code in ("bad_answers", "waiting_for_reply"):
            rating_draft_store(conversation=conversation, values=form.typed)
            return redirect(visit.link("rate", conversation.pk, note=_CHECK))
        conversation.refresh_from_db()
        return _elsewhere(conversation, visit)
    return redirect(visit.link("done", conversation.pk))


@require_safe
@conversation_page
def done(request: HttpRequest, conversation: Conversation, visit: Visit) -> HttpResponse:
    """Thanks, the code and the way back. Opened again it says the same."""
    task = conversation.task
    ending = ending_of(task) if task else None
    if ending is None:
        return _elsewhere(conversation, visit)
    return done_page(request, visit, ending)


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


def _ended(
    request: HttpRequest, visit: Visit, recruitment: Recruitment, participant: Participant | None
) -> HttpResponse | None:
    """The page that says how this visit has ended already, if it has."""
    if participant is None:
        return None
    is_theirs = _is_theirs(request, visit, participant, recruitment)
    ending = visit_ending(participant=participant, recruitment=recruitment, is_theirs=is_theirs)
    if ending is None:
        return None
    shown = codes_shown(participant=participant, recruitment=recruitment, is_theirs=is_theirs)
    return done_page(request, visit, ending, recruitment=recruitment, shown=shown)


def _unfilled(
    request: HttpRequest, study: Study, visit: Visit, recruitment: Recruitment
) -> HttpResponse:
    """Nobody can be paid by a link whose placeholders the platform did not fill in."""
    refusal = Refused("no_ids", _("The link came without its ids."))
    return _refused(request, study, visit, refusal, None, recruitment)


def _known(
    request: HttpRequest, study: Study, visit: Visit, recruitment: Recruitment
) -> Participant | None:
    return participant_known(
        session=request.session, study=study, recruitment=recruitment, token_of=visit.participant
    )


def _is_theirs(
    request: HttpRequest, visit: Visit, participant: Participant, recruitment: Recruitment
) -> bool:
    return speaks_for(
        session=request.session,
        participant=participant,
        recruitment=recruitment,
        token_of=visit.participant,
    )


def _refused(
    request: HttpRequest,
    study: Study,
    visit: Visit,
    refusal: Refused,
    participant: Participant | None,
    recruitment: Recruitment,
) -> HttpResponse:
    context = {
        **study_texts(study),
        "visit": visit,
        "code": refusal.code,
        "text": refusal_text(refusal.code, recruitment.platform),
        "endings": codes_shown(
            participant=participant,
            recruitment=recruitment,
            is_theirs=_is_theirs(request, visit, participant, recruitment),
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
