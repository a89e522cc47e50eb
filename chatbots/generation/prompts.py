"""Prompts of language models, from a chat template or in plain format.

The next speaker is the assistant and the other one the user: in a live chat the bot and the participant, in self-play
the bot whose turn it is and its partner. Blank turns are dropped, consecutive turns of a speaker are joined.

**Chat template**, if the tokenizer has one: the system prompt, then the turns as messages. Templates require the user
to begin, so a leading assistant turn is dropped. An empty conversation becomes the single user message `OPENING`.

**Plain**, as in DialoGPT's training (Zhang et al., 2020): every turn is followed by the separator, by default the
tokenizer's end token. A system prompt comes first, formatted as a turn. An empty conversation is only the separator. A
model with an encoder gets separators only between turns, as BlenderBot and BART expect.

The oldest turns are dropped if a conversation exceeds the window or the model's context.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chatbots.conversation import Conversation
from chatbots.generation.output_filter import strip_reasoning

CONDITION = "{condition}"
"""Placeholder in a system prompt for the prompt of a study's condition."""
IMAGE_MARK = "\x00"
"""Character that occurs in no stored text."""
OPENING = "Hello!"
"""User message for chat templates if the conversation is empty."""


def marks_pattern(marks: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern for a model's special tokens; None if it has none.

    They are removed from typed text, which must not begin or end a turn for the model.
    """
    texts = [re.escape(text) for text in marks if text]
    return re.compile("|".join(texts)) if texts else None


def turns_joined(
    context: Conversation,
    *,
    window: int,
    marks: re.Pattern[str] | None = None,
    thought_marks: Mapping[str, str] | None = None,
) -> list[tuple[str, str]]:
    """Return (role, text) of the turns in the window (0 for all)."""
    turns = context.turns[-window:] if window else context.turns
    joined: list[tuple[str, str]] = []
    for turn in turns:
        role = "user" if turn.speaker == context.turns[-1].speaker else "assistant"
        text = marks.sub(" ", turn.text) if marks else turn.text
        if role == "assistant":  # marks first, because a model's own may look like the start of a thought
            text = strip_reasoning(text, thought_marks)
        text = text.strip()
        if not text:
            continue
        if joined and joined[-1][0] == role:
            text = f"{joined.pop()[1]}\n{text}"
        joined.append((role, text))
    return joined


def images_marked(context: Conversation) -> Conversation:
    """Add a mark for `image_parts` to each turn with an image."""
    return replace(
        context,
        turns=tuple(
            replace(turn, text=turn.text.replace(IMAGE_MARK, "") + f"{IMAGE_MARK}{n}{IMAGE_MARK}" * bool(turn.image))
            for n, turn in enumerate(context.turns)
        ),
    )


def image_parts(content: str, context: Conversation) -> str | list[dict[str, Any]]:
    """Split a message at image marks into OpenAI's content parts.

    Without marks return its text.
    """
    pieces = content.split(IMAGE_MARK)  # text and turn number alternate
    if len(pieces) == 1:
        return content
    images = {str(n): turn.image for n, turn in enumerate(context.turns)}
    parts: list[dict[str, Any]] = []
    for text, number in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        if text.strip():
            parts.append({"type": "text", "text": text.strip()})
        if number:
            parts.append({"type": "image_url", "image_url": {"url": images[number]}})
    return parts


def conditioned_prompt(system_prompt: str, context: Conversation) -> str:
    """Insert the condition's prompt at `{condition}`, or append it.

    A conversation's own system prompt replaces both.
    """
    if context.system_prompt is not None:
        return context.system_prompt
    if CONDITION in system_prompt:
        return system_prompt.replace(CONDITION, context.bot_prompt).strip()
    return "\n\n".join(filter(None, (system_prompt, context.bot_prompt)))


def chat_messages(
    turns: Sequence[tuple[str, str]],
    *,
    system_prompt: str,
    system_in_user: bool = False,
    opening: str = OPENING,
    is_opened: bool = False,
) -> list[dict[str, str]]:
    """Return the messages for a chat template, starting with the user.

    There is at least one.

    Args:
        turns: role and text of each turn, oldest first.
        system_prompt: empty for none.
        system_in_user: put the system prompt at the beginning of the first message, because the template does not
            support it.
        opening: the user's message if the assistant opens the conversation.
        is_opened: keep the assistant's first message after the opening; otherwise it is dropped.
    """
    messages = [{"role": role, "content": text} for role, text in turns]
    if messages and messages[0]["role"] == "assistant" and is_opened:
        messages.insert(0, {"role": "user", "content": opening})
    elif messages and messages[0]["role"] == "assistant":
        messages = messages[1:]
    if not messages:
        messages = [{"role": "user", "content": opening}]
    if system_prompt and system_in_user:
        first = messages[0]["content"]
        messages[0] = {"role": "user", "content": f"{system_prompt}\n\n{first}"}
    elif system_prompt:
        messages = [{"role": "system", "content": system_prompt}, *messages]
    return messages


class Prompts:
    """Converter of conversations to token ids.

    Args:
        tokenizer: a transformers tokenizer.
        system_prompt: may be empty.
        window: maximum number of turns; 0 for all.
        max_tokens: maximum length of the prompt.
        separator: separator of the plain format; None for the tokenizer's end token.
        for_encoder: the ids are input of an encoder.
        thought_marks: additional marks of reasoning to remove.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        system_prompt: str,
        window: int,
        max_tokens: int,
        separator: str | None,
        for_encoder: bool,
        thought_marks: Mapping[str, str] | None = None,
    ) -> None:
        self._thought_marks = thought_marks
        self._tokenizer = tokenizer
        self._system_prompt = system_prompt.strip()
        self._window = window
        self._max_tokens = max_tokens
        self._separator = separator if separator is not None else (tokenizer.eos_token or "\n")
        self._for_encoder = for_encoder
        self.has_template = bool(getattr(tokenizer, "chat_template", None))
        self._special = marks_pattern(tokenizer.all_special_tokens)
        self._system_in_user = self.has_template and not self._takes_system()

    def encode(self, context: Conversation) -> list[int]:
        """Return the token ids of a conversation, from 1 to `max_tokens`."""
        turns = turns_joined(context, window=self._window, marks=self._special, thought_marks=self._thought_marks)
        system_prompt = conditioned_prompt(self._system_prompt, context)
        while True:
            ids = self._make_ids(turns, system_prompt, is_opened=context.is_opened)
            if len(ids) <= self._max_tokens or len(turns) <= 1:
                break
            # Halve prompts that are far too long, to speed up very long conversations.
            turns = turns[max(1, len(turns) // 2 if len(ids) > 2 * self._max_tokens else 1) :]
        if not ids:
            ids = [self._fallback_token()]
        if len(ids) > self._max_tokens:  # a single turn is too long: keep its end
            ids = ids[-self._max_tokens :]
        return ids

    def _make_ids(self, turns: Sequence[tuple[str, str]], system_prompt: str, *, is_opened: bool) -> list[int]:
        if not self.has_template:
            return self._plain(turns, system_prompt)
        return self._apply(
            chat_messages(turns, system_prompt=system_prompt, system_in_user=self._system_in_user, is_opened=is_opened)
        )

    def _apply(self, messages: list[dict[str, str]]) -> list[int]:
        # Turns off reasoning in models that support it; other templates ignore the option.
        encoded = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=True, enable_thinking=False
        )
        return list(encoded["input_ids"])

    def _takes_system(self) -> bool:
        """Return True if the template includes a system prompt.

        Some templates reject or ignore it.
        """
        try:
            user = [{"role": "user", "content": "a"}]
            with_system = self._apply([{"role": "system", "content": "b"}, *user])
            return with_system != self._apply(user)
        except Exception:  # templates may raise any error
            return False

    def _plain(self, turns: Sequence[tuple[str, str]], system_prompt: str) -> list[int]:
        texts = [text for _, text in turns]
        if system_prompt:
            texts.insert(0, system_prompt)
        if self._for_encoder:
            return list(self._tokenizer(self._separator.join(texts))["input_ids"])
        text = self._separator.join([*texts, ""]) or self._separator
        ids = list(self._tokenizer(text)["input_ids"])
        end = self._tokenizer.eos_token_id
        if end is not None and ids[-2:] == [end, end]:  # remove the end token that the tokenizer added
            ids.pop()
        return ids

    def _fallback_token(self) -> int:
        for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
            if (token := getattr(self._tokenizer, name, None)) is not None:
                return token
        return 0
