"""The form of a study's checks: lists of entries, and the numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import QueryDict

from chatbots.outside import Values
from webapp.dashboard.build.entry_cards import KINDS, EntryCard
from webapp.dashboard.build.fields import SettingsForm
from webapp.dashboard.build.question_actions import Drafts
from webapp.studies.questions import Question


class ChecksForm(SettingsForm):
    """Lists of checks, each entry a card. Buttons that work without script are sent as `_do`."""

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
        self.cards: dict[str, list[EntryCard]] = {}
        drafts = _acted(Drafts.of(data, lists)) if data is not None else None
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
        self, name: str, token: str, *, data: QueryDict | None = None, entry: Values | None = None
    ) -> EntryCard:
        return EntryCard(
            data, kind=KINDS[name], prefix=f"{name}-{token}", entry=entry, **self._told
        )

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
        """Return what the page shows of each list."""
        return {
            name: {
                "name": name,
                "cards": self.cards[name],
                "add": KINDS[name].add,
                "errors": [str(error) for error in self.errors.get(name, ())],
            }
            for name in self.lists
        }


def _acted(drafts: Drafts) -> Drafts:
    """Return the drafts after the button that was pressed."""
    verb, _colon, rest = drafts.data.get("_do", "").partition(":")
    name, _colon, token = rest.partition(":")
    if name not in drafts.tokens:
        return drafts
    tokens = drafts.tokens[name]
    if verb == "add":
        drafts.put(name, len(tokens), _blank(name))
    elif token in tokens:
        at = tokens.index(token)
        if verb == "delete":
            tokens.remove(token)
        elif verb == "duplicate":
            drafts.put(name, at + 1, drafts.fields(name, token))
        elif verb in ("up", "down"):
            to = at - 1 if verb == "up" else at + 1
            if 0 <= to < len(tokens):
                tokens.insert(to, tokens.pop(at))
    return drafts


def _blank(name: str) -> dict[str, str]:
    """Return what a new entry says, as a form sends it."""
    return {
        field: "\n".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for field, value in KINDS[name].blank.items()
    }
