"""Secrets that bots send, encrypted at rest: each is bound to one address and shown to nobody again.

The keys that encrypt come from the environment (`CONFAB_SECRETS_KEY`), the newest first; older ones only open. The name
and the address are encrypted with the value: a row whose address was changed in the database opens nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from chatbots.bots.base import BotError
from chatbots.text import is_blank, quote
from webapp.bots.models import DeclaredBot, Secret
from webapp.core.errors import Refused

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

LONGEST_SECRET = 5000


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address; empty for what is no address."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def can_store_secrets() -> bool:
    """Return True if there is a key to encrypt them with."""
    return bool(settings.CONFAB_SECRETS_KEYS)


def secret_store(*, name: str, address: str, value: str) -> Secret:
    """Encrypt and store a secret for one address.

    Raises:
        Refused: `bad_secret`, with the reason; the message never holds the value.
    """
    origin = origin_of(address)
    if not origin or len(origin) > 300:
        raise Refused("bad_secret", "The address must begin with http:// or https://, such as https://api.openai.com.")
    if is_blank(name) or len(name) > 64:
        raise Refused("bad_secret", "A secret needs a name of 1 to 64 characters.")
    sealed = _seal(name, origin, value)
    try:
        with transaction.atomic():
            return Secret.objects.create(name=name, address=origin, sealed=sealed)
    except IntegrityError:
        raise Refused(
            "bad_secret", f"There is a secret {quote(name)} already; replace its value, or name another."
        ) from None


def secret_replace(*, secret: Secret, value: str) -> None:
    """Put another value in a secret's place; the bots that send it are loaded again.

    Raises:
        Refused: as `secret_store`.
    """
    sealed = _seal(secret.name, secret.address, value)
    with transaction.atomic():
        Secret.objects.filter(pk=secret.pk).update(sealed=sealed, updated_at=timezone.now())
        DeclaredBot.objects.filter(secret=secret).update(revision=F("revision") + 1)


def secret_delete(*, secret: Secret) -> None:
    """Delete a secret.

    Raises:
        Refused: `in_use`: a bot sends it.
    """
    with transaction.atomic():
        Secret.objects.select_for_update().filter(pk=secret.pk).first()
        users = list(DeclaredBot.objects.filter(secret=secret).values_list("bot_id", flat=True))
        if users:
            raise Refused("in_use", f"{', '.join(users)} still uses it. Give that bot another key first.")
        secret.delete()


def secret_open(secret: Secret, url: str) -> str:
    """Decrypt a secret that is to be sent to this address.

    Raises:
        BotError: it is bound to another address, or no key opens it; the message holds nothing of it.
    """
    from cryptography.fernet import InvalidToken  # here, for it would be read at every start of every command

    if origin_of(url) != secret.address:
        raise BotError(
            f"the secret {quote(secret.name)} is for {secret.address} alone and is not sent to {origin_of(url)}"
        )
    try:
        held = json.loads(_fernet().decrypt(secret.sealed.encode()))
    except (InvalidToken, ValueError):
        raise BotError(
            f"the secret {quote(secret.name)} cannot be decrypted: it was stored with another CONFAB_SECRETS_KEY; "
            "set that key too, or store the secret again"
        ) from None
    if (held["name"], held["address"]) != (secret.name, secret.address):
        raise BotError(f"the secret {quote(secret.name)} was changed in the database; store it again")
    return str(held["value"])


def secrets_renew() -> int:
    """Encrypt every secret with the newest key. Returns how many no key opens; these stay as they are."""
    from cryptography.fernet import InvalidToken

    n_closed = 0
    for secret in Secret.objects.all():
        try:
            sealed = _fernet().rotate(secret.sealed.encode()).decode()
        except (InvalidToken, ValueError):
            n_closed += 1
        else:
            Secret.objects.filter(pk=secret.pk, sealed=secret.sealed).update(sealed=sealed)
    return n_closed


def _seal(name: str, address: str, value: str) -> str:
    value = value.strip()
    if not value or len(value) > LONGEST_SECRET or not value.isascii() or not value.isprintable():
        raise Refused("bad_secret", f"A secret has 1 to {LONGEST_SECRET:,} printable ASCII characters, on one line.")
    if not can_store_secrets():
        raise Refused("bad_secret", "No secret can be stored here: CONFAB_SECRETS_KEY is not set on this server.")
    return _fernet().encrypt(json.dumps({"name": name, "address": address, "value": value}).encode()).decode()


def secrets_with_bots() -> QuerySet[Secret]:
    """Return the secrets by name, each with the bots that use it."""
    return Secret.objects.prefetch_related("bots")


def _fernet() -> MultiFernet:
    from cryptography.fernet import Fernet, InvalidToken, MultiFernet

    if not can_store_secrets():
        raise InvalidToken
    return MultiFernet([Fernet(key) for key in settings.CONFAB_SECRETS_KEYS])
