"""Foreign formats, recognised by the keys of their records.

Confab cannot read them, but names the format so that researchers know which converter to look for. A reader for a
foreign format belongs in its class here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

Data = Mapping[str, Any]


class ForeignFormat:
    """Record format of another program."""

    title: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    """Keys of a record; `|` separates alternatives."""

    def recognises(self, data: Data) -> bool:
        """Return True if a record is in this format."""
        return all(any(key in data for key in keys.split("|")) for keys in self.needs)


def _first(value: Any) -> Any:
    """Return the first item of a list, or None."""
    return value[0] if isinstance(value, list) and value else None


def _has_list_of(data: Data, key: str, *needed: str) -> bool:
    """Return True if a list's first item is an object with these keys."""
    first = _first(data.get(key))
    return isinstance(first, dict) and all(name in first for name in needed)


class ArenaBattles(ForeignFormat):
    title = "Chatbot Arena's battles"
    needs = ("model_a", "model_b", "winner|winner_model_a|conversation_a")


class LabelStudio(ForeignFormat):
    title = "Label Studio"
    needs = ("data", "annotations|completions|predictions")

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and isinstance(data["data"], dict)


class ChatGptExport(ForeignFormat):
    title = "ChatGPT's data export"
    needs = ("mapping",)


class Fed(ForeignFormat):
    title = "FED"
    needs = ("context", "system", "annotations")


class Usr(ForeignFormat):
    title = "USR"
    needs = ("context", "responses", "fact")


class HhRlhf(ForeignFormat):
    title = "HH-RLHF"
    needs = ("chosen", "rejected")

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and isinstance(data["chosen"], str) and "\n\nHuman:" in data["chosen"]


class PreferencePairs(ForeignFormat):
    title = "preference pairs (chosen and rejected)"
    needs = ("chosen", "rejected")


class OpenAssistant(ForeignFormat):
    title = "OpenAssistant"

    def recognises(self, data: Data) -> bool:
        is_tree = "message_tree_id" in data or ("prompt" in data and isinstance(data["prompt"], dict))
        return is_tree or _has_list_of(data, "thread", "text", "role")


class ConvAi2(ForeignFormat):
    title = "ConvAI2's export"

    def recognises(self, data: Data) -> bool:
        return any(_has_list_of(data, key, "sender", "text") for key in ("dialog", "thread"))


class EsConv(ForeignFormat):
    title = "ESConv"
    needs = ("dialog", "problem_type|emotion_type")


class WizardOfWikipedia(ForeignFormat):
    title = "Wizard of Wikipedia"
    needs = ("dialog", "chosen_topic")


class DailyDialog(ForeignFormat):
    title = "DailyDialog"
    needs = ("dialog", "act|emotion")


class PersonaChat(ForeignFormat):
    title = "PersonaChat"
    needs = ("personality|persona|your_persona", "utterances|history|dialogue")


class EmpatheticDialogues(ForeignFormat):
    title = "EmpatheticDialogues"
    needs = ("conv_id", "utterance_idx")


class MultiWoz(ForeignFormat):
    title = "MultiWOZ or Schema-Guided Dialogue"
    needs = ("dialogue_id", "services")


class Prism(ForeignFormat):
    title = "PRISM"
    needs = ("conversation_history", "conversation_id|user_id")


class Summaries(ForeignFormat):
    title = "SAMSum or DialogSum"
    needs = ("dialogue", "summary")


class ParlAi(ForeignFormat):
    title = "ParlAI"

    def recognises(self, data: Data) -> bool:
        return isinstance(_first(data.get("dialog")), list | dict) or {"text", "episode_done"} <= data.keys()


class ShareGpt(ForeignFormat):
    title = "ShareGPT"

    def recognises(self, data: Data) -> bool:
        return any(_has_list_of(data, key, "from", "value") for key in ("conversations", "conversation"))


class WildChat(ForeignFormat):
    title = "WildChat"

    def recognises(self, data: Data) -> bool:
        return "conversation_hash" in data and _has_list_of(data, "conversation", "role", "content")


class LmsysChat(ForeignFormat):
    title = "LMSYS-Chat"

    def recognises(self, data: Data) -> bool:
        return "conversation_id" in data and _has_list_of(data, "conversation", "role", "content")


class OpenAiChats(ForeignFormat):
    title = "OpenAI's chats (messages with role and content)"

    def recognises(self, data: Data) -> bool:
        keys = ("messages", "conversation", "conversations", "prompt", "input", "data", "turns")
        return any(_has_list_of(data, key, "role", "content") for key in keys) or "messages" in data


class Instructions(ForeignFormat):
    title = "instructions with answers, such as Alpaca or Dolly"
    needs = ("instruction", "output|response")


class RasaTracker(ForeignFormat):
    title = "Rasa's tracker"
    needs = ("sender_id", "events")


_FORMATS: tuple[ForeignFormat, ...] = tuple(
    kind()
    for kind in (
        *(ArenaBattles, LabelStudio, ChatGptExport, Fed, Usr, HhRlhf, PreferencePairs, OpenAssistant, ConvAi2, EsConv),
        *(WizardOfWikipedia, DailyDialog, PersonaChat, EmpatheticDialogues, MultiWoz, Prism, Summaries, ParlAi),
        *(ShareGpt, WildChat, LmsysChat, OpenAiChats, Instructions, RasaTracker),
    )
)
"""Formats with more specific keys come first."""


def foreign_format(data: Data) -> ForeignFormat | None:
    """Return the format that a record appears to have."""
    return next((each for each in _FORMATS if each.recognises(data)), None)


def foreign_hint(data: Data) -> str:
    """Return a hint that names a record's format and the expected one.

    Empty for an unknown format.
    """
    known = foreign_format(data)
    if known is None:
        return ""
    return (
        f"; this looks like the format of {known.title}, which Confab cannot read: convert it to turns such as "
        '{"speaker": "human", "text": "…"}, with dialogue_id and bot'
    )
