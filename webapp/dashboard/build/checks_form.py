"""The form of a study's checks: lists of entries, and the numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import QueryDict

from chatbots.outside import Values
from webapp.dashboard.build.card_actions import Drafts, Fields, Undo, cards_acted
from webapp.dashboard.build.entry_cards import KINDS, EntryCard, entry_new
from webapp.dashboard.build.fields import SettingsForm
from webapp.studies.questions import Question


class ChecksForm(SettingsForm):
    """Lists of checks, each entry a card.

    Attributes:
        cards: of each list, by its name.
        undo: what a button without script has just taken away.
    """

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        fields: Mapping[str, forms.Field],
        lists: Sequence[str],
        initial: Mapping[str, Any],
        questions: list[Question],
        leave_out: tuple[str, ...] = (),
    ) -> None:
        """Make the form.

        Args:
            fields: the settings beside the lists.
            lists: names of the lists that the study's protocol has.
            questions: the scales that it asks.
            leave_out: fields of entries that it has no use for.
        """
        of_lists = {name: forms.Field(required=False) for name in lists}
        super().__init__(data, groups=[("", {**fields, **of_lists})], initial=initial)
        self.lists = tuple(lists)
        self._told: dict[str, Any] = {"questions": questions, "leave_out": leave_out}
        self._language = initial["language"]
        self.undo: Undo | None = None
        self.cards: dict[str, list[EntryCard]] = {}
        drafts = None
        if data is not None:
            drafts, self.undo = cards_acted(Drafts.of(data, lists), self._added)
        for name in lists:
            if drafts is None:
                self.cards[name] = [
                    self._card(name, str(i), entry=entry)
                    for i, entry in enumerate(initial[name], start=1)
                ]
            else:
                self.cards[name] = [
                    self._card(name, token, data=drafts.data) for token in drafts.tokens[name]
                ]

    def _card(
        self,
        name: str,
        token: str,
        *,
        data: QueryDict | None = None,
        entry: Values | None = None,
        new: Fields | None = None,
    ) -> EntryCard:
        prefix = f"{name}-{token}"
        return EntryCard(data, kind=KINDS[name], prefix=prefix, entry=entry, new=new, **self._told)

    def _new(self, name: str) -> Fields:
        return entry_new(KINDS[name], self._told["questions"], self._language)

    def _added(self, verb: str, name: str, what: str) -> list[Fields]:
        return [self._new(name)] if verb == "add" else []

    def full_clean(self) -> None:
        """Check the fields and every card; each mistake stands under the name of its own field."""
        super().full_clean()
        if not self.is_bound:
            return
        for name in self.lists:
            cards = self.cards[name]
            for card in cards:
                for field, errors in card.errors.items():
                    own = card.kind.named_by if field == "__all__" else field
                    self.errors[card.add_prefix(own)] = errors
            if not any(card.errors for card in cards):
                self.cleaned_data[name] = tuple(card.entry for card in cards)

    def listed(self) -> dict[str, dict[str, Any]]:
        """Return the context of each list of checks, by its name."""
        return {
            name: {
                "name": name,
                "cards": self.cards[name],
                "add": KINDS[name].add,
                "new_card": self._card(name, "NEWCARD", new=self._new(name)),
                "errors": [str(error) for error in self.errors.get(name, ())],
            }
            for name in self.lists
        }
