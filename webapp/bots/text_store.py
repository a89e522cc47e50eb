"""Store of encoded texts of this installation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from chatbots.data_folder import TEXTS

if TYPE_CHECKING:
    from chatbots.encoders.text_store import TextStore


def text_store() -> TextStore:
    """Return the store in the data folder; every process of a host shares its file."""
    from chatbots.encoders.text_store import TextStore

    return TextStore(settings.DATA_DIR / TEXTS)
