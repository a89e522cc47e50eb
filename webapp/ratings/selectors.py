"""Reads of ratings."""

from __future__ import annotations

from webapp.conversations.models import Conversation
from webapp.ratings.models import Rating
from webapp.studies.models import Participant


def rating_for(conversation: Conversation, participant: Participant) -> Rating | None:
    """The participant's rating of the conversation, if it is in."""
    return Rating.objects.filter(conversation=conversation, participant=participant).first()
