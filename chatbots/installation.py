"""Version, commit, installed packages and default data folder of this installation.

The version is written in this one place. The data folder is for the server and for notebooks; CONFAB_DATA_DIR
names another.
"""

from __future__ import annotations

import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

VERSION = "0.9.0"
COMMIT_FILE = "commit.txt"
"""Beside this module in a wheel or an image, written when that was built."""


@cache
def commit() -> str | None:
    """Return the commit this code was made from, or None where neither a build nor git tells."""
    baked = Path(__file__).with_name(COMMIT_FILE)
    if baked.is_file():
        return baked.read_text(encoding="utf-8").strip() or None
    return commit_of_checkout(Path(__file__).resolve().parents[1])


def commit_of_checkout(folder: Path) -> str | None:
    """Return the short commit that git has checked out in `folder`, `-dirty` added where files differ from it.

    Returns None if the folder is no checkout of its own or there is no git.
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
    """Return the version and, where it is known, the commit: `0.9.0 (commit c268cb4f1a2b)`."""
    made_from = commit()
    return f"{VERSION} (commit {made_from})" if made_from else VERSION


@cache
def package_version(name: str) -> str | None:
    """Return the installed version of a package; None where it is not installed.

    It is read once in a process: metrics and encoders ask for it whenever they say who they are.
    """
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


INSTALLATION_ROOT = Path(__file__).resolve().parents[1]
IS_CHECKOUT = (INSTALLATION_ROOT / "manage.py").is_file()

TEXT_STORE_PATH = Path("cache", "texts.sqlite3")
"""Below the data folder: what encoders made of texts."""


def default_data_folder() -> Path:
    """Return `var/` of a checkout; of an installed package `confab-data` in the working directory."""
    return INSTALLATION_ROOT / "var" if IS_CHECKOUT else Path.cwd() / "confab-data"
