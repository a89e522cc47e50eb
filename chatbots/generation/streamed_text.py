"""Streamed text of a reply, shown in whole words and never withdrawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from chatbots.generation.output_filter import OutputFilter

_BROKEN = "\ufffd"
"""Tokenizers decode an incomplete UTF-8 sequence to this."""

_UNSPACED = ((0x2E80, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFF01, 0xFFEF), (0x20000, 0x3FFFF))
"""Chinese, Japanese and Korean blocks, where every character may end a piece."""


_SENTENCE_END = regex.compile(
    r"""(?:(?P<mark>\p{Sentence_Terminal}++)|(?<=\p{Greek})(?P<greek>;))["'”“’»)\]*」』）]*+
    (?P<emoji>\s*[\u2600-\u27bf\ufe0f\u200d\U0001f000-\U0001faff]+(?=\s|$))?""",
    regex.VERBOSE,
)
"""End marks of all scripts; the Greek question mark looks like a semicolon."""
_OPENING = "\"'“‘«(["
_NO_END = frozenset(("mr", "mrs", "ms", "dr", "prof", "st", "vs", "e.g", "i.e", "a.m", "p.m"))
"""Abbreviations that do not end a sentence."""


def complete_length(text: str) -> int:
    """Return the length of a truncated text without its incomplete end.

    This is the end of the last complete line or sentence, or the whole text if less than half of its complete words
    would be left.
    An ellipsis, an abbreviation, an initial or a list number does not end a sentence. An emoji after the end mark
    belongs to the sentence.
    """
    return _Units().complete_length(text)


class _Units:
    """Incremental search for the last complete line or sentence of a text."""

    def __init__(self) -> None:
        self._end = 0
        self._mark = 0  # position of the last sentence's end mark; an emoji may follow

    def complete_length(self, text: str, *, growing: bool = False) -> int:
        """Return the same length as the function `complete_length`.

        Args:
            growing: more text may follow, so a mark at the very end may not be the end of a sentence.
        """
        for match in _SENTENCE_END.finditer(text, self._mark):
            mark, is_last = match["mark"] or match["greek"], match.end() == len(text)
            # Marks of scripts without spaces, and of Indic scripts, need no space after them.
            needs_blank = mark.isascii()
            if growing and is_last and (needs_blank or match["emoji"]):
                break
            if needs_blank and not (is_last or text[match.end()].isspace() or match["emoji"]):
                continue
            if not set(mark) <= {"."} or _ends_with_dot(text, match.start(), mark):
                self._end, self._mark = match.end(), match.start()
        line_end = len(text[: text.rfind("\n") + 1].rstrip())
        end = max(self._end, line_end)
        words = text.rsplit(None, 1)
        n_whole = len(words[0]) if len(words) == 2 else len(text)
        return end if 2 * end >= n_whole else len(text)


def _ends_with_dot(text: str, end: int, mark: str) -> bool:
    """Return True if the dots before position `end` end a sentence."""
    parts = text[:end].split()
    if mark != "." or not parts or text[end - 1].isspace():
        return False
    word = parts[-1].lstrip(_OPENING)
    if word.isdigit():
        line = text[:end].rpartition("\n")[2]
        return line.strip() != word
    is_initial = len(word) == 1 and word.isalpha() and word.isupper() and word != "I"
    return not is_initial and word.lower() not in _NO_END


class GrowingText:
    """Text in generation, with the part that may be shown.

    A word is held back until the next one begins, because the next token may still change its end. A text that
    reaches its maximum length is cut after its last complete line or sentence. Later ones are therefore held back until
    they are complete, or as long as all before them (`complete_length`). The joined pieces are the final text, without
    outer blanks.

    Args:
        stops: stop texts; the text ends before the first one.
        make_filter: factory of the output filter; None for no filter.
    """

    def __init__(self, stops: Sequence[str] = (), *, make_filter: Callable[[], OutputFilter] | None = None) -> None:
        self._make_filter = make_filter
        self._stops = tuple(stop for stop in stops if stop)
        self._shown = ""
        self._units = _Units()
        self.thought = ""
        """Reasoning that the filter has removed."""

    def grow(self, decoded: str) -> tuple[str, bool]:
        """Update the text with the decoded tokens so far.

        Returns:
            The next piece (often empty), and True if a stop text was reached, so that the piece is the last.

        Raises:
            BotError: text already shown turns out to be reasoning.
        """
        text, stopped = self._clean(decoded, is_last=False)
        if stopped:
            return self._show(text.rstrip()), True
        words = text[: _end_of_words(text, self._stops)]
        # A blank follows the last word, so if that word ends a sentence, the sentence is complete.
        return self._show(words[: self._units.complete_length(words)]), False

    def end(self, decoded: str, *, cut: bool = False) -> str:
        """Return the last piece of the text, after the last token.

        Args:
            cut: True if the text reached its maximum length before its end.
        """
        text, stopped = self._clean(decoded, is_last=True)
        text = text.rstrip()
        if cut and not stopped:
            text = text[: self._units.complete_length(text)]
        return self._show(text)

    def _clean(self, decoded: str, *, is_last: bool) -> tuple[str, bool]:
        text = decoded.replace(_BROKEN, "").lstrip() if _BROKEN in decoded else decoded.lstrip()
        if self._make_filter is not None:
            reply = self._make_filter()  # from the start, because later tokens may change the end of the text
            text = reply.take(text) + (reply.end() if is_last else "")
            self.thought = reply.take_thought()
            if reply.is_over:
                return text, True
        positions = [position for position in (text.find(stop) for stop in self._stops) if position >= 0]
        return (text[: min(positions)], True) if positions else (text, False)

    def _show(self, text: str) -> str:
        piece = text[len(self._shown) :]
        self._shown += piece
        return piece


class SentencePieces:
    """Streamed text whose pieces are final, unlike those of `GrowingText`.

    The joined pieces are the text or, if it was cut, its complete lines and sentences.
    """

    def __init__(self) -> None:
        self._text = ""
        self._n_shown = 0
        self._units = _Units()

    def take(self, piece: str) -> str:
        """Add a piece and return the text that can be shown."""
        self._text += piece
        return self._show(self._units.complete_length(self._text, growing=True))

    def end(self, *, cut: bool) -> str:
        """Return the text that was held back and belongs to the reply.

        Args:
            cut: True if the text reached its maximum length before its end.
        """
        return self._show(self._units.complete_length(self._text) if cut else len(self._text))

    def _show(self, n: int) -> str:
        piece = self._text[self._n_shown : n]
        self._n_shown = max(self._n_shown, n)
        return piece


def _end_of_words(text: str, stops: Sequence[str]) -> int:
    """Return the length of the prefix that later tokens cannot change."""
    limit = len(text)
    for stop in stops:  # the text may end with the start of a stop text
        for n in range(min(len(stop) - 1, len(text)), 0, -1):
            if text.endswith(stop[:n]):
                limit = min(limit, len(text) - n)
                break
    if text[limit : limit + 1].isspace():  # the word before the blank is complete
        limit += 1
    head = text[:limit]
    if head.isascii():
        parts = f"{head}.".rsplit(None, 1)  # the dot makes a trailing blank count
        return len(parts[0]) if len(parts) == 2 else 0
    for i in range(limit - 1, -1, -1):
        if text[i].isspace():
            return len(text[:i].rstrip())
        if any(low <= ord(text[i]) <= high for low, high in _UNSPACED):
            return i + 1
    return 0
