"""Version, commit, package versions and default data folder of this installation.

The version is defined only here. CONFAB_DATA_DIR overrides the data folder.
"""

from __future__ import annotations

import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

VERSION = "0.9.0"
COMMIT_FILE = "commit.txt"
"""Name of a file next to this module, written when a wheel or image is built."""


@cache
def commit() -> str | None:
    """Return the commit of this code, or None if neither build nor git knows it."""
    baked = Path(__file__).with_name(COMMIT_FILE)
    if baked.is_file():
        return baked.read_text(encoding="utf-8").strip() or None
    return commit_of_checkout(Path(__file__).resolve().parents[1])


def commit_of_checkout(folder: Path) -> str | None:
    """Return the short commit checked out in `folder`, with `-dirty` if files differ.

    Returns None if the folder is not the root of a checkout or git is missing.
    """
    if not (folder / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def release() -> str:
    """Return the version and, if known, the commit: `0.9.0 (commit c268cb4f1a2b)`."""
    made_from = commit()
    return f"{VERSION} (commit {made_from})" if made_from else VERSION


@cache
def package_version(name: str) -> str | None:
    """Return the installed version of a package, or None.

    Cached, because identities of metrics and encoders need it often.
    """
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


INSTALLATION_ROOT = Path(__file__).resolve().parents[1]
IS_CHECKOUT = (INSTALLATION_ROOT / "manage.py").is_file()

TEXT_STORE_PATH = Path("cache", "texts.sqlite3")
"""Path below the data folder of the store of text vectors."""


def default_data_folder() -> Path:
    """Return `var/` in a checkout, else `confab-data` in the working directory."""
    return INSTALLATION_ROOT / "var" if IS_CHECKOUT else Path.cwd() / "confab-data"
