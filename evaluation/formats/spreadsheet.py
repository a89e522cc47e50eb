"""Cells that a spreadsheet would run as formulas, made harmless and read back.

A text that begins, after any apostrophes, with one of = + - @, their full-width forms, tab or a line end
gets one more apostrophe in front; reading takes one away. So every text comes back as it was. Numbers
are not texts and stay as they are.
"""

from __future__ import annotations

import re

_RISKY = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")


def escaped(text: str) -> str:
    """Return the text as a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if _RISKY.match(text) else text


def unescaped(cell: str) -> str:
    """Return the text that `escaped` made this cell of."""
    return cell[1:] if cell.startswith("'") and _RISKY.match(cell) else cell
