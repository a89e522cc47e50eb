"""Question forms that compare: preference, choice, best and worst, and reference.

The stored answer refers to the stored pair, whichever reply was on the left: 1 the first is better, 0 neither, -1 the
second. `ChoiceSheet` has no “the same” and stores the reason as the rating's comment. `ReferenceSheet` asks for the
better reply and for scores; a participant whose direction and scores contradict each other is asked once, and may keep
both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from evaluation.analysis.reference_ratings import BETTER, SAME, WORSE, contradicts
from webapp.participant.question_forms.base import FormContext, FormQuestion, ScriptedPage, register_sheet
from webapp.participant.question_view import QuestionShown, RatingForm
from webapp.participant.rating_view import replies_shown
from webapp.ratings.services import COMMENT_MAX_CHARS
from webapp.studies.models import Item
from webapp.studies.protocols.base import protocols
from webapp.studies.protocols.comparisons import BEST, BETWEEN, WORST, validate_ends, validate_reason
from webapp.studies.questions import Question

if TYPE_CHECKING:
    from webapp.participant.simulated.answers import ScriptedPerson

_KEEPS_SCORE = 0.9
"""Fraction of scripted participants who keep the earlier score of a known reply."""
_A, _SAME, _B = "a", "same", "b"


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """One row; `answer` is "a", "same", "b" or empty."""

    number: int
    question: Question
    answer: str
    errors: list[str]

    @property
    def anchor(self) -> str:
        """The id of its first control."""
        return f"{self.question.key}-a"


class PairForm(forms.Form):
    """One field per question, named by its key."""

    comment = ""
    sides: tuple[str, ...] = (_A, _SAME, _B)
    missing = gettext_lazy("Please select A, B or “Same”.")

    def __init__(self, context: FormContext, data: Mapping[str, Any] | None = None) -> None:
        [*slots] = context.judgement.slots
        # The first of two slots is on side A; for an item the order was drawn.
        self.is_flipped = len(slots) == 1 and slots[0].is_flipped
        rating = context.judgement.rating
        if data is None and rating is not None:
            data = {key: self.to_page_value(number) for key, number in rating.answers.items()}
        super().__init__(data)
        self.shown_questions = list(context.questions)
        for question in self.shown_questions:
            self.fields[question.key] = forms.ChoiceField(
                choices=[(side, side) for side in self.sides],
                required=question.required,
                error_messages={"required": self.missing, "invalid_choice": self.missing},
            )

    def to_page_value(self, number: float) -> str:
        """Return the page's value for a stored answer."""
        if not number:
            return _SAME
        return _A if (number > 0) != self.is_flipped else _B

    def _stored(self, side: str) -> int:
        if side == _SAME:
            return 0
        return 1 if (side == _A) != self.is_flipped else -1

    @property
    def answers(self) -> dict[str, float]:
        """Answers to store, by the questions' keys."""
        sides = {question.key: self.cleaned_data.get(question.key) for question in self.shown_questions}
        return {key: self._stored(side) for key, side in sides.items() if side}

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show the rating service's error messages next to their questions."""
        for key, message in errors.items():
            self.add_error(key if key in self.fields else None, message)

    def questions(self) -> list[PairQuestion]:
        """Return the rows, with choices and errors."""
        rows = []
        for number, question in enumerate(self.shown_questions, start=1):
            errors: Iterable[Any] = self.errors.get(question.key, [])
            answer = str(self.data.get(question.key, "")) if self.is_bound else ""
            rows.append(PairQuestion(number, question, answer, [str(error) for error in errors]))
        return rows


@register_sheet
class PairSheet:
    """Form with A, Same and B for each question."""

    name = "pair"

    def form(self, context: FormContext, data: Mapping[str, Any] | None = None) -> PairForm:
        return PairForm(context, data)


@dataclass(frozen=True, slots=True)
class ReasonShown:
    """Box for the reason, below the questions."""

    number: int
    answer: str
    errors: list[str]
    anchor: str = "reason"
    most_chars: int = COMMENT_MAX_CHARS


class ChoiceForm(PairForm):
    """One field per question, A or B, and `comments` with the reason."""

    sides = ("a", "b")
    missing = gettext_lazy("Please choose A or B.")

    def __init__(self, context: FormContext, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(context, data)
        rating = context.judgement.rating
        if data is None and rating is not None:
            self.data = {**self.data, "comments": rating.comment}
        self.fields["comments"] = forms.CharField(required=False, strip=True, max_length=COMMENT_MAX_CHARS)

    def clean(self) -> None:
        """Add errors of the reason to errors of the choices."""
        if "comments" not in self.errors:
            self.refuse(validate_reason(self.comment))

    @property
    def comment(self) -> str:  # type: ignore[override]
        """The reason."""
        return str(self.cleaned_data.get("comments", ""))

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show error messages next to their questions, each once."""
        super().refuse({k: text for k, text in errors.items() if text not in self.errors.get(k, [])})

    @property
    def choices(self) -> list[PairQuestion]:
        """The questions with A and B."""
        return super().questions()

    @property
    def reason(self) -> ReasonShown:
        """The reason as shown on the page."""
        answer = str(self.data.get("comments", "")) if self.is_bound else ""
        errors = [str(error) for error in self.errors.get("comments", [])]
        return ReasonShown(len(self.shown_questions) + 1, answer, errors)

    def questions(self) -> list[FormQuestion]:  # type: ignore[override]
        """Return the questions in order."""
        return [*self.choices, self.reason]


@register_sheet
class ChoiceSheet:
    """Form with A and B for each question, and a box for the reason."""

    name = "choice"

    def form(self, context: FormContext, data: Mapping[str, Any] | None = None) -> ChoiceForm:
        return ChoiceForm(context, data)


@dataclass(frozen=True, slots=True)
class EndShown:
    """Choice of the best or the worst reply; `answer` is a letter or empty."""

    number: int
    name: str
    title: str
    icon: str
    answer: str
    errors: list[str]

    @property
    def anchor(self) -> str:
        """The id of its first control."""
        return f"{self.name}-a"

    @property
    def is_refused(self) -> bool:
        """True if there is an answer, but a wrong one."""
        return bool(self.errors and self.answer)


class ChosenRepliesForm(forms.Form):
    """Form whose fields are letters of the replies on the page.

    Attributes:
        choices: names of the fields.
    """

    comment = ""
    choices: tuple[str, ...]

    def __init__(self, context: FormContext, data: Mapping[str, Any] | None = None) -> None:
        [slot] = context.judgement.slots
        assert slot.item is not None, "replies of an item are chosen"
        numbers = replies_shown(slot, slot.item)
        self.number_of = {chr(ord(_A) + place): number for place, number in enumerate(numbers)}
        rating = context.judgement.rating
        if data is None and rating is not None:
            side_of = {number: side for side, number in self.number_of.items()}
            data = {name: side_of.get(int(rating.answers[name]), "") for name in self.choices}
        super().__init__(data)
        self.title = next((question.title for question in context.questions), "")
        for name in self.choices:
            self.fields[name] = forms.CharField(required=False)

    @property
    def answers(self) -> dict[str, float]:
        """Numbers of the chosen replies in their item."""
        letters = {name: self.cleaned_data.get(name, "") for name in self.choices}
        return {name: self.number_of[side] for name, side in letters.items() if side in self.number_of}

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show the rating service's error messages next to their questions, each once."""
        for name, message in errors.items():
            if name not in self.errors:
                self.add_error(name if name in self.fields else None, message)


class BestWorstForm(ChosenRepliesForm):
    """Form with fields `best` and `worst`, each the letter of a reply."""

    choices = (BEST, WORST)

    def clean(self) -> None:
        """Add errors of missing or equal choices."""
        self.refuse(validate_ends(self.answers))

    @property
    def answers(self) -> dict[str, float]:
        """Numbers of the chosen replies in their item, and of the others."""
        chosen = super().answers
        between = sorted(set(self.number_of.values()) - set(chosen.values()))
        return {**chosen, **dict(zip(BETWEEN, between, strict=False))}

    def questions(self) -> list[EndShown]:
        """Return both choices as shown on the page."""
        ends = ((1, BEST, _("Best"), "arrow-up"), (2, WORST, _("Worst"), "arrow-down"))
        sent = self.data if self.is_bound else {}
        return [
            EndShown(*end, str(sent.get(end[1], "")), [str(error) for error in self.errors.get(end[1], [])])
            for end in ends
        ]


@register_sheet
class BestWorstSheet:
    """Form with letters for the best reply, and for the worst."""

    name = "best_worst"
    scripted_fields = (BEST, WORST)

    def form(self, context: FormContext, data: Mapping[str, Any] | None = None) -> BestWorstForm:
        return BestWorstForm(context, data)

    def scripted_answers(self, person: ScriptedPerson, page: ScriptedPage) -> dict[str, str | list[str]]:
        ranked = person.ranked(page.message, page.heard, page.form.choices[BEST])
        return {**page.answers, BEST: ranked[0], WORST: ranked[-1]}


_DIRECTIONS = {"better": BETTER, "same": SAME, "worse": WORSE}


@dataclass(frozen=True, slots=True)
class DirectionShown:
    """First question of the page: which reply is better.

    `given` is empty or one of three directions.
    """

    answer: str
    errors: list[str]
    number: int = 1
    anchor: str = "direction-1"


class ReferenceForm(RatingForm):
    """Form with `direction`, `reference_score`, and one field per question.

    `reference_score` is sent only after a change.
    """

    def __init__(self, context: FormContext, data: Mapping[str, Any] | None = None) -> None:
        item = context.judgement.slots[0].item
        assert item is not None, "a reference study judges items"
        self.item: Item = item
        rating = context.judgement.rating
        if data is None and rating is not None:
            names = {number: name for name, number in _DIRECTIONS.items()}
            stored = {**rating.answers, "direction": names.get(rating.answers.get("direction"), "")}
            # A contradiction that the participant has confirmed is not reported again.
            data = {**stored, "_asked": "1" if rating.answers.get("kept_both") else ""}
        protocol = protocols.get(context.judgement.slots[0].task.participant.study.protocol)
        hidden_keys = protocol.not_asked(context.version, item)
        super().__init__(
            [question for question in context.questions if question.key not in hidden_keys], data, first_number=2
        )
        self.low, self.high = context.rubric.low, context.rubric.high
        self.direction_error = ""
        self.contradiction = ""

    def clean(self) -> None:
        """Parse the answers.

        It asks once if the direction contradicts the scores.
        """
        super().clean()
        direction = _DIRECTIONS.get(self._sent("direction"))
        if direction is None:
            self.direction_error = _("Please say whether it is better, the same or worse.")
            self.add_error(None, self.direction_error)
            return
        self.answers["direction"] = direction
        score = self._score()
        if score is not None:
            self.answers["reference_score"] = score
        scores = [self.answers[question.key] for question in self.shown_questions if question.key in self.answers]
        if self.errors or not scores:
            return
        known = self.known_score if score is None else score
        if not contradicts(direction, sum(scores) / len(scores), known):
            return
        if self._sent("_asked"):
            self.answers["kept_both"] = 1
            return
        self.contradiction = _contradiction(direction, sum(scores) / len(scores), known)
        self.add_error(None, self.contradiction)

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show error messages next to their questions."""
        if "direction" in errors:
            self.direction_error = errors["direction"]
        super().refuse(errors)

    @property
    def known_score(self) -> float:
        """Earlier rating of the known reply."""
        assert self.item.reference_score is not None, f"item {self.item.pk} has no scored reference"
        return self.item.reference_score

    @property
    def points(self) -> list[tuple[int, bool]]:
        """The points of the known reply's score, with the chosen one."""
        chosen = self._sent("reference_score") or f"{self.known_score:g}"
        points = range(round(self.low), round(self.high) + 1)
        return [(point, str(point) == chosen) for point in points]

    @property
    def set_to(self) -> int | None:
        """Changed score of the known reply; None if it was not changed."""
        return self._score()

    @property
    def direction(self) -> DirectionShown:
        """The question which of the two replies is better."""
        answer = self._sent("direction")
        return DirectionShown(answer, [self.direction_error] if self.direction_error else [])

    @property
    def scales(self) -> list[QuestionShown]:
        """The study's questions."""
        return super().questions()

    def questions(self) -> list[FormQuestion]:  # type: ignore[override]
        """Return the questions in order."""
        questions = super().questions()  # parse the answers, so that the direction's error is known
        return [self.direction, *questions]

    def _sent(self, name: str) -> str:
        return str(self.data.get(name, "")) if self.is_bound else ""

    def _score(self) -> int | None:
        sent = self._sent("reference_score")
        is_point = sent in {str(point) for point in range(round(self.low), round(self.high) + 1)}
        return int(sent) if is_point and float(sent) != self.known_score else None


def _contradiction(direction: int, overall: float, known: float) -> str:
    if direction == WORSE:
        return _("You chose “Worse” but rated it higher than the reference reply. Keep both answers, or change one.")
    if direction == BETTER:
        return _("You chose “Better” but rated it lower than the reference reply. Keep both answers, or change one.")
    if overall > known:
        return _(
            "You chose “Same” but rated it much higher than the reference reply. Keep both answers, or change one."
        )
    return _("You chose “Same” but rated it much lower than the reference reply. Keep both answers, or change one.")


@register_sheet
class ReferenceSheet:
    """Form with the direction, the known reply's score, and the study's questions."""

    name = "reference"
    scripted_fields = ()

    def form(self, context: FormContext, data: Mapping[str, Any] | None = None) -> ReferenceForm:
        return ReferenceForm(context, data)

    def scripted_answers(self, person: ScriptedPerson, page: ScriptedPage) -> dict[str, str | list[str]]:
        """Give the direction that the scores imply; most participants keep the known reply's score."""
        known_score = re.search(r' data-known="([\d.]+)"', page.html)
        assert known_score is not None, "the page shows the known score"
        answers, known = dict(page.answers), float(known_score[1])
        if person.rng.random() < _KEEPS_SCORE:
            answers.pop("reference_score", None)
        about = [name for name in page.form.choices if name not in ("reference_score", "direction")]
        scores = [float(answer) for answer in map(str, (answers[name] for name in about)) if answer.isdigit()]
        ahead = mean(scores or [known]) - known + person.rng.gauss(0, 0.5)
        answers["direction"] = "same" if abs(ahead) < 0.5 else "better" if ahead > 0 else "worse"
        return answers
