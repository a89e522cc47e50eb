"""Bots added in the browser: validation, storage and registration.

The rows are authoritative. Entries pass the validation of `bots.yaml` and, since users need not be administrators,
further limits on kinds, variables, addresses and folders. Each process checks for rows with a new `revision` whenever
bots are listed or an unknown or declared bot is looked up.

Secrets are encrypted at rest, bound to one address and never shown again. The keys come from the environment
(`CONFAB_SECRETS_KEY`), newest first; older ones only decrypt. The name and the address are
encrypted with the value: a row whose address was changed in the database cannot be decrypted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet

from chatbots.bots.base import Bot, BotError
from chatbots.endpoints.addresses import private_refusal
from chatbots.gguf_files import SMOLLM2
from chatbots.huggingface import is_local
from chatbots.registry import bots as registry
from chatbots.text import are_sanitised, is_blank, quote
from chatbots.validation import Mistake, ValuesError
from chatbots.yaml_registry import configured_bots
from webapp.bots.models import BotHealth, DeclaredBot, Secret
from webapp.bots.services import bot_put_back
from webapp.core.audit_trail import (
    BOT_ARCHIVE,
    BOT_SAVE,
    BOT_SHARE,
    SECRET_DELETE,
    SECRET_REPLACE,
    SECRET_STORE,
    SECRETS_RENEW,
    record,
)
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.core.project_scope import active_project

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

LONGEST_SECRET = 5000


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address; empty if invalid."""
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
    """Return True if an encryption key is set."""
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
            secret = Secret.objects.create(name=name, address=origin, sealed=sealed)
            record(SECRET_STORE, secret)
    except IntegrityError:
        raise Refused(
            "bad_secret", f"There is already a secret {quote(name)}. Replace its value, or choose another name."
        ) from None
    return secret


def secret_replace(*, secret: Secret, value: str) -> None:
    """Replace a secret's value and reload the bots that send it.

    Raises:
        Refused: as `secret_store`.
    """
    sealed = _seal(secret.name, secret.address, value)
    with transaction.atomic():
        Secret.objects.filter(pk=secret.pk).update(sealed=sealed, updated_at=database_now())
        DeclaredBot.objects.filter(secret=secret).update(revision=F("revision") + 1)
        record(SECRET_REPLACE, secret)


def secret_delete(*, secret: Secret) -> None:
    """Delete a secret.

    Raises:
        Refused: `in_use`: a bot sends it.
    """
    with transaction.atomic():
        Secret.objects.select_for_update().filter(pk=secret.pk).first()
        users = list(DeclaredBot.objects.filter(secret=secret).values_list("bot_id", flat=True))
        if users:
            raise Refused("in_use", f"{', '.join(users)} still uses this secret. Choose another key for the bot first.")
        record(SECRET_DELETE, secret)
        secret.delete()


def secret_open(secret: Secret, url: str) -> str:
    """Decrypt a secret that is to be sent to this address.

    Raises:
        BotError: it is bound to another address, or no key decrypts it; the message never contains it.
    """
    from cryptography.fernet import InvalidToken  # imported here to keep the start of commands fast

    if origin_of(url) != secret.address:
        raise BotError(
            f"the secret {quote(secret.name)} is only for {secret.address} and is not sent to {origin_of(url)}"
        )
    try:
        opened = json.loads(_fernet().decrypt(secret.sealed.encode()))
    except (InvalidToken, ValueError):
        raise BotError(
            f"the secret {quote(secret.name)} cannot be decrypted: it was stored with another CONFAB_SECRETS_KEY; "
            "set that key too, or store the secret again"
        ) from None
    if (opened["name"], opened["address"]) != (secret.name, secret.address):
        raise BotError(f"the secret {quote(secret.name)} has been changed in the database; store it again")
    return str(opened["value"])


def secrets_renew() -> int:
    """Encrypt every secret with the newest key; return the number of failures.

    Secrets that no key decrypts stay unchanged.
    """
    from cryptography.fernet import InvalidToken

    n_closed = 0
    for secret in Secret.objects.all():
        try:
            sealed = _fernet().rotate(secret.sealed.encode()).decode()
        except (InvalidToken, ValueError):
            n_closed += 1
        else:
            Secret.objects.filter(pk=secret.pk, sealed=secret.sealed).update(sealed=sealed)
    record(SECRETS_RENEW, failed=n_closed)
    return n_closed


def _seal(name: str, address: str, value: str) -> str:
    value = value.strip()
    if not value or len(value) > LONGEST_SECRET or not value.isascii() or not value.isprintable():
        raise Refused("bad_secret", f"A secret must be one line of 1 to {LONGEST_SECRET:,} printable ASCII characters.")
    if not can_store_secrets():
        raise Refused(
            "bad_secret", "This server cannot store secrets. Ask your administrator to set CONFAB_SECRETS_KEY."
        )
    return _fernet().encrypt(json.dumps({"name": name, "address": address, "value": value}).encode()).decode()


def secrets_with_bots() -> QuerySet[Secret]:
    """Return the secrets by name, each with the bots that use it."""
    return Secret.objects.prefetch_related("bots")


def _fernet() -> MultiFernet:
    from cryptography.fernet import Fernet, InvalidToken, MultiFernet

    if not can_store_secrets():
        raise InvalidToken
    return MultiFernet([Fernet(key) for key in settings.CONFAB_SECRETS_KEYS])


log = logging.getLogger(__name__)

KINDS = ("endpoint", "transformers", "gguf")
"""Kinds that can be added in the browser; plug-ins and checkpoints are declared in `bots.yaml`."""
LONGEST_PARAMS = 50_000
_KEYS = {"api_key_env": "base_url", "fallback_api_key_env": "fallback_url"}


def declared_bot_make(
    *,
    bot_id: str,
    kind: str,
    title: str,
    params: Mapping[str, Any],
    secret: Secret | None = None,
    key: str | None = None,
) -> Bot:
    """Build a bot without registering or loading it.

    Args:
        key: key to send instead of a stored secret, for a test reply before saving.

    Raises:
        ValuesError: with all mistakes; their paths are `id`, `kind`, `name`, `secret` and `params.…`.
    """
    entry = {"id": bot_id, "kind": kind, "name": title or None, "params": dict(params)}
    mistakes: list[Mistake] = list(_mistakes(kind, params, secret))
    if len(title) > 200:
        mistakes.append(Mistake("name", "name is too long; it must have at most 200 characters"))
    if not are_sanitised(entry) or len(str(params)) > LONGEST_PARAMS:
        raise ValuesError(
            [*mistakes, Mistake("params", "the parameters are too long or contain characters that cannot be stored")]
        )
    try:
        bot: Any = configured_bots.make(entry)
    except ValuesError as error:
        raise ValuesError([*error.mistakes, *mistakes]) from None
    if mistakes:
        raise ValuesError(mistakes)
    if kind == "endpoint":
        bot.public_only = not settings.CONFAB_PRIVATE_ADDRESSES
        if key is not None:
            bot.key_source = lambda _url: key
        elif secret is not None:
            bot.key_source = partial(secret_open, secret)
    return bot


def _mistakes(kind: str, params: Mapping[str, Any], secret: Secret | None) -> Iterator[Mistake]:
    """Yield errors for settings allowed in `bots.yaml` only."""
    if kind not in KINDS:
        yield Mistake("kind", f"kind is {quote(kind)}; it must be one of {', '.join(KINDS)}")
    model = params.get("model")
    is_path = (kind == "gguf" and model != SMOLLM2) or (kind == "transformers" and is_local(str(model)))
    if is_path and isinstance(model, str) and not _is_below_folders(model):
        folders = ", ".join(map(str, settings.CONFAB_MODEL_FOLDERS))
        hub = "" if kind == "gguf" else "the id of a model on Hugging Face, or "
        yield Mistake(
            "params.model",
            f"params.model is {quote(model)}; it must be {hub}a path below {folders} (CONFAB_MODEL_FOLDERS)",
        )
    if kind != "endpoint":
        return
    allowed = settings.CONFAB_BOT_KEY_VARIABLES
    for name, url_param in _KEYS.items():
        variable, url = params.get(name), params.get(url_param)
        if not variable:
            continue
        if variable not in allowed:  # may be a key, so it is not quoted
            names = ", ".join(allowed) or "none so far"
            yield Mistake(
                f"params.{name}",
                f"{name} is not a variable that this server allows; it allows {names} (CONFAB_BOT_KEY_VARIABLES)",
            )
        elif allowed[variable] and origin_of(str(url or "")) != origin_of(allowed[variable]):
            yield Mistake(f"params.{name}", f"the key in {variable} can only be sent to {allowed[variable]}")
    if secret is not None and params.get("api_key_env"):
        yield Mistake("secret", "a bot can have a stored key or a variable, not both")
    base_url = params.get("base_url")
    if secret is not None and origin_of(str(base_url)) != secret.address:
        yield Mistake("secret", f"the secret {quote(secret.name)} is only for {secret.address}")
    for url_param in _KEYS.values():
        host = _literal_host(params.get(url_param))
        if host and not settings.CONFAB_PRIVATE_ADDRESSES and (refusal := private_refusal(host, [host])):
            yield Mistake(f"params.{url_param}", refusal)


def _literal_host(url: Any) -> str:
    """Return the IP address that a URL names.

    Empty for a host name, which is looked up at each connection.
    """
    try:
        host = urlsplit(str(url)).hostname or ""
        return "127.0.0.1" if host == "localhost" else str(ip_address(host))
    except ValueError:
        return ""


def _is_below_folders(model: str) -> bool:
    path = Path(os.path.realpath(Path(model).expanduser()))
    return any(path.is_relative_to(folder) for folder in settings.CONFAB_MODEL_FOLDERS)


def declared_bot_save(
    *,
    bot_id: str,
    kind: str,
    title: str,
    params: Mapping[str, Any],
    secret: Secret | None = None,
    row: DeclaredBot | None = None,
) -> DeclaredBot:
    """Store a new or changed bot.

    A new identity needs a new test reply.

    Raises:
        ValuesError: with all mistakes; nothing is stored.
    """
    bot = declared_bot_make(bot_id=bot_id, kind=kind, title=title, params=params, secret=secret)
    if row is None:
        declared_discover()
        if bot_id in registry:
            raise ValuesError([Mistake("id", f"the id {quote(bot_id)} is not available; choose another id")])
        row = DeclaredBot(bot_id=bot_id, revision=0)
    before = registry.get(bot_id).identity.key if bot_id in registry else ""
    row.kind, row.title, row.params, row.secret = kind, title or bot_id, dict(params), secret
    try:
        with transaction.atomic():
            row.revision += 1
            row.save()
            if bot.identity.key != before:
                bot_put_back(bot_id=bot_id)
                BotHealth.objects.filter(bot_id=bot_id).delete()
            record(BOT_SAVE, row, revision=row.revision)
    except IntegrityError:
        raise ValuesError([Mistake("id", f"the id {quote(bot_id)} is not available; choose another id")]) from None
    declared_discover()
    return row


def declared_bot_archive(*, row: DeclaredBot, is_archived: bool) -> None:
    """Archive a bot or restore it.

    Its id and conversations are kept.
    """
    row.archived_at = database_now() if is_archived else None
    row.revision += 1
    with transaction.atomic():
        row.save(update_fields=["archived_at", "revision", "updated_at"])
        record(BOT_ARCHIVE, row, is_archived=is_archived)
    declared_discover()


_lock = threading.RLock()
_is_discovering = False
_registered: dict[str, int] = {}
_projects: dict[str, str | None] = {}
"""Project of each row, also of one in the archive; None for a bot that all projects share."""
_has_read = False
_namesakes: set[str] = set()
"""Ids of rows that a bot of the server, such as one of `bots.yaml`, also has."""
broken: dict[str, tuple[str, str, str]] = {}
"""Rows that cannot be used as bots here: title, kind and reason, by id."""


def is_visible(bot_id: str) -> bool:
    """Return True if the active project can use the bot.

    It can use its own and shared ones, and bots that were not added in the browser. Rows are read first if this process
    has not read any. A row of another project never hides a bot of the server.
    """
    if active_project() is not None and not _has_read:
        declared_discover()
    return is_row_visible(bot_id) or bot_id in _namesakes


def is_row_visible(bot_id: str) -> bool:
    """Return True if there is no row of this id, or one that the active project can use."""
    project = active_project()
    return project is None or _projects.get(bot_id) in (None, project)


def is_declared(bot_id: str) -> bool:
    """Return True if this process knows the bot from a row."""
    return bot_id in _registered


def declared_bot_of(bot_id: str) -> DeclaredBot | None:
    """Return the row of a bot added here, archived or not.

    None if there is none.
    """
    return DeclaredBot.objects.filter(bot_id=bot_id).first()


def own_declared_bot(bot_id: str) -> DeclaredBot | None:
    """Return the row of the active project's own bot, archived or not.

    A bot that another project shares is not its own.
    """
    row = declared_bot_of(bot_id)
    return row if row is not None and active_project() in (None, row.project_id) else None


def declared_bot_share(*, row: DeclaredBot, is_shared: bool) -> None:
    """Share a bot with all projects, or stop sharing it."""
    row.is_shared = is_shared
    row.revision += 1
    with transaction.atomic():
        row.save(update_fields=["is_shared", "revision", "updated_at"])
        record(BOT_SHARE, row, is_shared=is_shared)
    declared_discover()


def declared_bots_archived() -> QuerySet[DeclaredBot]:
    """Return the bots in the archive."""
    return DeclaredBot.objects.exclude(archived_at=None)


def declared_discover() -> None:
    """Synchronise the registry with the rows; one query if unchanged.

    On an event loop, which cannot query the database, nothing happens.
    """
    global _is_discovering
    if _on_event_loop():
        return
    with _lock:
        if _is_discovering:  # registering looks into the registry, which calls this function
            return
        _is_discovering = True
        try:
            _discover()
        finally:
            _is_discovering = False


def _discover() -> None:
    global _projects, _has_read
    rows, projects = {}, dict[str, str | None]()
    for bot_id, revision, project, is_shared, archived_at in DeclaredBot.everywhere.values_list(
        "bot_id", "revision", "project", "is_shared", "archived_at"
    ):
        projects[bot_id] = None if is_shared else project
        if archived_at is None:
            rows[bot_id] = revision
    _projects, _has_read = projects, True  # before the bots are registered, so that none is visible too early
    _namesakes.intersection_update(rows)
    for bot_id in _registered.keys() - rows.keys():
        _forget(bot_id)
    changed = [bot_id for bot_id, revision in rows.items() if _registered.get(bot_id) != revision]
    for row in DeclaredBot.everywhere.filter(bot_id__in=changed).select_related("secret") if changed else ():
        _register(row)


def _register(row: DeclaredBot) -> None:
    is_ours = row.bot_id in _registered and row.bot_id not in broken
    _registered[row.bot_id] = row.revision
    broken.pop(row.bot_id, None)
    _namesakes.discard(row.bot_id)
    try:
        if row.bot_id in registry and not is_ours:
            _namesakes.add(row.bot_id)
            raise ValuesError(f"another bot here is called {quote(row.bot_id)}; rename that one in bots.yaml")
        bot = declared_bot_make(bot_id=row.bot_id, kind=row.kind, title=row.title, params=row.params, secret=row.secret)
    except (ValuesError, BotError) as error:
        if is_ours:
            registry.discard(row.bot_id)
        broken[row.bot_id] = (row.title, row.kind, str(error))
        log.warning("bot %s cannot be used: %s", row.bot_id, error)
    else:
        registry.put(bot)


def _forget(bot_id: str) -> None:
    del _registered[bot_id]
    if broken.pop(bot_id, None) is None:
        registry.discard(bot_id)


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
