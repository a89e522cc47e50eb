"""Text layout in plots: estimated width, truncation, and tick labels."""

from __future__ import annotations

import unicodedata

from evaluation.printing import MINUS

# Advance widths of Helvetica, in thousandths of the font size; system fonts are close to it.
_NARROW = {**dict.fromkeys("iIjl'|.,:;! ", 278), **dict.fromkeys("ft()[]r/\\-`", 333)}
_WIDE = {**dict.fromkeys("mMW%@", 890), **dict.fromkeys("w&GOQ", 760), **dict.fromkeys("–—−", 584)}
_SAFETY = 1.14  # Inter and Segoe UI run a little wider, DejaVu and Verdana more


def text_width(text: str, size: float = 13, *, bold: bool = False) -> float:
    """Estimate the pixels that one line of text takes, rather too many than too few."""
    thousandths = 0
    for letter in text:
        if letter in _NARROW:
            thousandths += _NARROW[letter]
        elif letter in _WIDE:
            thousandths += _WIDE[letter]
        elif unicodedata.combining(letter):
            continue
        elif unicodedata.east_asian_width(letter) in "WF":
            thousandths += 1000
        elif letter.isupper():
            thousandths += 690
        else:
            thousandths += 556
    return thousandths / 1000 * size * _SAFETY * (1.13 if bold else 1)


NAME_PX = text_width("n" * 24)
"""Room for a bot's name of 24 letters, which no wide drawing cuts."""


def shorten(text: str, width: float, size: float = 13, *, bold: bool = False) -> str:
    """Return the text, cut with an ellipsis where it is wider than `width` pixels."""
    text = " ".join(text.split())
    if text_width(text, size, bold=bold) <= width:
        return text
    while text and text_width(text + "…", size, bold=bold) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def plain(value: float) -> str:
    """Return a tick's label with as few decimals as it takes."""
    return f"{value:.10g}".replace("-", MINUS)
