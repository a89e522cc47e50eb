"""Text as databases, frames, logs and messages take it.

PostgreSQL refuses the character U+0000, and no UTF-8 holds half a surrogate pair, which Python's strings
and JSON can. Python only escapes such text later, where no caller expects it to fail. Messages quote values
by `quote`, which cuts them and never raises, and suggest the nearest valid names for a mistyped one.
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
"""Ends a text that was cut because it was too long."""


class SanitisedStream:
    """Makes a text that comes in pieces storable; what it gives, joined, is `storable` of the whole.

    The last few characters that fit are held back until it is known whether more follow, and so is the
    first half of a surrogate pair, whose second half may come with the next piece.

    Args:
        max_chars: the most that it gives, the mark of a cut included; None: no limit.
    """

    def __init__(self, max_chars: int | None = None) -> None:
        self.is_full = False
        """The limit is passed; whatever else comes is dropped."""
        self._left = max_chars
        self._held = ""
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")

    def take(self, piece: str) -> str:
        """Add a piece; what of the text can be passed on now."""
        return self._give(piece, is_last=False)

    def end(self) -> str:
        """Return the rest of the text, which was held back."""
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
    """Return the text without U+0000, with U+FFFD for half a surrogate pair, and cut if it is too long.

    Two halves that stand together become the character they mean. A second pass changes nothing more.
    """
    stream = SanitisedStream(max_chars)
    return stream.take(text) + stream.end()


def is_sanitised(text: str) -> bool:
    """Check that `storable` would leave the text as it is, however long."""
    return "\x00" not in text and not _SURROGATE.search(text)


def are_sanitised(value: Any) -> bool:
    """Check every text in nested lists, tuples and mappings, keys included."""
    if isinstance(value, str):
        return is_sanitised(value)
    if isinstance(value, dict):
        return all(are_sanitised(key) and are_sanitised(member) for key, member in value.items())
    if isinstance(value, list | tuple):
        return all(map(are_sanitised, value))
    return True


_SURROGATE = re.compile("[\ud800-\udfff]")


def is_blank(text: str) -> bool:
    """Check whether a reader would see nothing: spaces, control, format and filling characters, U+FFFD."""
    return all(_is_unseen(char) for char in text)


def sanitise_input(text: str, max_chars: int | None = None) -> str:
    """Return the storable text without spaces around it; empty if a reader would see nothing."""
    text = sanitise(text).strip()
    return "" if is_blank(text) else sanitise(text, max_chars)


def sanitise_id(text: str) -> str:
    """Return an id without unseen characters and without spaces around it, so that one id has one spelling."""
    return "".join(char for char in text if char == " " or not _is_unseen(char)).strip()


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in _UNSEEN or bool(_FILLING.match(char))


_UNSEEN = {"Cc", "Cf", "Zs", "Zl", "Zp"}
# Unicode's Default_Ignorable_Code_Point outside those categories, the empty Braille pattern and U+FFFD.
_FILLING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\ufffd"
    "\U000e0000-\U000e0fff]"
)


def quote(value: object, max_chars: int = 80) -> str:
    """Return a value for a message: as Python writes it, cut, without the password of an address.

    Never raises, whatever the value: numbers of thousands of digits, deep nesting, a broken `__repr__`.
    """
    try:
        text = repr(value[:_QUOTED_CHARS] if isinstance(value, str) else value)
    except Exception:
        text = _SAFE.repr(value)
    text = _PASSWORD.sub("//…@", text[:_QUOTED_CHARS])
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


class _SafeRepr(reprlib.Repr):
    """Representation that cuts nesting, and words numbers beyond the limit of digits."""

    def repr_int(self, x: int, level: int) -> str:
        try:
            return repr(x)
        except ValueError:
            return f"a number of about {int(x.bit_length() * math.log10(2)) + 1} digits"


_QUOTED_CHARS = 2000
_SAFE = _SafeRepr()
_PASSWORD = re.compile(r"//[^/\s]*@")


def error_text(error: BaseException, max_chars: int | None = None) -> str:
    """Return the message of an exception as one line of sanitised text; empty if it has none or fails."""
    try:
        message = str(error)
    except Exception:
        return ""
    message = message.replace(_OF_PYTHON, "")
    return sanitise(" ".join(sanitise(message).split()), max_chars)


_OF_PYTHON = "; use sys.set_int_max_str_digits() to increase the limit"
"""What Python advises where a number has thousands of digits, which is nothing for who wrote the number."""


def nearest_names(name: str, names: Iterable[str], limit: int = 3, *, least: float = 50) -> list[str]:
    """Return the names most like `name`, best first; those that differ in case alone before all others.

    Args:
        least: how like it they must be, from 0 to 100.
    """
    names = list(names)
    same = [each for each in names if each.lower() == name.lower()]
    matches = process.extract(name, names, limit=limit, score_cutoff=least)
    return same or [match for match, _, _ in matches]


def did_you_mean(name: str, names: Iterable[str], limit: int = 1) -> str:
    """Return "did you mean …?" with the nearest names, or nothing where none is near."""
    near = nearest_names(name, names, limit)
    return f"did you mean {' or '.join(near)}?" if near else ""
