"""A ready study for every protocol, made from the protocol's `example`."""

from __future__ import annotations

from typing import Any

from webapp.studies.default_texts import texts_in, texts_said
from webapp.studies.protocols.base import StudyProtocol, protocols
from webapp.studies.rubrics import CHAT_QUESTIONS
from webapp.studies.study_file import FORMAT, StudyFile, study_file_made

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
_TALKS: list[tuple[list[str], str, str, str]] = [
    # the context, two replies, and one that a person wrote
    (
        ["I finally planted tomatoes on my balcony.", "That sounds lovely! How many plants?"],
        "Just three. I hope the wind does not knock them over.",
        "I have never been to the sea.",
        "Three small ones, and I already worry about the wind.",
    ),
    (
        ["I lost my keys again this morning."],
        "Oh no, did you find them in the end?",
        "Keys are made of metal.",
        "Again? Where did they turn up this time?",
    ),
    (
        ["Do you like cooking?", "Yes, but only for friends."],
        "What is the dish that they ask you for most?",
        "Yes, but only for friends.",
        "That is the best kind of cooking. What do you make?",
    ),
    (
        ["My train was two hours late and I missed the concert."],
        "I am sorry, you must have looked forward to it.",
        "Trains run on rails.",
        "What a pity! Will they play again soon?",
    ),
    (
        ["We got a dog last week.", "How exciting, what breed is it?"],
        "A small mixed one from the shelter, and she sleeps all day.",
        "What breed is it?",
        "A mix from the shelter. She is still a little shy.",
    ),
    (
        ["I cannot decide between tea and coffee today."],
        "Tea in the afternoon, so that you sleep tonight.",
        "I do not know.",
        "Have one now and the other later.",
    ),
]


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
    plain["after"] = [one.to_plain() for one in protocol.asks or CHAT_QUESTIONS]
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
    if protocol.n_replies == 2:
        return [
            {
                "id": f"example-{number}",
                "context": context,
                "responses": [{"model": "one", "text": one}, {"model": "other", "text": other}],
            }
            for number, (context, one, other, _known) in enumerate(_TALKS, start=1)
        ]
    return [
        {
            "id": f"example-{number}-{model}",
            "context": context,
            "response": reply,
            "model": model,
            "reference": known,
            "reference_score": 4,
        }
        for number, (context, one, other, known) in enumerate(_TALKS, start=1)
        for model, reply in (("one", one), ("other", other))
    ]
