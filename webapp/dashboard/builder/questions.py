"""Builder's step of questions before and after the task, and its form.

The form has a card for each question, in the order of the page. `forms.py` documents the names of cards and the
buttons that work without script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest, QueryDict

from webapp.core.language import plural
from webapp.dashboard.builder.attention_checks import checks_asked
from webapp.dashboard.builder.base import BuildStep, Plan, StepState, work_steps
from webapp.dashboard.builder.forms import Drafts, SettingsForm, Undo, deleted_just_now, moving_words, section_fields
from webapp.dashboard.builder.question_cards import NEW_KINDS, QuestionCard, Scale, acted, card_new, question_new
from webapp.studies.examples import QuestionSet, sets_for
from webapp.studies.models import AGREED_BY_PEOPLE
from webapp.studies.protocols.base import asks_questions
from webapp.studies.questions import Question, translate_questions
from webapp.studies.settings import ASKED


@dataclass(frozen=True, slots=True)
class QuestionList:
    """One of the lists as the page shows it; `new_cards` are what its buttons add, by kind."""

    name: str
    cards: list[QuestionCard]
    errors: list[str]
    new_cards: dict[str, QuestionCard]

    @property
    def has_errors(self) -> bool:
        """True if the form or one of its cards has errors."""
        return bool(self.errors) or any(card.is_bound and card.errors for card in self.cards)


class QuestionsForm(SettingsForm):
    """The lists of questions, and how they are asked.

    Attributes:
        cards: of each list, by its name.
        undo: what a button without script has just taken away.
    """

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        stored: Mapping[str, Sequence[Question]],
        initial: Mapping[str, Any],
        fixed: bool,
        has_answers: bool,
        scale: Scale | None = None,
        lists: Sequence[str] = ASKED,
    ) -> None:
        """Make the form.

        Args:
            stored: the questions of each list as they are asked now.
            fixed: whether the scales after the task can no longer change.
            has_answers: whether keys stay as they are, for people have agreed.
            scale: the one on which the protocol asks everything after the task; None: any.
            lists: those that the study's protocol asks.
        """
        fields: dict[str, forms.Field] = dict(section_fields("asking"))
        if "questions" not in lists:
            fields.pop("questions_order")
        of_lists = {name: forms.Field(required=False) for name in lists}
        super().__init__(data, groups=[("", fields | of_lists)], initial=initial)
        self.lists = tuple(lists)
        self.stored = {name: tuple(stored[name]) for name in lists}
        self.is_fixed, self.has_answers, self.scale = fixed, has_answers, scale
        self.undo: Undo | None = None
        self.cards: dict[str, list[QuestionCard]] = {}
        if data is None:
            for name in lists:
                self.cards[name] = [
                    self.card(f"{name}-{i}", question) for i, question in enumerate(self.stored[name], start=1)
                ]
        else:
            drafts, self.undo = acted(Drafts.of(data, lists), scale, initial["language"])
            for name in lists:
                self.cards[name] = [self._sent(f"{name}-{token}", drafts.data) for token in drafts.tokens[name]]

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
        language = self.initial["language"]
        new = {kind: card_new(f"{name}-NEWCARD", question_new(kind, language), scale) for kind in NEW_KINDS}
        errors = [str(error) for error in self.errors.get(name, ())]
        return QuestionList(name, self.cards.get(name, []), errors, new)

    def card(self, prefix: str, question: Question) -> QuestionCard:
        """Return the card of a question."""
        is_scale = prefix.startswith("after-") and question.is_rated
        return QuestionCard(
            prefix=prefix,
            question=question,
            is_fixed=self.is_fixed and is_scale and question in self.stored.get("after", ()),
            has_answers=self.has_answers,
            scale=self.scale if is_scale else None,
        )

    def _sent(self, prefix: str, data: QueryDict) -> QuestionCard:
        is_scale = prefix.startswith("after-") and data.get(f"{prefix}-kind") == "scale"
        is_scale = is_scale and not str(data.get(f"{prefix}-expected", "")).strip()
        keys = {one.key for one in self.stored.get("after", ()) if one.is_rated}
        is_fixed = self.is_fixed and is_scale and data.get(f"{prefix}-key") in keys
        scale = self.scale if is_scale else None
        return QuestionCard(data, prefix=prefix, is_fixed=is_fixed, scale=scale)

    def full_clean(self) -> None:
        """Check the fields and every card; each mistake stands under the name of its own field."""
        super().full_clean()
        if not self.is_bound:
            return
        for name in self.lists:
            for card in self.cards[name]:
                for field, errors in card.errors.items():
                    own = "title" if field == "__all__" else field
                    self.errors[card.add_prefix(own)] = errors
            if not any(card.errors for card in self.cards[name]):
                self.cleaned_data[name] = self._questions(name)

    def _questions(self, name: str) -> tuple[Question, ...]:
        """Return the questions of a list, each with its key."""
        kept = {
            card.cleaned_data["key"]
            for card in self.cards[name]
            if card.cleaned_data["key"] != card.cleaned_data["was"]
        }
        found: list[Question] = []
        for card in self.cards[name]:
            card.key_settle([*kept, *(one.key for one in found)])
            assert card.question is not None
            found.append(card.question)
        return tuple(found)

    def changes(self) -> dict[str, Any]:
        """Return the values by their names; a list that says what the study's rubric says stays as it is stored."""
        found = super().changes()
        for name in self.lists:
            if found[name] == self.stored[name]:
                found[name] = self.initial[name]
        return found

    def told(self) -> dict[str, Any]:
        """Return the key of each question by the prefix of its card."""
        cards = [card for name in self.lists for card in self.cards[name] if card.question]
        return {"keys": {card.prefix: card.question.key for card in cards if card.question}}


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
        n_agreed = plan.study.participants.filter(AGREED_BY_PEOPLE).count()
        lists = ["after"]
        if plan.protocol and asks_questions(plan.protocol.name):
            lists.append("questions")
        return QuestionsForm(
            data,
            stored={"after": plan.asked_after, "questions": plan.study.values.questions},
            initial=plan.study.values.flat() | {name: getattr(plan.study.values, name) for name in ASKED},
            fixed=n_agreed > 0,
            has_answers=n_agreed > 0,
            scale=plan.protocol.scale if plan.protocol else None,
            lists=lists,
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
            "moving_words": _moving_words(),
        }

    def onward(self, form: SettingsForm) -> str:
        """Lead back with the question that was deleted, so that this can be undone without script too."""
        assert isinstance(form, QuestionsForm)
        return f"?deleted={form.undo.sign()}#deleted" if form.undo else ""


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
    return [card_new("after-NEWCARD", question, scale) for question in asked]


def _moving_words() -> dict[str, Any]:
    """Return the page script's messages on questions that are moved, added and deleted."""
    return moving_words() | {
        "moved": "Question %(n)s is now %(place)s of %(of)s.",
        "first": "It is the first question already.",
        "last": "It is the last question already.",
        "added": "A question is added at the end.",
        "added_many": "%(n)s questions are added at the end.",
        "count": {
            "one": plural(1, "%(n)s question", "%(n)s questions"),
            "other": plural(2, "%(n)s question", "%(n)s questions"),
        },
        "words_under": "Words under %(point)s",
        "optional": "%(what)s, optional",
    }
