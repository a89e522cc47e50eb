"""Confab's own format: `{"turns": ["…", …]}` per line of a `.jsonl` or `.jsonl.gz` file.

Reads one file or a folder of them. A line may also have `id`, `topic`, `split` and `speakers` (one name per turn).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chatbots.corpora.dialogues import Dialogue, corpus_read


def read(path: Path) -> Iterator[Dialogue]:
    """Yield the dialogues, in the order of files and lines."""
    yield from corpus_read(path).dialogues
