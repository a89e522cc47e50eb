"""Buttons of the questions' form that work without script: add, duplicate, move, delete and its undoing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core import signing
from django.http import QueryDict
from django.utils.translation import gettext as _

from webapp.dashboard.build.question_sets import question_set
from webapp.studies.questions import Kind, Question, questions_told

Scale = tuple[int, int]
_SALT = "confab.build.deleted"


@dataclass(frozen=True, slots=True)
class Undo:
    """A question that was taken away: what its form said, and its place in its list."""

    list_name: str
    at: int
    sent: dict[str, str]

    def sign(self) -> str:
        """Return it as a text that only this server can make."""
        value = [self.list_name, self.at, self.sent]
        return signing.dumps(value, salt=_SALT, compress=True)

    @staticmethod
    def unsign(text: str) -> Undo | None:
        """Return what was signed; None for anything else."""
        try:
            return Undo(*signing.loads(text, salt=_SALT))
        except (signing.BadSignature, TypeError):
            return None


@dataclass
class Drafts:
    """What a form says: its fields, and the tokens of each list in their order."""

    data: QueryDict
    tokens: dict[str, list[str]]

    @staticmethod
    def of(data: Mapping[str, Any], lists: Sequence[str]) -> Drafts:
        """Return what was sent; a token that no field could have is left out."""
        sent = data.copy() if isinstance(data, QueryDict) else QueryDict(mutable=True)
        tokens = {}
        for name in lists:
            found = [token for token in sent.getlist(name) if token.isalnum() and token.isascii()]
            tokens[name] = list(dict.fromkeys(found))
        return Drafts(sent, tokens)

    def free(self, name: str) -> str:
        """Return a token that the list does not have."""
        number = len(self.tokens[name]) + 1
        while f"x{number}" in self.tokens[name]:
            number += 1
        return f"x{number}"

    def put(self, name: str, at: int, fields: Mapping[str, str]) -> None:
        """Put a card with these fields into a list."""
        token = self.free(name)
        self.tokens[name].insert(at, token)
        for field, value in fields.items():
            self.data[f"{name}-{token}-{field}"] = value

    def fields(self, name: str, token: str) -> dict[str, str]:
        """Return what was sent of one card."""
        prefix = f"{name}-{token}-"
        found = [key for key in self.data if key.startswith(prefix)]
        return {key.removeprefix(prefix): str(self.data[key]) for key in found}


def acted(drafts: Drafts, scale: Scale | None, language: str) -> tuple[Drafts, Undo | None]:
    """Return the drafts after the button that was pressed, and what it took away.

    Args:
        scale: the one on which everything after the task is asked; None: any.
        language: of the study, in which ready-made questions are put.
    """
    verb, _colon, rest = drafts.data.get("_do", "").partition(":")
    name, _colon, what = rest.partition(":")
    if name not in drafts.tokens:
        return drafts, None
    tokens = drafts.tokens[name]
    if verb == "add" and what in _NEW:
        new = on_scale(question_new(what), scale if name == "after" else None)
        drafts.put(name, len(tokens), fields_of(new))
    elif verb == "set" and (chosen := question_set(what)):
        taken = {drafts.data.get(f"{name}-{token}-key", "") for token in tokens}
        for question in questions_told(chosen.questions, language):
            fields = fields_of(on_scale(question, scale))
            if question.key in taken:
                fields["key"] = ""
            drafts.put(name, len(tokens), fields)
    elif verb == "undo" and (undo := Undo.unsign(drafts.data.get("_deleted", ""))):
        drafts.put(undo.list_name, undo.at, undo.sent)
    elif what in tokens:
        return drafts, _moved(drafts, verb, name, what)
    return drafts, None


def _moved(drafts: Drafts, verb: str, name: str, token: str) -> Undo | None:
    tokens = drafts.tokens[name]
    at = tokens.index(token)
    if verb == "delete":
        tokens.remove(token)
        return Undo(name, at, drafts.fields(name, token))
    if verb == "duplicate":
        drafts.put(name, at + 1, {**drafts.fields(name, token), "key": "", "was": ""})
    if verb in ("up", "down"):
        to = at - 1 if verb == "up" else at + 1
        if 0 <= to < len(tokens):
            tokens.insert(to, tokens.pop(at))
    return None


_NEW: tuple[Kind, ...] = ("scale", "choice", "choices", "text")


def question_new(kind: str) -> Question:
    """Return a question to begin with; its words are there to be written over."""
    more: dict[str, Any] = {}
    if kind in ("choice", "choices"):
        more["options"] = [_("First answer"), _("Second answer")]
    if kind == "scale":
        more["labels"] = {1: _("not at all"), 7: _("extremely")}
    required = kind != "text"
    return Question(key="new", title=_("New question"), kind=kind, required=required, **more)  # type: ignore[arg-type]


def on_scale(question: Question, scale: Scale | None) -> Question:
    """Return the question on the one scale on which all are asked, if there is one."""
    if scale is None or question.kind != "scale":
        return question
    low, high = scale
    return question.model_copy(update={"low": low, "high": high, "labels": {}})


def fields_of(question: Question) -> dict[str, str]:
    """Return the fields of a new card of the question, as a form sends them; its key is made from its words."""
    found = {
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
