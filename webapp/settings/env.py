"""Environment variables, read once and validated, and the data folder.

Each variable is parsed by its type: a number, an address, one of several names. An invalid value stops every process
with one sentence that names the variable, its value and the expected form. An empty variable counts as not set.
Passwords are removed from displayed values.

The environment overrides a file `.env`. In a checkout the file is next to `manage.py`, and the data are in `var/`. An
installed package keeps its data in `confab-data` of the working directory, never in site-packages, and reads `.env` in
that folder.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from email.utils import parseaddr
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from chatbots.installation import INSTALLATION_ROOT, IS_CHECKOUT, default_data_folder

_YES = {"true", "yes", "y", "on", "1"}
_NO = {"false", "no", "n", "off", "0"}
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
_POSTGRES = ("postgres", "postgresql", "psql", "pgsql")
_MAIL = ("smtp", "smtp+tls", "smtp+ssl", "smtps", "consolemail", "filemail", "dummymail")
_SHORTEST_KEY = 32
_NEARLY = 0.9


class Environment:
    """Environment variables, each parsed by the method of its type.

    Each method takes the variable's name and the `default` for a variable that is not set. Without a default, `text`,
    `key` and `hosts` require the variable.
    """

    def __init__(self) -> None:
        self._read: set[str] = set()

    def misspelt(self) -> dict[str, str]:
        """Return unused variables of ours, each with a similar known name."""
        suggestions = {}
        for name in os.environ:
            if name.startswith("CONFAB_") and name not in self._read:
                for meant in get_close_matches(name, self._read, n=1, cutoff=_NEARLY):
                    suggestions[name] = meant
        return suggestions

    def text(self, name: str, default: str | None = None, *, hint: str = "") -> str:
        """Return the text.

        Args:
            hint: advice if a required variable is not set.
        """
        self._read.add(name)
        text = os.environ.get(name, "").strip()
        if text or default is not None:
            return text or str(default)
        raise ImproperlyConfigured(f"{name} is not set{hint and '; '}{hint}")

    def key(self, name: str, default: str | None = None) -> str:
        """Return a secret for signing, which must be long."""
        hint = 'generate one: python -c "import secrets; print(secrets.token_urlsafe(50))"'
        text = self.text(name, default, hint=hint)
        if text and len(text) < _SHORTEST_KEY:
            raise ImproperlyConfigured(
                f"{name} has {len(text)} characters and can be guessed; it must have at least {_SHORTEST_KEY} "
                f"random characters; {hint}"
            )
        return text

    def fallback_keys(self, name: str, default: Sequence[str]) -> list[str]:
        """Return earlier secrets for signing, newest first."""
        keys = self.names(name, default)
        if any(len(key) < _SHORTEST_KEY for key in keys):
            raise ImproperlyConfigured(
                f"{name} contains a key that was never valid: each must have at least {_SHORTEST_KEY} characters"
            )
        return keys

    def fernet_keys(self, name: str, default: Sequence[str]) -> list[str]:
        """Return encryption keys, newest first."""
        keys = self.names(name, default)
        for key in keys:
            if not re.fullmatch(r"[A-Za-z0-9_-]{43}=", key):
                command = 'python -c "import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())"'
                raise ImproperlyConfigured(
                    f"{name} contains an invalid key; each must be 32 bytes in URL-safe base64; generate one: {command}"
                )
        return keys

    def integer(self, name: str, default: int, *, minimum: int | None = None, maximum: int | None = None) -> int:
        """Return a whole number between `minimum` and `maximum`."""
        text = self.text(name, str(default))
        number = int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None
        if number is None or (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
            raise _wrong(name, text, f"a whole number{_between(minimum, maximum)}, such as {default}")
        return number

    def number(self, name: str, default: float, *, minimum: float = 0.0) -> float:
        """Return a number of at least `minimum`."""
        text = self.text(name, str(default))
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number >= minimum):
            raise _wrong(name, text, f"a number{_between(minimum, None)}, such as {default}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        """Return True if the variable is true."""
        text = self.text(name, str(default))
        if text.lower() not in _YES | _NO:
            raise _wrong(name, text, "True or False")
        return text.lower() in _YES

    def choice(self, name: str, default: str, *, choices: Sequence[str]) -> str:
        """Return one of the names `choices`."""
        text = self.text(name, default)
        if text not in choices:
            raise _wrong(name, text, f"{', '.join(choices[:-1])} or {choices[-1]}")
        return text

    def match(self, name: str, default: str, *, pattern: str, like: str) -> str:
        """Return `text` if it matches the pattern.

        `like` describes the pattern in errors.
        """
        text = self.text(name, default)
        if text and not re.fullmatch(pattern, text):
            raise _wrong(name, text, like)
        return text

    def names(self, name: str, default: Sequence[str] | None = None, *, hint: str = "") -> list[str]:
        """Return comma-separated values without surrounding spaces."""
        text = self.text(name, None if default is None else "", hint=hint)
        names = [part.strip() for part in text.split(",") if part.strip()]
        return names or list(default or [])

    def hosts(self, name: str, default: Sequence[str] | None = None) -> list[str]:
        """Return host names, without addresses and ports."""
        pattern = rf"\*|\.?{_HOST}|\[[0-9a-fA-F:.]+\]"
        like = "host names such as confab.example.org, without https://, port and path"
        return self._each(self.names(name, default, hint=f"it must be {like}"), name, pattern, like)

    def origins(self, name: str, default: Sequence[str]) -> list[str]:
        """Return origins, such as https://confab.example.org."""
        pattern = rf"https?://(?:\*\.)?(?:{_HOST}|\[[0-9a-fA-F:.]+\])(?::[0-9]+)?"
        like = "origins such as https://confab.example.org, without a path or a final slash"
        return self._each(self.names(name, default), name, pattern, like)

    def networks(self, name: str, default: Sequence[str]) -> list[str]:
        """Return IP addresses and networks."""
        networks = self.names(name, default)
        for text in networks:
            try:
                ipaddress.ip_network(text, strict=False)
            except ValueError:
                raise _wrong(name, text, "addresses or networks such as 10.0.0.0/8", "has") from None
        return networks

    def mailbox(self, name: str, default: str) -> str:
        """Return one e-mail address, with or without a name before it."""
        return self._mailboxes([self.text(name, default)], name, "is", "an address")[0]

    def mailboxes(self, name: str, default: Sequence[str]) -> list[str]:
        """Return e-mail addresses."""
        return self._mailboxes(self.names(name, default), name, "has", "addresses")

    def address(self, name: str, default: str) -> str:
        """Return a web address, or the default."""
        text = self.text(name, default)
        if text and not (_parts(text, ("http", "https"))):
            raise _wrong(name, text, "an address such as https://confab.example.org")
        return text

    def redis(self, name: str, default: str) -> str:
        """Return the address of a Redis, or the default."""
        text = self.text(name, default)
        parts = _parts(text, ("redis", "rediss"))
        if text and not (parts and re.fullmatch(r"/?[0-9]*", parts.path)):
            raise _wrong(name, text, "an address such as redis://host:6379/0")
        return text

    def database(self, name: str, default: dict[str, Any]) -> dict[str, Any]:
        """Return Django's database settings.

        They are the named PostgreSQL, the SQLite file, or the default.
        """
        text = self.text(name, "")
        right = "an address such as postgres://user:password@host:5432/confab, or empty for SQLite"
        if not text:
            return default
        if not re.fullmatch(rf"(?:{'|'.join(_POSTGRES)})://[^/]*/+[^/].*|sqlite:///.+", text):
            raise _wrong(name, text, right)
        try:
            return dict(environ.Env.db_url_config(text))
        except ValueError:
            raise _wrong(name, text, f"{right}; write a character such as # or / in a password as %23 or %2F") from None

    def mail_server(self, name: str, default: str) -> dict[str, Any]:
        """Return Django's settings of the mail server."""
        text = self.text(name, default)
        scheme = text.partition(":")[0]
        if not (_parts(text, _MAIL) or (scheme in _MAIL[-3:] and "://" in text)):
            raise _wrong(name, text, "an address such as smtp+tls://user:password@host:587")
        return dict(environ.Env.email_url_config(text))

    def pools(self, name: str, default: dict[str, str]) -> dict[str, str]:
        """Return the pool of each bot, from comma-separated `pool=bot|bot`."""
        pool_by_bot = dict(default)
        for entry in self.names(name, []):
            pool, equals, bots = entry.partition("=")
            names = [bot.strip() for bot in bots.split("|") if bot.strip()]
            if not (pool.strip() and equals and names):
                raise _wrong(name, entry, "pools with their bots, such as gpu2=hred|vhred", "has")
            pool_by_bot.update(dict.fromkeys(names, pool.strip()))
        return pool_by_bot

    def _each(self, values: list[str], name: str, pattern: str, like: str) -> list[str]:
        for text in values:
            if not re.fullmatch(pattern, text):
                raise _wrong(name, text, like, "has")
        return values

    def _mailboxes(self, addresses: list[str], name: str, verb: str, kind: str) -> list[str]:
        for text in addresses:
            if not re.fullmatch(r"[^@\s]+@[^@\s]+", parseaddr(text)[1]):
                raise _wrong(name, text, f"{kind} such as lab@example.org", verb)
        return addresses


def _parts(text: str, schemes: Sequence[str]) -> Any:
    """Return the parts of an address with a host and one of these schemes.

    None for anything else.
    """
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  (reading it checks it)
    except ValueError:
        return None
    return parts if parts.scheme in schemes and parts.hostname else None


def _between(minimum: float | None, maximum: float | None) -> str:
    if minimum is not None and maximum is not None:
        return f" from {minimum:g} to {maximum:g}"
    return "" if minimum is None else f" of at least {minimum:g}"


def _wrong(name: str, text: str, right: str, verb: str = "is") -> ImproperlyConfigured:
    """Build the error of an invalid value.

    Passwords are not shown.
    """
    masked = re.sub(r"//.*@", "//…@", text)
    return ImproperlyConfigured(f"{name} {verb} {masked!r}; it must be {right}")


BASE_DIR = INSTALLATION_ROOT

env = Environment()
if IS_CHECKOUT:
    environ.Env.read_env(BASE_DIR / ".env")
DATA_DIR = Path(env.text("CONFAB_DATA_DIR", default=str(default_data_folder()))).resolve()
if not IS_CHECKOUT:
    environ.Env.read_env(DATA_DIR / ".env")
# OpenBLAS reads this when NumPy is loaded: threads that share small systems spin while waiting.
os.environ["OPENBLAS_NUM_THREADS"] = str(env.integer("OPENBLAS_NUM_THREADS", default=1, minimum=1))


def proxy_count(default: int) -> int:
    """Return the number of trusted reverse proxies.

    Each of them sets X-Forwarded-For.
    """
    return env.integer("CONFAB_PROXY_COUNT", default=default, minimum=0)


def path_prefix(text: str) -> str:
    """Return the path below which Confab runs.

    It starts with a slash and does not end with one; it may be empty.

    Raises:
        ImproperlyConfigured: the value is not a path.
    """
    names = [name for name in text.split("/") if name]
    if not all(re.fullmatch(r"[\w.~-]+", name) for name in names):
        raise ImproperlyConfigured(
            f"CONFAB_PATH_PREFIX is {text!r}; it must be a path such as /confab with letters, digits, - . _ and ~"
        )
    return "".join(f"/{name}" for name in names)


def owner_only(*files: Path) -> None:
    """Restrict existing files to their owner.

    Files of other users are not changed.
    """
    for file in files:
        with contextlib.suppress(OSError):
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)


def folder_made(folder: Path, variable: str, *, is_written: bool = True) -> Path:
    """Return the folder, made if need be.

    Args:
        variable: the environment variable that names another folder.
        is_written: whether it must be writable, not only there.

    Raises:
        ImproperlyConfigured: it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"the folder {folder} cannot be created ({error.strerror}); name another one with {variable}"
        ) from None
    if is_written and not os.access(folder, os.W_OK | os.X_OK):
        raise ImproperlyConfigured(
            f"the folder {folder} is not writable; give this user write access or name another one with {variable}"
        )
    return folder
