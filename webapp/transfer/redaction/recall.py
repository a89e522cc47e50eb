"""Recall and precision of the redaction rules on texts with marked personal data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from webapp.transfer.redaction.rules import KINDS, Rules

_MARK = re.compile(r"\{\{(\w+)\|(.*?)\}\}")
_NAMES = "# names:"
Span = tuple[str, int, int]
"""Kind, start and end of personal data in a text."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Counts of one kind.

    Attributes:
        n_marked: marked spans.
        n_hits: hits of the rules.
        n_right: hits that equal a marked span.
    """

    kind: str
    n_marked: int
    n_hits: int
    n_right: int


def read_marked(path: Path) -> tuple[list[str], list[tuple[str, list[Span]]]]:
    """Return the listed names, and the texts of a file with their marked spans."""
    names: list[str] = []
    texts = []
    for line in path.read_text("utf-8").splitlines():
        if line.startswith(_NAMES):
            names = [name.strip() for name in line.removeprefix(_NAMES).split(",")]
        if not line.startswith("#"):
            text, spans, position = "", [], 0
            for mark in _MARK.finditer(line):
                text += line[position : mark.start()]
                spans.append((mark[1], len(text), len(text) + len(mark[2])))
                text, position = text + mark[2], mark.end()
            texts.append((text + line[position:], spans))
    return names, texts


def measure_recall(path: Path, *, with_names: bool = True) -> Iterator[Recall]:
    """Yield the counts of each kind on a file of marked texts, whose name is their language."""
    names, texts = read_marked(path)
    rules = Rules(names if with_names else (), path.stem)
    results = [(spans, [(hit.kind, hit.start, hit.end) for hit in rules.find_hits(text)]) for text, spans in texts]
    for kind in KINDS:
        marked = [{span for span in spans if span[0] == kind} for spans, _hits in results]
        hits = [{hit for hit in hits if hit[0] == kind} for _spans, hits in results]
        n_right = sum(len(spans & text_hits) for spans, text_hits in zip(marked, hits, strict=True))
        yield Recall(kind, sum(map(len, marked)), sum(map(len, hits)), n_right)
