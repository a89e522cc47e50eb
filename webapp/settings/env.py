"""The environment, read once, with a file `.env` beneath it, and where Confab keeps its data.

In a checkout both are found beside `manage.py`: `.env`, and the data in `var/`. An installed package keeps its data in
`confab-data` of the working directory, never in site-packages, and reads `.env` in that folder.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

from chatbots.data_folder import IS_CHECKOUT, ROOT, usual_data_folder
from webapp.settings.reading import Environment

BASE_DIR = ROOT

env = Environment()
if IS_CHECKOUT:
    environ.Env.read_env(BASE_DIR / ".env")
DATA_DIR = Path(env.text("CONFAB_DATA_DIR", default=str(usual_data_folder()))).resolve()
if not IS_CHECKOUT:
    environ.Env.read_env(DATA_DIR / ".env")


def proxy_count(default: int) -> int:
    """Return the number of trusted reverse proxies in front, each with its X-Forwarded-For."""
    return env.whole("CONFAB_PROXY_COUNT", default=default, least=0)


def path_prefix(given: str) -> str:
    """Return the path below which Confab lies: a slash first, none at the end, or nothing.

    Raises:
        ImproperlyConfigured: for what is no path.
    """
    names = [name for name in given.split("/") if name]
    if not all(re.fullmatch(r"[\w.~-]+", name) for name in names):
        raise ImproperlyConfigured(
            f"CONFAB_PATH_PREFIX is {given!r}; it must be a path such as /confab, of letters, digits, - . _ and ~"
        )
    return "".join(f"/{name}" for name in names)


def owner_only(*files: Path) -> None:
    """Restrict existing files to their owner; those of other users stay as they are."""
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
            f"the folder {folder} cannot be made ({error.strerror}); name another one with {variable}"
        ) from None
    if is_written and not os.access(folder, os.W_OK | os.X_OK):
        raise ImproperlyConfigured(
            f"the folder {folder} cannot be written to; let this user write there or name another "
            f"one with {variable}"
        )
    return folder
