"""Configs: frozen dataclasses from the plain values of a YAML or JSON file, every key and value checked.

A field's type says what is allowed: bool, int, float, str, a Literal, a tuple of one of them, another such
dataclass, or any of these or None. The dataclass's own checks (`__post_init__`, a ValueError) come after.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from chatbots.names import nearest_names
from chatbots.outside import ValuesError, values_read

ConfigError = ValuesError


def config_values_read(cls: Any, values: Any, path: str = "") -> Any:
    """A `cls` from plain values; fields left out keep their defaults.

    Args:
        cls: a dataclass.
        values: by the names of its fields.
        path: what comes before a key's name in messages, such as "data.".

    Raises:
        ConfigError: an unknown key (with the nearest right one), a value of the wrong kind or out of
            range, or a missing key.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path.rstrip('.') or 'the config'} is {values!r}; keys are wanted")
    fields = {f.name: f for f in dataclasses.fields(cls)}
    for key in values:
        if key not in fields:
            near = [name for name in fields if name.lower() == str(key).lower()]
            near = near or nearest_names(str(key), list(fields), limit=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(f"{path}{key} is no key here; {hint}Allowed: {', '.join(fields)}")
    for f in fields.values():
        needed = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if needed and f.name not in values:
            raise ConfigError(f"{path}{f.name} is missing")
    kinds = typing.get_type_hints(cls)
    read = {key: _value(kinds[key], value, f"{path}{key}") for key, value in values.items()}
    try:
        return cls(**read)
    except ValueError as error:
        raise ConfigError(f"{path}{error}") from None


_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def _value(kind: Any, value: Any, path: str) -> Any:
    """One value, checked against its field's type."""
    if isinstance(kind, types.UnionType):
        if value is None:
            return None
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return values_read(kind, value, path=path)
    if dataclasses.is_dataclass(kind):
        return config_values_read(kind, value, f"{path}.")
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        allowed = typing.get_args(kind)
        if value not in allowed:
            raise ConfigError(
                f"{path} is {value!r}; it must be one of {', '.join(str(a) for a in allowed)}"
            )
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{path} is {value!r}; a list is wanted")
        inner = typing.get_args(kind)[0]
        return tuple(_value(inner, each, f"{path}[{i}]") for i, each in enumerate(value))
    if origin is not None and isinstance(value, origin):
        return value  # a mapping that somebody else checks
    if kind is float and isinstance(value, str):
        value = _number(value)
    if kind in (int, float) and isinstance(value, int | float) and not isinstance(value, bool):
        if kind is float and math.isfinite(value):
            return float(value)
        if kind is int and isinstance(value, int):
            return value
    elif kind in (bool, str) and isinstance(value, kind):
        return value
    raise ConfigError(f"{path} is {value!r}; {_WORDS.get(kind, 'keys')} {_verb(kind)} wanted")


def at_least(config: Any, **limits: float) -> None:
    """Check fields of a config in its `__post_init__`.

    Raises:
        ConfigError: one is below its limit.
    """
    for name, limit in limits.items():
        if getattr(config, name) < limit:
            raise ConfigError(f"{name} is {getattr(config, name)}; it must be {limit} or more")


def _verb(kind: Any) -> str:
    return "is" if kind in _WORDS else "are"


def _number(text: str) -> Any:
    """YAML takes 1e-4 for a text, because it has no point; a person means the number."""
    try:
        return float(text)
    except ValueError:
        return text
