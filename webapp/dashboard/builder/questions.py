"""Builder step of the questions before and after the task.

The form has a card for each question, in the order of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django import forms
from django.forms.utils import ErrorList
from django.http import HttpRequest, QueryDict

from webapp.core.keys import lower_ascii
from webapp.core.language import plural
from webapp.dashboard.builder.attention_checks import checks_asked
from webapp.dashboard.builder.base import BuildStep, Plan, StepState, work_steps
from webapp.dashboard.builder.cards import MOVING_WORDS, Card, CardsForm, Drafts, Fields, deleted_just_now
from webapp.dashboard.builder.forms import DirectionField, LinesField, SettingsForm, field_made, section_fields, titled
from webapp.studies.models import AGREED_BY_PEOPLE
from webapp.studies.protocols.base import asks_questions
from webapp.studies.questions import DEFAULT_SCALE, Kind, Question, translate_questions, validate_show_when
from webapp.studies.ready_made import QuestionSet, question_set
from webapp.studies.settings import ASKED
from webapp.studies.study_file import sets_for

Scale = tuple[int, int]
NEW_KINDS: dict[Kind, str] = {
    "scale": "Scale",
    "choice": "One choice",
    "choices": "Several choices",
    "text": "Free text",
}


def question_new(kind: Kind, language: str) -> Question:
    """Return a new question, in the study's language.

    Its placeholder words are to be overwritten.
    """
    kind_fields: dict[str, Any] = {}
    if kind in ("choice", "choices"):
        kind_fields["options"] = ["First answer", "Second answer"]
    if kind == "scale":
        kind_fields["labels"] = dict(zip(DEFAULT_SCALE, ("not at all", "extremely"), strict=True))
    new = Question(key="new", title="New question", kind=kind, required=kind != "text", **kind_fields)
    return translate_questions([new], language)[0]


def on_scale(question: Question, scale: Scale | None) -> Question:
    """Return the question on the common scale, if there is one."""
    if scale is None or question.kind != "scale":
        return question
    low, high = scale
    return question.model_copy(update={"low": low, "high": high, "labels": {}})


def fields_of(question: Question) -> Fields:
    """Return the fields of a question's card, as a form sends them.

    A new question's key is made from its words.
    """
    fields: Fields = {
        **{name: getattr(question, name) for name in ("kind", "title", "help", "name")},
        "key": question.key if question.key != "new" else "",
        "options": "\n".join(question.options),
        "expected": "\n".join(question.expected),
        "admits": "\n".join(question.admits),
        "when_key": question.show_when.key if question.show_when else "",
        "when_answers": "\n".join(question.show_when.answers) if question.show_when else "",
        "span": f"{question.low}:{question.high}",
        "low_words": question.labels.get(question.low, ""),
        "high_words": question.labels.get(question.high, ""),
        "between": "all" if question.has_words_between else "",
        **{f"word_{point}": words for point, words in question.labels.items()},
    }
    return (
        fields
        | {name: "on" for name in ("required", "only_with_goal") if getattr(question, name)}
        | {"reversed": DirectionField.name_of(question.reversed)}
    )


_SPANS = ((0, 1), (0, 3), (1, 3), (1, 4), (1, 5), (1, 6), (1, 7), (1, 9), (1, 10), (0, 10), (0, 100))
_NO_KEY_WORDS = re.compile(
    r"a|an|and|any|are|at|be|did|do|does|for|had|has|have|how|in|is|it|its|many|much|of|on|or"
    r"|the|their|there|they|this|to|was|were|what|when|which|who|will|with|would|you|your"
)


def key_made(text: str, existing_keys: Sequence[str]) -> str:
    """Return an unused key made from a text's words."""
    words = [w for w in re.findall(r"[a-z][a-z0-9]*", lower_ascii(text)) if not _NO_KEY_WORDS.fullmatch(w)]
    key = "_".join(words[:3])[:44] or "question"
    number = 2
    candidate = key
    while candidate in existing_keys:
        candidate, number = f"{key}_{number}", number + 1
    return candidate


class QuestionCard(Card):
    """Card of a question.

    Its kind is fixed, and so are the points of a scale that may have answers.
    """

    instead_of = {
        "show_when": "when_key",
        "show_when.answers": "when_answers",
        "low": "span",
        "high": "span",
        "labels": "low_words",
    }

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        prefix: str,
        question: Question | None = None,
        is_fixed: bool = False,
        keeps_key: bool = True,
        scale: Scale | None = None,
    ) -> None:
        """Build the card.

        Args:
            question: stored question; None if only in `data`.
            is_fixed: whether its points can no longer change.
            keeps_key: False if the key follows the wording until one is entered.
            scale: scale of the protocol's form, with the form's labels.
        """
        initial: dict[str, Any] = {}
        if question is not None:
            derived = key_made(question.name or question.title, ())
            initial = fields_of(question)
            initial["was"] = question.key if question.key == derived and not keeps_key else ""
        super().__init__(data, model=Question, prefix=prefix, initial=initial)
        self.is_fixed, self.scale = is_fixed, scale
        kinds = forms.ChoiceField(choices=list(NEW_KINDS.items()), widget=forms.HiddenInput)
        self.fields |= {"kind": kinds, "was": forms.CharField(required=False, widget=forms.HiddenInput)}
        for name in (
            "title",
            "help",
            "options",
            "required",
            "reversed",
            "only_with_goal",
            "expected",
            "admits",
            "name",
            "key",
        ):
            field = field_made(name, Question.model_fields[name])
            assert field is not None
            if name == "reversed":
                field = DirectionField(label="Direction")
            field.required = name == "title"
            self.fields[name] = field
        self.fields["key"].label = "Name in exports"
        self.fields["when_key"] = forms.CharField(
            label="Shown only after an answer to",
            required=False,
            max_length=50,
            help_text="The name in exports of an earlier question. Leave empty to show this one always.",
        )
        self.fields["when_answers"] = LinesField(
            label="Answers that show it",
            required=False,
            help_text="One per line. A hidden question needs no answer, and none is stored.",
        )
        self.fields["span"] = forms.ChoiceField(label="Points", required=False)
        between = [("", "None"), ("all", "At every point")]
        self.fields["between"] = forms.ChoiceField(label="Words between", required=False, choices=between)
        self.low, self.high = _span(str(self["span"].value() or ""))
        spans = sorted({*_SPANS, (self.low, self.high)})
        choices = [(f"{low}:{high}", f"{low} to {high}") for low, high in spans]
        self.fields["span"].choices = choices  # type: ignore[attr-defined]
        for point in (self.low, self.high, *self.points_between):
            words = forms.CharField(label=f"Words under {point}", required=False, max_length=60)
            self.fields[self._words_of(point)] = words
        for field in self.fields.values():
            if not isinstance(field.widget, forms.CheckboxInput | forms.HiddenInput):
                field.widget.attrs["class"] = "input"

    def _words_of(self, point: int) -> str:
        """Return the name of the field with a point's label."""
        return {self.low: "low_words", self.high: "high_words"}.get(point, f"word_{point}")

    @property
    def kind_now(self) -> str:
        """Its kind."""
        return str(self["kind"].value())

    @property
    def points_between(self) -> range:
        """The points between the ends that can have labels.

        None if there are too many for a row.
        """
        is_row = self.kind_now == "scale" and self.high - self.low <= 10
        return range(self.low + 1, self.high) if is_row else range(0)

    @property
    def word_fields(self) -> list[forms.BoundField]:
        """The fields of the labels between the ends."""
        return [self[f"word_{point}"] for point in self.points_between]

    @property
    def pill(self) -> str:
        """Kind of the question, in a few words."""
        kind_title = NEW_KINDS.get(self.kind_now, "")  # type: ignore[call-overload]
        words = self.scale_words if self.kind_now == "scale" else kind_title
        if str(self["expected"].value() or "").strip():
            words = f"{words}, attention check"
        if str(self["admits"].value() or "").strip():
            words = f"{words}, screening"
        return words if self["required"].value() else f"{words}, optional"

    @property
    def scale_words(self) -> str:
        """The points of its scale, in words."""
        of_forms: dict[Scale | None, str] = {(-1, 1): "Compared", (0, 1): "Chosen or not"}
        return of_forms.get(self.scale) or f"{self.low} to {self.high}"

    @property
    def own_scale_fields(self) -> list[forms.BoundField]:
        """The fields of its points and labels.

        Empty if the protocol's form sets the scale.
        """
        return [*(self[name] for name in ("span", "low_words", "high_words", "between")), *self.word_fields]

    @property
    def may_screen(self) -> bool:
        """True if it is before the task and its answers can be chosen."""
        return self.list_name == "questions" and self.kind_now != "text"

    @property
    def may_need_goal(self) -> bool:
        """True if it can be limited to conditions with a goal."""
        return self.list_name == "after" and self.scale is None

    @property
    def key_now(self) -> str:
        """Current key, if known."""
        return str(self["key"].value() or "")

    def plain(self, field_values: Mapping[str, Any]) -> dict[str, Any]:
        plain_question = {
            name: field_values[name] for name in ("kind", "title", "help", "required", "only_with_goal", "name")
        }
        plain_question |= {"key": field_values["key"] or "question", "expected": _lines(field_values["expected"])}
        plain_question["admits"] = _lines(field_values["admits"])
        if field_values["when_key"] or field_values["when_answers"]:
            plain_question["show_when"] = {
                "key": field_values["when_key"],
                "answers": _lines(field_values["when_answers"]),
            }
        if field_values["kind"] in ("choice", "choices"):
            plain_question["options"] = _lines(field_values["options"])
        if field_values["kind"] == "scale":
            points = range(self.low, self.high + 1) if field_values["between"] else (self.low, self.high)
            words = {point: field_values.get(self._words_of(point)) for point in points}
            plain_question |= {"low": self.low, "high": self.high, "reversed": field_values["reversed"]}
            plain_question["labels"] = {point: text for point, text in words.items() if text}
        return plain_question

    def key_settle(self, existing_keys: Sequence[str]) -> None:
        """Set the question's key: the entered one, or one from its words."""
        typed_key, was = self.cleaned_data["key"], self.cleaned_data["was"]
        if not typed_key or typed_key == was:
            key = key_made(self.entry.name or self.entry.title, existing_keys)
            self.entry = self.entry.model_copy(update={"key": key})


def _span(text: str) -> Scale:
    match = re.fullmatch(r"(-?\d{1,4}):(-?\d{1,4})", text)
    low, high = (int(match[1]), int(match[2])) if match else DEFAULT_SCALE
    return (low, high) if low < high else DEFAULT_SCALE


def _lines(lines: Sequence[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


@dataclass(frozen=True, slots=True)
class QuestionList:
    """List of questions on the page; its buttons add `new_cards`."""

    name: str
    cards: Sequence[Card]
    errors: list[str]
    new_cards: dict[Kind, QuestionCard]

    @property
    def has_errors(self) -> bool:
        """True if the form or one of its cards has errors."""
        return bool(self.errors) or any(card.is_bound and card.errors for card in self.cards)


class QuestionsForm(CardsForm):
    """The lists of questions, and their settings."""

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        stored: Mapping[str, Sequence[Question]],
        initial: Mapping[str, Any],
        fixed: bool,
        scale: Scale | None = None,
    ) -> None:
        """Build the form.

        Args:
            stored: current questions of each list that the protocol asks.
            fixed: whether participants have consented: keys then stay, and so do the scales after the task.
            scale: scale of all questions after the task in this protocol; None: any.
        """
        self.stored = {name: tuple(questions) for name, questions in stored.items()}
        self.is_fixed, self.scale, self.language = fixed, scale, initial["language"]
        left_out = () if "questions" in stored else ("questions_order",)
        super().__init__(data, fields=section_fields("asking", left_out), entries=self.stored, initial=initial)

    @property
    def list_after(self) -> QuestionList:
        """The questions after the task."""
        return self._listed("after")

    @property
    def list_before(self) -> QuestionList:
        """The questions before it."""
        return self._listed("questions")

    def _listed(self, name: str) -> QuestionList:
        scale = self.scale if name == "after" else None
        new = {kind: card_new(name, question_new(kind, self.language), scale) for kind in NEW_KINDS}
        return QuestionList(name, self.cards[name], self.list_errors(name), new)

    def card(self, name: str, token: str, *, entry: Question | None = None, data: QueryDict | None = None) -> Card:
        prefix = f"{name}-{token}"
        sent: Mapping[str, Any] = data or {}
        is_scale = entry.is_rated if entry else sent.get(f"{prefix}-kind") == "scale"
        is_scale = name == "after" and is_scale and not str(sent.get(f"{prefix}-expected", "")).strip()
        key = entry.key if entry else sent.get(f"{prefix}-key")
        return QuestionCard(
            data,
            prefix=prefix,
            question=entry,
            is_fixed=self.is_fixed
            and is_scale
            and key in {question.key for question in self.stored["after"] if question.is_rated},
            keeps_key=self.is_fixed,
            scale=self.scale if is_scale else None,
        )

    def added(self, drafts: Drafts, verb: str, name: str, target: str) -> Iterable[Fields]:
        """Return a new question, or those of a ready-made set.

        Their keys are unused.
        """
        questions: Sequence[Question] = ()
        if verb == "add" and target in NEW_KINDS:
            questions = [question_new(cast(Kind, target), self.language)]
        elif verb == "set" and (chosen := question_set(target)):
            questions = translate_questions(chosen.questions, self.language)
        existing_keys = {drafts.data.get(f"{name}-{token}-key", "") for token in drafts.tokens[name]}
        for question in questions:
            fields = fields_of(on_scale(question, self.scale if name == "after" else None))
            yield {**fields, "key": ""} if question.key in existing_keys else fields

    def entries(self, name: str) -> tuple[Question, ...]:
        """Return the questions of a list, each with its key."""
        cards = cast(list[QuestionCard], self.cards[name])
        card_values = [card.cleaned_data for card in cards]
        written_keys = {values["key"] for values in card_values if values["key"] != values["was"]}
        for index, card in enumerate(cards):
            card.key_settle([*written_keys, *(card.entry.key for card in cards[:index])])
        entries = super().entries(name)
        for mistake in validate_show_when(entries, name):
            index, field = int(mistake.path.split("[")[1].split("]")[0]), f"when_{mistake.path.rpartition('.')[2]}"
            message = titled(mistake.message, cards[index].fields[field].label, name)
            self.errors[cards[index].add_prefix(field)] = cards[index].errors[field] = ErrorList([message])
        return entries

    def changes(self) -> dict[str, Any]:
        """Return the values by name.

        A list equal to the rubric stays unchanged.
        """
        same = {name: self.initial[name] for name in self.lists if self.cleaned_data[name] == self.stored[name]}
        return super().changes() | same

    def script_data(self) -> dict[str, Any]:
        """Return the key of each question by the prefix of its card."""
        return {"keys": {card.prefix: card.entry.key for cards in self.cards.values() for card in cards if card.entry}}


def card_new(list_name: str, question: Question, scale: Scale | None) -> QuestionCard:
    """Return the card of a question that is not stored yet."""
    scaled_question = on_scale(question, scale)
    return QuestionCard(
        prefix=f"{list_name}-NEWCARD",
        question=scaled_question,
        scale=scale if scaled_question.kind == "scale" else None,
    )


class QuestionsStep(BuildStep):
    name = "questions"
    title = "Questions"
    template = "questions.html"
    heading = "What do you ask participants?"

    def state(self, plan: Plan) -> StepState:
        n = len(plan.asked_after) + len(plan.study.values.questions)
        if not any(question.is_rated for question in plan.asked_after):
            return StepState("none to rate", "warn")
        return StepState(plural(n, "%(n)d question", "%(n)d questions") % {"n": n}, "good")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> QuestionsForm:
        """Return the form of the lists, in the order of the page."""
        values = plan.study.values
        stored: dict[str, Sequence[Question]] = {"after": plan.asked_after}
        if plan.protocol and asks_questions(plan.protocol.name):
            stored["questions"] = values.questions
        return QuestionsForm(
            data,
            stored=stored,
            initial=values.flat() | {name: getattr(values, name) for name in ASKED},
            fixed=plan.study.participants.filter(AGREED_BY_PEOPLE).exists(),
            scale=plan.protocol.scale if plan.protocol else None,
        )

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        """Return the lists' headings, addable sets, and the deleted question."""
        has_goal = any(level.goal for factor in plan.study.values.conditions.factors for level in factor.levels)
        sets = sets_for(plan.study.protocol)
        chosen = [
            question_set
            for question_set in sets
            if has_goal or not any(question.only_with_goal for question in question_set.questions)
        ]
        scale = plan.protocol.scale if plan.protocol else None
        language = plan.study.values.texts.language
        work = work_steps(plan.protocol) if plan.protocol else []
        return {
            "new_kinds": NEW_KINDS,
            "n_checks_set": _checks_set(plan),
            "sets": [(question_set, _set_cards(question_set, scale, language)) for question_set in chosen],
            **deleted_just_now(request, dict.fromkeys(ASKED, "title")),
            "shown_on": {"after": work[-1] if work else "", "questions": "questions"},
            "moving_words": MOVING_WORDS,
        }

    def onward(self, form: SettingsForm) -> str:
        """Return the address with the deleted question, for undo without script."""
        return f"?deleted={form.undo.sign()}#deleted" if isinstance(form, CardsForm) and form.undo else ""


def _checks_set(plan: Plan) -> int:
    """Return the number of the study's checks of all kinds."""
    values = plan.study.values
    numbers = (values.attention.n_gold, values.attention.n_repeated)
    return sum(len(checks.entries) for checks in values.check_lists) + len(checks_asked(plan)) + sum(map(bool, numbers))


def _set_cards(chosen: QuestionSet, scale: Scale | None, language: str) -> list[QuestionCard]:
    questions = translate_questions(chosen.questions, language)
    return [card_new("after", question, scale) for question in questions]
