"""Text of a reply while its tokens come in: whole words, whole characters, nothing taken back."""

from __future__ import annotations

from collections.abc import Sequence

_BROKEN = "\ufffd"
"""What tokenizers decode an incomplete UTF-8 sequence to."""

_UNSPACED = (
    (0x2E80, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0xFF01, 0xFFEF),
    (0x20000, 0x3FFFF),
)
"""Chinese, Japanese and Korean blocks: every character may end a piece."""


class GrowingText:
    """What of a growing text may be shown.

    A word is held back until the next one begins, because the next token may still change its end.
    Pieces joined are the final text, without blanks at either end.

    Args:
        stops: the text ends before the first of these, which is not shown.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._shown = ""

    def grow(self, decoded: str) -> tuple[str, bool]:
        """Look at all tokens so far, decoded.

        Returns:
            The next piece (often empty), and whether a stop has been reached, in which case the piece is
            the last.
        """
        text, stopped = self._clean(decoded)
        if stopped:
            return self._show(text.rstrip()), True
        return self._show(text[: _end_of_words(text, self._stops)]), False

    def end(self, decoded: str) -> str:
        """The last piece: no more tokens will come."""
        text, _ = self._clean(decoded)
        return self._show(text.rstrip())

    def _clean(self, decoded: str) -> tuple[str, bool]:
        text = decoded.replace(_BROKEN, "").lstrip() if _BROKEN in decoded else decoded.lstrip()
        found = [at for at in (text.find(stop) for stop in self._stops) if at >= 0]
        return (text[: min(found)], True) if found else (text, False)

    def _show(self, text: str) -> str:
        piece = text[len(self._shown) :]
        self._shown += piece
        return piece


def _end_of_words(text: str, stops: Sequence[str]) -> int:
    """Length of the longest beginning that later tokens cannot change."""
    limit = len(text)
    for stop in stops:  # the text may end in the beginning of a stop
        for n in range(min(len(stop) - 1, len(text)), 0, -1):
            if text.endswith(stop[:n]):
                limit = min(limit, len(text) - n)
                break
    if text[limit : limit + 1].isspace():  # whatever follows, the word before is whole
        limit += 1
    head = text[:limit]
    if head.isascii():
        parts = f"{head}.".rsplit(None, 1)  # the dot makes a blank at the end count
        return len(parts[0]) if len(parts) == 2 else 0
    for i in range(limit - 1, -1, -1):
        if text[i].isspace():
            return len(text[:i].rstrip())
        if any(low <= ord(text[i]) <= high for low, high in _UNSPACED):
            return i + 1
    return 0
