"""Development of a judge: split of its gold set, and differences of prompts."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable
from typing import Literal

from chatbots import Conversation
from evaluation.agreement.judges.gold import GoldSet

GoldPart = Literal["development", "test"]
CHAT_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def assign_parts(gold: GoldSet, seed: str, test_share: float) -> list[GoldPart]:
    """Assign each instance to development or test, the same for all instances of a group.

    The part depends on the group and the seed only, so later instances do not move earlier ones.

    Args:
        test_share: expected share of test groups, between 0 and 1.
    """
    digests = [hashlib.sha256(f"{seed}\0{group}".encode()).hexdigest() for group in split_groups(gold)]
    return ["test" if int(digest[:13], 16) / 16**13 < test_share else "development" for digest in digests]


def split_groups(gold: GoldSet) -> list[str]:
    """Return the group of each instance; a group is never divided between development and test.

    Groups are conversations with the same words, replies of one stored chat, and replies to the same words.
    """
    groups = []
    for key, context, text in zip(gold.keys, gold.contexts, gold.texts, strict=True):
        if isinstance(text, Conversation):
            groups.append(_normalise([turn.text for turn in text.turns]))
        elif match := CHAT_ID.search(key):
            groups.append(match[0])
        else:
            groups.append(_normalise(text.context) if text.context else context)
    return groups


def _normalise(utterances: Iterable[str]) -> str:
    return "\n".join(" ".join(text.lower().split()) for text in utterances)


def compare_words(before: str, after: str) -> list[tuple[str, str]]:
    """Return the pieces of two texts, in the order of reading, as `equal`, `delete` or `insert`."""
    old, new = (re.findall(r"\s+|\w+|[^\w\s]", text) for text in (before, after))
    pieces: list[tuple[str, str]] = []
    for tag, old_start, old_end, new_start, new_end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        deleted, inserted = "".join(old[old_start:old_end]), "".join(new[new_start:new_end])
        pieces += [(tag, deleted)] if tag == "equal" else [("delete", deleted), ("insert", inserted)]
    return [(kind, text) for kind, text in pieces if text]
