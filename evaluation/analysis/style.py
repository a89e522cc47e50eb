"""Style controls of a comparison: a reply's length and markup, apart from its content.

People prefer long and richly marked-up replies. Chiang et al. (2024, Chatbot Arena) hold such features constant by
putting their differences into the Bradley–Terry model next to the bots; the same is done here, on a scale of doublings:
one unit more means twice as long, or twice as much markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

CONTROLS = {"length": "Twice as long", "markup": "Twice as much markup"}
"""What a unit of each control is, for people."""
_MARKUP = re.compile(
    r"^\s{0,3}#{1,6}\s"  # headings
    r"|^\s*(?:[-*+]|\d+[.)])\s"  # items of lists
    r"|\*\*[^*\n]+\*\*|__[^_\n]+__"  # bold
    r"|`[^`\n]+`|^```"  # code
    r"|\[[^\]\n]+\]\([^)\n]+\)"  # links
    r"|^\|.+\|\s*$",  # rows of tables
    re.MULTILINE,
)


def n_markup(text: str) -> int:
    """Return the number of headings, list items, bold words, pieces of code, links and table rows in a text."""
    return len(_MARKUP.findall(text))


def style_controls(
    first: Sequence[Sequence[str]], second: Sequence[Sequence[str]]
) -> dict[str, np.ndarray]:
    """Return for each judgement how much more length and markup the first one's replies have, in doublings.

    Args:
        first, second: (k,) of each judgement the replies that were read, one or several.
    """
    lengths = [[sum(map(len, replies)) for replies in side] for side in (first, second)]
    marks = [[sum(map(n_markup, replies)) for replies in side] for side in (first, second)]
    return {"length": _doublings(*lengths), "markup": _doublings(*marks)}


def _doublings(first: Sequence[int], second: Sequence[int]) -> np.ndarray:
    """Return (k,) the logarithm to base 2 of the ratio; one is added to both, for there may be none."""
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    return np.asarray(np.log2((1 + a) / (1 + b)))
