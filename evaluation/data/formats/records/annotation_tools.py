"""Exports of annotation tools: Label Studio, Argilla, Potato."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from html import unescape
from typing import Any

from evaluation.data.formats.base import BadRecord, Record, RecordRating
from evaluation.data.formats.messages import (
    Message,
    find_messages,
    is_message_list,
    read_messages,
    split_transcript,
    unpacked,
)
from evaluation.data.formats.record_formats import (
    RATER_KEYS,
    Data,
    RecordFormat,
    RecordReading,
    first_name,
    is_object,
    rating_of,
    register_record_format,
)

_REPLY_FIELDS = ("response", "reply", "answer", "output", "completion", "generation")
_PROMPT_FIELDS = ("prompt", "instruction", "question", "input", "context", "text")


def shown_messages(fields: Data) -> list[Message]:
    """Return the messages that annotators saw: a list, a transcript, or a prompt and a reply.

    Raises:
        BadRecord: if the fields contain no conversation.
    """
    if (messages := find_messages(fields)) is not None:
        return read_messages(messages)
    for value in fields.values():
        if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
            return read_messages(value)
        said = split_transcript(plain_text(value)) if isinstance(value, str) else []
        if len(said) > 1 and all(message.speaker for message in said):
            return said
    prompt, reply = (first_name(fields, keys) for keys in (_PROMPT_FIELDS, _REPLY_FIELDS))
    if not prompt and not reply:
        raise BadRecord(f"there is no conversation in {', '.join(fields) or 'the record'}")
    return [Message("human", prompt), Message("bot", reply)]


def plain_text(text: str) -> str:
    """Return text without HTML tags; breaks and paragraphs become lines."""
    if "<" not in text:
        return text
    lines = re.sub(r"<(br|/p|/div|/li)\b[^>]*>", "\n", text)
    return unescape(re.sub(r"<[a-zA-Z/][^>]*>", "", lines))


def _ratings(by_rater: dict[str, dict[str, Any]], comments: dict[str, str]) -> list[RecordRating]:
    ratings = (rating_of(answers, rater, comments.get(rater)) for rater, answers in by_rater.items())
    return [rating for rating in ratings if rating is not None]


@register_record_format
class LabelStudio(RecordFormat):
    """Tasks with annotations of Label Studio (JSON)."""

    name = "labelstudio"
    title = "Label Studio (JSON)"
    loses = (
        "regions and spans, answers without a number, predictions, cancelled annotations, annotators' e-mail addresses"
    )
    needs = ("data", "annotations|completions|predictions")

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and is_object(data["data"])

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        ratings = []
        for annotation in data.get("annotations") or data.get("completions") or ():
            if not is_object(annotation) or annotation.get("was_cancelled"):
                continue
            by = annotation.get("completed_by", "")
            rater = str(by.get("id", "")) if is_object(by) else str(by)
            results = [result for result in annotation.get("result") or () if is_object(result)]
            answers = {result.get("from_name", ""): _answer(result) for result in results if "start" not in result}
            comment = " ".join(text for result in results if isinstance(text := _comment(result), str))
            if (rating := rating_of(answers, rater, comment)) is not None:
                ratings.append(rating)
        yield reading.conversation(shown_messages(data["data"]), {**data["data"], **data}, ratings=ratings)


def _answer(result: Data) -> Any:
    value = result.get("value") or {}
    return next((value[key] for key in ("rating", "number", "choices") if key in value), None)


def _comment(result: Data) -> str | None:
    text = (result.get("value") or {}).get("text") if result.get("type") == "textarea" else None
    return "\n".join(map(str, text)) if isinstance(text, list) else text


@register_record_format
class LabelStudioMin(RecordFormat):
    """Label Studio's short export (JSON-MIN)."""

    name = "labelstudio_min"
    title = "Label Studio (JSON-MIN)"
    loses = "regions and spans, answers without a number"
    needs = ("annotation_id", "annotator")

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        answers = {
            name: value[0].get("rating", value[0].get("number")) if _is_results(value) else value
            for name, value in data.items()
            if name not in ("annotation_id", "annotator", "lead_time", "created_at", "updated_at", "id")
        }
        rating = rating_of(answers, data["annotator"])
        fields = {name: value for name, value in data.items() if not _is_results(value)}
        yield reading.conversation(shown_messages(fields), data, ratings=[rating] if rating else [])


def _is_results(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and is_object(value[0])
        and not value[0].keys().isdisjoint(("rating", "number"))
    )


@register_record_format
class Argilla(RecordFormat):
    """Records of Argilla, version 1 (`values`) and version 2 (`responses` by question)."""

    name = "argilla"
    title = "Argilla (JSON)"
    loses = "suggestions, spans, rankings, answers without a number, drafts and discarded responses"
    needs = ("fields", "responses")

    def recognises(self, data: Data) -> bool:
        return super().recognises(data) and is_object(data["fields"])

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        by_rater: dict[str, dict[str, Any]] = defaultdict(dict)
        responses = data["responses"] or ()
        if is_object(responses):
            for question, answers in responses.items():
                for number, answer in enumerate(answers or ()):
                    _add(by_rater, answer, number, {question: answer.get("value")})
        else:
            for number, response in enumerate(responses):
                values = response.get("values") or {}
                _add(by_rater, response, number, {name: value.get("value") for name, value in values.items()})
        record = {**(data.get("metadata") or {}), **data}
        yield reading.conversation(shown_messages(data["fields"]), record, ratings=_ratings(by_rater, {}))


def _add(by_rater: dict[str, dict[str, Any]], response: Data, number: int, answers: dict[str, Any]) -> None:
    if response.get("status", "submitted") == "submitted":
        by_rater[str(response.get("user_id") or f"#{number + 1}")] |= answers


@register_record_format
class ArgillaRows(RecordFormat):
    """Argilla's data sets on the Hugging Face hub, with a column per question."""

    name = "argilla_rows"
    title = "Argilla (Parquet, Hugging Face)"
    loses = "suggestions, spans, rankings, answers without a number, drafts and discarded responses"

    def recognises(self, data: Data) -> bool:
        return any(name.endswith(".responses") for name in data) or any(map(_is_question, data.values()))

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        by_rater: dict[str, dict[str, Any]] = defaultdict(dict)
        fields = {}
        for name, value in data.items():
            if name.endswith(".responses"):
                users, statuses = (data.get(f"{name}.{part}") or () for part in ("users", "status"))
                for number, answer in enumerate(value or ()):
                    status = statuses[number] if number < len(statuses) else "submitted"
                    user = users[number] if number < len(users) else None
                    question = name.removesuffix(".responses")
                    _add(by_rater, {"user_id": user, "status": status}, number, {question: answer})
            elif _is_question(value):
                columns = value if is_object(value) else {key: [row.get(key) for row in value] for key in value[0]}
                for number, answer in enumerate(columns["value"]):
                    row = {key: cells[number] for key, cells in columns.items() if number < len(cells)}
                    _add(by_rater, row, number, {name: answer})
            elif not re.search(r"\.(responses|suggestion)|-suggestion|^(metadata|status)$", name):
                fields[name] = value
        yield reading.conversation(shown_messages(fields), data, ratings=_ratings(by_rater, {}))


def _is_question(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return is_object(first) and {"user_id", "value", "status"} <= first.keys()


@register_record_format
class Potato(RecordFormat):
    """Annotations of Potato, one line per annotator and instance."""

    name = "potato"
    title = "Potato (annotated_instances)"
    loses = "spans, behavioural data, answers without a number"
    needs = ("label_annotations|annotations", "instance_id|id", "displayed_text|text|user_id")

    def recognises(self, data: Data) -> bool:
        annotations = data.get("label_annotations", data.get("annotations"))
        return super().recognises(data) and is_object(annotations) and any(map(is_object, annotations.values()))

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        annotations = data.get("label_annotations", data.get("annotations")) or {}
        answers, comments = _answers_and_comments(annotations)
        rating = rating_of(answers, first_name(data, RATER_KEYS), comments)
        text = unpacked(data.get("displayed_text", data.get("text", "")))
        shown = {"text": text} if isinstance(text, str) else {"messages": text}
        messages = read_messages(text) if is_message_list(text, plain=True) else shown_messages(shown)
        dialogue_id = first_name(data, ("instance_id", "id"))
        ratings = [rating] if rating else []
        yield reading.conversation(messages, data, dialogue_id=dialogue_id, ratings=ratings)


@register_record_format
class PotatoState(RecordFormat):
    """One annotator's state in Potato 2, without the texts."""

    name = "potato_state"
    title = "Potato (user_state.json)"
    loses = "spans, behavioural data, answers without a number; the conversations must already be imported"
    needs = ("user_id", "instance_id_to_label_to_value")

    def read(self, data: Data, reading: RecordReading) -> Iterator[Record]:
        for instance, questions in data["instance_id_to_label_to_value"].items():
            labels_by_question = questions if is_object(questions) else _labels_of_pairs(questions)
            answers, comments = _answers_and_comments(labels_by_question)
            if (rating := rating_of(answers, data["user_id"], comments)) is not None:
                yield Record(reading.line, str(instance), "", ratings=(rating,), ratings_only=True)


def _labels_of_pairs(pairs: Any) -> dict[str, dict[str, Any]]:
    """Return labels by question of Potato's pairs, such as `[{"schema": "fun", "name": "4"}, true]`.

    Potato appends a pair for every change, so the last of a question counts.
    """
    labels: dict[str, dict[str, Any]] = {}
    for pair in pairs or ():
        if isinstance(pair, list) and len(pair) == 2 and is_object(pair[0]) and pair[0].get("schema"):
            name, is_text = str(pair[0].get("name", "")), str(pair[0].get("name", "")).startswith("text_box")
            earlier_labels = labels.get(pair[0]["schema"], {}) if is_text else {}
            labels[pair[0]["schema"]] = {**earlier_labels, name: pair[1]}
    return labels


def _answers_and_comments(questions: Data) -> tuple[dict[str, Any], str]:
    """Return the answers and the joined texts of Potato's labels by question.

    A Likert answer is `{"scale_4": "4"}`, a choice `{"4": "true"}` and a text `{"text_box": "…"}`.
    """
    answers, comments = {}, []
    for question, labels in ((name, labels) for name, labels in questions.items() if is_object(labels)):
        texts = [str(value) for label, value in labels.items() if label.startswith("text_box")]
        comments += texts
        if not texts:
            answers[question] = _chosen(labels)
    return answers, "\n".join(comments)


def _chosen(labels: Data) -> Any:
    """Return the label that is chosen, or the value of the only one."""
    inner = labels["labels"] if is_object(labels.get("labels")) else labels
    chosen = [label for label, value in inner.items() if value in (True, "true", "True")]
    return re.sub(r"^\D+(?=\d)", "", chosen[0]) if len(chosen) == 1 else next(iter(inner.values()), None)
