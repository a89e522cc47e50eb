"""Builder's step of questions before and after the task, and its form.

The form has a card for each question, in the order of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django.http import HttpRequest, QueryDict

from webapp.core.language import plural
from webapp.dashboard.builder.attention_checks import checks_asked
from webapp.dashboard.builder.base import BuildStep, Plan, StepState, work_steps
from webapp.dashboard.builder.cards import MOVING_WORDS, Card, CardsForm, Drafts, Fields, deleted_just_now
from webapp.dashboard.builder.forms import SettingsForm, section_fields
from webapp.dashboard.builder.question_cards import NEW_KINDS, QuestionCard, Scale, fields_of, on_scale, question_new
from webapp.studies.examples import sets_for
from webapp.studies.models import AGREED_BY_PEOPLE
from webapp.studies.protocols.base import asks_questions
from webapp.studies.questions import Kind, Question, translate_questions
from webapp.studies.ready_made import QuestionSet, question_set
from webapp.studies.settings import ASKED


@dataclass(frozen=True, slots=True)
class QuestionList:
    """One of the lists as the page shows it; `new_cards` are what its buttons add, by kind."""

    name: str
    cards: Sequence[Card]
    errors: list[str]
    new_cards: dict[Kind, QuestionCard]

    @property
    def has_errors(self) -> bool:
        """True if the form or one of its cards has errors."""
        return bool(self.errors) or any(card.is_bound and card.errors for card in self.cards)


class QuestionsForm(CardsForm):
    """The lists of questions, and how they are asked."""

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        stored: Mapping[str, Sequence[Question]],
        initial: Mapping[str, Any],
        fixed: bool,
        scale: Scale | None = None,
    ) -> None:
        """Make the form.

        Args:
            stored: the questions of each list that the protocol asks, as they are asked now.
            fixed: whether people have agreed: keys stay, and so do the scales after the task.
            scale: the one on which the protocol asks everything after the task; None: any.
        """
        self.stored = {name: tuple(asked) for name, asked in stored.items()}
        self.is_fixed, self.scale, self.language = fixed, scale, initial["language"]
        without = () if "questions" in stored else ("questions_order",)
        super().__init__(data, fields=section_fields("asking", without), entries=self.stored, initial=initial)

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
            is_fixed=self.is_fixed and is_scale and key in {one.key for one in self.stored["after"] if one.is_rated},
            keeps_key=self.is_fixed,
            scale=self.scale if is_scale else None,
        )

    def added(self, drafts: Drafts, verb: str, name: str, what: str) -> Iterable[Fields]:
        """Return a new question, or those of a ready-made set, with keys that are not taken."""
        asked: Sequence[Question] = ()
        if verb == "add" and what in NEW_KINDS:
            asked = [question_new(cast(Kind, what), self.language)]
        elif verb == "set" and (chosen := question_set(what)):
            asked = translate_questions(chosen.questions, self.language)
        taken = {drafts.data.get(f"{name}-{token}-key", "") for token in drafts.tokens[name]}
        for question in asked:
            fields = fields_of(on_scale(question, self.scale if name == "after" else None))
            yield {**fields, "key": ""} if question.key in taken else fields

    def entries(self, name: str) -> tuple[Question, ...]:
        """Return the questions of a list, each with its key."""
        cards = cast(list[QuestionCard], self.cards[name])
        given = [card.cleaned_data for card in cards]
        kept = {one["key"] for one in given if one["key"] != one["was"]}
        for at, card in enumerate(cards):
            card.key_settle([*kept, *(one.entry.key for one in cards[:at])])
        return super().entries(name)

    def changes(self) -> dict[str, Any]:
        """Return the values by their names; a list that says what the study's rubric says stays as it is stored."""
        same = {name: self.initial[name] for name in self.lists if self.cleaned_data[name] == self.stored[name]}
        return super().changes() | same

    def told(self) -> dict[str, Any]:
        """Return the key of each question by the prefix of its card."""
        return {"keys": {card.prefix: card.entry.key for cards in self.cards.values() for card in cards if card.entry}}


def card_new(list_name: str, question: Question, scale: Scale | None) -> QuestionCard:
    """Return the card of a question that is not stored yet."""
    on = on_scale(question, scale)
    return QuestionCard(prefix=f"{list_name}-NEWCARD", question=on, scale=scale if on.kind == "scale" else None)


class QuestionsStep(BuildStep):
    name = "questions"
    title = "Questions"
    template = "questions.html"
    heading = "What do you ask?"

    def state(self, plan: Plan) -> StepState:
        n = len(plan.asked_after) + len(plan.study.values.questions)
        if not any(question.is_rated for question in plan.asked_after):
            return StepState("none about the task", "warn")
        return StepState(plural(n, "%(n)d question", "%(n)d questions") % {"n": n}, "good")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> QuestionsForm:
        """Return the form of the lists, in the order in which the page shows them."""
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
        """Return the lists' headings, what can be added, and the question that was deleted just now."""
        chosen = sets_for(plan.study.protocol)
        scale = plan.protocol.scale if plan.protocol else None
        language = plan.study.values.texts.language
        work = work_steps(plan.protocol) if plan.protocol else []
        return {
            "new_kinds": NEW_KINDS,
            "n_checks_set": _checks_set(plan),
            "sets": [(one, _set_cards(one, scale, language)) for one in chosen],
            **deleted_just_now(request, dict.fromkeys(ASKED, "title")),
            "shown_on": {"after": work[-1] if work else "", "questions": "questions"},
            "moving_words": MOVING_WORDS,
        }

    def onward(self, form: SettingsForm) -> str:
        """Lead back with the question that was deleted, so that this can be undone without script too."""
        return f"?deleted={form.undo.sign()}#deleted" if isinstance(form, CardsForm) and form.undo else ""


def _checks_set(plan: Plan) -> int:
    """Return the number of the study's checks, of every kind."""
    values = plan.study.values
    lists = (
        values.checking.quiz_questions,
        values.checking.chat_checks,
        values.training.training_pairs,
        values.attention.attention_checks,
    )
    numbers = (values.attention.n_gold, values.attention.n_repeated)
    return sum(map(len, lists)) + len(checks_asked(plan)) + sum(map(bool, numbers))


def _set_cards(chosen: QuestionSet, scale: Scale | None, language: str) -> list[QuestionCard]:
    asked = translate_questions(chosen.questions, language)
    return [card_new("after", question, scale) for question in asked]
