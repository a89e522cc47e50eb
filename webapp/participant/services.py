"""Services of participants' pages, such as starting a task after consent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.conversations.services import task_end_with_chats
from webapp.conversations.task_start import chat_elsewhere_close, task_elsewhere_check, task_enter, task_start
from webapp.core.errors import Refused
from webapp.participant.recruitment_links import Recruitment
from webapp.participant.selectors import participant_of_form, start_refusal, task_under_way
from webapp.ratings.erasure import task_settle
from webapp.studies.assignment.choices import bot_chosen
from webapp.studies.attention_checks import MOST_QUIZ_ATTEMPTS
from webapp.studies.languages import language_store
from webapp.studies.models import Outcome, Participant, Study, Task
from webapp.studies.pre_task import question_answers_store, quiz_attempt_store, task_admits
from webapp.studies.privacy import consent_version
from webapp.studies.recruitment.links import LINK_PLATFORM, task_decline
from webapp.studies.selectors import rehearsal_token_valid, state_refusal
from webapp.studies.services import consent_record, participant_enter
from webapp.studies.sitting_tasks import sitting_miss
from webapp.studies.start_refusals import StartRefusal

BAD_LINK = gettext_lazy("You cannot start with this link.")
# Codes of refusals before a participant exists; the entry page shows each in its own place.
PREVIEW, CHANGED, NOT_AGREED, NOT_NOTED = "preview", "changed", "not_agreed", "not_noted"


def task_begin(
    *,
    study: Study,
    recruitment: Recruitment,
    agreed: bool,
    participant: Participant | None,
    is_theirs: bool,
    by_token: bool,
    choice: str = "",
    noted: bool = False,
) -> Task:
    """Admit a visitor who consented, or return to their open task.

    Returns the task.

    Args:
        recruitment: the link's parameters, from the signed form.
        agreed: True if they ticked the box.
        participant: participant of the visit; None for a new visitor.
        is_theirs: True if the session, token or form identifies that participant.
        by_token: True if the signed token does.
        choice: number of the chatbot that they chose on the form, if the study allows it.
        noted: True if they ticked the box of the content notice.

    Raises:
        Refused: `no_ids`, `link_…`, `preview`, `changed`, `not_noted` or `not_agreed` before anything is stored;
            `elsewhere` while the participant's task is in use in another visit; and as in `study_refusal` and
            `task_open`. A participant who is too late for their part gets a task that has ended for this reason.
    """
    _came_check(recruitment, participant)
    refusal = start_refusal(study, participant, recruitment)
    if refusal is not None and refusal.code == StartRefusal.SITTING_LATE and participant is not None:
        return sitting_miss(participant=_by_this_link(study, participant, recruitment))
    _agreement_check(study, recruitment, agreed=agreed, noted=noted)
    if refusal is not None and participant is None:
        # The same form, submitted twice, may just have taken the last place.
        participant = participant_of_form(study, recruitment)
        is_theirs = participant is not None and participant.entry_nonce == recruitment.nonce
        refusal = start_refusal(study, participant, recruitment)
    if refusal is not None:
        raise refusal
    if participant is not None and not is_theirs:
        if recruitment.platform == LINK_PLATFORM:
            # A one-time link: while its task is open elsewhere, its next visitor may be another person.
            task_elsewhere_check(participant=participant)
        closed = None if participant.is_synthetic else state_refusal(study)
        if closed is not None and not _is_same_visit(participant, recruitment):
            raise closed  # keep the task open elsewhere, because no new one can be assigned
        chat_elsewhere_close(participant=participant, submission=recruitment.submission)
    if participant is not None and (open_task := task_under_way(participant)) is not None:
        task_settle(task=open_task)  # its content may be deleted, and Start would redirect here forever
    chosen_bot = bot_chosen(study, recruitment.nonce, choice)
    if participant is not None:
        language_store(participant=participant, language=study.values.texts.language)
    if participant is not None and (by_token or not recruitment.external_id):
        with transaction.atomic():
            consent_record(participant=participant)
            return task_start(participant=participant, version=study.version, chosen_bot=chosen_bot)
    return task_enter(
        study=study,
        platform=recruitment.platform,
        external_id=recruitment.external_id,
        recruitment=recruitment.fields,
        entry_nonce=recruitment.nonce,
        is_synthetic=rehearsal_token_valid(study, recruitment.rehearsal),
        chosen_bot=chosen_bot,
        is_new=participant is None,
    )


def _by_this_link(study: Study, participant: Participant, recruitment: Recruitment) -> Participant:
    """Return a known participant with the parameters of their current link."""
    if not recruitment.external_id:
        return participant
    return participant_enter(
        study=study, platform=recruitment.platform, external_id=recruitment.external_id, recruitment=recruitment.fields
    )


def _is_same_visit(participant: Participant, recruitment: Recruitment) -> bool:
    """Return True if the participant's open task was assigned in this visit."""
    going_on = participant.tasks.filter(state=Task.State.OPEN, submission=recruitment.submission)
    return bool(recruitment.submission) and going_on.exists()


def consent_decline(
    *, study: Study, recruitment: Recruitment, participant: Participant | None, is_theirs: bool
) -> Task:
    """Store that a visitor declined to consent.

    Returns the task that stores this, or their task in this visit.

    Args:
        recruitment, participant, is_theirs: as in `task_begin`.

    Raises:
        Refused: `no_ids` or `preview` before anything is stored; `elsewhere` for a known participant, in a visit that
            could be anyone's.
    """
    _came_check(recruitment, participant)
    if participant is not None and not is_theirs and not recruitment.submission:
        raise StartRefusal.ELSEWHERE.refused()
    if participant is None or recruitment.external_id:
        participant = participant_enter(
            study=study,
            platform=recruitment.platform,
            external_id=recruitment.external_id,
            recruitment=recruitment.fields,
            entry_nonce=recruitment.nonce,
            is_synthetic=rehearsal_token_valid(study, recruitment.rehearsal),
        )
    language_store(participant=participant, language=study.values.texts.language)
    return task_decline(participant=participant, version=study.version)


def questions_answer(*, task: Task, answers: Mapping[str, Any]) -> None:
    """Store the answers to the questions before a task.

    If they do not admit the participant, the task ends as screened out.

    Arguments and errors: as in `question_answers_store`.
    """
    with transaction.atomic():
        question_answers_store(task=task, answers=answers)
        if not task_admits(task):
            task_end_with_chats(task=task, outcome=Outcome.SCREENED_OUT)


def quiz_answer(*, task: Task, quiz: str, attempt: int, answers: Sequence[str]) -> bool:
    """Store an attempt at the quiz about the instructions.

    A second miss ends the task as screened out.

    Arguments and errors: as in `quiz_attempt_store`. Returns True if all answers are right now.
    """
    with transaction.atomic():
        is_right = quiz_attempt_store(task=task, quiz=quiz, attempt=attempt, answers=answers)
        if not is_right and attempt >= MOST_QUIZ_ATTEMPTS:
            task_end_with_chats(task=task, outcome=Outcome.SCREENED_OUT)
    return is_right


def _came_check(recruitment: Recruitment, participant: Participant | None) -> None:
    """Reject visitors who cannot be identified or only preview the task."""
    if problem := recruitment.problem_for(participant):
        # Otherwise participants could not be paid, for example if the platform left placeholders in the link.
        raise Refused(problem, str(BAD_LINK))
    if recruitment.is_preview:
        raise Refused(PREVIEW, _("Accept the task to start."))


def _agreement_check(study: Study, recruitment: Recruitment, *, agreed: bool, noted: bool) -> None:
    if recruitment.consent and recruitment.consent != consent_version(study.values):
        raise Refused(CHANGED, _("The study has changed since you opened this page. Please read it again."))
    if study.values.comfort.notice_must_be_ticked and not noted:
        raise Refused(NOT_NOTED, _("Tick the box once you have read the notice."))
    if not agreed:
        raise Refused(NOT_AGREED, _("Tick the box if you agree to take part."))
