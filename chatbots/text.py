"""Text sanitising, quoting and name suggestions.

PostgreSQL rejects U+0000, and UTF-8 cannot encode a lone surrogate, but Python strings and JSON allow both. The error
would only surface later, where no caller expects it. Error messages quote values with `quote`, which truncates them and
never raises, and suggest the nearest valid names for a mistyped one.
"""

from __future__ import annotations

import codecs
import math
import re
import reprlib
import unicodedata
from collections.abc import Iterable
from typing import Any

from rapidfuzz import process

CUT_MARK = " […]"
"""End of a truncated text."""


class SanitisedStream:
    """Incremental `sanitise` for a text that arrives in pieces.

    The joined output equals `sanitise` of the whole text. The last few characters that fit, and the first
    half of a surrogate pair, are held back until it is clear whether more follow.

    Args:
        max_chars: maximum length of the output, including the truncation mark; None for no limit.
    """

    def __init__(self, max_chars: int | None = None) -> None:
        self.is_full = False
        """True once the limit is exceeded; further text is dropped."""
        self._left = max_chars
        self._held = ""
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")

    def take(self, piece: str) -> str:
        """Add a piece and return the text that is ready."""
        return self._give(piece, is_last=False)

    def end(self) -> str:
        """Return the text that was held back."""
        return self._give("", is_last=True)

    def _give(self, piece: str, *, is_last: bool) -> str:
        if self.is_full:
            return ""
        pairs = piece.encode("utf-16-le", "surrogatepass")
        text = self._held + self._decoder.decode(pairs, is_last).replace("\x00", "")
        if self._left is None:
            return text
        if len(text) > self._left:
            self.is_full = True
            return text[: self._left - len(CUT_MARK)] + CUT_MARK
        n_given = len(text) if is_last else max(0, min(len(text), self._left - len(CUT_MARK)))
        self._held = text[n_given:]
        self._left -= n_given
        return text[:n_given]


def sanitise(text: str, max_chars: int | None = None) -> str:
    """Return the text without U+0000 and lone surrogates, truncated to `max_chars`.

    Lone surrogates become U+FFFD; two matching halves become the character that they encode. Idempotent.
    """
    stream = SanitisedStream(max_chars)
    return stream.take(text) + stream.end()


def is_sanitised(text: str) -> bool:
    """Return True if `sanitise` would not change the text, apart from its length."""
    return "\x00" not in text and not _SURROGATE.search(text)


def are_sanitised(value: Any) -> bool:
    """Return True if all texts in nested lists, tuples and mappings are sanitised.

    Keys included.
    """
    if isinstance(value, str):
        return is_sanitised(value)
    if isinstance(value, dict):
        return all(are_sanitised(key) and are_sanitised(member) for key, member in value.items())
    if isinstance(value, list | tuple):
        return all(map(are_sanitised, value))
    return True


_SURROGATE = re.compile("[\ud800-\udfff]")


def is_blank(text: str) -> bool:
    """Return True if the text has no visible character.

    Spaces, control, format and filler characters and U+FFFD are invisible.
    """
    return all(_is_unseen(char) for char in text)


def sanitise_input(text: str, max_chars: int | None = None) -> str:
    """Return the sanitised, stripped text; empty if nothing is visible."""
    text = sanitise(text).strip()
    return "" if is_blank(text) else sanitise(text, max_chars)


def sanitise_id(text: str) -> str:
    """Return an id without invisible characters, stripped, so that its spelling is unique."""
    return "".join(char for char in text if char == " " or not _is_unseen(char)).strip()


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in _UNSEEN or bool(_FILLING.match(char))


_UNSEEN = {"Cc", "Cf", "Zs", "Zl", "Zp"}
# Unicode's Default_Ignorable_Code_Point outside these categories, the blank Braille pattern and U+FFFD.
_FILLING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\ufffd"
    "\U000e0000-\U000e0fff]"
)


def quote(value: object, max_chars: int = 80) -> str:
    """Return the truncated `repr` of a value for a message, without a URL's password.

    Never raises, not even for numbers with thousands of digits, deep nesting or a broken `__repr__`.
    """
    try:
        text = repr(value[:_QUOTED_CHARS] if isinstance(value, str) else value)
    except Exception:
        text = _SAFE.repr(value)
    text = _PASSWORD.sub("//…@", text[:_QUOTED_CHARS])
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


class _SafeRepr(reprlib.Repr):
    """Repr that truncates nesting and describes numbers beyond Python's digit limit."""

    def repr_int(self, x: int, level: int) -> str:
        try:
            return repr(x)
        except ValueError:
            return f"a number of about {int(x.bit_length() * math.log10(2)) + 1} digits"


_QUOTED_CHARS = 2000
_SAFE = _SafeRepr()
_PASSWORD = re.compile(r"//[^/\s]*@")


def error_text(error: BaseException, max_chars: int | None = None) -> str:
    """Return an exception's message as one line of sanitised text.

    Empty if there is no message or it cannot be rendered.
    """
    try:
        message = str(error)
    except Exception:
        return ""
    message = message.replace(_OF_PYTHON, "")
    return sanitise(" ".join(sanitise(message).split()), max_chars)


_OF_PYTHON = "; use sys.set_int_max_str_digits() to increase the limit"
"""Python's advice about numbers with thousands of digits, which does not help the author of the number."""


def nearest_names(name: str, names: Iterable[str], limit: int = 3, *, least: float = 50) -> list[str]:
    """Return the names most similar to `name`, best first.

    If some differ in case only, just these are returned.

    Args:
        least: minimum similarity, from 0 to 100.
    """
    names = list(names)
    same = [each for each in names if each.lower() == name.lower()]
    matches = process.extract(name, names, limit=limit, score_cutoff=least)
    return same or [match for match, _, _ in matches]


def did_you_mean(name: str, names: Iterable[str], limit: int = 1) -> str:
    """Return "did you mean …?" with the nearest names; empty if none is near."""
    near = nearest_names(name, names, limit)
    return f"did you mean {' or '.join(near)}?" if near else ""
