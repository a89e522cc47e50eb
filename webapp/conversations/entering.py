"""Taking people in: one write for all that somebody's first click makes."""

from __future__ import annotations

from django.db import transaction

from webapp.conversations.models import Conversation
from webapp.conversations.services import conversation_start
from webapp.studies.models import Study
from webapp.studies.services import consent_record, participant_enter


def conversation_enter(
    *,
    study: Study,
    platform: str,
    external_id: str,
    recruitment: dict[str, str],
    entry_nonce: str,
    is_synthetic: bool,
) -> Conversation:
    """Take in somebody who agreed: participant, consent, place and chat, all of it or nothing.

    Args:
        study: and the others: as `participant_enter`.

    Raises:
        Refused: as `task_open`; then nobody was stored.
    """
    with transaction.atomic():
        participant = participant_enter(
            study=study,
            platform=platform,
            external_id=external_id,
            recruitment=recruitment,
            entry_nonce=entry_nonce,
            is_synthetic=is_synthetic,
        )
        consent_record(participant=participant)
        return conversation_start(participant=participant, version=study.version)
