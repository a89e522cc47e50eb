"""YAML and JSON from users, parsed as plain values.

Only texts, numbers, lists and mappings are allowed, and nothing that executes or expands. The rules are those of YAML
1.2: `yes`, `no`, `on` and `off` are texts, and so are dates and `12:30`. Repeated keys are rejected, since one of the
two values would be lost. Anchors and aliases are rejected, because a few lines could expand to gigabytes.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode

from chatbots.text import are_sanitised, error_text, quote

MOST_BYTES = 1_000_000
_MOST_DIGITS = 1000
_OTHER_LINE_ENDS = set("\r\x85\u2028\u2029")


class NotPlain(ValueError):
    """Error in a text that cannot be parsed; the message says where and why."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent) or getattr(self.peek_event(), "anchor", None):
            mark = self.peek_event().start_mark
            raise ComposerError(None, None, "anchors (&) and aliases (*) are not supported; write the value out", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _value in node.value:
            key = self.construct_object(key_node, deep=True)  # type: ignore[no-untyped-call]
            try:
                is_twice = key in seen
            except TypeError:
                raise ConstructorError(None, None, "a key must be a text or a number", key_node.start_mark) from None
            if is_twice:
                raise ConstructorError(None, None, f"the key {quote(key)} occurs twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Dumper whose output `_Loader` reads unchanged.

    Texts of several lines are written as blocks.
    """

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    style = "|" if "\n" in text else None
    if set(text) & _OTHER_LINE_ENDS:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    for _side in (_Loader, _Dumper):  # the dumper quotes every text that the loader would not read as text
        _side.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))


def _parse_integer(text: str, base: int = 10) -> int:
    if len(text) > _MOST_DIGITS:
        raise NotPlain(f"a number has {len(text)} digits; the maximum is {_MOST_DIGITS}")
    return int(text, base)


def _int(loader: _Loader, node: Any) -> int:
    text = loader.construct_scalar(node)
    try:
        return _parse_integer(text, 16 if text.startswith("0x") else 10)  # 007 is seven, as in YAML 1.2
    except NotPlain as error:
        raise ConstructorError(None, None, str(error), node.start_mark) from None


_Loader.add_constructor("tag:yaml.org,2002:int", _int)


def plain_read(text: str | bytes) -> Any:
    """Return the content of YAML or JSON; None for an empty text.

    Raises:
        NotPlain: it is invalid, too long, or not plain.
    """
    try:
        content = text if isinstance(text, str) else text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotPlain(f"it is not UTF-8 text: byte {error.start + 1} is invalid") from None
    if len(content) > MOST_BYTES:
        raise NotPlain(f"it has {len(content)} characters; the maximum is {MOST_BYTES}")
    try:
        if content.lstrip().startswith(("{", "[")):
            with suppress(json.JSONDecodeError):  # invalid JSON may still be valid YAML
                return _storable(json.loads(content, object_pairs_hook=_pairs, parse_int=_parse_integer))
        # A more restrictive SafeLoader.
        return _storable(yaml.load(content, Loader=_Loader))  # noqa: S506
    except NotPlain:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        location = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise NotPlain(f"it is not plain YAML: {error.problem or error.context}{location}") from None
    except yaml.YAMLError as error:
        raise NotPlain(f"it is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise NotPlain("it is nested too deeply") from None
    except ValueError as error:
        raise NotPlain(error_text(error)) from None


def _storable(values: Any) -> Any:
    if not are_sanitised(values):
        raise NotPlain("a text contains the character U+0000 or half a surrogate pair")
    return values


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise NotPlain(f"the key {quote(key)} occurs twice")
        mapping[key] = value
    return mapping


def plain_text(values: Any) -> str:
    """Return plain values as YAML that `plain_read` reads back the same."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100, indent=2)
