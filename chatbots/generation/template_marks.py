"""Removal of a chat template's marks from replies: models write them out where a server does not take them for ends.

The whole way of a reply from a model to a participant is `ReplyFilter`: thoughts, then marks, then blanks.
"""

from __future__ import annotations

from collections.abc import Mapping

import regex

from chatbots.generation.thoughts import ThoughtFilter

_END = (
    r"(?:(?i:<[|｜][\w▁]*(?:end|eot|eom|eos|eor|return)[\w▁]*[|｜]>)"
    r"|</?s>|<eos>|<end_of_turn>|<turn\|>|\[/INST\]|\[EOS\])"
)
_ROLES = "(?i:user|human|assistant|model|chatbot|bot|ai|system|tool)"
_NAMED = r"(?:<\|(?:im_start|start|start_header_id|header_start|start_of_role)\|>|<start_of_turn>|<\|turn>)\s*+"
"""Marks with the name of a role behind them."""
_ROLE = rf"(?:{_NAMED}{_ROLES}\b|<[|｜](?i:user|human|assistant|system|observation|start_of_turn_token)[|｜]>|\[INST\])"
_NAME_END = r"(?:\s*+(?:<\|(?:end_header_id|header_end|end_of_role|message)\|>)|\s*+:|[^\S\n]*+\n)"
_LABEL = rf"(?:\#\#\#\s*+)?{_ROLES}\s*?(?::|\n)"

_MOST_HELD = 4_096
"""More characters than this are no mark, and no blanks before one."""

_BEGINNING = regex.compile(
    rf"{_END}|(?:{_NAMED}(?i:assistant|model|chatbot|bot|ai)\b{_NAME_END}?+|<[|｜](?i:assistant)[|｜]>)"
)
"""What stands before a reply where a model writes its own turn's beginning."""
_LATER_TURN = regex.compile(
    rf"(?<!\s)\s*+(?:{_END}\s*+){{1,8}}+(?:{_ROLE}|{_LABEL})"
    rf"|(?<!\s)[^\S\n]*+\n\s*+{_ROLE}"
    rf"|(?<![\s`\"'“‘])\s*+{_NAMED}{_ROLES}\b{_NAME_END}"
)
"""The beginning of another turn, which the model has made up."""
_LAST = regex.compile(
    rf"(?<!\s)\s*+(?:{_END}\s*+){{1,8}}+(?:(?:\#\#\#\s*+)?{_ROLES})?\Z|(?<!\s)\s++\Z"
)
"""What may end a reply and is no part of it."""


class _TemplateFilter:
    """Filter of a text that comes in pieces: passes on what stands before the template's marks.

    Trailing blanks and marks are held back until it is known whether they end the text.
    """

    def __init__(self) -> None:
        self.is_over = False
        """Whether another turn has begun: nothing more will be passed on."""
        self._has_said = False
        self._held = ""
        self._before = ""

    def take(self, piece: str) -> str:
        """Add a piece; return what can be passed on now."""
        return self._read(piece, is_last=False)

    def end(self) -> str:
        """Return the text that was held back and belongs to the reply."""
        return self._read("", is_last=True)

    def _read(self, piece: str, *, is_last: bool) -> str:
        text = self._held + piece
        self._held = ""
        if not self._has_said:
            text = text.lstrip()
            while found := _BEGINNING.match(text, partial=not is_last):
                if found.partial:
                    self._held = text
                    return ""
                text = text[found.end() :].lstrip()
        if self.is_over or not text:
            return ""
        n_before = len(self._before)
        text = self._before + text
        end = len(text)
        if found := _LATER_TURN.search(text, n_before, partial=not is_last):
            end = found.start()
            self.is_over = not found.partial
        found = _LAST.search(text, n_before, partial=not is_last)
        if found and not self.is_over:
            end = min(end, found.start())
        if len(text) - end > _MOST_HELD and not self.is_over:
            end = len(text)
        said = text[n_before:end]
        if not is_last and not self.is_over:
            self._held = text[end:]
        self._has_said = self._has_said or bool(said)
        self._before = text[max(0, end - 1) : end]
        return said


class ReplyFilter:
    """Filter of what a model sends in pieces: passes on what a participant may see.

    Pieces joined have no blanks at either end.

    Args:
        thought_marks, starts_thinking: as in `ThoughtFilter`.
    """

    def __init__(
        self, thought_marks: Mapping[str, str] | None = None, *, starts_thinking: bool = False
    ) -> None:
        self._thoughts = ThoughtFilter(thought_marks, is_inside=starts_thinking)
        self._template = _TemplateFilter()

    @property
    def has_thought(self) -> bool:
        """True if any reasoning was taken out."""
        return self._thoughts.has_thought

    @property
    def is_over(self) -> bool:
        """True if another turn has begun: nothing more will be passed on."""
        return self._template.is_over

    def take(self, piece: str) -> str:
        """Add a piece; return what can be shown now.

        Raises:
            BotError: at the end of a thought that had no beginning: what was shown was a thought.
        """
        return "" if self.is_over else self._template.take(self._thoughts.take(piece))

    def end(self) -> str:
        """Return the text that was held back and belongs to the reply."""
        return self._template.take(self._thoughts.end()) + self._template.end()
