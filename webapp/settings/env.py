"""The environment, read once, with `.env` of the working directory beneath it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parents[2]

env = environ.Env()
environ.Env.read_env(BASE_DIR / ".env")

DATA_DIR = Path(env.str("CONFAB_DATA_DIR", default=str(BASE_DIR / "var"))).resolve()


def proxy_count(default: int) -> int:
    """How many reverse proxies in front are believed, each with its X-Forwarded-For."""
    return env.int("CONFAB_PROXY_COUNT", default=default)


def owner_only(*files: Path) -> None:
    """Let nobody but their owner read the files that are there; those of somebody else stay as they are."""
    for file in files:
        with contextlib.suppress(OSError):
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)


def folder_made(folder: Path, variable: str, *, is_written: bool = True) -> Path:
    """The folder, made if need be.

    Args:
        variable: what sets it to another one.
        is_written: it must be writable, not only there.

    Raises:
        ImproperlyConfigured: if it cannot be made or written to.
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
