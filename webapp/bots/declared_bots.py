"""Bots added in the browser: their validation, their rows, and their place in the registry of every process.

The rows are the truth. Their entries pass the validation of `bots.yaml` and, since whoever adds a bot need not be who
runs the server, further rules: which kinds, which variables, which addresses and which folders. Each process looks for
rows that are new or have another `revision` whenever bots are listed, a bot of a row is asked for, or an unknown id is.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from chatbots.bots.base import Bot, BotError
from chatbots.endpoints.addresses import private_refusal
from chatbots.gguf_files import SMOLLM2
from chatbots.huggingface import is_local
from chatbots.registry import bots as registry
from chatbots.text import are_sanitised, quote
from chatbots.validation import Mistake, ValuesError
from chatbots.yaml_registry import configured_bots
from webapp.bots.models import BotHealth, DeclaredBot, Secret
from webapp.bots.secret_store import origin_of, secret_open
from webapp.bots.services import bot_put_back

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
    """Make a bot, which is not registered and not loaded.

    Args:
        key: to be sent in place of the secret's value, by a trial before both are stored.

    Raises:
        ValuesError: with all mistakes; their paths are `id`, `kind`, `name`, `secret` and `params.…`.
    """
    entry = {"id": bot_id, "kind": kind, "name": title or None, "params": dict(params)}
    found: list[Mistake] = list(_mistakes(kind, params, secret))
    if len(title) > 200:
        found.append(Mistake("name", "name is too long; it must have at most 200 characters"))
    if not are_sanitised(entry) or len(str(params)) > LONGEST_PARAMS:
        raise ValuesError([*found, Mistake("params", "the parameters hold signs that cannot be stored, or too many")])
    try:
        bot: Any = configured_bots.make(entry)
    except ValuesError as error:
        raise ValuesError([*error.mistakes, *found]) from None
    if found:
        raise ValuesError(found)
    if kind == "endpoint":
        bot.public_only = not settings.CONFAB_PRIVATE_ADDRESSES
        if key is not None:
            bot.key_source = lambda _url: key
        elif secret is not None:
            bot.key_source = partial(secret_open, secret)
    return bot


def _mistakes(kind: str, params: Mapping[str, Any], secret: Secret | None) -> Iterator[Mistake]:
    """Yield what `bots.yaml` may say and the browser may not."""
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
    for name, at in _KEYS.items():
        variable, url = params.get(name), params.get(at)
        if not variable:
            continue
        if variable not in allowed:  # perhaps a key itself: it is not repeated
            names = ", ".join(allowed) or "none so far"
            yield Mistake(
                f"params.{name}",
                f"{name} is no variable that this server allows; it allows {names} (CONFAB_BOT_KEY_VARIABLES)",
            )
        elif allowed[variable] and origin_of(str(url or "")) != origin_of(allowed[variable]):
            yield Mistake(f"params.{name}", f"the key in {variable} may be sent to {allowed[variable]} alone")
    if secret is not None and params.get("api_key_env"):
        yield Mistake("secret", "a stored key and a variable are named; a bot has one of them")
    base_url = params.get("base_url")
    if secret is not None and origin_of(str(base_url)) != secret.address:
        yield Mistake("secret", f"the secret {quote(secret.name)} is for {secret.address} alone")
    for at in _KEYS.values():
        host = _literal_host(params.get(at))
        if host and not settings.CONFAB_PRIVATE_ADDRESSES and (said := private_refusal(host, [host])):
            yield Mistake(f"params.{at}", said)


def _literal_host(url: Any) -> str:
    """Return the IP address that a URL names; empty for a name, which is looked up at each connection."""
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
    """Store a new bot, or a change of one. Replies of another identity have to be tried again.

    Raises:
        ValuesError: with all mistakes; nothing is stored.
    """
    bot = declared_bot_make(bot_id=bot_id, kind=kind, title=title, params=params, secret=secret)
    if row is None:
        declared_discover()
        if bot_id in registry:
            raise ValuesError([Mistake("id", f"there is a bot {quote(bot_id)} already; choose another id")])
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
    except IntegrityError:
        raise ValuesError([Mistake("id", f"a bot was called {quote(bot_id)} before; choose another id")]) from None
    declared_discover()
    return row


def declared_bot_archive(*, row: DeclaredBot, is_archived: bool) -> None:
    """Take a bot out of every list, or put it back. Its id stays taken, and its conversations stay as they are."""
    row.archived_at = timezone.now() if is_archived else None
    row.revision += 1
    row.save(update_fields=["archived_at", "revision", "updated_at"])
    declared_discover()


_lock = threading.Lock()
_registered: dict[str, int] = {}
broken: dict[str, tuple[str, str, str]] = {}
"""Rows that make no bot here: title, kind and the reason, by id."""


def is_declared(bot_id: str) -> bool:
    """Return True if this process knows the bot from a row."""
    return bot_id in _registered


def declared_bot_of(bot_id: str) -> DeclaredBot | None:
    """Return the row of a bot that was added here, also of one in the archive; None if there is none."""
    return DeclaredBot.objects.filter(bot_id=bot_id).first()


def declared_bots_archived() -> QuerySet[DeclaredBot]:
    """Return the bots in the archive."""
    return DeclaredBot.objects.exclude(archived_at=None)


def declared_discover() -> None:
    """Bring the registry up to the rows, by one query where nothing has changed.

    On an event loop, where the database cannot be asked, it stays as it is.
    """
    if _on_event_loop():
        return
    with _lock:
        rows = dict(DeclaredBot.objects.filter(archived_at=None).values_list("bot_id", "revision"))
        for bot_id in _registered.keys() - rows.keys():
            _forget(bot_id)
        changed = [bot_id for bot_id, revision in rows.items() if _registered.get(bot_id) != revision]
        for row in DeclaredBot.objects.filter(bot_id__in=changed).select_related("secret") if changed else ():
            _register(row)


def _register(row: DeclaredBot) -> None:
    is_ours = row.bot_id in _registered and row.bot_id not in broken
    _registered[row.bot_id] = row.revision
    broken.pop(row.bot_id, None)
    try:
        if row.bot_id in registry and not is_ours:
            raise ValuesError(f"another bot is called {quote(row.bot_id)} here; rename that one in bots.yaml")
        made = declared_bot_make(
            bot_id=row.bot_id, kind=row.kind, title=row.title, params=row.params, secret=row.secret
        )
    except (ValuesError, BotError) as error:
        if is_ours:
            registry.discard(row.bot_id)
        broken[row.bot_id] = (row.title, row.kind, str(error))
        log.warning("the bot %s cannot be used: %s", row.bot_id, error)
    else:
        registry.put(made)


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
