"""Ready-made studies and questions, and their translation.

Every protocol has a study, made from its `example`. The questions are those of the papers, to add and change: their
subjects and scales; the wording is ours. When a study's language changes, its default texts are translated, and
researchers' own texts stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from webapp.studies.default_texts import each_text, texts_in, texts_said
from webapp.studies.protocols.base import StudyProtocol, protocols
from webapp.studies.questions import Question
from webapp.studies.rubrics import DEFAULT_QUESTIONS
from webapp.studies.settings import StudyValues
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


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Questions that were asked together.

    Attributes:
        source: publication of the questions; shown with a note if the wording is ours.
        only_in: names of the protocols whose sheets they fit; empty: all that ask about the same subject on any
            scale.
        about: subject of the questions, "chat" or "reply".
    """

    name: str
    title: str | Promise
    source: str
    questions: tuple[Question, ...]
    only_in: tuple[str, ...] = ()
    about: Literal["chat", "reply"] = "reply"

    @property
    def credit(self) -> str:
        """Source of the questions, with a note if Confab worded them."""
        return (
            self.source
            if self.source == "Confab"
            else _("after %(source)s, wording by Confab") % {"source": self.source}
        )


def _scales(high: int, ends: tuple[str, str], *asked: tuple[str, str, str]) -> tuple[Question, ...]:
    labels = {1: ends[0], high: ends[1]}
    return tuple(
        Question(key=key, name=name, title=title, kind="scale", low=1, high=high, labels=labels)
        for key, name, title in asked
    )


QUESTION_SETS = (
    QuestionSet(
        "interactive",
        _("A chat: quality, fluency, diversity, contingency, empathy"),
        "Ghandeharioun et al. 2019",
        DEFAULT_QUESTIONS,
        about="chat",
    ),
    QuestionSet(
        "aspects",
        _("A reply: fluency, coherence, engagement, overall"),
        "PONE, Lan et al. 2020",
        _scales(
            6,
            ("very bad", "very good"),
            ("fluency", "Fluency", "How well is the reply written, in grammar and flow?"),
            ("coherence", "Coherence", "How well does the reply fit what was said before?"),
            ("engagement", "Engagement", "How attractive and interesting is the reply?"),
            ("overall", "Overall", "How good is the reply, all in all?"),
        ),
    ),
    QuestionSet(
        "coherence",
        _("A reply: coherence"),
        "GRADE, Huang et al. 2020",
        _scales(
            5,
            ("not coherent at all", "very coherent"),
            ("coherence", "Coherence", "How coherent is the reply with what was said before?"),
        ),
    ),
    QuestionSet(
        "submetrics",
        _("A reply: RADE's general and task-specific sub-metrics"),
        "RADE, Shi et al. 2023",
        _scales(
            5,
            ("very poor", "very good"),
            ("relevance", "Relevance", "How relevant is the reply to what was said before?"),
            ("engagingness", "Engagingness", "How much does the reply invite one to go on talking?"),
            ("fluency", "Fluency", "How fluent is the reply, in grammar and wording?"),
            (
                *("understandability", "Understandability"),
                "How much does the reply bring in knowledge from outside the conversation?",
            ),
            (
                *("emotional_awareness", "Emotional awareness"),
                "How well does the reply notice and meet the feelings of the other person?",
            ),
            (
                *("personality_awareness", "Personality awareness"),
                "How well does the reply fit the personality it is meant to have?",
            ),
        ),
    ),
    QuestionSet(
        "pair",
        _("Two replies: quality, fluency, relatedness, empathy"),
        "Ghandeharioun et al. 2019",
        protocols.get("pairwise").asks,
        only_in=("pairwise",),
    ),
    QuestionSet(
        "labels",
        _("A reply’s labels: ignores, contradicts, invents, repeats and others"),
        "Confab",
        protocols.get("turns").asks,
        only_in=("turns", "marked_chat"),
    ),
    QuestionSet(
        "weights",
        _("What matters in a reply: RADE’s sub-metrics"),
        "RADE, Shi et al. 2023",
        protocols.get("choose").asks,
        only_in=("choose",),
    ),
    QuestionSet(
        "acute",
        _("Two conversations: who is more interesting, sounds more human, knows more"),
        "ACUTE-Eval, Li et al. 2019",
        tuple(
            Question(
                key=key, name=name, title=title, kind="scale", low=-1, high=1, labels={-1: "chatbot B", 1: "chatbot A"}
            )
            for key, name, title in (
                ("interest", "Interest", "Who is more interesting?"),
                ("humanness", "Humanness", "Who sounds more like a person?"),
                ("knowledge", "Knowledge", "Who seems to know more?"),
            )
        ),
        only_in=("dialogues",),
    ),
)


def question_set(name: str) -> QuestionSet | None:
    """Return the set of this name, if there is one."""
    return next((one for one in QUESTION_SETS if one.name == name), None)


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
