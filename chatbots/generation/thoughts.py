"""Taking the thoughts out of what a reasoning model sends: `<think>…</think>` is not said to anybody."""

from __future__ import annotations

import re

from chatbots.base import BotError

_OPEN, _CLOSE = "<think>", "</think>"
_TAG = re.compile(r"<(/?)think>", re.IGNORECASE)
_CLOSING = re.compile(_CLOSE, re.IGNORECASE)


class ThoughtFilter:
    """Passes on what a text that comes in pieces says outside of its thoughts.

    A tag may be split over pieces, so what could be the beginning of one is held back. A thought that is
    never closed lasts to the end.

    Args:
        is_inside: the text begins within a thought, as where a model's chat template has written the
            opening tag already.
    """

    def __init__(self, *, is_inside: bool = False) -> None:
        self.is_inside = is_inside
        self.has_thought = is_inside
        self._has_said = False
        self._held = ""

    def take(self, piece: str) -> str:
        """Add a piece; what of the text can be passed on now.

        Raises:
            BotError: at the end of a thought that had no beginning: what was passed on was a thought.
        """
        if not self.is_inside and not self._held and "<" not in piece:
            return self._say(piece)
        text, said = self._held + piece, ""
        self._held = ""
        while tag := (_CLOSING if self.is_inside else _TAG).search(text):
            before, text = text[: tag.start()], text[tag.end() :]
            if not self.is_inside:
                said += self._say(before)
                if tag[0][1] == "/" and self._has_said:
                    raise BotError(
                        "it ended a thought that it had not begun, so what it said before was the thought; "
                        "`starts_thinking: true` in bots.yaml holds everything back until </think>"
                    )
            self.is_inside = tag[0][1] != "/"
            self.has_thought = True
        n_held = _beginning_of_tag(text)
        self._held = text[len(text) - n_held :]
        if not self.is_inside:
            said += self._say(text[: len(text) - n_held])
        return said

    def end(self) -> str:
        """Return what was held back and turned out to be no tag."""
        held, self._held = self._held, ""
        return "" if self.is_inside else self._say(held)

    def _say(self, text: str) -> str:
        if not self._has_said:
            if self.has_thought:  # the empty lines between a thought and the answer
                text = text.lstrip()
            self._has_said = bool(text.strip())
        return text


def _beginning_of_tag(text: str) -> int:
    """Return how many characters at the end of a text may be the beginning of a tag."""
    at = text.rfind("<", -len(_CLOSE))
    end = text[at:].lower()
    return len(end) if at >= 0 and (_OPEN.startswith(end) or _CLOSE.startswith(end)) else 0


def without_thoughts(text: str) -> str:
    """Remove the thoughts from a whole text, for replies from elsewhere that go into a prompt."""
    if not _TAG.search(text):
        return text
    text = re.sub(rf"{_OPEN}.*?({_CLOSE}|\Z)", "", text, flags=re.IGNORECASE | re.DOTALL)
    return _CLOSING.split(text)[-1].strip()
