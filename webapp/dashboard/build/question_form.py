"""The form of a study's questions: a card for each, before the task and after it, in the order of the page.

How its cards are named and what their buttons do without script is said in `card_actions.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import QueryDict

from webapp.dashboard.build.card_actions import Drafts, Undo
from webapp.dashboard.build.fields import SettingsForm, section_fields
from webapp.dashboard.build.question_actions import Scale, acted, question_new
from webapp.dashboard.build.question_cards import NEW_KINDS, QuestionCard, card_new
from webapp.studies.questions import Question
from webapp.studies.values import ASKED


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
                    self.card(f"{name}-{i}", question)
                    for i, question in enumerate(self.stored[name], start=1)
                ]
        else:
            drafts, self.undo = acted(Drafts.of(data, lists), scale, initial["language"])
            for name in lists:
                self.cards[name] = [
                    self._sent(f"{name}-{token}", drafts.data) for token in drafts.tokens[name]
                ]

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
        new = {
            kind: card_new(f"{name}-NEWCARD", question_new(kind, language), scale)
            for kind in NEW_KINDS
        }
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
