"""Formats that Confab recognises by their keys but cannot read, for hints to researchers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.data.formats.record_formats import nearest_record_format

_UNREAD = {
    "PersonaChat": (("personality", "persona", "your_persona"), ("utterances", "history", "dialogue")),
    "EmpatheticDialogues": (("conv_id",), ("utterance_idx",)),
    "instructions with answers, such as Alpaca or Dolly": (("instruction",), ("output", "response")),
    "Rasa's tracker": (("sender_id",), ("events",)),
}
"""Keys of unread formats; one of each tuple is needed."""
_ADVICE = (
    'convert it to turns such as {"speaker": "human", "text": "…"}, with dialogue_id and bot, or to a table with a row '
    "per message, whose columns and speakers you assign on the page Import"
)


def foreign_hint(data: Mapping[str, Any]) -> str:
    """Return a hint that names a record's format, or the nearest one that Confab reads, and the way to map it."""
    for title, needs in _UNREAD.items():
        if all(any(key in data for key in keys) for keys in needs):
            return f"; this looks like the format of {title}, which Confab cannot read: {_ADVICE}"
    nearest = nearest_record_format(data)
    if nearest:
        return f"; the nearest format is {nearest}, but keys of it are missing or empty: {_ADVICE}"
    if not {"dialogue_id", "bot"} <= data.keys() and not any(isinstance(value, dict | list) for value in data.values()):
        return (
            "; the nearest format is a table with a header. Assign its columns on the page Import, with --column "
            "ROLE=NAME, or in a notebook with columns={NAME: ROLE}"
        )
    return f"; no known format has such keys: {_ADVICE}"
