"""Ready-made questions of the papers, to add and change: their subjects and scales; the wording is ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from webapp.studies.protocols.base import protocols
from webapp.studies.questions import Question
from webapp.studies.rubrics import CHAT_QUESTIONS


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
        CHAT_QUESTIONS,
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
            (
                "engagingness",
                "Engagingness",
                "How much does the reply invite one to go on talking?",
            ),
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
                key=key,
                name=name,
                title=title,
                kind="scale",
                low=-1,
                high=1,
                labels={-1: "chatbot B", 1: "chatbot A"},
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
        if protocol in one.only_in
        or (not one.only_in and found.scale is None and one.about == about)
    ]
