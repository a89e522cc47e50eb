"""Messages of foreign records: lists of objects, pairs, texts or one transcript.

Tool calls and reasoning between two replies become the trace of the later one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evaluation.data.formats.mapping import BOT, HUMAN, SPEAKER_ROLES, SYSTEM, speaker_key

TEXT_KEYS = (
    "content",
    "text",
    "value",
    "utterance",
    "message",
    "body",
    "parts",
    "transcript",
    "transcription",
    "output",
)
SPEAKER_KEYS = (
    "role",
    "from",
    "speaker",
    "sender",
    "author",
    "agent",
    "who",
    "user",
    "userId",
    "party",
    "name",
    "type",
)
LIST_KEYS = (
    *("messages", "conversation", "conversations", "dialogue", "dialog", "turns", "thread", "chat", "chat_messages"),
    *("history", "chat_history", "conversation_history", "utterances", "log", "transcript", "exchanges", "content"),
    *("events", "sentences", "dialogs", "dialogues", "prompt", "input", "data"),
)
"""Keys under which records have their messages, likely ones first."""
_TRANSCRIPT = re.compile(r"(?:^|\n)[ \t]*(?:\*\*|\[)?([^\W\d_][\w .-]{0,30}?)(?:\*\*|\])?[ \t]*:[ \t]*", re.UNICODE)
_MOST_STEP_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Message:
    """Message of a foreign record.

    Attributes:
        speaker: its name in the file.
        steps: trace before the message, as JSON of `chatbots/trace.py`.
        data: the original object, for formats with votes or times.
    """

    speaker: str
    text: str
    steps: tuple[Mapping[str, Any], ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)


def text_of(value: Any) -> str:
    """Return the text of a message's content, which may consist of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(text_of, value)))
    if isinstance(value, Mapping):
        if value.get("type") in ("reasoning", "thinking", "redacted_thinking", "tool_use", "tool_result", "thought"):
            return ""
        return next((text_of(value[key]) for key in TEXT_KEYS if value.get(key)), "")
    return ""


def speaker_of(data: Mapping[str, Any]) -> str:
    """Return the name of a message's speaker; empty if it has none."""
    for key in SPEAKER_KEYS:
        value = data.get(key)
        if isinstance(value, Mapping):
            value = next((value[name] for name in ("role", "type", "name", "id") if value.get(name)), None)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    inner = data.get("message")
    return speaker_of(inner) if isinstance(inner, Mapping) else ""


def is_message(data: Any) -> bool:
    """Return True for an object with a text and a speaker, or with a text for each speaker."""
    if not isinstance(data, Mapping):
        return False
    has_text = any(key in data for key in TEXT_KEYS)
    return (has_text and bool(speaker_of(data))) or bool(_exchange(data))


def is_message_list(value: Any, *, plain: bool = False) -> bool:
    """Return True for a list of messages.

    Args:
        plain: True to accept a list of texts.
    """
    if not isinstance(value, list) or not value:
        return False
    first = value[0]
    if is_message(first):
        return True
    if isinstance(first, list):
        return len(first) == 2 and all(isinstance(part, str) for part in first)
    return plain and isinstance(first, str) and all(isinstance(text, str) for text in value)


def find_messages(data: Any, depth: int = 2) -> list[Any] | None:
    """Return the list of messages within a record, or None."""
    if isinstance(data, list):
        return data if is_message_list(data) else None
    if not isinstance(data, Mapping):
        return None
    for key in LIST_KEYS:
        value = unpacked(data.get(key))
        if is_message_list(value, plain=key not in ("prompt", "input", "data", "content", "events", "sentences")):
            return value  # type: ignore[no-any-return]
    for value in data.values():
        if is_message_list(value):
            return value  # type: ignore[no-any-return]
    if depth:
        for value in data.values():
            if isinstance(value, Mapping) and (messages := find_messages(value, depth - 1)) is not None:
                return messages
    return None


def unpacked(value: Any) -> Any:
    """Return the value of a cell that contains JSON of a list or object."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def read_messages(messages: Sequence[Any]) -> list[Message]:
    """Return the messages of a list; tool calls and reasoning become traces."""
    said: list[Message] = []
    steps: list[dict[str, Any]] = []
    open_calls: dict[str, dict[str, Any]] = {}
    for place, data in enumerate(messages):
        if type(data) is dict and len(data) == 2 and not steps:  # most messages are {"role": …, "content": …}
            role, content = data.get("role"), data.get("content")
            if isinstance(role, str) and isinstance(content, str) and role:
                said.append(Message(role, content))
                continue
        if isinstance(data, str):
            said.append(Message("", data))
        elif isinstance(data, list | tuple):
            said.append(Message(str(data[0]), text_of(data[-1])))
        elif isinstance(data, Mapping):
            if "role" not in data and (exchange := _exchange(data)):
                said += [Message(name, text, data=data) for name, text in exchange]
                continue
            speaker, text = speaker_of(data), _message_text(data)
            for step in _steps(data):
                steps.append(step)
                if step.get("_id"):
                    open_calls[step["_id"]] = step
            call = open_calls.get(str(data.get("tool_call_id")))
            if call is not None:
                call |= {"text": text[:_MOST_STEP_CHARS], "failed": bool(data.get("error"))}
            elif text.strip() or not steps:
                said.append(Message(speaker, text, tuple(_stored_step(step) for step in steps), data))
                steps = []
        else:
            raise ValueError(f"message {place + 1} is no object or text")
    if steps and said:  # calls after the last reply
        said[-1] = replace(said[-1], steps=(*said[-1].steps, *(_stored_step(step) for step in steps)))
    if said and not any(message.speaker for message in said):
        prefixed = [split_transcript(message.text) for message in said]
        if all(len(parts) == 1 and parts[0].speaker for parts in prefixed):
            return [parts[0] for parts in prefixed]
        return [replace(message, speaker=(HUMAN, BOT)[place % 2]) for place, message in enumerate(said)]
    return said


def _message_text(data: Mapping[str, Any]) -> str:
    return next((text for key in TEXT_KEYS if (text := text_of(data.get(key)))), "")


def _exchange(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return speaker and text of an object such as `{"user": "…", "bot": "…"}`."""
    pairs = [
        (key, value)
        for key, value in data.items()
        if isinstance(value, str)
        and ((role := SPEAKER_ROLES.get(speaker_key(key))) in (HUMAN, BOT) or (role is None and key == SYSTEM))
    ]
    has_both = len({SPEAKER_ROLES.get(speaker_key(key), BOT) for key, _text in pairs}) == 2
    return pairs if has_both and not any(key in data for key in ("role", "from", "content")) else []


def _steps(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the reasoning and tool calls of a message."""
    parts = data.get("content")
    for key in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(text := data.get(key), str) and text.strip():
            yield {"kind": "reasoning", "text": text}
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, Mapping) and part.get("type") in ("reasoning", "thinking"):
            yield {
                "kind": "reasoning",
                "text": str(part.get("reasoning") or part.get("thinking") or part.get("text") or ""),
            }
        elif isinstance(part, Mapping) and part.get("type") == "tool_use":
            yield _call(part.get("name"), part.get("input"), part.get("id"))
    calls = data.get("tool_calls") or ([data["function_call"]] if data.get("function_call") else [])
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, Mapping):
            inner = call.get("function")
            named = inner if isinstance(inner, Mapping) else call
            name = inner if isinstance(inner, str) else named.get("name")
            yield _call(name, named.get("arguments"), call.get("id"))


def _call(name: Any, arguments: Any, call_id: Any) -> dict[str, Any]:
    plain = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"kind": "tool", "name": str(name or ""), "arguments": plain, "_id": str(call_id or "")}


def _stored_step(step: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value[:_MOST_STEP_CHARS] if isinstance(value, str) else value for key, value in step.items()}
    kept.pop("_id", None)
    return {"name": "", "arguments": "", "text": None, "failed": False, "seconds": None, **kept}


def split_transcript(text: str, names: str = "") -> list[Message]:
    r"""Split a text such as `User: Hi!\nSystem: Hello` into messages.

    Args:
        names: regular expression of the speakers' names; empty: any name that begins a line.
    """
    pattern = re.compile(rf"(?:^|\n)[ \t]*({names})[ \t]*:[ \t]*") if names else _TRANSCRIPT
    pieces = pattern.split(text)
    messages = [Message(name.strip(), piece.strip()) for name, piece in zip(pieces[1::2], pieces[2::2], strict=True)]
    if pieces[0].strip() or not messages:
        return [Message("", line.strip()) for line in text.split("\n") if line.strip()]
    return [message for message in messages if message.text]
