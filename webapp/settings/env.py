"""The environment, read once, with `.env` of the working directory beneath it."""

from __future__ import annotations

from pathlib import Path

import environ

BASE_DIR = Path(__file__).resolve().parents[2]

env = environ.Env()
environ.Env.read_env(BASE_DIR / ".env")

DATA_DIR = Path(env.str("CONFAB_DATA_DIR", default=str(BASE_DIR / "var"))).resolve()
