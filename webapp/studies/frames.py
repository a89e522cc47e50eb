"""Origins that may show a study in a frame, as researchers write them."""

from __future__ import annotations

import re

_ORIGIN = re.compile(r"https?://[a-z0-9*][a-z0-9.*-]*(:\d+)?", re.IGNORECASE)


def frame_origins(text: str) -> tuple[list[str], list[str]]:
    """Return the origins in a text, and the words in it that are no origins."""
    words = [word for word in re.split(r"[\s,;]+", text) if word]
    origins = [word for word in words if _ORIGIN.fullmatch(word)]
    return origins, [word for word in words if word not in origins]
