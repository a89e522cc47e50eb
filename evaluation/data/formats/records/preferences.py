"""Preferences between two conversations: arena battles, MT-Bench judgments, HH-RLHF and similar pairs.

Each side becomes a conversation with the answer `preferred`: 1 for the better one, 0 for the other, 0.5 for both after
a tie. Both sides have the same id. `preferences_of_table` returns the pairs themselves, for rankings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from evaluation.data.formats.base import BadRecord, Record, RecordRating
from evaluation.data.formats.messages import Message, is_message_list, read_messages, split_transcript, unpacked
from evaluation.data.formats.record_formats import (
    RATER_KEYS,
    Data,
    RecordFormat,
    RecordReading,
    answer_number,
    first_name,
    is_object,
    recognise_record,
    register_record_format,
)
from evaluation.data.formats.tables import FileTable

PREFERRED = "preferred"
_WINNERS = {
    **dict.fromkeys(("model_a", "a", "model_1", "first", "left", "a>b", "a>>b", "[[a]]"), "first"),
    **dict.fromkeys(("model_b", "b", "model_2", "second", "right", "b>a", "b>>a", "[[b]]"), "second"),
    **dict.fromkeys(("tie", "tie (bothbad)", "both_bad", "bothbad", "both", "neither", "c", "a=b", "[[c]]"), "tie"),
}


@dataclass(frozen=True, slots=True)
class Preference:
    """Judgement of a pair: "first", "second" or "tie"."""

    item: str
    first: str
    second: str
    preferred: str
    rater: str = ""


class PairFormat(RecordFormat):
    """Format of records with two conversations and a judgement."""

    def preference(self, data: Data, number: int) -> Preference:
        """Return the judgement of a record.

        Raises:
            BadRecord: if the winner is unknown.
        """
        raise NotImplementedError

    def sides(self, data: Data) -> tuple[list[Message], list[Message]]:
        """Return the messages of both conversations."""
        raise NotImplementedError

    def question(self, data: Data) -> str:
        """Return the question that the judgement answers."""
        return PREFERRED

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        judged = self.preference(data, reading.number)
        sides = self.sides(data)
        if not all(sides):
            raise BadRecord("a conversation of the pair is empty; confab.rank also counts pairs without texts")
        values = {"first": (1, 0), "second": (0, 1), "tie": (0.5, 0.5)}[judged.preferred]
        records = [
            reading.conversation(
                side,
                data,
                bot=bot,
                dialogue_id=judged.item,
                ratings=[RecordRating({self.question(data): value}, rater=judged.rater)],
            )
            for side, bot, value in zip(sides, (judged.first, judged.second), values, strict=True)
        ]
        yield from records


def _winner(value: Any) -> str:
    winner = _WINNERS.get(str(value).strip().lower())
    if winner is None:
        raise BadRecord(f"the winner is {value!r}; it must be model_a, model_b, tie or tie (bothbad)")
    return winner


def preferences_of_table(table: FileTable) -> FileTable:
    """Return a table of pairs of another program as a table `first`, `second`, `preferred`, `rater`.

    Other tables are returned unchanged.

    Raises:
        ValueError: if a row is no pair, or its winner is unknown.
    """
    pair_format = recognise_record(table.rows[0]) if table.rows else None
    if not isinstance(pair_format, PairFormat):
        return table
    rows = []
    for number, row in table.numbered():
        try:
            judged = pair_format.preference(row, number)
        except (BadRecord, KeyError) as error:
            raise ValueError(f"{table.name}, row {number}: {error}") from None
        rows.append(
            {
                "first": judged.first,
                "second": judged.second,
                "preferred": judged.preferred,
                "rater": judged.rater or None,
            }
        )
    return FileTable(table.name, ("first", "second", "preferred", "rater"), tuple(rows))


@register_record_format
class ArenaBattles(PairFormat):
    """Battles of Chatbot Arena (LMSYS, LMArena)."""

    name = "arena"
    title = "Chatbot Arena battles"
    loses = "votes without texts (confab.rank reads them), categories, moderation labels, times"
    needs: ClassVar[tuple[str, ...]] = ("model_a", "model_b", "winner|winner_model_a|conversation_a|response_a")

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and not _is_mt_bench(data)

    def preference(self, data: Data, number: int) -> Preference:
        if "winner" in data:
            preferred = data["winner"]
            if preferred in (data["model_a"], data["model_b"]) and data["model_a"] != data["model_b"]:
                preferred = "a" if preferred == data["model_a"] else "b"
        else:
            preferred = next(
                (name for name in ("model_a", "model_b", "tie") if answer_number(data.get(f"winner_{name}"))), None
            )
        item = first_name(data, ("question_id", "id", "conversation_id", "evaluation_session_id")) or str(number)
        return Preference(item, str(data["model_a"]), str(data["model_b"]), _winner(preferred), self._rater(data))

    def _rater(self, data: Data) -> str:
        return first_name(data, RATER_KEYS)

    def sides(self, data: Data) -> tuple[list[Message], list[Message]]:
        if "conversation_a" in data or "full_conversation" not in data:
            return _side(data, "a"), _side(data, "b")
        exchanges = data["full_conversation"]  # LMArena: both sides of each turn in one list
        return (
            [message for turn in exchanges for message in read_messages([turn["user"], turn["model_side_a"]])],
            [message for turn in exchanges for message in read_messages([turn["user"], turn["model_side_b"]])],
        )


def _side(data: Data, letter: str) -> list[Message]:
    conversation = unpacked(data.get(f"conversation_{letter}"))
    if is_message_list(conversation):
        return read_messages(conversation)
    prompt, reply = unpacked(data.get("prompt")), unpacked(data.get(f"response_{letter}"))
    if isinstance(prompt, str):
        prompt = [prompt]
    if isinstance(reply, str):
        reply = [reply]
    if not isinstance(prompt, list) or not isinstance(reply, list):
        return []
    pairs = zip(map(str, prompt), map(str, reply), strict=False)
    return [Message(speaker, text) for pair in pairs for speaker, text in zip(("user", "assistant"), pair, strict=True)]


def _is_mt_bench(data: Data) -> bool:
    return {"judge", "turn", "question_id"} <= data.keys() and data.keys().isdisjoint(("tstamp", "anony", "language"))


@register_record_format
class MtBenchJudgments(ArenaBattles):
    """Human and model judgments of MT-Bench."""

    name = "mtbench"
    title = "MT-Bench judgments"
    loses = "the judge's prompts"
    needs = ("model_a|model_1", "model_b|model_2", "winner|g1_winner", "judge", "turn", "question_id")

    def recognises(self, data: Data) -> bool:
        return RecordFormat.recognises(self, data) and _is_mt_bench(data)

    def question(self, data: Data) -> str:
        return PREFERRED if data["turn"] in (1, "1") else f"{PREFERRED}_turn_{data['turn']}"

    def preference(self, data: Data, number: int) -> Preference:
        models = [str(data.get(f"model_{a}") or data.get(f"model_{b}")) for a, b in (("a", "1"), ("b", "2"))]
        winner = data.get("winner", data.get("g1_winner"))
        # A judge compares a reply with those of several models, so the pair is part of the id.
        item = f"{data['question_id']}/{models[0]}/{models[1]}"
        return Preference(item, models[0], models[1], _winner(winner), self._rater(data))

    def _rater(self, data: Data) -> str:
        judge = data["judge"]
        return "/".join(map(str, judge)) if isinstance(judge, list) else str(judge)


@register_record_format
class ChosenRejected(PairFormat):
    """HH-RLHF and other pairs of a chosen and a rejected conversation."""

    name = "hh"
    title = "HH-RLHF and other chosen and rejected pairs"
    loses = "the names of the models unless given; scores of either side"
    needs = ("chosen", "rejected")

    def preference(self, data: Data, number: int) -> Preference:
        bots = [
            first_name(data, (f"{side}_model", f"{side}-model", f"{side}_avg_model")) or side for side in self.needs
        ]
        item = first_name(data, ("prompt_id", "id", "question_id", "conversation_id")) or str(number)
        return Preference(item, bots[0], bots[1], "first", first_name(data, RATER_KEYS))

    def sides(self, data: Data) -> tuple[list[Message], list[Message]]:
        chosen, rejected = (_texts(data[side], data) for side in self.needs)
        return chosen, rejected


def _texts(value: Any, data: Data) -> list[Message]:
    """Return the messages of a transcript, of a list, or of a prompt and a reply."""
    value = unpacked(value)
    if is_object(value):
        value = [value]
    if isinstance(value, list):
        messages = read_messages(value)
    else:
        messages = split_transcript(value, "Human|Assistant|H|A|User") if "\n\n" in value or ":" in value else []
        if not messages or not messages[0].speaker:
            messages = [Message("assistant", value)]
    messages = [
        Message({"H": "human", "A": "assistant"}.get(message.speaker, message.speaker), message.text)
        for message in messages
    ]
    prompt = unpacked(
        next((data[key] for key in ("prompt", "question", "instruction", "input") if data.get(key)), None)
    )
    if prompt and len({message.speaker for message in messages}) == 1:
        before = read_messages(prompt) if isinstance(prompt, list) else [Message("user", str(prompt))]
        return [*before, *messages]
    return messages
