"""Question forms about single things: scales, labels, boxes, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.participant.question_forms.base import FormContext, ScriptedPage, register_sheet
from webapp.participant.question_view import RatingForm
from webapp.ratings.error_spans import spans_stored, step_codes, steps_of
from webapp.studies.languages import text_told
from webapp.studies.questions import Question
from webapp.studies.reply_marks import NONE, SPANS, STEPS, span_code, spans_read, words_of

if TYPE_CHECKING:
    from webapp.participant.simulated.answers import ScriptedPerson

_MARKED = 0.3
"""Probability that a label applies to a reply, for scripted participants."""


@register_sheet
class ScalesSheet:
    """Form with a row of numbers for each question."""

    name = "scales"

    def form(self, context: FormContext, data: Mapping[str, Any] | None = None) -> RatingForm:
        rating = context.judgement.rating
        if data is None and rating is not None:
            data = {**rating.answers, "comments": rating.comment}
        return RatingForm(context.questions, data)


@dataclass(frozen=True, slots=True)
class ChoiceShown:
    """The single question of the page: its options, and the ticked ones."""

    options: list[tuple[Question, bool]]
    n_to_choose: int
    errors: list[str]
    number: int = 1
    anchor: str = "chosen-1"

    @property
    def n_chosen(self) -> int:
        """Number of ticked options."""
        return sum(is_chosen for _option, is_chosen in self.options)


class ChooseForm(forms.Form):
    """Form with one field, `chosen`, sent for every ticked option."""

    comment = ""

    def __init__(self, context: FormContext, data: Mapping[str, Any] | None = None) -> None:
        rating = context.judgement.rating
        if data is None and rating is not None:
            data = {"chosen": [key for key, chosen in rating.answers.items() if chosen]}
        super().__init__(data)
        self.shown_questions = list(context.questions)
        self.n_to_choose = context.version.values.choosing.n_choose
        self.question = context.version.values.choosing.choose_question
        sent = data.getlist("chosen") if isinstance(data, QueryDict) else (data or {}).get("chosen")
        self.chosen = set(sent or ())
        self.wrong = ""

    @property
    def answers(self) -> dict[str, float]:
        """1 for ticked options, 0 for others."""
        return {question.key: int(question.key in self.chosen) for question in self.shown_questions}

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show the rating service's error message next to the question."""
        self.wrong = next(iter(errors.values()), "")

    def questions(self) -> list[ChoiceShown]:
        """Return the question as shown on the page."""
        options = [(question, question.key in self.chosen) for question in self.shown_questions]
        return [ChoiceShown(options, self.n_to_choose, [self.wrong] if self.wrong else [])]


@register_sheet
class ChooseSheet:
    """Form with a list of options to choose from."""

    name = "choose"
    scripted_fields = ()

    def form(self, context: FormContext, data: Mapping[str, Any] | None = None) -> ChooseForm:
        return ChooseForm(context, data)

    def scripted_answers(self, person: ScriptedPerson, page: ScriptedPage) -> dict[str, str | list[str]]:
        n_to_choose = int(page.form.hidden["_exactly"])
        chosen = {name: person.favourites(options, n_to_choose) for name, options in page.form.boxes.items()}
        return {**page.answers, **chosen}


@dataclass(frozen=True, slots=True)
class MarksShown:
    """The single question of the page: its labels, and the ticked ones.

    Attributes:
        steps: the labelled steps of the trace; `boxes` of each has its labels with value, title and state.
    """

    labels: list[tuple[Question, bool]]
    is_none: bool
    errors: list[str]
    number: int = 1
    anchor: str = "marks-1"
    steps: Sequence[Mapping[str, Any]] = ()
    has_no_step: bool = False

    @property
    def has_meanings(self) -> bool:
        """True if the study explains any label."""
        return any(label.help for label, _is_true in self.labels)


class MarksForm(forms.Form):
    """Form with `marks` for the reply, and `steps`.

    Each is sent for every ticked label, or for none.
    """

    comment = ""

    def __init__(self, context: FormContext, data: Mapping[str, Any] | None = None) -> None:
        rating = context.judgement.rating
        if data is None and rating is not None:
            marks = [key for key, is_true in rating.answers.items() if is_true] or [NONE]
            data = {"marks": marks, STEPS: list(step_codes(rating))}
        super().__init__(data)
        self.shown_questions, turn = list(context.questions), context.judgement.turn
        self.marks, self.step_codes = (
            list(dict.fromkeys((data.getlist(name) if isinstance(data, QueryDict) else (data or {}).get(name)) or ()))
            for name in ("marks", STEPS)
        )
        self.trace = steps_of(context.judgement.slots[0].task, turn) if turn is not None else []
        labels = context.version.values.step_marking.step_labels
        self.step_labels = {label: text_told(label, context.version) for label in labels}
        self.wrong = ""

    def clean(self) -> None:
        """Add an error if nothing is ticked, or contradictory labels are.

        “None of these” contradicts other labels.
        """
        known = set(self.marks) & {question.key for question in self.shown_questions}
        if NONE in self.marks and known:
            self.refuse({"marks": _("“None of these” cannot be combined with others. Untick one.")})
        elif not known and NONE not in self.marks:
            self.refuse({"marks": _("Tick what is true of this reply, or “None of these”.")})
        if self.wrong:
            self.add_error(None, self.wrong)

    @property
    def answers(self) -> dict[str, Any]:
        """1 for ticked labels, 0 for others; and the labels of steps, if asked."""
        steps = {STEPS: self.step_codes} if self.trace else {}
        return {**{question.key: int(question.key in self.marks) for question in self.shown_questions}, **steps}

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show an error message next to the labels."""
        self.wrong = next(iter(errors.values()), "")

    def questions(self) -> list[MarksShown]:
        """Return the labels as shown on the page."""
        if self.is_bound:
            self.is_valid()
        labels, errors = (
            [(label, label.key in self.marks) for label in self.shown_questions],
            [self.wrong] if self.wrong else [],
        )
        steps = [{**step, "boxes": self._boxes(number)} for number, step in enumerate(self.trace)]
        return [MarksShown(labels, NONE in self.marks, errors, steps=steps, has_no_step=NONE in self.step_codes)]

    def _boxes(self, number: int) -> list[tuple[str, str, bool]]:
        codes = {f"{number}:{label}": title for label, title in self.step_labels.items()}
        return [(code, title, code in self.step_codes) for code, title in codes.items()]


@register_sheet
class MarksSheet:
    """Form with check boxes; “None of these” clears the others."""

    name = "marks"
    scripted_fields = ()

    def form(self, context: FormContext, data: Mapping[str, Any] | None = None) -> MarksForm:
        return MarksForm(context, data)

    def scripted_answers(self, person: ScriptedPerson, page: ScriptedPage) -> dict[str, str | list[str]]:
        answers = dict(page.answers)
        for name in filter(page.form.boxes.__contains__, ("marks", STEPS)):
            true = [box for box in page.form.boxes[name] if box != NONE and person.rng.random() < _MARKED]
            answers[name] = true or [NONE]
        return answers


SEVERITY_WORDS = {
    "neutral": gettext_lazy("Neutral: worth noting"),
    "minor": gettext_lazy("Minor: noticed, and the reply still works"),
    "major": gettext_lazy("Major: it misleads, or the reply fails"),
    "critical": gettext_lazy("Critical: it could do harm"),
}


@dataclass(frozen=True, slots=True)
class SpansShown(MarksShown):
    """The single question of the page: the reply's words, and its errors.

    Attributes:
        words: each word with the text before it, and its start and end offsets.
        spans: each error with its submitted form, words, kind and severity.
    """

    anchor: str = "span-first"
    words: Sequence[tuple[str, str, int, int]] = ()
    spans: Sequence[tuple[str, str, str, Any]] = ()
    severities: Sequence[tuple[str, Any]] = tuple(SEVERITY_WORDS.items())

    @property
    def sent(self) -> str:
        """All errors in their submitted form."""
        return ";".join(code for code, *_words in self.spans)


class SpansForm(MarksForm):
    """Form with errors in `spans`, and a box for none.

    Without scripts, buttons add and remove errors.
    """

    def __init__(self, context: FormContext, data: Mapping[str, Any] | None = None) -> None:
        rating, turn = context.judgement.rating, context.judgement.turn
        assert turn is not None, "errors are marked in a reply"
        if data is None and rating is not None:
            stored = ";".join(map(span_code, spans_stored(rating)))
            data = {SPANS: stored, "no_error": "" if stored else "on"}
        super().__init__(context, data)
        sent = {key: str(self.data.get(key, "")) for key in (SPANS, "no_error", "_add", "_remove")}
        self.codes = [code for code in sent[SPANS].split(";")[:100] if code and code != sent["_remove"]]
        if sent["_add"]:
            names = ("_first", "_last", "_category", "_severity")
            self.codes.append(":".join(str(self.data.get(name, "")) for name in names))
        self.is_edited, self.is_none = bool(sent["_add"] or sent["_remove"]), bool(sent["no_error"])
        self.text = turn.text
        self.spans, self.cannot = spans_read(self.codes, turn.text, {label.key for label in self.shown_questions})

    def clean(self) -> None:
        """Apply added and removed errors before storing anything."""
        if self.is_edited:
            self.refuse({SPANS: self.cannot})
            self.add_error(None, self.cannot)

    @property
    def answers(self) -> dict[str, Any]:
        """The errors, or the statement that there is none."""
        return {SPANS: [*self.codes, *([NONE] if self.is_none else [])]}

    def questions(self) -> list[MarksShown]:
        """Return the reply's words and errors as shown on the page."""
        titles = {label.key: label.title for label in self.shown_questions}
        spans = [
            (span_code(span), self.text[span.start : span.end], titles[span.category], SEVERITY_WORDS[span.severity])
            for span in self.spans
        ]
        words = [(before, self.text[start:end], start, end) for before, start, end in words_of(self.text)]
        labels, errors = [(label, False) for label in self.shown_questions], [self.wrong] if self.wrong else []
        return [SpansShown(labels, self.is_none, errors, words=words, spans=spans)]


@register_sheet
class SpansSheet:
    """Form with the words of a reply, to mark errors by kind and severity."""

    name = "spans"
    scripted_fields = ()

    def form(self, context: FormContext, data: Mapping[str, Any] | None = None) -> SpansForm:
        return SpansForm(context, data)

    def scripted_answers(self, person: ScriptedPerson, page: ScriptedPage) -> dict[str, str | list[str]]:
        """Mark up to two errors of a few words, or choose “No error”."""
        fields, rng = page.form.choices, person.rng
        first, last, kinds, severities = (fields[f"_{name}"] for name in ("first", "last", "category", "severity"))
        starts = rng.sample(range(len(first)), min(len(first), rng.choice([0, 0, 1, 1, 2])))
        ends = [min(start + rng.randrange(3), len(last) - 1) for start in starts]
        spans = [
            ":".join((first[start], last[to], rng.choice(kinds), rng.choice(severities)))
            for start, to in zip(starts, ends, strict=True)
        ]
        return {**page.answers, SPANS: ";".join(spans), "no_error": [] if spans else ["on"]}
