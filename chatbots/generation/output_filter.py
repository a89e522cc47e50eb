"""Output filters, which remove reasoning tokens and chat-template marks.

Every reply passes through `OutputFilter`, which removes reasoning, then marks, then outer blanks. Participants never
see the reasoning. A mark between quotation marks is text, as in "`<think>` opens a thought". Template marks appear in
the text when a server does not recognise them as end tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import regex

from chatbots.bots.base import BotError

_NAMES = (
    *("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad"),
    *("antthinking", "seed:think"),
)
_ATTRIBUTES = r"""(?:\s+[\w:-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>]+))*+\s*+"""
_HEADER = r"(?:<\|start\|>assistant)?<\|channel\|>\s*+"
_HEADER_END = r"(?:[^<]|<\|constrain\|>)*+<\|message\|>"
_FINAL = rf"{_HEADER}final\b{_HEADER_END}"
_TAGS = tuple((f"(?i:<{name}{_ATTRIBUTES}>)", rf"(?i:</{name}\s*+>)") for name in _NAMES)
_PAIRS = (
    (r"\[THINK\]", r"\[/THINK\]"),  # Magistral
    ("◁think▷", "◁/think▷"),  # Kimi
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),  # OpenThinker
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Command A
    (r"<\|channel>thought", r"<channel\|>"),  # Gemma 4
    ("<unused94>thought", "<unused95>"),  # MedGemma
)
_HARMONY = (
    (rf"{_HEADER}(?!final\b)\w++{_HEADER_END}", rf"<\|end\|>|<\|call\|>|{_FINAL}"),
    (r"(?<![\s\S])analysis(?=[A-Z])", "assistantfinal"),  # if special tokens were omitted
)
"""All channels of gpt-oss except the final one."""
_MOST_HELD = 4_096
"""Maximum length of a mark."""
_QUOTES = {"`": "`", '"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“"}


@lru_cache(maxsize=64)
def _patterns(
    extra_marks: tuple[tuple[str, str], ...],
) -> tuple[regex.Pattern[str], list[regex.Pattern[str]], regex.Pattern[str]]:
    """Compile the marks.

    Args:
        extra_marks: opening and closing marks, literal.

    Returns:
        A pattern for any mark outside of a thought; the closing marks, indexed by the number of its group
        `open<number>`; the closing marks of a thought that the prompt has opened.
    """
    paired = [*((regex.escape(a), regex.escape(b)) for a, b in extra_marks), *_TAGS, *_PAIRS]
    kinds = [*paired, *_HARMONY]
    opening = "|".join(f"(?P<open{i}>{mark})" for i, (mark, _) in enumerate(kinds))
    # Harmony's `<|end|>` and `assistantfinal` may appear without an opening mark.
    lone = "|".join(mark for _, mark in paired)
    return (
        regex.compile(f"{opening}|(?P<close>{lone})|(?P<final>{_FINAL})"),
        [regex.compile(mark) for _, mark in kinds],
        regex.compile(f"{lone}|{_FINAL}|assistantfinal"),
    )


class ReasoningFilter:
    """Filter that removes reasoning from streamed text.

    Text that may be the beginning of a mark is held back. A thought that is never closed extends to the end.

    Args:
        marks: closing marks by opening marks, in addition to the known ones.
        is_inside: the text begins inside a thought, because the chat template has already written the opening mark.
    """

    def __init__(self, marks: Mapping[str, str] | None = None, *, is_inside: bool = False) -> None:
        self._any, self._closings, closing = _patterns(tuple((marks or {}).items()))
        self._closing = closing if is_inside else None
        self.has_thought = is_inside
        self.thought = ""
        """Reasoning removed since this was last emptied."""
        self._said = ""
        self._has_said = False
        self._held = ""
        self._before = ""  # last character before the held-back text; may be a quotation mark

    def take(self, piece: str) -> str:
        """Add a piece and return the text that can be passed on.

        Raises:
            BotError: a thought ends that had no opening mark, so reasoning has been passed on.
        """
        return self._read(piece, is_last=False)

    def end(self) -> str:
        """Return the held-back text, which contained no mark after all."""
        return self._read("", is_last=True)

    def _read(self, piece: str, *, is_last: bool) -> str:
        text = self._before + self._held + piece
        n_before, passed = len(self._before), len(self._said)
        start = position = n_before  # starts of the held-back text and of the search
        while True:
            pattern = self._closing or self._any
            match = pattern.search(text, position, partial=not is_last)
            if match is None:
                held_from = len(text)
                break
            held_from, position = match.start(), match.end()
            closing_quote = _QUOTES.get(text[held_from - 1]) if held_from else None
            if match.partial or (closing_quote and position == len(text) and not is_last):
                break
            # Within a thought only backticks quote a mark, because a thought may end with a quotation.
            if text[position : position + 1] == closing_quote and (not self._closing or closing_quote == "`"):
                continue
            if self._closing is not None:
                self.thought += text[start:held_from]
                self._closing = None
            else:
                self._say(text[start:held_from])
                kind = match.lastgroup or ""
                if kind.startswith("open"):
                    self._closing = self._closings[int(kind.removeprefix("open"))]
                elif kind == "close" and self._is_lone(match[0]):
                    start = held_from
                    continue
            self.has_thought = True
            start = position
        if len(text) - held_from > _MOST_HELD:
            held_from = len(text)
        if self._closing is None:
            self._say(text[start:held_from])
        else:
            self.thought += text[start:held_from]
        self._before, self._held = text[max(0, held_from - 1) : held_from], text[held_from:]
        return self._said[passed:]

    def _say(self, text: str) -> None:
        if not self._has_said:
            if self.has_thought:  # blank lines between a thought and the reply
                text = text.lstrip()
            self._has_said = bool(text.strip())
        self._said += text

    def _is_lone(self, mark: str) -> bool:
        """Return True if an unopened closing mark ends a thought.

        In code it is text.
        """
        if not self._has_said:
            return False
        line = self._said.rpartition("\n")[2]
        if self._said.count("```") % 2 or line.count("`") % 2:
            return True
        raise BotError(
            f"it closed a thought ({mark}) that it had not opened, so the text before it was reasoning; set "
            "`starts_thinking: true` in bots.yaml to hold everything back until the thought ends"
        )


def strip_reasoning(text: str, marks: Mapping[str, str] | None = None) -> str:
    """Remove the reasoning from a complete reply that goes into a prompt."""
    try:
        thoughts = ReasoningFilter(marks)
        reply_text = thoughts.take(text) + thoughts.end()
    except BotError:
        thoughts = ReasoningFilter(marks, is_inside=True)
        reply_text = thoughts.take(text) + thoughts.end()
    return reply_text.strip() if thoughts.has_thought else text


_END = (
    r"(?:(?i:<[|｜][\w▁]*(?:end|eot|eom|eos|eor|return)[\w▁]*[|｜]>)"
    r"|</?s>|<eos>|<end_of_turn>|<turn\|>|\[/INST\]|\[EOS\])"
)
_ROLES = "(?i:user|human|assistant|model|chatbot|bot|ai|system|tool)"
_NAMED = r"(?:<\|(?:im_start|start|start_header_id|header_start|start_of_role)\|>|<start_of_turn>|<\|turn>)\s*+"
"""Marks followed by the name of a role."""
_ROLE = rf"(?:{_NAMED}{_ROLES}\b|<[|｜](?i:user|human|assistant|system|observation|start_of_turn_token)[|｜]>|\[INST\])"
_NAME_END = r"(?:\s*+(?:<\|(?:end_header_id|header_end|end_of_role|message)\|>)|\s*+:|[^\S\n]*+\n)"
_LABEL = rf"(?:\#\#\#\s*+)?{_ROLES}\s*?(?::|\n)"

_WRAPPERS = "(?i:answer|final_answer|response|reply|output)"
_BEGINNING = regex.compile(
    rf"{_END}|(?:{_NAMED}(?i:assistant|model|chatbot|bot|ai)\b{_NAME_END}?+|<[|｜](?i:assistant)[|｜]>)"
    rf"|<\|begin_of_box\|>|<(?P<wrapper>{_WRAPPERS})>"
    r"|(?:assistant|model)[^\S\n]*+\n|(?i:assistant):\s"
    r"|\#\#\#[^\S\n]*+(?i:assistant|response|answer)[^\S\n]*+:?[^\S\n]*+\n"
)
"""Text before a reply if a model writes the start of its own turn or a tag around the reply."""
_LATER_TURN = regex.compile(
    rf"(?<!\s)\s*+(?:{_END}\s*+){{1,8}}+(?:{_ROLE}|{_LABEL})"
    rf"|(?<!\s)[^\S\n]*+\n\s*+{_ROLE}"
    rf"|(?<![\s`\"'“‘])\s*+{_NAMED}{_ROLES}\b{_NAME_END}"
    r"|(?<=\p{Sentence_Terminal})(?:assistant|user|model)\n\n"
)
"""Start of another turn that the model has invented."""
_LAST = regex.compile(rf"(?<!\s)\s*+(?:{_END}\s*+){{1,8}}+(?:(?:\#\#\#\s*+)?{_ROLES})?\Z|(?<!\s)\s++\Z")
"""Marks at the end of a reply that are not part of it."""


@lru_cache
def _closing_tag(name: str) -> regex.Pattern[str]:
    """Return the pattern of this tag's closing tag at a reply's end."""
    return regex.compile(rf"(?<!\s)\s*+</(?i:{name})>|{_LATER_TURN.pattern}")


class _TemplateFilter:
    """Filter that cuts streamed text at the template's marks.

    Trailing blanks and marks are held back until it is known whether they end the text.
    """

    def __init__(self) -> None:
        self.is_over = False
        """True if another turn has begun, so nothing more is passed on."""
        self._has_said = False
        self._later_turn = _LATER_TURN
        self._held = ""
        self._before = ""

    def take(self, piece: str) -> str:
        """Add a piece and return the text that can be passed on."""
        return self._read(piece, is_last=False)

    def end(self) -> str:
        """Return the text that was held back and belongs to the reply."""
        return self._read("", is_last=True)

    def _read(self, piece: str, *, is_last: bool) -> str:
        text = self._held + piece
        self._held = ""
        if not self._has_said:
            text = text.lstrip()
            while match := _BEGINNING.match(text, partial=not is_last):
                if match.partial:
                    self._held = text
                    return ""
                if match["wrapper"]:
                    self._later_turn = _closing_tag(match["wrapper"])
                text = text[match.end() :].lstrip()
        if self.is_over or not text:
            return ""
        n_before = len(self._before)
        text = self._before + text
        end = len(text)
        if match := self._later_turn.search(text, n_before, partial=not is_last):
            end = match.start()
            self.is_over = not match.partial
        match = _LAST.search(text, n_before, partial=not is_last)
        if match and not self.is_over:
            end = min(end, match.start())
        if len(text) - end > _MOST_HELD and not self.is_over:
            end = len(text)
        new_text = text[n_before:end]
        if not is_last and not self.is_over:
            self._held = text[end:]
        self._has_said = self._has_said or bool(new_text)
        self._before = text[max(0, end - 1) : end]
        return new_text


class OutputFilter:
    """Filter of a model's streamed output for participants.

    The joined pieces have no leading or trailing blanks.

    Args:
        thought_marks, starts_thinking: as in `ReasoningFilter`.
    """

    def __init__(self, thought_marks: Mapping[str, str] | None = None, *, starts_thinking: bool = False) -> None:
        self._thoughts = ReasoningFilter(thought_marks, is_inside=starts_thinking)
        self._template = _TemplateFilter()

    @property
    def has_thought(self) -> bool:
        """True if any reasoning was removed."""
        return self._thoughts.has_thought

    def take_thought(self) -> str:
        """Return the reasoning removed since the last call."""
        thought, self._thoughts.thought = self._thoughts.thought, ""
        return thought

    @property
    def is_over(self) -> bool:
        """True if another turn has begun, so nothing more is passed on."""
        return self._template.is_over

    def take(self, piece: str) -> str:
        """Add a piece and return the text that can be shown.

        Raises:
            BotError: a thought ends that had no opening mark, so reasoning has been shown.
        """
        return "" if self.is_over else self._template.take(self._thoughts.take(piece))

    def end(self) -> str:
        """Return the text that was held back and belongs to the reply."""
        return self._template.take(self._thoughts.end()) + self._template.end()


_IMAGE = regex.compile(r"!\[([^\]]{0,1000}+)\]\(\s{0,9}+<?(data:image/[^)\s>]*+)[^)]*+\)")


class MarkdownImageFilter:
    """Filter that extracts Markdown images with `data:` addresses from streamed text.

    They are passed to `add_image`. Images with other addresses stay in the text.
    """

    def __init__(self, add_image: Callable[[str, str], None]) -> None:
        self._add_image = add_image
        self._held, self._is_inside = [""], False

    def take(self, piece: str) -> str:
        """Add a piece and return the text that can be passed on."""
        self._held.append(piece)
        if self._is_inside and ")" not in piece:  # addresses are long, so do not scan the held-back text again
            return ""
        text = _IMAGE.sub(self._take_out, "".join(self._held))
        match = _IMAGE.search(text, partial=True)
        end = match.start() if match else len(text)
        self._held, self._is_inside = [text[end:]], "data:image/" in text[end:]
        return text[:end]

    def end(self) -> str:
        """Return the held-back text, without an incomplete image."""
        return "" if self._is_inside else "".join(self._held)

    def _take_out(self, match: regex.Match[str]) -> str:
        self._add_image(match[2], match[1])
        return ""
