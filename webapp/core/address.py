"""Address of the running server: `serve` keeps it in the data folder, commands read it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

_ANY_HOST = ("0.0.0.0", "::")  # noqa: S104


def address_of(host: str, port: int) -> str:
    """Build the address by which this machine reaches a server, path prefix included."""
    shown = "127.0.0.1" if host in _ANY_HOST else host
    shown = f"[{shown}]" if ":" in shown else shown
    return f"http://{shown}:{port}{settings.CONFAB_PATH_PREFIX}"


def server_address() -> str:
    """Read the running server's address; HOST and PORT come first where they are set.

    Without a running server it is the address at which `serve` would listen.
    """
    try:
        running = urlsplit(_file().read_text(encoding="utf-8"))
        host, port = running.hostname or settings.HOST, running.port or settings.PORT
    except (FileNotFoundError, ValueError):
        return address_of(settings.HOST, settings.PORT)
    return address_of(
        settings.HOST if "HOST" in settings.ADDRESS_SET else host,
        settings.PORT if "PORT" in settings.ADDRESS_SET else port,
    )


def address_write(address: str) -> None:
    """Keep the address of this server while it runs."""
    _file().write_text(address, encoding="utf-8")


def address_forget(address: str) -> None:
    """Delete the kept address, unless another server wrote its own since."""
    with contextlib.suppress(FileNotFoundError):
        if _file().read_text(encoding="utf-8") == address:
            _file().unlink()


def _file() -> Path:
    return Path(settings.DATA_DIR) / "server-address.txt"
