"""Reading of a dialogue corpus in one of the formats of `chatbots/corpora/formats`."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from chatbots.corpora import formats
from chatbots.corpora.dialogues import Corpus, CorpusError
from chatbots.registry import UnknownName
from chatbots.text import nearest_names, quote

FORMATS: tuple[str, ...] = tuple(sorted(m.name for m in pkgutil.iter_modules(formats.__path__)))
"""Names of all formats."""


def corpus_read(format: str, path: Path) -> Corpus:
    """Read a whole corpus; a dialogue is split at turns without text.

    Args:
        format: one of `FORMATS`.
        path: file or folder, depending on the format.

    Raises:
        UnknownName: there is no such format; the message suggests the nearest.
        CorpusError: a line violates the format (with file, line and reason), or there is nothing to read.
    """
    if format not in FORMATS:
        near = nearest_names(format, list(FORMATS))
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UnknownName(f"there is no corpus format {quote(format)}{hint} (available: {', '.join(FORMATS)})")
    if not path.exists():
        raise CorpusError(f"there is no corpus at {path}: neither a file nor a folder")
    read = importlib.import_module(f"{formats.__name__}.{format}").read
    dialogues = tuple(part for d in read(path) for part in d.parts(lambda turn: bool(turn.strip())))
    if not dialogues:
        raise CorpusError(f"the corpus at {path} is empty: it contains no dialogue in the format {format}")
    return Corpus(dialogues)
