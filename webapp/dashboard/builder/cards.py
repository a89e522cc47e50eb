"""Lists of cards in the builder, one form per entry.

Every button works without scripts. Fields of a card are named `<list>-<token>-<field>`. The tokens, sent as `<list>`,
give the order of the cards; the pressed button is sent as `_do`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from django import forms
from django.core import signing
from django.http import HttpRequest, QueryDict
from pydantic import ValidationError as WrongValues

from chatbots.validation import InputModel, mistakes_of
from webapp.dashboard.builder.forms import SettingsForm, titled

Fields = dict[str, str | list[str]]
"""Submitted fields of a card; a list if several boxes are ticked."""
_SALT = "confab.build.deleted"
_KEYS = ("key", "was")
"""Fields that identify a question; a copy gets new values."""


@dataclass(frozen=True, slots=True)
class Undo:
    """Removed card: its form data and its position in the list."""

    list_name: str
    position: int
    sent: Fields

    def sign(self) -> str:
        """Return it as a signed text, which only this server can create."""
        value = [self.list_name, self.position, self.sent]
        return signing.dumps(value, salt=_SALT, compress=True)

    @staticmethod
    def unsign(text: str) -> Undo | None:
        """Return the undo in a signed text.

        None if the signature is invalid.
        """
        try:
            return Undo(*signing.loads(text, salt=_SALT))
        except (signing.BadSignature, TypeError):
            return None


class Drafts:
    """Submitted form: its fields, and the tokens of each list in order."""

    def __init__(self, data: Mapping[str, Any], lists: Sequence[str]) -> None:
        self.data = data.copy() if isinstance(data, QueryDict) else QueryDict(mutable=True)
        sent = {name: dict.fromkeys(self.data.getlist(name)) for name in lists}
        self.tokens = {
            name: [token for token in tokens if token.isalnum() and token.isascii()] for name, tokens in sent.items()
        }

    def put(self, name: str, position: int, fields: Fields) -> None:
        """Insert a card with these fields into a list, under a new token."""
        tokens = self.tokens[name]
        token = next(candidate for number in count(len(tokens) + 1) if (candidate := f"x{number}") not in tokens)
        tokens.insert(position, token)
        for field, value in fields.items():
            self.data.setlist(f"{name}-{token}-{field}", value if isinstance(value, list) else [value])

    def fields(self, name: str, token: str) -> Fields:
        """Return the submitted fields of one card."""
        prefix = f"{name}-{token}-"
        sent_values = {key: self.data.getlist(key) for key in self.data if key.startswith(prefix)}
        return {key.removeprefix(prefix): sent[0] if len(sent) == 1 else sent for key, sent in sent_values.items()}

    def press(self, added: Callable[[Drafts, str, str, str], Iterable[Fields]]) -> Undo | None:
        """Apply the pressed button; return any removed card.

        Args:
            added: function that returns the fields of added cards, from the button's verb, the list and the request.
        """
        verb, name, target = [*self.data.get("_do", "").split(":", 2), "", ""][:3]
        tokens = self.tokens.get(name, [])
        if name not in self.tokens:
            return None
        if verb == "undo" and (undo := Undo.unsign(self.data.get("_deleted", ""))):
            self.put(undo.list_name, undo.position, undo.sent)
        elif target not in tokens:
            for fields in added(self, verb, name, target):
                self.put(name, len(tokens), fields)
        elif verb == "delete":
            position = tokens.index(target)
            tokens.remove(target)
            return Undo(name, position, self.fields(name, target))
        elif verb == "duplicate":
            fields = self.fields(name, target)
            self.put(name, tokens.index(target) + 1, fields | {key: "" for key in _KEYS if key in fields})
        elif verb in ("up", "down"):
            position = tokens.index(target)
            tokens.insert(max(0, position - 1) if verb == "up" else position + 1, tokens.pop(position))
        return None


def deleted_just_now(request: HttpRequest, title_fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the context of a card that was just deleted without script.

    Args:
        title_fields: field that is a card's title, by the name of its list.
    """
    text = request.GET.get("deleted", "")
    undo = Undo.unsign(text)
    if undo is None or undo.list_name not in title_fields:
        return {"deleted": ""}
    return {
        "deleted": text,
        "deleted_list": undo.list_name,
        "deleted_title": str(undo.sent.get(title_fields[undo.list_name], "")),
    }


MOVING_WORDS: dict[str, Any] = {
    "moved": "Number %(n)s is now %(place)s of %(of)s.",
    "first": "It is already the first.",
    "last": "It is already the last.",
    "deleted": "“%(title)s” was deleted.",
    "undo": "Undo",
    "undone": "“%(title)s” was restored.",
    "added": "One was added at the end.",
    "added_many": "%(n)s were added at the end.",
    "unnamed": "New: fill it in",
    "places": ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"],
    "numbers": ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
    "place": "number %(n)s",
    "count": {"one": "%(n)s question", "other": "%(n)s questions"},
    "words_under": "Words under %(point)s",
    "optional": "%(what)s, optional",
}
"""Messages of the page's script about moved, added and deleted cards."""


class Card(forms.Form):
    """Entry of a list; `entry` is its value if the form is valid.

    Attributes:
        title_field: name of the field that is the title of the folded card; errors about the whole card are shown
            there.
        instead_of: field in which a value is entered, if it has no field with its own name.
    """

    use_required_attribute = False
    title_field: str = "title"
    instead_of: Mapping[str, str] = {}

    def __init__(self, data: Mapping[str, Any] | None, *, model: type[InputModel], prefix: str, initial: Any) -> None:
        super().__init__(data, prefix=prefix, initial=initial)
        self.label_suffix, self.model = "", model
        self.list_name, _dash, self.token = prefix.partition("-")
        self.entry: Any = None

    def plain(self, field_values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entry as JSON."""
        raise NotImplementedError

    def clean(self) -> dict[str, Any]:
        """Build the entry; report each error at its field."""
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        try:
            self.entry = self.model.model_validate(self.plain(cleaned))
        except WrongValues as error:
            for mistake in mistakes_of(error, self.model):
                head = mistake.path.partition("[")[0].partition(".")[0]
                field = self._field_of(mistake.path, head, mistake.message.split(" ", 1)[0])
                self.add_error(field, titled(mistake.message, self.fields[field].label, head))
        return cleaned

    def _field_of(self, *names: str) -> str:
        """Return the field at which an error is shown.

        An error about the whole card begins with a field's name.
        """
        candidates = (field for name in names for field in (name, self.instead_of.get(name)) if field in self.fields)
        return next(candidates, self.title_field)

    @property
    def title_now(self) -> str:
        """Title of the folded card."""
        return str(self[self.title_field].value() or "") or "New: fill it in"


class CardsForm(SettingsForm):
    """Settings with lists of entries, each entry a card.

    Attributes:
        cards: cards by the name of their list.
        undo: card that a button just removed without script.
    """

    def __init__(
        self,
        data: Mapping[str, Any] | None,
        *,
        fields: Mapping[str, forms.Field],
        entries: Mapping[str, Sequence[Any]],
        initial: Mapping[str, Any],
    ) -> None:
        """Build the form.

        Args:
            fields: the settings next to the lists.
            entries: current entries of each list.
        """
        self.lists = tuple(entries)
        of_lists = {name: forms.Field(required=False) for name in self.lists}
        super().__init__(data, groups=[("", {**fields, **of_lists})], initial=initial)
        self.undo: Undo | None = None
        if data is None:
            self.cards = {
                name: [self.card(name, str(i), entry=entry) for i, entry in enumerate(of_list, start=1)]
                for name, of_list in entries.items()
            }
        else:
            drafts = Drafts(data, self.lists)
            self.undo = drafts.press(self.added)
            self.cards = {
                name: [self.card(name, token, data=drafts.data) for token in drafts.tokens[name]] for name in self.lists
            }

    def card(self, name: str, token: str, *, entry: Any = None, data: QueryDict | None = None) -> Card:
        """Return the card of an entry, or of its submitted data."""
        raise NotImplementedError

    def added(self, drafts: Drafts, verb: str, name: str, target: str) -> Iterable[Fields]:
        """Return the fields of the cards that a button adds to a list."""
        raise NotImplementedError

    def full_clean(self) -> None:
        """Validate the fields and every card.

        Errors are stored under the names of their own fields.
        """
        super().full_clean()
        if not self.is_bound:
            return
        for name, cards in self.cards.items():
            for card in cards:
                for field, errors in card.errors.items():
                    self.errors[card.add_prefix(card.title_field if field == "__all__" else field)] = errors
            if not any(card.errors for card in cards):
                self.cleaned_data[name] = self.entries(name)

    def entries(self, name: str) -> tuple[Any, ...]:
        """Return the valid values of a list."""
        return tuple(card.entry for card in self.cards[name])

    def list_errors(self, name: str) -> list[str]:
        """Return the errors about a list as a whole."""
        return [str(error) for error in self.errors.get(name, ())]
