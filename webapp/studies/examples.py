"""Ready-made studies, one for each protocol, and the translation of their texts.

When a study's language changes, its default texts are translated, and researchers' own texts stay.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from webapp.studies.default_texts import each_text, texts_in, texts_said
from webapp.studies.protocols.base import StudyProtocol, protocols
from webapp.studies.ready_made import DEFAULT_QUESTIONS, QUESTION_SETS, READY_MADE, QuestionSet
from webapp.studies.settings import StudyValues
from webapp.studies.study_file import FORMAT, StudyFile, study_file_made

_MODELS = ("one", "other")
_BOTS = ["eliza", "retrieval", "parrot", "generic"]
_JUDGING = {
    "instructions_text": (
        "Read what was said before each reply.\n"
        "Judge the replies one by one; there are no right answers.\n"
        "Your answers are saved page by page, so you can stop and come back."
    ),
    "consent_points": "You can stop at any time.\nWe keep your answers, without your name.",
    "minutes": 5,
}


def study_example(name: str, language: str = "en") -> StudyFile:
    """Return the file of a study that shows the protocol of this name.

    Args:
        language: that the study speaks; its items are in English all the same.

    Raises:
        LookupError: there is no such protocol.
    """
    protocol = protocols.get(name)
    plain: dict[str, Any] = {
        "confab_study": FORMAT,
        "key": f"{name}-example",
        "name": f"Example: {protocol.title}",
        "protocol": name,
    }
    if protocol.gives == "bots":
        plain["bots"] = _BOTS
    texts: dict[str, Any] = {}
    if protocol.gives != "bots":  # participants do not write to a chatbot
        texts = {**_JUDGING}
    if protocol.instructions:
        texts["instructions_text"] = protocol.instructions
    if texts:
        texts["title"] = protocol.headline or protocol.title
        plain["texts"] = texts
    if protocol.gives == "items" and not protocol.has_one_item:
        plain["items"] = items_sample(protocol)
    plain["after"] = [one.to_plain() for one in protocol.asks or DEFAULT_QUESTIONS]
    own = protocol.example()
    texts |= own.get("texts", {})
    said = {"after": plain.pop("after"), **own, **({"texts": texts} if texts else {})}
    if language != "en":
        said = texts_in({**said, "texts": {**texts, "language": language}}, language)
    return study_file_made({**plain, **said})


def default_lines() -> set[str]:
    """Return every line that a new study may begin with, in English."""
    examples = [study_example(protocol.name).to_plain() for protocol in protocols]
    said = [{k: v for k, v in plain.items() if k not in ("name", "items")} for plain in examples]
    return set(texts_said(said))


def items_sample(protocol: StudyProtocol) -> list[dict[str, Any]]:
    """Return a few items as a study's file has them, with as many replies as the protocol shows."""
    found: list[dict[str, Any]] = []
    for number, talk in enumerate(READY_MADE["talks"], start=1):
        item, replies = (
            {"id": f"example-{number}", "context": talk["context"]},
            zip(_MODELS, talk["replies"], strict=True),
        )
        if protocol.n_replies == 2:
            found.append({**item, "responses": [{"model": model, "text": text} for model, text in replies]})
            continue
        for model, text in replies:
            own = {"id": f"example-{number}-{model}", "response": text, "model": model}
            found.append({**item, **own, "reference": talk["reference"], "reference_score": 4})
    return found


def sets_for(protocol: str) -> list[QuestionSet]:
    """Return the sets to offer in a study of this protocol: those that its sheet can ask."""
    if protocol not in protocols:
        return []
    found = protocols.get(protocol)
    about = "chat" if found.gives == "bots" else "reply"
    return [
        one
        for one in QUESTION_SETS
        if protocol in one.only_in or (not one.only_in and found.scale is None and one.about == about)
    ]


def translate_values(values: StudyValues, before: str) -> StudyValues:
    """Return the values with every line that Confab worded in the language that they name.

    Args:
        before: the language that they were in.
    """
    told = dict(zip(_lines_in(before), _lines_in(values.texts.language), strict=True))
    return StudyValues.model_validate(each_text(values.to_json(), lambda line: told.get(line, line)))


@cache
def _lines_in(language: str) -> tuple[str, ...]:
    """Return the lines that Confab brings in a language, in an order that is the same for all.

    They are those that a new study may begin with, and those of the ready-made sets of questions.
    """
    ready = [question.to_plain() for asked in QUESTION_SETS for question in asked.questions]
    lines = default_lines() | set(texts_said(ready))
    return tuple(texts_in({"title": line}, language)["title"] for line in sorted(lines))
