"""Cards of questions in the builder: forms, keys, and summaries."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import forms
from pydantic import ValidationError as WrongValues

from chatbots.validation import mistakes_of
from webapp.dashboard.builder.forms import Drafts, Fields, Undo, cards_acted, titled
from webapp.studies.examples import question_set
from webapp.studies.questions import Kind, Question, translate_questions

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
            for question in translate_questions(chosen.questions, language):
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
    return translate_questions([new], language)[0]


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


NEW_KINDS: dict[str, Any] = {
    "scale": "Scale",
    "choice": "One choice",
    "choices": "Several choices",
    "text": "Free text",
}
_SPANS = ((0, 1), (0, 3), (1, 3), (1, 4), (1, 5), (1, 6), (1, 7), (1, 9), (1, 10), (0, 10), (0, 100))
_NO_KEY_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "any",
        "are",
        "at",
        "be",
        "did",
        "do",
        "does",
        "for",
        "had",
        "has",
        "have",
        "how",
        "in",
        "is",
        "it",
        "its",
        "many",
        "much",
        "of",
        "on",
        "or",
        "the",
        "their",
        "there",
        "they",
        "this",
        "to",
        "was",
        "were",
        "what",
        "when",
        "which",
        "who",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)


def key_made(text: str, taken: Sequence[str]) -> str:
    """Return a key made of the words of a text, that none of the others has."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = [w for w in re.findall(r"[a-z][a-z0-9]*", plain) if w not in _NO_KEY_WORDS]
    key = "_".join(words[:3])[:44] or "question"
    number = 2
    found = key
    while found in taken:
        found, number = f"{key}_{number}", number + 1
    return found


class QuestionCard(forms.Form):
    """One question. Its kind stays; so do the points of a scale on which people may have answered."""

    use_required_attribute = False
    title_field = "title"

    kind = forms.ChoiceField(choices=list(NEW_KINDS.items()), widget=forms.HiddenInput)
    was = forms.CharField(required=False, widget=forms.HiddenInput)
    title = forms.CharField(label="Question", max_length=300, error_messages={"required": "Write the question."})
    help = forms.CharField(label="Help below it", required=False, max_length=500, help_text="May stay empty.")
    options = forms.CharField(
        label="Answers to choose from",
        required=False,
        help_text="One a line.",
        widget=forms.Textarea(attrs={"rows": 4}),
    )
    span = forms.ChoiceField(label="Points", required=False)
    low_words = forms.CharField(required=False, max_length=60)
    high_words = forms.CharField(required=False, max_length=60)
    between = forms.ChoiceField(
        label="Words between", required=False, choices=[("", "None"), ("all", "At every point")]
    )
    required = forms.BooleanField(label="Must be answered", required=False)
    reversed = forms.BooleanField(label="Reversed: the lowest is best", required=False)
    expected = forms.CharField(
        label="Attention check: answers that pass",
        required=False,
        help_text="One a line. Empty: it is no attention check. Bots are not rated on a check, and a participant who "
        "misses it is told so at the end.",
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    name = forms.CharField(label="Short name", required=False, max_length=100, help_text="In tables and plots.")
    key = forms.CharField(
        label="Name in exports",
        required=False,
        max_length=50,
        help_text="Lower-case letters, digits and _. Made from the question where it is empty.",
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        prefix: str,
        question: Question | None = None,
        is_fixed: bool = False,
        has_answers: bool = False,
        scale: Scale | None = None,
    ) -> None:
        """Make the card.

        Args:
            question: what is stored; None where only `data` says it.
            is_fixed: whether its points cannot change any more.
            has_answers: whether its key has to stay as it is.
            scale: the one on which the protocol's sheet asks it, in the sheet's own words.
        """
        initial = _initial(question, has_answers) if question else {}
        super().__init__(data, prefix=prefix, initial=initial)
        self.label_suffix = ""
        self.is_fixed, self.scale = is_fixed, scale
        self.question: Question | None = None
        self.list_name, _dash, self.token = prefix.partition("-")
        self.low, self.high = _span(str(self["span"].value() or ""))
        spans = sorted({*_SPANS, (self.low, self.high)})
        choices = [(_span_text(*one), _span_words(*one)) for one in spans]
        self.fields["span"].choices = choices  # type: ignore[attr-defined]
        self.fields["low_words"].label = f"Words under {self.low}"
        self.fields["high_words"].label = f"Words under {self.high}"
        for point in self.points_between:
            label = f"Words under {point}"
            self.fields[f"word_{point}"] = forms.CharField(label=label, required=False, max_length=60)
            self.initial.setdefault(f"word_{point}", question.labels.get(point, "") if question else "")
        for field in self.fields.values():
            if not isinstance(field.widget, forms.CheckboxInput | forms.HiddenInput):
                field.widget.attrs["class"] = "input"
        self.fields["title"].widget.attrs["maxlength"] = 300

    @property
    def kind_now(self) -> str:
        """Its kind."""
        return str(self["kind"].value())

    @property
    def points_between(self) -> range:
        """The points that may have words besides the two ends; none where there are too many to stand in a row."""
        is_row = self["kind"].value() == "scale" and self.high - self.low <= 10
        return range(self.low + 1, self.high) if is_row else range(0)

    @property
    def word_fields(self) -> list[forms.BoundField]:
        """The fields of the words between."""
        return [self[f"word_{point}"] for point in self.points_between]

    @property
    def title_now(self) -> str:
        """The question."""
        return str(self["title"].value() or "")

    @property
    def pill(self) -> str:
        """Kind of the question, in few words."""
        kind = self.kind_now
        words = self.scale_words if kind == "scale" else str(NEW_KINDS.get(kind))
        if str(self["expected"].value() or "").strip():
            words = f"{words}, attention check"
        if not self["required"].value():
            words = f"{words}, optional"
        return words

    @property
    def scale_words(self) -> str:
        """The points it is answered on."""
        of_sheets: dict[tuple[int, int] | None, str] = {(-1, 1): "A, same or B", (0, 1): "Chosen or not"}
        return of_sheets.get(self.scale) or _span_words(self.low, self.high)

    @property
    def own_scale_fields(self) -> list[forms.BoundField]:
        """The fields of its points and their words, which the protocol's sheet has no use for."""
        names = ("span", "low_words", "high_words", "between")
        return [*(self[name] for name in names), *self.word_fields]

    @property
    def key_now(self) -> str:
        """Its key, as far as it is known."""
        return str(self["key"].value() or "")

    def clean(self) -> dict[str, Any]:
        """Make the question; what cannot be is said at its field."""
        given = super().clean() or self.cleaned_data
        if self.errors:
            return given
        if given["kind"] in ("choice", "choices") and len(_lines(given["options"])) < 2:
            self.add_error("options", "Give at least two answers, one a line.")
            return given
        try:
            self.question = Question.model_validate(self._plain(given))
        except WrongValues as error:
            for mistake in mistakes_of(error, Question):
                value = mistake.path.partition("[")[0].partition(".")[0]
                field = self._field_of(value, mistake.message)
                self.add_error(field, titled(mistake.message, self.fields[field].label, value))
        return given

    def _field_of(self, value: str, message: str) -> str:
        for name in (value, message.split(" ", 1)[0]):
            if name in self.fields:
                return name
        return {"low": "span", "high": "span", "labels": "low_words"}.get(value, "title")

    def _plain(self, given: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: given[name] for name in ("kind", "title", "help", "required", "name")}
        found["key"] = given["key"] or "question"
        found["expected"] = _lines(given["expected"])
        if given["kind"] in ("choice", "choices"):
            found["options"] = _lines(given["options"])
        if given["kind"] == "scale":
            words = {self.low: given["low_words"], self.high: given["high_words"]}
            if given["between"]:
                words |= {point: given[f"word_{point}"] for point in self.points_between}
            found |= {
                "low": self.low,
                "high": self.high,
                "reversed": given["reversed"],
                "labels": {point: text for point, text in sorted(words.items()) if text},
            }
        return found

    def key_settle(self, taken: Sequence[str]) -> None:
        """Give the question its key: the one that was written, or one of its words where none was."""
        assert self.question is not None
        given, was = self.cleaned_data["key"], self.cleaned_data["was"]
        if not given or given == was:
            key = key_made(self.question.name or self.question.title, taken)
            self.question = self.question.model_copy(update={"key": key})


def _initial(question: Question, has_answers: bool) -> dict[str, Any]:
    derived = key_made(question.name or question.title, ())
    return {
        **{name: getattr(question, name) for name in ("kind", "title", "help", "name", "key")},
        "was": question.key if question.key == derived and not has_answers else "",
        "required": question.required,
        "reversed": question.reversed,
        "options": "\n".join(question.options),
        "expected": "\n".join(question.expected),
        "span": _span_text(question.low, question.high),
        "low_words": question.labels.get(question.low, ""),
        "high_words": question.labels.get(question.high, ""),
        "between": "all" if question.has_words_between else "",
    }


def _span_text(low: int, high: int) -> str:
    return f"{low}:{high}"


def _span_words(low: int, high: int) -> str:
    return f"{low} to {high}"


def _span(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(-?\d{1,4}):(-?\d{1,4})", text)
    low, high = (int(found[1]), int(found[2])) if found else (1, 7)
    return (low, high) if low < high else (1, 7)


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def card_new(prefix: str, question: Question, scale: Scale | None) -> QuestionCard:
    """Return the card of a question that is not stored yet."""
    fields = fields_of(on_scale(question, scale))
    sent = {f"{prefix}-{name}": value for name, value in fields.items()}
    return QuestionCard(sent, prefix=prefix, scale=scale if question.kind == "scale" else None)
