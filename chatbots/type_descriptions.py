"""Descriptions of pydantic types in words, and error locations."""

from __future__ import annotations

import dataclasses
import enum
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType

from chatbots.text import sanitise

Alternative = tuple[Any, tuple[Any, ...]]
"""A type without its `Annotated`, and the metadata from there, such as bounds and validators."""

_SECRET = re.compile(r"(?:api_?)?key|secret|password|passwd|(?:access_?|auth_?|bearer_?)?token|authorization")
_KEY_CHARS = 200
"""Maximum length of a key in a path; keys are untrusted and may be long."""
_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    bytes: "bytes",
    UUID: "a UUID",
    Path: "a path",
    datetime: "a date and time",
    date: "a date",
    timedelta: "a length of time",
    type(None): "null",
    None: "null",
    Any: "anything",
}


@dataclass(frozen=True, slots=True)
class TypeDescription:
    """Description of a field's values that replaces the one derived from its type.

    Useful for patterns: Slug = Annotated[str, Field(pattern="^[a-z]+$"), TypeDescription("lower-case letters")]
    """

    words: str


def is_secret_name(name: str) -> bool:
    """Return True if a key looks like the name of a secret."""
    return bool(_SECRET.fullmatch(name.lower().replace("-", "_")))


def describe_type(kind: Any) -> str:
    """Describe the values of a type in words, for researchers who write YAML."""
    return _words(list(alternatives(kind)))


@dataclass(frozen=True, slots=True)
class ErrorLocation:
    """Location in a model.

    Attributes:
        path: as researchers write it, such as "data.corpora[0].path".
        kinds: types allowed there.
        siblings: keys allowed next to the last one.
        is_alternative: True if the error is about one of several allowed types.
        is_secret: True if the value must not be shown.
    """

    path: str
    kinds: Sequence[Alternative]
    siblings: Sequence[str] = ()
    is_alternative: bool = False
    is_secret: bool = False

    @classmethod
    def locate(cls, kind: Any, loc: Sequence[int | str], path: str = "") -> ErrorLocation:
        """Return the location that a pydantic error names.

        Besides keys and indices, `loc` contains names of union members, which are not part of the path. A part that
        does not fit the types is such a name.
        """
        if tuple(loc[-1:]) == ("[key]",):
            mapping = cls.locate(kind, loc[:-2], path)
            keys = [get_args(each)[0] for each, _ in mapping.kinds if len(get_args(each)) == 2]
            return cls(mapping.path, [key for each in keys for key in alternatives(each)])
        kinds = types = list(alternatives(kind))
        siblings: list[str] = []
        is_alternative = is_secret = False
        for number, part in enumerate(loc):
            inside, is_last = _inside(kinds, part), number == len(loc) - 1
            fields = [name for each, _ in kinds for name in _fields(each)]
            if inside is None and not (is_last and fields and not _is_tag(kinds, part)):
                kinds, is_alternative = _chosen(kinds, part), True
                continue
            siblings, is_alternative = list(dict.fromkeys(fields)), False
            is_secret = is_secret or any(_is_hidden(each, part) for each, _ in kinds)
            step = f"[{part}]" if isinstance(part, int) else f".{sanitise(part, _KEY_CHARS)}"
            path = f"{path}{step}" if path or isinstance(part, int) else step[1:]
            kinds = types = inside or []
        return cls(path, types, siblings, is_alternative, is_secret)

    @property
    def allowed_values(self) -> str:
        """Description of the allowed values."""
        return _words(self.kinds)

    @property
    def is_model(self) -> bool:
        """True if a model or dataclass is allowed; its validators see several fields."""
        return any(_fields(kind) for kind, _ in self.kinds)

    @property
    def choices(self) -> list[str]:
        """The allowed texts, if they can be listed."""
        return [text for kind, _ in self.kinds for text in _choices(kind) if isinstance(text, str)]

    def field_named(self, message: str) -> str:
        """Return the field name that a message begins with; empty if none."""
        word, _, _ = message.partition(" ")
        return word if any(word.split(".")[0] in _fields(kind) for kind, _ in self.kinds) else ""

    def tags(self, key: str) -> list[str]:
        """Return the allowed values of a discriminator key."""
        tag_types = [kind for each, _ in self.kinds for kind in _fields(each).get(key, [])]
        return [str(value) for kind, _ in tag_types for value in _choices(kind)]


def alternatives(kind: Any, markers: tuple[Any, ...] = ()) -> Iterator[Alternative]:
    """Yield the types that a type allows: union members, without `Annotated`."""
    if isinstance(kind, TypeAliasType):
        yield from alternatives(kind.__value__, markers)
        return
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(origin, TypeAliasType):
        yield from alternatives(origin.__value__[arguments], markers)
    elif origin is Annotated:
        metadata = [
            each for item in arguments[1:] for each in (item.metadata if isinstance(item, FieldInfo) else [item])
        ]
        yield from alternatives(arguments[0], (*markers, *metadata))
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from alternatives(argument, markers)
    else:
        yield kind, markers


def _fields(kind: Any) -> dict[str, list[Alternative]]:
    """Return the keys of a model or dataclass with the types allowed under each."""
    if not isinstance(kind, type):
        return {}
    if issubclass(kind, BaseModel):
        return {
            _key(name, info): list(alternatives(info.annotation, tuple(info.metadata)))
            for name, info in kind.model_fields.items()
        }
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return {name: list(alternatives(hint)) for name, hint in hints.items()}
    return {}


def _key(name: str, info: FieldInfo) -> str:
    """Return the key from which a field is read."""
    return info.validation_alias if isinstance(info.validation_alias, str) else name


def _is_hidden(kind: Any, part: int | str) -> bool:
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return False
    return any(_key(name, f) == part and not f.repr for name, f in kind.model_fields.items())


def _inside(kinds: Sequence[Alternative], part: int | str) -> list[Alternative] | None:
    """Return the types allowed under a key or index; None if it cannot exist."""
    inner_types: list[Alternative] = []
    has_place = False
    for kind, _ in kinds:
        fields = _fields(kind)
        origin, arguments = get_origin(kind) or kind, get_args(kind)
        if part in fields:
            has_place = True
            inner_types += fields[str(part)]
        elif isinstance(part, int) and _is_list(origin):
            has_place = True
            inner = [each for each in arguments if each is not Ellipsis]
            inner_types += [each for argument in inner for each in alternatives(argument)]
        elif _is_mapping(origin) and not fields:
            has_place = True
            inner_types += list(alternatives(arguments[1])) if arguments else []
    return inner_types if has_place else None


def _chosen(kinds: Sequence[Alternative], tag: int | str) -> list[Alternative]:
    """Return the alternative that a part of `loc` names; all if it names none."""
    matching = [each for each in kinds if getattr(each[0], "__name__", None) == tag or _has_choice(each[0], tag)]
    return matching or list(kinds)


def _is_tag(kinds: Sequence[Alternative], part: int | str) -> bool:
    return len(kinds) > 1 and _chosen(kinds, part) != list(kinds)


def _has_choice(kind: Any, tag: int | str) -> bool:
    return any(tag in _choices(each) for inside in _fields(kind).values() for each, _ in inside)


def _choices(kind: Any) -> list[Any]:
    """Return the values of a literal or an enumeration."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [each.value for each in kind]
    return []


def _words(kinds: Sequence[Alternative]) -> str:
    for _, markers in kinds:
        for each in markers:
            if isinstance(each, TypeDescription):
                return each.words
    words = list(dict.fromkeys(_word(kind, markers) for kind, markers in kinds)) or ["anything"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _word(kind: Any, markers: Sequence[Any]) -> str:
    origin = get_origin(kind) or kind
    if choices := _choices(kind):
        return f"one of {', '.join(map(str, choices))}" if len(choices) > 1 else repr(choices[0])
    if origin in (int, float):
        return _joined(_WORDS[origin], _bounds(markers))
    if origin is str or _is_list(origin):
        return _joined(_WORDS.get(origin, "a list"), _lengths(markers, origin is str))
    if _is_mapping(origin) or _fields(kind):
        return "a mapping"
    return _WORDS.get(origin, getattr(origin, "__name__", str(origin)))


def _joined(noun: str, adjective: str) -> str:
    return f"{noun} {adjective}" if adjective else noun


def _bounds(markers: Sequence[Any]) -> str:
    """Describe the bounds of a number: "above 0 and at most 1"."""
    limits = {
        name: getattr(each, name)
        for each in markers
        for name in ("ge", "gt", "le", "lt")
        if getattr(each, name, None) is not None
    }
    if {"ge", "le"} <= set(limits):
        return f"from {limits['ge']} to {limits['le']}"
    prefix = "" if {"gt", "lt"} & set(limits) else "of "
    words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    phrases = [f"{word} {limits[name]}" for name, word in words.items() if name in limits]
    return f"{prefix}{' and '.join(phrases)}" if phrases else ""


def _lengths(markers: Sequence[Any], is_text: bool) -> str:
    """Describe the bounds of a length: "of at most 64 characters"."""
    min_length = next((e.min_length for e in markers if getattr(e, "min_length", None)), 0)
    max_length = next((e.max_length for e in markers if getattr(e, "max_length", None)), 0)
    unit = "character" if is_text else "entry"
    if min_length and max_length:
        return f"of {min_length} to {max_length} {_plural(unit)}"
    if max_length:
        return f"of at most {max_length} {_plural(unit) if max_length > 1 else unit}"
    if min_length:
        return "that is not empty" if min_length == 1 else f"of at least {min_length} {_plural(unit)}"
    pattern = next((e.pattern for e in markers if getattr(e, "pattern", None)), "")
    return f"of the form {pattern}" if pattern else ""


def _plural(unit: str) -> str:
    return "entries" if unit == "entry" else f"{unit}s"


def _is_list(origin: Any) -> bool:
    return (
        isinstance(origin, type) and issubclass(origin, Sequence | AbstractSet) and not issubclass(origin, str | bytes)
    )


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)
