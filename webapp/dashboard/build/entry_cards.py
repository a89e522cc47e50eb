"""Cards for lists of values in the builder: a form for each entry, made of the fields of its value.

An entry whose answers are given by question has a field for each question, so that no key is written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext as __
from django.utils.translation import gettext_lazy as _
from pydantic import ValidationError as WrongValues

from chatbots.outside import Values, mistakes_of
from webapp.dashboard.build.fields import field_made
from webapp.studies.attention import AttentionCheck
from webapp.studies.checking import ChatCheck, QuizQuestion
from webapp.studies.questions import Question
from webapp.studies.training import TrainingPair

_SIDES = (
    ("", _("does not count")),
    ("first", _("the first")),
    ("same", _("the same")),
    ("second", _("the second")),
)


@dataclass(frozen=True, slots=True)
class EntryKind:
    """One list of entries.

    Attributes:
        name: of the value, such as `quiz_questions`.
        entry: what each entry is.
        named_by: the field by which a folded card is told.
        add: words of the button that adds one.
        blank: what a new one says.
        by_question: the field with answers by question; empty for none.
        of_sides: these answers are sides of a comparison, else numbers.
        long: fields with several lines.
    """

    name: str
    entry: type[Values]
    named_by: str
    add: Any
    blank: Mapping[str, Any]
    by_question: str = ""
    of_sides: bool = False
    long: tuple[str, ...] = ()


KINDS: dict[str, EntryKind] = {
    kind.name: kind
    for kind in (
        EntryKind(
            "quiz_questions",
            QuizQuestion,
            "question",
            _("Question about the instructions"),
            {
                "question": _("What will you do?"),
                "options": (_("First answer"), _("Second answer")),
                "right": _("First answer"),
                "point": 1,
            },
        ),
        EntryKind(
            "training_pairs",
            TrainingPair,
            "first",
            _("Practice pair"),
            {},
            by_question="answers",
            of_sides=True,
            long=("first", "second", "why"),
        ),
        EntryKind(
            "chat_checks",
            ChatCheck,
            "question",
            _("Attention check in the chat"),
            {
                "after": 2,
                "question": _("To show that you are reading, please choose blue."),
                "options": (_("Red"), _("Blue"), _("Green")),
                "expected": (_("Blue"),),
            },
        ),
        EntryKind(
            "attention_checks",
            AttentionCheck,
            "response",
            _("Attention check among the items"),
            {},
            by_question="expected",
            long=("response", "second_response", "reference"),
        ),
    )
}
_TITLES = {
    "context": _("What was said before"),
    "first": _("The first reply"),
    "second": _("The second reply"),
    "why": _("Why"),
}
_HELPS = {"context": _("One utterance a line, oldest first.")}


class EntryCard(forms.Form):
    """One entry; `entry` is its value once the form is valid."""

    use_required_attribute = False

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        kind: EntryKind,
        prefix: str,
        questions: list[Question],
        entry: Values | None = None,
        leave_out: tuple[str, ...] = (),
    ) -> None:
        """Make the card.

        Args:
            questions: the scales that are asked, for answers by question.
            leave_out: fields that the study's protocol has no use for.
        """
        self.kind, self.questions = kind, questions
        super().__init__(data, prefix=prefix, initial=self._initial(entry) if entry else None)
        self.label_suffix = ""
        self.list_name, _dash, self.token = prefix.partition("-")
        self.entry: Values | None = None
        for name, info in kind.entry.model_fields.items():
            if name == kind.by_question:
                self.fields.update(self._by_question())
            elif name not in leave_out and (field := field_made(name, info)) is not None:
                self.fields[name] = field
                field.required = info.is_required() and not isinstance(field, forms.IntegerField)
                field.label = _TITLES.get(name, field.label)
                field.help_text = field.help_text or _HELPS.get(name, "")
                if name in kind.long:
                    field.widget = forms.Textarea(attrs={"rows": 3})
        for field in self.fields.values():
            field.widget.attrs["class"] = "input"

    def _by_question(self) -> dict[str, forms.Field]:
        made: dict[str, forms.Field] = {}
        for question in self.questions:
            words = __("Answer to “%(question)s”") % {"question": question.title}
            if self.kind.of_sides:
                made[f"by_{question.key}"] = forms.ChoiceField(
                    label=words, choices=_SIDES, required=False
                )
                continue
            help_text = __(
                "Numbers from %(low)d to %(high)d that pass, with commas between them. Empty: any answer passes."
            )
            made[f"by_{question.key}"] = forms.CharField(
                label=words,
                required=False,
                max_length=100,
                help_text=help_text % {"low": question.low, "high": question.high},
            )
        return made

    def _initial(self, entry: Values) -> dict[str, Any]:
        found = {name: getattr(entry, name) for name in self.kind.entry.model_fields}
        answers: Mapping[str, Any] = found.pop(self.kind.by_question, {})
        for key, given in answers.items():
            found[f"by_{key}"] = given if isinstance(given, str) else ", ".join(map(str, given))
        return found

    @property
    def title_now(self) -> str:
        """What it is told by while it is folded."""
        return str(self[self.kind.named_by].value() or "") or __("New: fill it in")

    def clean(self) -> dict[str, Any]:
        """Make the entry; what cannot be is said at its field."""
        given = super().clean() or self.cleaned_data
        if self.errors:
            return given
        plain = {name: value for name, value in given.items() if not name.startswith("by_")}
        if self.kind.by_question:
            plain[self.kind.by_question] = self._answers(given)
        try:
            self.entry = self.kind.entry.model_validate(plain)
        except WrongValues as error:
            for mistake in mistakes_of(error, self.kind.entry):
                head = mistake.path.partition("[")[0].partition(".")[0]
                self.add_error(self._field_of(head, mistake.message), mistake.message)
        return given

    def _field_of(self, name: str, message: str) -> str | None:
        """Return the field that a mistake is shown at; of one about the whole, the field it begins with."""
        for wanted in (name, message.split(" ", 1)[0]):
            if wanted in self.fields:
                return wanted
            if self.kind.by_question and wanted == self.kind.by_question and self.questions:
                return f"by_{self.questions[0].key}"
        return self.kind.named_by

    def _answers(self, given: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for question in self.questions:
            text = given.get(f"by_{question.key}", "")
            if not text:
                continue
            if self.kind.of_sides:
                found[question.key] = text
                continue
            parts = [part.strip() for part in text.split(",") if part.strip()]
            wrong = [part for part in parts if not part.lstrip("-").isdecimal()]
            beyond = [part for part in parts if part not in wrong and not _is_on(part, question)]
            for part in wrong or beyond:
                words = __("%(part)s is no number from %(low)d to %(high)d.")
                told = {"part": part, "low": question.low, "high": question.high}
                self.add_error(f"by_{question.key}", words % told)
                break
            found[question.key] = [int(part) for part in parts if part not in wrong]
        return found


def _is_on(part: str, question: Question) -> bool:
    return question.low <= int(part) <= question.high
