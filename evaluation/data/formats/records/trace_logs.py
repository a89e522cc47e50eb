"""Logs of evaluations and applications, with the traces of replies: Inspect, Langfuse."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from evaluation.data.formats.base import BadRecord, Record, RecordRating
from evaluation.data.formats.messages import Message, find_messages, read_messages, text_of, unpacked
from evaluation.data.formats.record_formats import (
    Data,
    RecordFormat,
    RecordReading,
    answer_number,
    first_name,
    is_object,
    question_name,
    rating_of,
    register_record_format,
)

_VERDICTS = {"C": 1, "P": 0.5, "I": 0, "N": 0}
"""Inspect's verdicts: correct, partial, incorrect, no answer."""


@register_record_format
class InspectSamples(RecordFormat):
    """Samples of Inspect, such as the files in an `.eval` archive."""

    name = "inspect_sample"
    title = "Inspect samples"
    loses = "events, sandboxes, targets, token usage, images; a score is an answer of a rater with the scorer's name"
    needs = ("messages", "epoch", "input", "output|scores|target")

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        yield _sample(data, reading, first_name(data.get("output") or {}, ("model",)))


@register_record_format
class InspectLog(RecordFormat):
    """Log of an evaluation by Inspect (JSON)."""

    name = "inspect"
    title = "Inspect log"
    loses = InspectSamples.loses
    needs = ("eval", "samples|status", "plan|results|version")

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and is_object(data["eval"])

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        samples = data.get("samples")
        if not samples:
            raise BadRecord("the log has no samples; it may be a header")
        for sample in samples:
            yield _sample(sample, reading, first_name(data["eval"], ("model",)))


def _sample(sample: Data, reading: RecordReading, model: str) -> Record:
    ratings = []
    for name, score in (sample.get("scores") or {}).items():
        value = score.get("value") if is_object(score) else score
        values = value if is_object(value) else {name: value}
        numbers = {
            question_name(key): number
            for key, cell in values.items()
            if (number := _VERDICTS.get(cell) if isinstance(cell, str) else None) is not None
            or (number := answer_number(cell)) is not None
        }
        if numbers:
            explanation = score.get("explanation") if is_object(score) else ""
            ratings.append(RecordRating(numbers, rater=str(name), comment=str(explanation or "")))
    epoch = sample.get("epoch", 1)
    dialogue_id = f"{sample.get('id', reading.number)}/{epoch}" if epoch not in (0, 1) else sample.get("id")
    return reading.conversation(sample["messages"], sample, bot=model or None, dialogue_id=dialogue_id, ratings=ratings)


@register_record_format
class LangfuseTraces(RecordFormat):
    """Traces of Langfuse; those of a session are one conversation."""

    name = "langfuse"
    title = "Langfuse traces"
    loses = "user ids, tags, costs, latencies, nesting of observations; all but numeric and boolean scores"
    needs = ("input", "output", "observations|sessionId|session_id|scores", "id|traceId")

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and "messages" not in data and "epoch" not in data

    def group(self, data: Data) -> str:
        return first_name(data, ("sessionId", "session_id"))

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        yield _session(
            [data, *reading.group], data, reading, first_name(data, ("sessionId", "session_id", "id", "traceId"))
        )


@register_record_format
class LangfuseSessions(RecordFormat):
    """A session of Langfuse with its traces."""

    name = "langfuse_session"
    title = "Langfuse sessions"
    loses = LangfuseTraces.loses
    needs = ("traces",)

    def recognises(self, data: Data) -> bool:
        traces = data.get("traces")
        return isinstance(traces, list) and bool(traces) and is_object(traces[0]) and "input" in traces[0]

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        yield _session(data["traces"], data, reading, first_name(data, ("id", "sessionId")))


def _session(traces: Iterable[Data], data: Data, reading: RecordReading, session: str) -> Record:
    messages: list[Message] = []
    scores: list[Any] = []
    model = ""
    for trace in sorted(traces, key=lambda entry: str(entry.get("timestamp", ""))):
        observations = [entry for entry in trace.get("observations") or () if is_object(entry)]
        model = model or next(
            (name for entry in observations if (name := first_name(entry, ("model", "providedModelName")))), ""
        )
        messages += _new_messages(trace, messages, tuple(_steps(observations)))
        scores += [score for score in trace.get("scores") or () if is_object(score)]
    scores += [score for score in data.get("scores") or () if is_object(score) and score not in scores]
    ratings = [
        rating_of(
            {score["name"]: score.get("value")}, first_name(score, ("authorUserId", "source")), score.get("comment")
        )
        for score in scores
        if score.get("name") and score.get("dataType") != "CATEGORICAL"  # whose value numbers the category
    ]
    return reading.conversation(
        messages,
        {},
        bot=model or first_name(data, ("model", "name")) or None,
        dialogue_id=session,
        ratings=_merged(ratings),
    )


def _merged(ratings: Iterable[RecordRating | None]) -> list[RecordRating]:
    """Join the answers of each rater to one rating."""
    by_rater: dict[str, RecordRating] = {}
    for rating in ratings:
        if rating is not None:
            known = by_rater.get(rating.rater, RecordRating({}, rating.rater))
            comment = "\n".join(filter(None, (known.comment, rating.comment)))
            by_rater[rating.rater] = RecordRating({**known.answers, **rating.answers}, rating.rater, comment)
    return list(by_rater.values())


def _new_messages(trace: Data, said: list[Message], steps: tuple[Data, ...]) -> list[Message]:
    """Return the messages of a trace that the conversation does not contain yet.

    The input may repeat the whole conversation, or be the last message alone.
    """
    sent, reply = unpacked(trace.get("input")), unpacked(trace.get("output"))
    messages = find_messages(sent)
    before = read_messages(messages) if messages else [Message("user", text_of(sent) or _any_text(sent))]
    before = [message for message in before if message.speaker not in ("system", "developer")]
    texts = [message.text for message in said]
    n_known = next(
        (n for n in range(min(len(texts), len(before)), 0, -1) if [m.text for m in before[:n]] == texts[:n]), 0
    )
    if n_known < len(texts):
        n_known = max(0, len(before) - 1)
    answers = read_messages(reply_messages) if (reply_messages := find_messages(reply)) else []
    text = answers[-1].text if answers else text_of(reply) or _any_text(reply)
    return [message for message in (*before[n_known:], Message("assistant", text, steps)) if message.text]


def _any_text(value: Any) -> str:
    """Return the only text among the values of an object, such as `{"question": "…"}`."""
    texts = [cell for cell in value.values() if isinstance(cell, str)] if is_object(value) else []
    return texts[0] if len(texts) == 1 else ""


def _steps(observations: Iterable[Data]) -> Iterator[dict[str, Any]]:
    """Yield the tool calls of a trace as JSON of `chatbots/trace.py`."""
    for entry in observations:
        if str(entry.get("type", "")).upper() not in ("GENERATION", "EVENT", "EMBEDDING"):
            arguments, result = (_written(entry.get(key)) for key in ("input", "output"))
            yield {
                "kind": "tool",
                "name": str(entry.get("name") or ""),
                "arguments": arguments,
                "text": result,
                "failed": entry.get("level") == "ERROR",
                "seconds": None,
            }


def _written(value: Any) -> str:
    return value[:20_000] if isinstance(value, str) else json.dumps(value, ensure_ascii=False)[:20_000] if value else ""
