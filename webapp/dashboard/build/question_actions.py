"""Buttons of the question form that add a first question or a ready-made set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from webapp.dashboard.build.card_actions import Drafts, Fields, Undo, cards_acted
from webapp.studies.question_sets import question_set
from webapp.studies.questions import Kind, Question, questions_told

Scale = tuple[int, int]


def acted(drafts: Drafts, scale: Scale | None, language: str) -> tuple[Drafts, Undo | None]:
    """Return the drafts after the button that was pressed, and what it took away.

    Args:
        scale: the one on which everything after the task is asked; None: any.
        language: of the study, in which ready-made questions are put.
    """

    def made(verb: str, name: str, what: str) -> Iterable[Fields]:
        on = scale if name == "after" else None
        if verb == "add" and what in NEW:
            yield fields_of(on_scale(question_new(what, language), on))
        elif verb == "set" and (chosen := question_set(what)):
            taken = {drafts.data.get(f"{name}-{token}-key", "") for token in drafts.tokens[name]}
            for question in questions_told(chosen.questions, language):
                fields = fields_of(on_scale(question, scale))
                yield {**fields, "key": ""} if question.key in taken else fields

    return cards_acted(drafts, made)


NEW: tuple[Kind, ...] = ("scale", "choice", "choices", "text")


def question_new(kind: str, language: str) -> Question:
    """Return a question to begin with, in the study's language; its words are there to be written over."""
    more: dict[str, Any] = {}
    if kind in ("choice", "choices"):
        more["options"] = ["First answer", "Second answer"]
    if kind == "scale":
        more["labels"] = {1: "not at all", 7: "extremely"}
    required = kind != "text"
    new = Question(key="new", title="New question", kind=kind, required=required, **more)  # type: ignore[arg-type]
    return questions_told([new], language)[0]


def on_scale(question: Question, scale: Scale | None) -> Question:
    """Return the question on the one scale on which all are asked, if there is one."""
    if scale is None or question.kind != "scale":
        return question
    low, high = scale
    return question.model_copy(update={"low": low, "high": high, "labels": {}})


def fields_of(question: Question) -> Fields:
    """Return the fields of a new card of the question, as a form sends them; its key is made from its words."""
    found: Fields = {
        "kind": question.kind,
        "title": question.title,
        "help": question.help,
        "name": question.name,
        "key": question.key if question.key != "new" else "",
        "options": "\n".join(question.options),
        "expected": "\n".join(question.expected),
        "span": f"{question.low}:{question.high}",
        "low_words": question.labels.get(question.low, ""),
        "high_words": question.labels.get(question.high, ""),
        "between": "all" if question.has_words_between else "",
    }
    found |= {f"word_{point}": words for point, words in question.labels.items()}
    ticked = {"required": question.required, "reversed": question.reversed}
    return found | {name: "on" for name, is_ticked in ticked.items() if is_ticked}
