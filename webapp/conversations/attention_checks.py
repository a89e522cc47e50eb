"""Attention checks in a chat: the one due, and its answer.

The researchers ask them, not the chatbot: they are not turns, bots do not see them, and the page shows them outside the
conversation. In an arena the first of the two chats stores the answers.
"""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from chatbots.text import sanitise_input
from webapp.conversations.models import ChatCheckAnswer, Conversation
from webapp.core.errors import Refused
from webapp.studies.attention_checks import ChatCheck
from webapp.studies.models import StudyVersion
from webapp.studies.refusals import OTHER_STEP


def chat_checks_left(conversation: Conversation, version: StudyVersion) -> list[ChatCheck]:
    """Return the chat's unanswered checks, earliest first.

    A version without checks needs no query.
    """
    checks = sorted(version.values.checking.chat_checks, key=lambda check: check.after)
    if not checks:
        return []
    answered_digests = set(conversation.check_answers.values_list("check_digest", flat=True))
    return [check for check in checks if check.digest not in answered_digests]


def chat_check_due(conversation: Conversation, version: StudyVersion) -> ChatCheck | None:
    """Return the check that is due now, or None."""
    open_checks = chat_checks_left(conversation, version)
    return next((check for check in open_checks if check.after <= conversation.n_exchanges), None)


def chat_check_answer(*, conversation: Conversation, check: str, answer: str) -> ChatCheckAnswer:
    """Store the answer to the due check; the first answer is kept.

    Args:
        check: digest of the check that the page showed.

    Raises:
        Refused: `closed` if the chat is over or another check is due; `bad_answers` for an empty answer.
    """
    with transaction.atomic():
        locked = (
            Conversation.objects.select_for_update(of=("self",))
            .select_related("slot__task__version", "study__version")
            .get(pk=conversation.pk)
        )
        stored_answer = ChatCheckAnswer.objects.filter(conversation=locked, check_digest=check).first()
        if stored_answer is not None:
            return stored_answer
        due = chat_check_due(locked, locked.version) if locked.version else None
        if due is None or due.digest != check or locked.state != Conversation.State.OPEN:
            raise OTHER_STEP.refused()
        answer_text = sanitise_input(answer, ChatCheckAnswer.MOST_CHARS)
        if not answer_text or (due.options and answer_text not in due.options):
            raise Refused("bad_answers", _("Please answer this question."))
        return ChatCheckAnswer.objects.create(
            conversation=locked,
            check_digest=check,
            question=due.question,
            expected=list(due.expected),
            answer=answer_text,
            is_right=due.passes(answer_text),
        )
