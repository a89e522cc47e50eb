"""Privacy of participants: consent, pseudonyms, erasure, withdrawal and retention."""

from __future__ import annotations

from webapp.studies.privacy.consent import (
    AGREED_KEYS,
    consent_texts,
    consent_version,
    points_agreed_to,
    pseudonym,
    shows_only_form,
    terms_digest,
)
from webapp.studies.privacy.erasure import (
    erased_follow_up,
    erasure_counts,
    erasure_follow,
    erasure_kind,
    erasure_kinds,
    erasure_people_gone,
    participants_erase,
    people_locked,
    rows_of,
    studies_gone,
)
from webapp.studies.privacy.withdrawal import (
    may_withdraw,
    participant_withdraw,
    query_participant,
    withdrawal_loss,
    withdrawal_of,
    withdrawal_token,
    withdrawal_until,
)

__all__ = [
    "AGREED_KEYS",
    "consent_texts",
    "consent_version",
    "erased_follow_up",
    "erasure_counts",
    "erasure_follow",
    "erasure_kind",
    "erasure_kinds",
    "erasure_people_gone",
    "may_withdraw",
    "participant_withdraw",
    "participants_erase",
    "people_locked",
    "points_agreed_to",
    "pseudonym",
    "query_participant",
    "rows_of",
    "shows_only_form",
    "studies_gone",
    "terms_digest",
    "withdrawal_loss",
    "withdrawal_of",
    "withdrawal_token",
    "withdrawal_until",
]
