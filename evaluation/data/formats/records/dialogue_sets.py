"""Public dialogue sets: LMSYS-Chat, WildChat, OpenAssistant, FED, USR, ConvAI2, ESConv, Topical-Chat, DSTC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from evaluation.data.formats.base import BadRecord, Record, RecordRating
from evaluation.data.formats.messages import Message, read_messages, speaker_of, split_transcript, text_of, unpacked
from evaluation.data.formats.record_formats import (
    RATER_KEYS,
    Data,
    RecordFormat,
    RecordReading,
    answer_number,
    first_name,
    is_object,
    rating_of,
    ratings_by_question,
    register_record_format,
)


def _has(value: Any, *keys: str) -> bool:
    """Return True if a list's first item is an object with these keys."""
    first = value[0] if isinstance(value, list) and value else None
    return is_object(first) and all(key in first for key in keys)


@register_record_format
class WildChat(RecordFormat):
    """WildChat (JSON Lines, Parquet)."""

    name = "wildchat"
    title = "WildChat"
    loses = "IP hashes, countries, browser headers, moderation labels, times, languages"
    needs = (
        "conversation_hash|conversation_id",
        "conversation",
        "model",
        "toxic|detoxify_moderation|hashed_ip|turn_identifier",
    )

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and _has(unpacked(data["conversation"]), "role", "content")

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        yield reading.conversation(unpacked(data["conversation"]), data)


@register_record_format
class LmsysChat(WildChat):
    """LMSYS-Chat-1M (JSON Lines, Parquet)."""

    name = "lmsys"
    title = "LMSYS-Chat"
    loses = "moderation labels, languages"
    needs = ("conversation_id", "conversation", "model", "openai_moderation|redacted|turn")

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and data.keys().isdisjoint(("conversation_hash", "toxic", "hashed_ip"))


@register_record_format
class OpenAssistantThreads(RecordFormat):
    """OpenAssistant conversations as threads."""

    name = "oasst_thread"
    title = "OpenAssistant threads"
    loses = "labels, languages, ranks"

    def recognises(self, data: Data) -> bool:
        return _has(data.get("thread"), "text", "role")

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        yield reading.conversation(data["thread"], {key: value for key, value in data.items() if key != "source"})


@register_record_format
class OpenAssistantTrees(RecordFormat):
    """OpenAssistant message trees; each path from the prompt to a last reply is a conversation."""

    name = "oasst_tree"
    title = "OpenAssistant trees"
    loses = "labels, languages, ranks, deleted messages; shared beginnings are repeated in each path"
    needs: ClassVar[tuple[str, ...]] = ("message_tree_id|tree_state|prompt",)

    def recognises(self, data: Data) -> bool:
        prompt = data.get("prompt")
        return is_object(prompt) and "text" in prompt and ("replies" in prompt or "message_tree_id" in data)

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        yield from _paths(data["prompt"], first_name(data, ("message_tree_id", "id")), data, reading)


@register_record_format
class OpenAssistantMessages(OpenAssistantTrees):
    """OpenAssistant messages, one row each."""

    name = "oasst_messages"
    title = "OpenAssistant messages (rows)"
    needs = ("message_id", "parent_id", "text", "role", "message_tree_id")

    def recognises(self, data: Data) -> bool:
        return RecordFormat.recognises(self, data)

    def group(self, data: Data) -> str:
        return str(data["message_tree_id"])

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        rows = {row["message_id"]: {**row, "replies": []} for row in (data, *reading.group)}
        roots = [row for row in rows.values() if row["parent_id"] not in rows]
        for row in rows.values():
            if row["parent_id"] in rows:
                rows[row["parent_id"]]["replies"].append(row)
        for root in roots:
            yield from _paths(root, str(data["message_tree_id"]), {}, reading)


def _paths(root: Data, tree: str, data: Data, reading: RecordReading) -> Iterator[Record]:
    waiting: list[tuple[Data, list[Any]]] = [(root, [])]
    number = 0
    while waiting:
        node, before = waiting.pop()
        path = [*before, node]
        replies = [reply for reply in node.get("replies") or () if not reply.get("deleted")]
        waiting += [(reply, path) for reply in reversed(replies)]
        if not replies:
            number += 1
            dialogue_id = f"{tree or reading.number}/{number}"
            yield reading.conversation(
                [{k: n[k] for k in ("role", "text")} for n in path], data, dialogue_id=dialogue_id
            )


def context_messages(context: Any) -> list[Message]:
    """Return the messages of a context: a list, a transcript, or a line each.

    The last line is the human's, as a bot's reply follows.
    """
    messages = read_messages(context) if isinstance(context, list) else split_transcript(str(context))
    if messages and not any(message.speaker for message in messages):
        messages = read_messages([message.text for message in messages])
    is_alternating = not isinstance(context, list) or all(isinstance(text, str) for text in context)
    if is_alternating and {message.speaker for message in messages} <= {"human", "bot"}:
        n = len(messages)
        return [replace(message, speaker="bot" if (n - i) % 2 == 0 else "human") for i, message in enumerate(messages)]
    return messages


def _reply(text: Any) -> Message:
    messages = split_transcript(str(text), "System|User|Bot|Assistant")
    return Message("bot", messages[0].text if len(messages) == 1 else str(text).strip())


@register_record_format
class Fed(RecordFormat):
    """FED: ratings of replies, and of whole dialogues."""

    name = "fed"
    title = "FED"
    loses = (
        "the raters' identities; a rated reply is stored as the conversation that ends with it, with `reply_overall`"
    )
    needs = ("context", "system", "annotations")

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        messages = split_transcript(str(data["context"]), "User|System")
        answers = data["annotations"] if is_object(data["annotations"]) else {}
        if data.get("response"):
            messages = [*messages, Message("System", _reply(data["response"]).text)]
            answers = {("reply_overall" if name == "Overall" else name): value for name, value in answers.items()}
        ids = {key: value for key, value in data.items() if key != "system"}
        yield reading.conversation(messages, ids, bot=data["system"], ratings=ratings_by_question(answers))


@register_record_format
class Usr(RecordFormat):
    """USR: ratings of several replies to a context."""

    name = "usr"
    title = "USR (Topical-Chat, Persona-Chat)"
    loses = "facts and personas, the raters' identities; each reply is a conversation that ends with it"
    needs = ("context", "responses")

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and _has(data["responses"], "response")

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        for entry in data["responses"]:
            messages = [*context_messages(data["context"]), _reply(entry["response"])]
            ratings = ratings_by_question(entry) or [rating for rating in [rating_of(entry)] if rating]
            yield reading.conversation(messages, {**data, **entry}, ratings=ratings)


@register_record_format
class DstcReplies(RecordFormat):
    """Rated replies of DSTC6, DSTC7, DSTC9 and DSTC10: context, response, scores."""

    name = "dstc_replies"
    title = "DSTC rated replies"
    loses = "references, knowledge, the raters' identities; each reply is a conversation that ends with it"
    needs = ("context", "response", "annotations|gold_score|scores|ratings|annotation|score")

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and not ("system" in data and "annotations" in data)

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        key = next(
            name for name in ("annotations", "annotation", "scores", "ratings", "gold_score", "score") if name in data
        )
        value = data[key]
        context, response = data["context"], data["response"]
        messages = context_messages(context)
        if response:
            messages = [*messages, _reply(response)]
        if _has(value):
            ratings = [rating_of(entry, first_name(entry, RATER_KEYS)) for entry in value]
        elif is_object(value):
            ratings = [*ratings_by_question(value)] or [rating_of(value)]
        else:
            values = value if isinstance(value, list) else [value]
            ratings = [rating_of({"overall" if key == "gold_score" else "score": entry}) for entry in values]
        record = {**data, "system": str(data.get("system", "")).removesuffix(".txt")}
        yield reading.conversation(messages, record, ratings=[rating for rating in ratings if rating])


@register_record_format
class DstcLogs(RecordFormat):
    """Logs of DSTC1, DSTC2 and DSTC3, and turns of DSTC8 (Schema-Guided Dialogue) and MultiWOZ."""

    name = "dstc_logs"
    title = "DSTC logs, Schema-Guided Dialogue, MultiWOZ"
    loses = "speech recognition hypotheses, dialogue acts, states, services, answers in words"

    def recognises(self, data: Data) -> bool:
        turns = data.get("turns", data.get("log"))
        has_log = "log" in data and _has(turns, "text") and not speaker_of(turns[0])
        return _has(turns, "output") or (_has(turns, "speaker", "utterance")) or has_log or _has(turns, "transcription")

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        turns = data.get("turns", data.get("log"))
        messages = []
        for number, turn in enumerate(turns):
            if is_object(turn.get("output")):
                heard = turn.get("input") or {}
                guess: Any = (heard.get("live") or {}).get("asr-hyps") or ({},)
                messages.append(Message("bot", str(turn["output"].get("transcript", ""))))
                messages.append(Message("human", str(turn.get("transcription") or guess[0].get("asr-hyp", ""))))
            elif "utterance" in turn:
                messages.append(Message(str(turn["speaker"]), str(turn["utterance"])))
            elif "transcription" in turn:  # a file of labels has the person's side alone
                messages.append(Message("human", str(turn["transcription"])))
            else:
                messages.append(Message(("human", "bot")[number % 2], str(turn.get("text", ""))))
        feedback = data.get("feedback") or (data.get("task-information") or {}).get("feedback") or {}
        questionnaire = feedback.get("questionnaire")
        rating = rating_of(questionnaire if is_object(questionnaire) else feedback)
        yield reading.conversation(messages, data, ratings=[rating] if rating else [])


@register_record_format
class ConvAi2(RecordFormat):
    """ConvAI2 and ConvAI 2017/2018: dialogues of people with bots."""

    name = "convai"
    title = "ConvAI2, ConvAI"
    loses = "profiles of both sides, the bot's ratings of the person, times"

    def recognises(self, data: Data) -> bool:
        has_users = "users" in data or "participant1_id" in data or "eval_score" in data
        return _has(data.get("dialog"), "sender", "text") or (has_users and _has(data.get("thread"), "text", "userId"))

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        classes = _participants(data)
        messages = []
        for message in data.get("dialog") or data["thread"]:
            name = str(message.get("sender", message.get("userId")))
            kind = str(message.get("sender_class") or classes.get(name, (name, ""))[0])
            is_bot = "bot" in kind.lower()
            is_known = kind != name and name not in reading.mapping.speakers
            speaker = name if not is_known else "bot" if is_bot else "human"
            messages.append(Message(speaker, text_of(message.get("text")), data=message))
        bots = [name for kind, name in classes.values() if "bot" in kind.lower() and name]
        people = [name for kind, name in classes.values() if "bot" not in kind.lower() and name]
        answers = {name: data.get(key) for name, key in _CONVAI_ANSWERS.items() if data.get(key) != _NO_ANSWER}
        ratings = [rating_of(answers, people[0] if people else "")]
        for entry in data.get("evaluation") or ():
            if str(entry.get("userId")) not in bots:
                ratings.append(rating_of(entry, entry.get("userId", "")))
        yield reading.conversation(
            messages, data, bot=bots[0] if bots else None, ratings=[rating for rating in ratings if rating], vote=_vote
        )


_CONVAI_ANSWERS = {"quality": "eval_score", "profile_match": "profile_match"}
_NO_ANSWER = -1
"""Missing answer in the copy of ConvAI2 on the Hugging Face Hub."""


def _participants(data: Data) -> dict[str, tuple[str, str]]:
    """Return the class and the name of each participant by its sender name.

    The exports of 2018 name neither; in them, participant1 is the person.
    """
    participants = {"participant1": ("User", ""), "participant2": ("Bot", "")}
    for number in (1, 2):
        entry = data.get(f"participant{number}_id")
        if is_object(entry):
            participants[f"participant{number}"] = (str(entry.get("class", "")), str(entry.get("user_id", "")))
    for entry in data.get("users") or ():
        if is_object(entry):
            name = str(entry.get("id", entry.get("user_id", "")))
            participants[name] = (str(entry.get("userType", entry.get("user_class", ""))), name)
    return participants


def _vote(message: Data) -> int:
    score = message.get("evaluation_score", message.get("evaluation"))
    return score if score in (-1, 1) and not isinstance(score, bool) else 0


@register_record_format
class EsConv(RecordFormat):
    """ESConv: emotional support by people, rated by the seeker."""

    name = "esconv"
    title = "ESConv"
    loses = "strategies, situations, emotion and problem types, the supporter's survey"
    needs = ("dialog", "problem_type|emotion_type|survey_score")

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and _has(data["dialog"], "speaker")

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        seeker = (data.get("survey_score") or {}).get("seeker")
        rating = rating_of(seeker) if is_object(seeker) else None
        messages = [
            Message(str(turn["speaker"]), str(turn.get("content", turn.get("text", "")))) for turn in data["dialog"]
        ]
        yield reading.conversation(messages, data, bot=data.get("bot") or None, ratings=[rating] if rating else [])


@register_record_format
class TopicalChat(RecordFormat):
    """Topical-Chat: two people, both of whom rate the conversation."""

    name = "topicalchat"
    title = "Topical-Chat"
    loses = "knowledge sources, sentiments, ratings of single turns"
    needs = ("content",)

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and _has(data["content"], "message", "agent")

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        rated = data.get("conversation_rating") or {}
        if not is_object(rated):
            raise BadRecord("conversation_rating is no object")
        ratings = [
            RecordRating({"conversation_rating": number}, rater=agent)
            for agent, word in rated.items()
            if (number := answer_number(word)) is not None
        ]
        agents = list(dict.fromkeys(turn["agent"] for turn in data["content"]))
        messages = [Message(turn["agent"], str(turn["message"])) for turn in data["content"]]
        if len(agents) == 2 and not reading.mapping.speakers:
            sides = dict(zip(sorted(agents), ("human", "bot"), strict=True))
            messages = [replace(message, speaker=sides[message.speaker]) for message in messages]
        ids = {key: value for key, value in data.items() if key not in ("content",)}
        yield reading.conversation(messages, ids, ratings=ratings)
