"""The rating form next to the conversation."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from webapp.conversations.chat_checks import chat_check_due
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import can_rate, chat_turn, turns_of
from webapp.core.errors import Refused
from webapp.participant.access import Visit, conversation_page
from webapp.participant.asked import asked_after_of, asked_shown, right_of
from webapp.participant.forms import RatingForm
from webapp.participant.presentation import study_texts, way_at
from webapp.participant.reporting import report_address, report_shown, turns_reported
from webapp.participant.steps.base import (
    Standing,
    is_on_way,
    register_step,
    standing_in,
    step_before,
    to_next_step,
)
from webapp.ratings.services import (
    WAITS_FOR_REPLY,
    rating_draft_store,
    rating_submit,
)
from webapp.results.order import order_refresh_for_rule

_CHECK = "check"  # note in an address whose form shows errors


@register_step
class Form:
    """Rate the chat. Saving the answers also closes it, so an open chat alone has this step ahead."""

    name = "form"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.conversation is not None

    def is_completed(self, standing: Standing) -> bool:
        return standing.chat_is_over

    def address(self, standing: Standing, visit: Visit) -> str:
        assert standing.conversation is not None
        return visit.link("rate", standing.conversation.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@conversation_page
def rate(request: HttpRequest, conversation: Conversation, visit: Visit) -> HttpResponse:
    """Show the form, or store its answers."""
    standing = standing_in(conversation)
    if not is_on_way(standing, "form") or standing.chat_is_over or step_before("chat", standing):
        return to_next_step(standing, visit)
    study, version = standing.study, standing.version
    assert standing.participant is not None, f"chat {conversation.pk} without a participant"
    asked = asked_after_of(standing.participant, version)
    is_early = conversation.n_exchanges < version.values.chat.min_exchanges
    is_waiting = not can_rate(conversation)
    if chat_check_due(conversation, version):
        return redirect(visit.link("chat", conversation.pk, note="check_due"))
    if is_early or (is_waiting and request.method != "POST" and not conversation.rating_draft):
        note = "too_early" if is_early else "waiting_for_reply"
        return redirect(visit.link("chat", conversation.pk, note=note))
    if request.method == "POST":
        return _rate(conversation, visit, RatingForm(asked, request.POST))
    # What was sent before and could not be taken is still there, on every way to this page.
    is_checked = request.GET.get("note") == _CHECK
    sent = conversation.rating_draft if conversation.rating_draft or is_checked else None
    form = RatingForm(asked, sent, show_errors=is_checked)
    if is_checked and form.is_valid() and is_waiting:
        form.refuse({"": str(WAITS_FOR_REPLY)})
    reports = visit.link("chat-report", conversation.pk)
    reported = turns_reported(conversation)
    context = {
        **study_texts(study, version),
        "visit": visit,
        "conversation": conversation,
        "turns": [
            {
                **one,
                "report_url": report_address(reports, turn=one["turn"]),
                "is_reported": one["turn"] in reported,
            }
            for one in turns_of(conversation.pk)
        ],
        **report_shown(version, reports),
        "chat_url": visit.link("chat", conversation.pk),
        "form": form,
        "n_questions": len(asked),
        **asked_shown(form.questions()),
        "passing": right_of(standing.participant, form.questions()),
        "turn": chat_turn(conversation),
        "way": way_at(study, "form"),
    }
    return render(request, "participant/rate.html", context)


def _rate(conversation: Conversation, visit: Visit, form: RatingForm) -> HttpResponse:
    """Store the rating, or keep invalid answers and redirect to the form, which shows the errors.

    A response to a POST cannot be reloaded or gone back to without sending the form again; the page after a
    redirect can.
    """
    assert conversation.participant is not None, f"chat {conversation.pk} without a participant"
    try:
        if not form.is_valid():
            raise Refused("bad_answers", _("Some answers are missing."))
        rating_submit(
            conversation=conversation,
            participant=conversation.participant,
            answers=form.answers,
            comment=form.cleaned_data["comments"],
        )
    except Refused as refused:
        if refused.code in ("bad_answers", "waiting_for_reply"):
            rating_draft_store(conversation=conversation, values=form.typed)
            return redirect(visit.link("rate", conversation.pk, note=_CHECK))
        conversation.refresh_from_db()
        return to_next_step(standing_in(conversation), visit)
    assert conversation.study is not None
    if not conversation.is_synthetic:
        order_refresh_for_rule(conversation.study)
    return redirect(visit.link("done", conversation.pk))
