"""Going on on another device: a link that is signed, expires, can be taken back and moves its person once.

A participant is known by a session or a token that carries how often they had moved then. Using a link counts one
more, so that whatever was carried before is of an earlier device and opens nothing any more. The newest link's nonce
stands with the participant: making another one, or taking it back, ends it, and using it does too.
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
    """Return whom a link would move.

    Raises:
        Refused: `move_unknown` for what is no such link, `move_expired`, `move_used`, or `move_replaced` for one that
            was taken back or gave way to a newer one.
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
    """Move the participant to whoever sends the link. Returns them as they are known from now on.

    Of two who send it at once, one is let in.

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
    """Note that the participant went on on a device that they had left: their platform's link says who they are."""
    Participant.objects.filter(pk=participant.pk).update(n_moves=F("n_moves") + 1, move_nonce="")
    participant.refresh_from_db(fields=["n_moves", "move_nonce"])
    return participant


def _unknown() -> Refused:
    return Refused("move_unknown", _("This link leads nowhere."))


def _used() -> Refused:
    return Refused("move_used", _("This link has been used."))
