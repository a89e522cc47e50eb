"""End of a task: outcome, code, and return link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path, reverse

from webapp.conversations.models import Conversation
from webapp.conversations.selectors import chat_turn, partner_told_afterwards, shows_helpline, task_chat
from webapp.core.clock import database_now
from webapp.participant.access import (
    ParticipantRequest,
    conversation_page,
    form_action,
    frame_ancestors,
    task_page,
    with_policy,
)
from webapp.participant.page_texts import header_progress, own_thanks, study_texts
from webapp.participant.recruitment_links import (
    PLATFORM_NAMES,
    Recruitment,
    mturk_submit_url,
    platform_name,
    recruitment_sign,
)
from webapp.participant.selectors import bots_revealed
from webapp.participant.sitting_texts import all_parts_pay
from webapp.participant.steps.base import ParticipantStep, Standing, register_step
from webapp.pay.submissions import SubmissionKey, submissions_of
from webapp.studies.models import Outcome, Participant, Study, Task
from webapp.studies.pre_task import task_admits
from webapp.studies.privacy import may_withdraw, withdrawal_token, withdrawal_until
from webapp.studies.protocols.base import has_picks
from webapp.studies.recruitment.completion import TaskEnding, ending_of, has_earned
from webapp.studies.recruitment.owed import pay_for_ending
from webapp.studies.selectors import participant_token, sitting_next, study_refusal


@register_step
class DoneStep(ParticipantStep):
    """Page of thanks and the code; reopening shows the same page."""

    name = "done"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.task is not None and bool(standing.task.outcome)

    def is_open(self, standing: Standing) -> bool:
        return self.is_applicable(standing)

    def address(self, standing: Standing, visit: ParticipantRequest, *, note: str = "", n: int = 0) -> str:
        if standing.conversation is not None:
            return visit.link("done", standing.conversation.pk)
        assert standing.task is not None
        return visit.link("task-done", standing.task.public_id)

    def urls(self) -> list[URLPattern]:
        return [
            path("chat/<uuid:conversation_id>/done/", self.view(conversation_page), name="done"),
            path("task/<uuid:task_id>/done/", self.view(task_page), name="task-done"),
        ]

    def get(self) -> HttpResponse:
        ending = ending_of(self.standing.task) if self.standing.task else None
        assert ending is not None
        return done_page(self.request, self.visit, ending)


def done_page(
    request: HttpRequest,
    visit: ParticipantRequest,
    ending: TaskEnding,
    *,
    recruitment: Recruitment | None = None,
    visible_endings: Sequence[TaskEnding] = (),
) -> HttpResponse:
    """Return the last page for any outcome.

    It is the same after the chat and whenever the link is opened again.

    Args:
        recruitment: parameters of the opened link, if any.
        visible_endings: all endings whose codes this visit may read.
    """
    task = ending.task
    participant, study = task.participant, task.participant.study
    submit_url = mturk_submit_url(participant) if ending.code and task.submission else ""
    platform = platform_name(participant, study)
    is_done = ending.outcome in (Outcome.RATED, Outcome.BOT_FAILED)
    has_parts = is_done and bool(task.sitting) and participant.withdrawn_at is None
    due = sitting_next(study, participant) if has_parts else None
    can_go_on = study_refusal(study, participant) is None
    context = {
        **study_texts(study, task.version),
        "visit": visit,
        "conversation": (chat := task_chat(task)),
        "has_chats": chat is not None
        and task.version.values.assignment.bots_in_a_row > 1
        and chat_turn(chat) is not None,
        "ending": ending,
        "shows_helpline": shows_helpline(Q(slot__task=task), task.version.values),
        "endings": [shown_ending for shown_ending in visible_endings if shown_ending.task != ending.task],
        "task": task,
        "outcome": ending.outcome,
        "is_unqualified": ending.outcome == Outcome.SCREENED_OUT and not task_admits(task),
        "is_again": recruitment is not None,
        "is_code_of_platform": bool(ending.code) and ending.code != task.completion_code,
        "is_done": is_done,
        "may_return": not (is_done or ending.outcome == Outcome.FAILED_CHECK or has_earned(participant)),
        "consent_url": _consent_link(visit, study, recruitment),
        "thanks": own_thanks(task.version),
        "told_afterwards": partner_told_afterwards(task),
        "withdrawn_at": participant.withdrawn_at,
        **_withdrawal(request, visit, ending),
        "platform": platform,
        # Outside Mechanical Turk's frame, where the task asks for the code.
        "is_pasted": bool(ending.code) and not submit_url and platform == PLATFORM_NAMES["mturk"],
        "revealed": bots_revealed(task),
        "were_picked": has_picks(task),  # picked replies had no letters
        "host_message": _host_message(study, ending, chat),
        "host_origins": " ".join(origin for origin in frame_ancestors(study) if "*" not in origin),
        "submit_url": submit_url,
        "assignment_id": task.submission,
        "return_url": "" if submit_url else ending.link,
        # A platform pays for one chat at a time, so its participants return through its link.
        "again": ending.outcome != Outcome.NO_CONSENT and not participant.platform and can_go_on,
        "has_parts": has_parts and not (due and due.is_late(database_now())),
        "due": due,
        "due_link": _part_link(request, participant) if due and not participant.platform else "",
        "all_pay": all_parts_pay(task.version.values),
        "time_pay": _time_pay(task),
        # Participants who read an earlier version of the texts see the current ones first.
        "entry_field": recruitment_sign(study, task.version, recruitment or Recruitment()),
        "way": header_progress(study, "consent" if ending.outcome == Outcome.NO_CONSENT else "done"),
    }
    response = render(request, "participant/done.html", context)
    if not submit_url:
        return response
    return with_policy(request, response, form_action(submit_url))


def _host_message(study: Study, ending: TaskEnding, chat: Conversation | None) -> dict[str, Any]:
    """Return the last message to a page that frames the study; it never contains the participant's token."""
    participant = ending.task.participant
    parameters = study.values.recruitment.parameters if participant.platform == "panel" else ()
    return {
        "type": "confab-end",
        "study": study.key,
        "outcome": ending.outcome,
        "code": ending.code,
        "conversation": str(chat.pk) if chat is not None else "",
        "parameters": {name: participant.recruitment.get(name, "") for name in parameters},
    }


def _withdrawal(request: HttpRequest, visit: ParticipantRequest, ending: TaskEnding) -> dict[str, Any]:
    """Return the participant's withdrawal link and its time limit.

    Empty if it cannot be used.

    The button's address contains the visit's token, so that a frame without cookies leads back to the submission.
    """
    participant = ending.task.participant
    is_theirs = ending.outcome not in (Outcome.NO_CONSENT, Outcome.WITHDRAWN)
    until = withdrawal_until(participant) if is_theirs else None
    if not is_theirs or not may_withdraw(participant, until):
        return {}
    token = withdrawal_token(participant)
    link = request.build_absolute_uri(reverse("participant:withdraw-all", args=[token]))
    title = ending.task.version.values.texts.title
    return {
        "withdraw_url": link,
        "withdraw_here_url": visit.link("withdraw-all", token),
        "withdraw_until": until,
        "withdraw_mail": f"mailto:?subject={quote(title)}&body={quote(link)}",
    }


def _time_pay(task: Task) -> str:
    """Return the pay for time of a participant who could not take part.

    Empty if none is owed.
    """
    pay = pay_for_ending(task.version.values, task.outcome)
    if not (pay.is_for_time and pay.text):
        return ""
    participant = task.participant
    visits = submissions_of(participant.study, participant=participant.pk, include_synthetic=True)
    visit = visits.by_key.get(SubmissionKey(participant.pk, task.submission))
    return pay.text if visit is not None and (visit.owes or visit.is_synthetic) else ""


def _part_link(request: HttpRequest, participant: Participant) -> str:
    """Return the link that identifies a participant without a platform id.

    It works on any device.
    """
    query = urlencode({"t": participant_token(participant)})
    return f"{request.build_absolute_uri(reverse('participant:entry', args=[participant.study.key]))}?{query}"


def _consent_link(visit: ParticipantRequest, study: Study, recruitment: Recruitment | None) -> str:
    """Return the link for a visitor who declined to read the consent again.

    They keep their identity.
    """
    query = {**(recruitment.fields if recruitment else {}), "again": "1"}
    address = visit.link("entry", study.key)
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"
