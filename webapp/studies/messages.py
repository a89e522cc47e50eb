"""Messages of participants to the researchers, and their answers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.db import transaction
from django.db.models import Count, F, Q
from django.utils.translation import gettext as _

from chatbots.text import sanitise_input
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.studies.models import Participant, ParticipantMessage

MOST_WAITING = 10
"""Maximum number of unanswered messages per participant."""


def _checked(text: str) -> str:
    try:
        return str(forms.CharField(max_length=ParticipantMessage.MOST_CHARS).clean(sanitise_input(text)))
    except forms.ValidationError as error:
        raise Refused("bad_text", error.messages[0]) from None


def _locked(participant_id: UUID) -> bool:
    """Lock the participant's row; return False if they are erased.

    An erasure locks this row first, too.
    """
    people = Participant.objects.select_for_update(of=("self",)).filter(pk=participant_id)
    return people.first() is not None


def message_send(*, participant: Participant, text: str) -> ParticipantMessage:
    """Store a message.

    An unanswered message with the same text is not stored twice.

    Raises:
        Refused: `bad_text`, `too_many` while many messages wait, or `erased`.
    """
    text = _checked(text)
    with transaction.atomic():
        if not _locked(participant.pk):
            raise Refused("erased", _("All your data have been deleted."))
        waiting = list(participant.messages.filter(answered_at=None))
        same = next((message for message in waiting if message.text == text), None)
        if same is None and len(waiting) >= MOST_WAITING:
            raise Refused(
                "too_many", _("Your earlier messages have not been answered yet. You can write again after that.")
            )
        return same or ParticipantMessage.objects.create(participant=participant, text=text)


def message_answer(*, message: ParticipantMessage, text: str, username: str) -> None:
    """Store the answer, which the participant sees on their next page.

    Raises:
        Refused: `bad_text`, or `answered` if someone else has already answered.
    """
    answer = {"answer": _checked(text), "answered_by": username[:150], "answered_at": database_now()}
    with transaction.atomic():
        _locked(message.participant_id)
        if not ParticipantMessage.objects.filter(pk=message.pk, answered_at=None).update(**answer):
            raise Refused("answered", "This message has already been answered. Reload the page to read the answer.")
        Participant.objects.filter(pk=message.participant_id).update(n_new_answers=F("n_new_answers") + 1)


def messages_waiting(among: Q, *, column: str) -> dict[Any, int]:
    """Return the numbers of unanswered messages, grouped by a column."""
    rows = ParticipantMessage.objects.filter(among, answered_at=None).order_by().values_list(column)
    return dict(rows.annotate(n=Count("pk")))
