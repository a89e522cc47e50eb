"""Text in plots: how wide it will be, and how numbers are printed."""

from __future__ import annotations

import math
import unicodedata

# Advance widths of Helvetica, in thousandths of the font size; system fonts are close to it.
_NARROW = {**dict.fromkeys("iIjl'|.,:;! ", 278), **dict.fromkeys("ft()[]r/\\-`", 333)}
_WIDE = {**dict.fromkeys("mMW%@", 890), **dict.fromkeys("w&GOQ", 760), **dict.fromkeys("–—−", 584)}
_SAFETY = 1.14  # Inter and Segoe UI run a little wider, DejaVu and Verdana more
MINUS = "−"
NONE = "–"


def text_width(text: str, size: float = 13, *, bold: bool = False) -> float:
    """Pixels that one line of text takes, on the generous side."""
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


def shorten(text: str, width: float, size: float = 13, *, bold: bool = False) -> str:
    """The text, cut with an ellipsis where it is wider than `width` pixels."""
    text = " ".join(text.split())
    if text_width(text, size, bold=bold) <= width:
        return text
    while text and text_width(text + "…", size, bold=bold) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def figure(value: float | None, digits: int = 2) -> str:
    """A number for people: a true minus sign, a dash where there is none."""
    if value is None or not math.isfinite(value):
        return NONE
    printed = f"{value:.{digits}f}"
    if float(printed) == 0:
        printed = printed.lstrip("-")
    return printed.replace("-", MINUS)


def share(value: float | None, digits: int = 2) -> str:
    """A number between −1 and 1, without the nought before the point: `.84`."""
    printed = figure(value, digits)
    if printed.lstrip(MINUS).startswith("0."):
        return printed.replace("0.", ".", 1)
    return printed


def span(low: float | None, high: float | None, digits: int = 2, *, shares: bool = False) -> str:
    """An interval, `[4.60, 5.12]`; a dash where there is none."""
    printed = share if shares else figure
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return NONE
    return f"[{printed(low, digits)}, {printed(high, digits)}]"


def probability(p: float | None) -> str:
    """A p-value, `p = .031` or `p < .001`."""
    if p is None or not math.isfinite(p):
        return "p –"
    if p < 0.001:
        return "p < .001"
    return f"p = {share(p, 3)}"


def plain(value: float) -> str:
    """A tick's label: as few decimals as it takes."""
    return f"{value:.10g}".replace("-", MINUS)
