"""Bots that need parameters, declared in a YAML file (`bots.yaml`): one list entry, one bot.

    - id: qwen-small
      kind: transformers
      name: Qwen, small
      params: {model: path/or/hub-id, temperature: 0.7, window: 10}

A kind is a bot class; the parameters it takes are the arguments of its constructor, with their types and
defaults, so nothing is declared twice. A mistake disables its entry, and is told with the value and the
nearest right name. No secret may stand in the file.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
import re
import types
import typing
from collections.abc import Collection
from dataclasses import MISSING as _NO_VALUE
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union

from chatbots.base import Bot
from chatbots.entries import BrokenEntry, Entries, EntriesError, entries_read, kind_of
from chatbots.names import nearest_names
from chatbots.registry import bots

KINDS: dict[str, str] = {
    "transformers": "chatbots.bots.transformers_bot:TransformersBot",
    "endpoint": "chatbots.bots.endpoint:EndpointBot",
    "neural_chat": "chatbots.bots.neural_chat:NeuralChatBot",
    "retrieval": "chatbots.bots.retrieval:RetrievalBot",
    "checkpoint": "chatbots.bots.checkpoint:CheckpointBot",
    "gguf": "chatbots.bots.gguf:GgufBot",
}
"""The kinds a file may name, and their classes. The classes' files import nothing heavy."""

_KEYS = ["id", "kind", "name", "params"]
_SLUG = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_SECRET = re.compile(
    r"(?:api_?)?key|secret|password|passwd|(?:access_?|auth_?|bearer_?)?token|authorization"
)


class BotsFileError(ValueError):
    """A `bots.yaml` that cannot be used; the message names the entry and what would be right."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kind, for checks and for the catalogue.

    `default` means nothing where `required` is true; `description` is empty where the class has none.
    """

    name: str
    type: str
    required: bool
    default: Any
    description: str


def kind_class(kind: str) -> type:
    """The class behind a kind.

    Raises:
        BotsFileError: for an unknown kind, with the nearest ones.
    """
    if kind not in KINDS:
        raise BotsFileError(f"there is no kind {kind!r}{_hint(kind, list(KINDS))}")
    module, _, name = KINDS[kind].partition(":")
    return getattr(importlib.import_module(module), name)


def kind_parameters(kind: str) -> tuple[Parameter, ...]:
    """The parameters a kind takes, in the order of its constructor."""
    cls = kind_class(kind)
    hints = _hints(cls)
    described = _described(cls)
    factories = (
        {f.name: f.default_factory for f in fields(cls) if f.default_factory is not _NO_VALUE}
        if is_dataclass(cls)
        else {}
    )
    found = []
    for argument in inspect.signature(cls).parameters.values():
        if argument.name in ("name", "title") or argument.kind is argument.VAR_KEYWORD:
            continue
        default = argument.default
        if argument.name in factories:
            default = factories[argument.name]()
        found.append(
            Parameter(
                name=argument.name,
                type=_type_name(hints.get(argument.name, Any)),
                required=default is argument.empty,
                default=None if default is argument.empty else default,
                description=described.get(argument.name, ""),
            )
        )
    return tuple(found)


def configured_load(path: Path | str) -> list[Bot]:
    """Make the bots of a file, not loaded. A file that is not there holds no bot.

    Raises:
        BotsFileError: at the first mistake.
    """
    found = configured_read(path)
    if found.broken:
        raise BotsFileError(str(found.broken[0]))
    return found.made


def configured_read(path: Path | str, taken: Collection[str] = ()) -> Entries[Bot]:
    """The bots of a file, not loaded, and its broken entries.

    Raises:
        BotsFileError: if no entry can be read.
    """
    try:
        return entries_read(path, _make, what="bot", taken=taken)
    except EntriesError as error:
        raise BotsFileError(str(error)) from error


_registered: set[str] = set()
_broken: list[BrokenEntry] = []


def configured_register(path: Path | str) -> list[str]:
    """Register the bots of a file in place of those registered by an earlier call; returns their ids.

    A broken entry is left out and told of by `configured_broken`.

    Raises:
        BotsFileError: if no entry can be read; the registry is unchanged.
    """
    found = _beside_built_in(path)
    for name in _registered:
        bots.discard(name)
    _registered.clear()
    return _add(found.made)


def configured_extend(path: Path | str) -> list[str]:
    """Register those bots of a file whose ids are new; the others stay as they are. Returns the new ids.

    Raises:
        BotsFileError: as `configured_register`.
    """
    return _add([bot for bot in _beside_built_in(path).made if bot.name not in _registered])


def configured_broken() -> list[BrokenEntry]:
    """The broken entries of the file that was registered last."""
    return list(_broken)


def _beside_built_in(path: Path | str) -> Entries[Bot]:
    found = configured_read(path, taken=set(bots.names()) - _registered)
    _broken[:] = found.broken
    return found


def _add(configured: list[Bot]) -> list[str]:
    for bot in configured:
        bots.add(bot)
        _registered.add(bot.name)
    return [bot.name for bot in configured]


def _make(entry: Any) -> Bot:
    if not isinstance(entry, dict):
        raise BotsFileError(f"it is a {kind_of(entry)}; it must be a mapping with id and kind")
    for key in entry:
        if key not in _KEYS:
            _refuse_secret(key)
            raise BotsFileError(f"there is no key {key!r}{_hint(str(key), _KEYS)}")
    identifier, kind = entry.get("id"), entry.get("kind")
    if not isinstance(identifier, str) or len(identifier) > 64 or not _SLUG.fullmatch(identifier):
        raise BotsFileError(
            f"id is {identifier!r}; it must be up to 64 lower-case letters, digits and hyphens, such as qwen-small"
        )
    if not isinstance(kind, str):
        raise BotsFileError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}")
    title = entry.get("name", identifier)
    if not isinstance(title, str) or not title.strip():
        raise BotsFileError(f"name is {title!r}; it must be a text for people")
    params = entry.get("params")
    params = {} if params is None else params
    if not isinstance(params, dict):
        raise BotsFileError(f"params is a {kind_of(params)}; it must be a mapping")
    cls = kind_class(kind)
    _check(kind, params, _hints(cls))
    try:
        return cls(name=identifier, title=title.strip(), **params)
    except (ValueError, TypeError) as error:
        raise BotsFileError(str(error)) from error


def _check(kind: str, params: dict[Any, Any], hints: dict[str, Any]) -> None:
    declared = {parameter.name: parameter for parameter in kind_parameters(kind)}
    for key, value in params.items():
        if key not in declared:
            _refuse_secret(key)
            raise BotsFileError(f"{kind} has no parameter {key!r}{_hint(str(key), list(declared))}")
        if not _fits(value, hints.get(key, Any)):
            raise BotsFileError(f"{key} is {value!r}; it must be {declared[key].type}")
    missing = [
        name for name, parameter in declared.items() if parameter.required and name not in params
    ]
    if missing:
        raise BotsFileError(f"{kind} needs the parameter {' and '.join(missing)}")


def _refuse_secret(key: Any) -> None:
    """Refuse a key that looks like a secret, without repeating its value."""
    if isinstance(key, str) and _SECRET.fullmatch(key.lower().replace("-", "_")):
        raise BotsFileError(
            f"{key!r}: no secret may stand in this file; put it into an environment variable "
            "and name that variable with api_key_env"
        )


def _hint(name: str, names: list[str]) -> str:
    near = nearest_names(name, names) or difflib.get_close_matches(name, names, cutoff=0.3)
    return f"; did you mean {' or '.join(near)}?" if near else f"; there are {', '.join(names)}"


def _hints(cls: type) -> dict[str, Any]:
    """Types of the constructor's arguments; a dataclass's other fields may name what is not imported."""
    return typing.get_type_hints(cls.__init__)  # type: ignore[misc]


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value read from YAML is of a type: whole numbers are floats too, booleans no numbers."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is Literal:
        return value in arguments
    if origin in (list, tuple, set, frozenset, typing.get_origin(typing.Sequence[int])):
        return isinstance(value, list) and all(_fits(item, arguments[0]) for item in value)
    if origin is dict or hint is dict:
        return isinstance(value, dict)
    if hint in (None, type(None)):
        return value is None
    if hint is float:
        return (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        )
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is Path:
        return isinstance(value, str)
    return isinstance(value, hint) if isinstance(hint, type) else True


_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a mapping",
}


def _type_name(hint: Any) -> str:
    """A type in words for people who write YAML."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_type_name(argument) for argument in arguments)
    if origin is Literal:
        return " or ".join(repr(argument) for argument in arguments)
    if origin is dict:
        return "a mapping"
    if origin is not None:
        return "a list"
    if hint in (None, type(None)):
        return "null"
    return _WORDS.get(hint, getattr(hint, "__name__", "anything"))


def _described(cls: type) -> dict[str, str]:
    """The descriptions under "Args:" in a class's docstring."""
    text = inspect.getdoc(cls) or ""
    _, _, arguments = text.partition("Args:\n")
    found: dict[str, str] = {}
    name = ""
    for line in arguments.splitlines():
        if match := re.match(r" {4}(?:\w+, )*(\w+): (.*)", line):
            name, found[match[1]] = match[1], match[2]
        elif name and re.match(r" {8}\S", line):
            found[name] += " " + line.strip()
        elif line.strip():
            break
    return found
