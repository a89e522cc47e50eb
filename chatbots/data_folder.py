"""Default data folder of Confab, for the server and for notebooks; CONFAB_DATA_DIR names another."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IS_CHECKOUT = (ROOT / "manage.py").is_file()

TEXTS = Path("cache", "texts.sqlite3")
"""Below the data folder: what encoders made of texts."""


def usual_data_folder() -> Path:
    """Return `var/` of a checkout; of an installed package `confab-data` in the working directory."""
    return ROOT / "var" if IS_CHECKOUT else Path.cwd() / "confab-data"
