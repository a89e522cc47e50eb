"""Chats as lists of messages: OpenAI, ShareGPT, ChatGPT's and Claude's own exports, and anything similar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from evaluation.data.formats.base import BadRecord, Record
from evaluation.data.formats.messages import Message, find_messages, is_message_list, split_transcript, unpacked
from evaluation.data.formats.record_formats import (
    BOT_KEYS,
    Data,
    RecordFormat,
    RecordReading,
    any_ratings,
    first_name,
    is_object,
    register_record_format,
)


class _MessageList(RecordFormat):
    """Format with its messages under one of several keys."""

    keys: tuple[str, ...]
    needed: tuple[str, ...]

    def recognises(self, data: Data) -> bool:
        return self._messages(data) is not None

    def _messages(self, data: Data) -> list[Any] | None:
        for key in self.keys:
            value = data.get(key)
            if isinstance(value, str):
                value = unpacked(value)
            if (
                isinstance(value, list)
                and value
                and is_object(value[0])
                and all(name in value[0] for name in self.needed)
            ):
                return value
        return None

    def read(self, data: Data, reading: RecordReading) -> Iterable[Record]:
        yield reading.conversation(self._messages(data) or [], data, ratings=any_ratings(data))


@register_record_format
class OpenAiMessages(_MessageList):
    """Messages with role and content, as in OpenAI's API and fine-tuning files."""

    name = "openai"
    title = "OpenAI messages"
    loses = "system prompts, images, tool definitions, log probabilities"
    keys = ("messages", "input", "prompt", "data", "conversation", "conversations", "turns", "dialogue", "dialog")
    needed = ("role", "content")
    rank = 1

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) or (data.get("messages") == [] and not is_message_list(data.get("turns")))

    def read(self, data: Data, reading: RecordReading) -> Iterable[Record]:
        messages = list(self._messages(data) or [])
        replies = [choice.get("message") for choice in data.get("choices") or () if is_object(choice)]
        messages += [reply for reply in replies[:1] if is_object(reply)]
        if not messages:
            raise BadRecord("messages is empty")
        yield reading.conversation(messages, data, ratings=any_ratings(data))


@register_record_format
class ShareGpt(_MessageList):
    """Messages with from and value."""

    name = "sharegpt"
    title = "ShareGPT"
    loses = "system prompts"
    keys = ("conversations", "conversation", "items", "messages")
    needed = ("from", "value")


@register_record_format
class ChatGptExport(RecordFormat):
    """A user's own export of ChatGPT, `conversations.json`."""

    name = "chatgpt"
    title = "ChatGPT's data export"
    loses = "edited and regenerated branches, images, attachments, titles"
    needs = ("mapping",)

    def recognises(self, data: Data) -> bool:
        nodes = data.get("mapping")
        return is_object(nodes) and all(is_object(node) and "message" in node for node in list(nodes.values())[:3])

    def read(self, data: Data, reading: RecordReading) -> Iterable[Record]:
        nodes, messages, models = data["mapping"], [], []
        node_id = data.get("current_node") or _latest_leaf(nodes)
        seen: set[str] = set()
        while node_id in nodes and node_id not in seen:
            seen.add(node_id)
            if not is_object(nodes[node_id]):
                break
            if is_object(message := nodes[node_id].get("message")):
                messages.append(message)
                models.append(first_name(message.get("metadata") or {}, BOT_KEYS))
            node_id = nodes[node_id].get("parent")
        model = data.get("default_model_slug") or next(filter(None, models), "")
        visible = [message for message in reversed(messages) if _is_visible(message)]
        yield reading.conversation(visible, data, bot=model)


def _is_visible(message: Data) -> bool:
    metadata = message.get("metadata") or {}
    return not metadata.get("is_visually_hidden_from_conversation") and message.get("recipient") in (None, "all")


def _latest_leaf(nodes: Data) -> str:
    leaves = [name for name, node in nodes.items() if not node.get("children")]
    return max(leaves, key=lambda name: (nodes[name].get("message") or {}).get("create_time") or 0, default="")


@register_record_format
class ParlAi(RecordFormat):
    """Conversations logged by ParlAI."""

    name = "parlai"
    title = "ParlAI"
    loses = "labels, label candidates, episode marks, rewards"

    def recognises(self, data: Data) -> bool:
        return bool(self._acts(data))

    def _acts(self, data: Data) -> list[Data]:
        rounds = data.get("dialog")
        acts = (
            [act for acts in rounds for act in (acts if isinstance(acts, list) else [acts])]
            if isinstance(rounds, list)
            else []
        )
        return (
            acts if all(is_object(act) and {"id", "text"} <= act.keys() and "sender" not in act for act in acts) else []
        )

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        messages = [Message(str(act["id"]), str(act["text"])) for act in self._acts(data)]
        yield reading.conversation(messages, data, ratings=any_ratings(data))


@register_record_format
class OtherChats(RecordFormat):
    """Records with a list of messages or texts under any key, or a transcript."""

    name = "chats"
    title = "Conversations as lists of messages"
    loses = "all fields except the texts, speakers, ids and ratings"
    rank = 2

    def recognises(self, data: Data) -> bool:
        return find_messages(data) is not None or bool(_transcript(data))

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        messages: list[Any] | list[Message] | None = find_messages(data)
        if messages is None:
            messages = _transcript(data)
        yield reading.conversation(messages, data, ratings=any_ratings(data))


def _transcript(data: Data) -> list[Message]:
    for key in ("transcript", "dialogue", "dialog", "conversation", "chat", "text"):
        value = data.get(key)
        if isinstance(value, str) and value.count("\n"):
            messages = split_transcript(value)
            if (
                len(messages) > 1
                and all(message.speaker for message in messages)
                and len({message.speaker for message in messages}) == 2
            ):
                return messages
    return []
