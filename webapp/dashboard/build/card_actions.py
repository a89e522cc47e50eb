"""Actions on lists of cards without script: add, duplicate, move, delete, undo a deletion.

Fields of a card are named `<list>-<token>-<field>`. The tokens, sent as `<list>`, give the order of the cards; the
button that was pressed is sent as `_do`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core import signing
from django.http import HttpRequest, QueryDict

Fields = dict[str, str | list[str]]
"""What a form says of a card; a list where several boxes are ticked."""
_SALT = "confab.build.deleted"
_KEYS = ("key", "was")
"""Fields by which a question is known; its copy gets names of its own."""


@dataclass(frozen=True, slots=True)
class Undo:
    """A card that was taken away: what its form said, and its place in its list."""

    list_name: str
    at: int
    sent: Fields

    def sign(self) -> str:
        """Return it as a text that only this server can make."""
        value = [self.list_name, self.at, self.sent]
        return signing.dumps(value, salt=_SALT, compress=True)

    @staticmethod
    def unsign(text: str) -> Undo | None:
        """Return the undo in a signed text, or None if the signature is invalid."""
        try:
            return Undo(*signing.loads(text, salt=_SALT))
        except (signing.BadSignature, TypeError):
            return None


@dataclass
class Drafts:
    """Submitted form: its fields, and the tokens of each list in their order."""

    data: QueryDict
    tokens: dict[str, list[str]]

    @staticmethod
    def of(data: Mapping[str, Any], lists: Sequence[str]) -> Drafts:
        """Return the drafts in submitted data; ignore tokens that no field could have."""
        sent = data.copy() if isinstance(data, QueryDict) else QueryDict(mutable=True)
        tokens = {}
        for name in lists:
            found = [token for token in sent.getlist(name) if token.isalnum() and token.isascii()]
            tokens[name] = list(dict.fromkeys(found))
        return Drafts(sent, tokens)

    def free(self, name: str) -> str:
        """Return a token that the list does not have."""
        number = len(self.tokens[name]) + 1
        while f"x{number}" in self.tokens[name]:
            number += 1
        return f"x{number}"

    def put(self, name: str, at: int, fields: Fields) -> None:
        """Put a card with these fields into a list."""
        token = self.free(name)
        self.tokens[name].insert(at, token)
        for field, value in fields.items():
            self.data.setlist(
                f"{name}-{token}-{field}", value if isinstance(value, list) else [value]
            )

    def fields(self, name: str, token: str) -> Fields:
        """Return the submitted fields of one card."""
        prefix = f"{name}-{token}-"
        found = {key: self.data.getlist(key) for key in self.data if key.startswith(prefix)}
        return {
            key.removeprefix(prefix): sent[0] if len(sent) == 1 else sent
            for key, sent in found.items()
        }


def cards_acted(
    drafts: Drafts, made: Callable[[str, str, str], Iterable[Fields]]
) -> tuple[Drafts, Undo | None]:
    """Return the drafts after the button that was pressed, and what it took away.

    Args:
        made: gives the fields of the cards that are added, by the button's verb, the list and what is asked for.
    """
    verb, _colon, rest = drafts.data.get("_do", "").partition(":")
    name, _colon, what = rest.partition(":")
    if name not in drafts.tokens:
        return drafts, None
    tokens = drafts.tokens[name]
    if verb == "undo" and (undo := Undo.unsign(drafts.data.get("_deleted", ""))):
        drafts.put(undo.list_name, undo.at, undo.sent)
    elif what in tokens:
        return drafts, _moved(drafts, verb, name, what)
    else:
        for fields in made(verb, name, what):
            drafts.put(name, len(tokens), fields)
    return drafts, None


def _moved(drafts: Drafts, verb: str, name: str, token: str) -> Undo | None:
    tokens = drafts.tokens[name]
    at = tokens.index(token)
    if verb == "delete":
        tokens.remove(token)
        return Undo(name, at, drafts.fields(name, token))
    if verb == "duplicate":
        fields = drafts.fields(name, token)
        drafts.put(name, at + 1, fields | {key: "" for key in _KEYS if key in fields})
    if verb in ("up", "down"):
        to = at - 1 if verb == "up" else at + 1
        if 0 <= to < len(tokens):
            tokens.insert(to, tokens.pop(at))
    return None


def deleted_just_now(request: HttpRequest, title_fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the context on a card that was just deleted without script.

    Args:
        title_fields: the field that names a card, by the name of its list.
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


def moving_words() -> dict[str, Any]:
    """Return the page script's messages on cards that are moved, added and deleted."""
    return {
        "moved": "Number %(n)s is now %(place)s of %(of)s.",
        "first": "It is the first already.",
        "last": "It is the last already.",
        "deleted": "“%(title)s” is deleted.",
        "undo": "Undo",
        "undone": "“%(title)s” is back.",
        "added": "One is added at the end.",
        "added_many": "%(n)s are added at the end.",
        "unnamed": "New: fill it in",
        "places": [
            *("first", "second", "third", "fourth", "fifth", "sixth"),
            *("seventh", "eighth", "ninth", "tenth"),
        ],
        "numbers": [
            *("one", "two", "three", "four", "five", "six", "seven"),
            *("eight", "nine", "ten"),
        ],
        "place": "number %(n)s",
    }
