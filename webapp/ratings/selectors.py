"""Reads of ratings."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q, QuerySet

from webapp.conversations.models import Conversation
from webapp.ratings.models import Rating
from webapp.studies.models import Participant


def rating_for(conversation: Conversation, participant: Participant) -> Rating | None:
    """The participant's rating of the conversation, if it is in."""
    return Rating.objects.filter(conversation=conversation, participant=participant).first()


def ratings_by(people: QuerySet[Participant]) -> QuerySet[Rating]:
    """All ratings that these people gave, and those of their chats.

    Of somebody who rates an imported conversation twice, the second rating knows the name alone.
    """
    by_name = people.filter(
        platform="import",
        study=OuterRef("conversation__study"),
        external_id=OuterRef("rater"),
    )
    return Rating.objects.filter(
        Q(participant__in=people)
        | Q(conversation__participant__in=people)
        | (Q(participant=None) & ~Q(rater="") & Exists(by_name))
    )
