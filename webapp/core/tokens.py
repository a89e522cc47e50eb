"""Tokens of the API: made and shown once, kept as digests, revoked at any time."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from chatbots.storable import is_blank
from webapp.core.errors import Refused
from webapp.core.models import ApiToken
from webapp.core.rights import Right, may

if TYPE_CHECKING:
    from django.contrib.auth.models import User

PREFIX = "confab_"
"""What every token begins with, so that people and scanners of secrets know one."""
LONGEST_DAYS = 3650
_USE_NOTED_EVERY = timedelta(minutes=1)


def token_make(
    *, user: User, name: str, rights: Sequence[str], days: int | None = None
) -> tuple[ApiToken, str]:
    """Make a token. Returns its row and its text, which is kept nowhere.

    Args:
        rights: `Right.READ` is always among them.
        days: until it expires; None: never.

    Raises:
        Refused: `bad_token`: no name, an unknown right or one that the person lacks, or an impossible number of days.
    """
    name = name.strip()
    if is_blank(name) or len(name) > 100:
        raise Refused("bad_token", _("A token needs a name of 1 to 100 characters."))
    known = [right.value for right in Right]
    for right in rights:
        if right not in known:
            raise Refused(
                "bad_token",
                _("There is no right “{right}”; there are {known}.").format(
                    right=right, known=", ".join(known)
                ),
            )
    wanted = [right for right in Right if right.value in {*rights, Right.READ.value}]
    if lacking := [right.value for right in wanted if not may(user, right)]:
        raise Refused(
            "bad_token",
            _("{user} has not the right {right}, so a token cannot have it.").format(
                user=user.get_username(), right=", ".join(lacking)
            ),
        )
    if days is not None and not 1 <= days <= LONGEST_DAYS:
        raise Refused(
            "bad_token",
            _("A token lasts 1 to {most} days, not {days}.").format(most=LONGEST_DAYS, days=days),
        )
    text = PREFIX + secrets.token_urlsafe(32)
    row = ApiToken.objects.create(
        user=user,
        name=name,
        digest=_digest(text),
        rights=[right.value for right in wanted],
        expires_at=None if days is None else timezone.now() + timedelta(days=days),
    )
    return row, text


def token_revoke(*, token: ApiToken) -> None:
    """Make a token useless from now on; done twice, the first time stands."""
    ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())


def token_find(text: str) -> ApiToken:
    """Return the token that a program showed, and note that it was used.

    Raises:
        Refused: `no_token`, with why it opens nothing.
    """
    token = ApiToken.objects.select_related("user").filter(digest=_digest(text)).first()
    now = timezone.now()
    if token is None:
        raise Refused("no_token", _("This token is none of this server’s. Make one and use that."))
    if token.revoked_at is not None:
        raise Refused(
            "no_token",
            _("The token “{name}” was taken back on {day}.").format(
                name=token.name, day=f"{token.revoked_at:%Y-%m-%d}"
            ),
        )
    if token.expires_at is not None and token.expires_at <= now:
        raise Refused(
            "no_token",
            _("The token “{name}” expired on {day}.").format(
                name=token.name, day=f"{token.expires_at:%Y-%m-%d}"
            ),
        )
    if not may(token.user):
        raise Refused("no_token", _("Whoever made this token is no longer on the staff."))
    not_noted = Q(last_used_at=None) | Q(last_used_at__lt=now - _USE_NOTED_EVERY)
    ApiToken.objects.filter(not_noted, pk=token.pk).update(last_used_at=now)
    return token


def token_lacks(token: ApiToken, rights: Collection[Right]) -> list[Right]:
    """Return those of the rights that the token was not given, or that its person has not (any more)."""
    return [
        right
        for right in Right
        if right in rights and (right.value not in token.rights or not may(token.user, right))
    ]


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """Return a user's tokens, the newest first, including revoked ones."""
    return ApiToken.objects.filter(user=user)


def _digest(text: str) -> str:
    # A plain digest: the text has 256 random bits, too many to guess.
    return hashlib.sha256(text.encode()).hexdigest()
