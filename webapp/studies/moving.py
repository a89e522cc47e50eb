"""Continuing on another device: a signed link that expires, can be revoked, and moves its participant once.

A session or a token identifies a participant and holds their number of moves at that time. Using a link adds one to
this number, so that sessions and tokens of earlier devices are no longer valid. The participant's row holds the
newest link's nonce: a newer link, revocation or use invalidates it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.core import signing
from django.db.models import F
from django.utils.translation import gettext as _

from webapp.core.errors import Refused
from webapp.studies.models import Participant

LASTS = timedelta(hours=24)
_SALT = "confab.move"


@dataclass(frozen=True, slots=True)
class Move:
    """Content of a move link: the participant, the nonce, and their number of moves when it was made."""

    participant: UUID
    nonce: str
    n_moves: int


def move_link_make(*, participant: Participant) -> str:
    """Return a token that moves the participant; the one made before it holds no more."""
    nonce = secrets.token_urlsafe(8)
    Participant.objects.filter(pk=participant.pk).update(move_nonce=nonce)
    made = f"{participant.pk.hex}.{nonce}.{participant.n_moves}"
    return signing.TimestampSigner(salt=_SALT).sign(made)


def move_links_take_back(*, participant: Participant) -> None:
    """Let no link that was made so far move the participant."""
    Participant.objects.filter(pk=participant.pk).update(move_nonce="")


def move_read(token: str) -> tuple[Participant, Move]:
    """Return the participant that a link would move, and the link's content.

    Raises:
        Refused: `move_unknown` for no valid link, `move_expired`, `move_used`, or `move_replaced` for one that was
            revoked or replaced by a newer one.
    """
    try:
        text = signing.TimestampSigner(salt=_SALT).unsign(token, max_age=LASTS)
    except signing.SignatureExpired:
        raise Refused("move_expired", _("This link has expired.")) from None
    except signing.BadSignature:
        raise _unknown() from None
    person, nonce, n_moves = text.split(".")
    move = Move(UUID(hex=person), nonce, int(n_moves))
    people = Participant.objects.select_related("study__version__rubric", "platform_ids")
    participant = people.filter(pk=move.participant).first()
    if participant is None:  # erased
        raise _unknown()
    if participant.n_moves != move.n_moves:
        raise _used()
    if participant.move_nonce != move.nonce:
        raise Refused("move_replaced", _("This link was taken back, or a newer one was made."))
    return participant, move


def move_use(*, token: str) -> Participant:
    """Move the participant to the device that sends the link. Returns them with the new number of moves.

    If two devices send it at once, only one is admitted.

    Raises:
        Refused: as `move_read`.
    """
    participant, move = move_read(token)
    moved = Participant.objects.filter(
        pk=participant.pk, n_moves=move.n_moves, move_nonce=move.nonce
    ).update(n_moves=F("n_moves") + 1, move_nonce="")
    if not moved:
        raise _used()
    participant.n_moves += 1
    return participant


def moved_here(*, participant: Participant) -> Participant:
    """Store that the participant returned to a device that they had left, identified by their platform's link."""
    Participant.objects.filter(pk=participant.pk).update(n_moves=F("n_moves") + 1, move_nonce="")
    participant.refresh_from_db(fields=["n_moves", "move_nonce"])
    return participant


def _unknown() -> Refused:
    return Refused("move_unknown", _("This link leads nowhere."))


def _used() -> Refused:
    return Refused("move_used", _("This link has been used."))
