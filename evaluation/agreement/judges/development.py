"""Development of a judge: split of its gold set, and differences of prompts."""

from __future__ import annotations

import difflib
import hashlib
import re
from typing import Literal

from evaluation.agreement.judges.gold import GoldSet

GoldPart = Literal["development", "test"]


def assign_parts(gold: GoldSet, seed: str, test_share: float) -> list[GoldPart]:
    """Assign each instance to development or test, the same for all instances of a context.

    The part depends on the context and the seed only, so later instances do not move earlier ones.

    Args:
        test_share: expected share of test contexts, between 0 and 1.
    """
    digests = [hashlib.sha256(f"{seed}\0{context}".encode()).hexdigest() for context in gold.contexts]
    return ["test" if int(digest[:13], 16) / 16**13 < test_share else "development" for digest in digests]


def compare_words(before: str, after: str) -> list[tuple[str, str]]:
    """Return the pieces of two texts, in the order of reading, as `equal`, `delete` or `insert`."""
    old, new = (re.findall(r"\s+|\w+|[^\w\s]", text) for text in (before, after))
    pieces: list[tuple[str, str]] = []
    for tag, old_start, old_end, new_start, new_end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        deleted, inserted = "".join(old[old_start:old_end]), "".join(new[new_start:new_end])
        pieces += [(tag, deleted)] if tag == "equal" else [("delete", deleted), ("insert", inserted)]
    return [(kind, text) for kind, text in pieces if text]
