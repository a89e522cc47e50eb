"""Registry of bots and metrics declared in YAML files (`bots.yaml`, `metrics.yaml`).

    - id: qwen-small
      kind: transformers
      name: Qwen, small
      params: {model: path/or/hub-id, temperature: 0.7, window: 10}

Each entry declares one bot or metric. A kind is a class with options, declared as a pydantic model (`YamlEntryKind`).
An invalid entry does not affect the others: it is skipped, and all its mistakes are reported wherever entries are
listed.

A kind of bot is a subclass of `ConfiguredBot` in a file of `chatbots/bots` or a plug-in. It names the model of its
options and registers itself. The YAML file must not contain secrets.

    class ShoutOptions(InputModel):
        volume: int = Field(1, ge=1, description="how many exclamation marks")

    @register_bot_kind("shout")
    class Shout(ConfiguredBot):
        options_type = ShoutOptions
        options: ShoutOptions
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BeforeValidator, Field, StringConstraints, create_model

from chatbots.bots.base import Bot, BotDefaults
from chatbots.registry import Registry, bots
from chatbots.text import quote
from chatbots.type_descriptions import TypeDescription, describe_type
from chatbots.validation import InputModel, ValuesError, values_read, yaml_read

T = TypeVar("T")


class EntriesError(ValueError):
    """Error in a YAML file, naming file, entry and fix."""


@dataclass(frozen=True, slots=True)
class YamlEntryKind(Generic[T]):
    """Kind of entry: its class and the model of its options.

    Attributes:
        name: value of `kind` in a file.
        make: the class; takes `name`, `title` and the options as keywords.
        options: model of `params`.
    """

    name: str
    make: Callable[..., T]
    options: type[InputModel]


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """Invalid entry. `id` and `kind` are empty if it has none."""

    file: str
    number: int
    id: str
    kind: str
    reason: str

    def __str__(self) -> str:
        which = f" ({self.id})" if self.id else ""
        return f"{self.file}, entry {self.number}{which}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Entries(Generic[T]):
    """Objects declared by a file, in file order, and its invalid entries."""

    objects: list[T]
    broken: list[BrokenEntry]


class YamlRegistry(Generic[T]):
    """Registry of the entries of a YAML file.

    Args:
        registry: registry of the objects.
        kinds: allowed kinds of entries.
        id_type: type of an entry's `id`.
        is_id_needed: True if `id` is required. It then is also the default title. Otherwise an entry without `id` is
            named after its kind.
        may_replace: True if an entry may replace the built-in object that has the name of its kind.
    """

    def __init__(
        self,
        registry: Registry[T],
        kinds: Registry[YamlEntryKind[T]],
        *,
        id_type: Any,
        is_id_needed: bool,
        may_replace: bool,
    ) -> None:
        self.registry = registry
        self.kinds = kinds
        self.id_type = id_type
        self.is_id_needed = is_id_needed
        self.may_replace = may_replace
        self.broken: list[BrokenEntry] = []
        self.file: Path | None = None
        self._stamp: int | None = None
        self._reading = threading.RLock()
        self._is_reading = False
        self._registered: set[str] = set()

    def read(
        self, path: Path | str, *, reserved_ids: Collection[str] = (), usual: Mapping[str, Any] | None = None
    ) -> Entries[T]:
        """Create the objects that a file declares, without loading them.

        A missing file declares none.

        Args:
            reserved_ids: ids of built-in objects.
            usual: default options, for kinds that have such options.

        Raises:
            EntriesError: the file cannot be read or is not a list.
        """
        entries: Entries[T] = Entries([], [])
        names: set[str] = set()
        for number, raw in enumerate(_entries(Path(path), self.registry.noun), start=1):
            try:
                new_object = self._make(raw, usual or {})
                name: str = new_object.name  # type: ignore[attr-defined]
                if name in reserved_ids:
                    raise ValueError(f"{quote(name)} is a built-in {self.registry.noun}; choose another id")
                if name in names:
                    raise ValueError(f"a second {self.registry.noun} with the id {quote(name)}; ids must be unique")
            except Exception as error:  # of any type: other entries must not be affected
                is_told = isinstance(error, ValueError)
                message = str(error) if is_told else f"{type(error).__name__}: {error}"
                entries.broken.append(BrokenEntry(str(path), number, _text(raw, "id"), _text(raw, "kind"), message))
                continue
            names.add(name)
            entries.objects.append(new_object)
        return entries

    def load(self, path: Path | str, **options: Any) -> list[T]:
        """Create the objects that a file declares, as `read` does.

        Raises:
            EntriesError: the file or one of its entries is invalid.
        """
        entries = self.read(path, **options)
        if entries.broken:
            raise EntriesError(str(entries.broken[0]))
        return entries.objects

    def register(self, path: Path | str, *, usual: Mapping[str, Any] | None = None) -> list[str]:
        """Register a file's objects, replacing those of an earlier call; returns their ids.

        Invalid entries are skipped and listed in `broken`.

        Raises:
            EntriesError: the file cannot be read; the registry stays unchanged.
        """
        entries = self._read_beside_built_in(path, usual)
        self.file = Path(path)
        for name in self._registered:
            self.registry.discard(name)
            if self.may_replace and name in self.kinds:
                self.registry.add(self.kinds.get(name).make())
        self._registered.clear()
        return self._add(entries.objects)

    def extend(self, path: Path | str) -> list[str]:
        """Register the objects with new ids only, and return these ids.

        Raises:
            EntriesError: as `register`.
        """
        objects = self._read_beside_built_in(path, None).objects
        return self._add([each for each in objects if _name(each) not in self._registered])

    def follow(self, path: Path, *, usual: Mapping[str, Any] | None = None) -> bool:
        """Register a file's entries, or on later calls its new entries.

        Returns True if the file was read. A changed entry takes effect when the process restarts, because conversations
        may use its bot.

        Raises:
            EntriesError: as `register`.
            FileNotFoundError: there is no such file.
        """
        with self._reading:
            if self._is_reading:  # `register` reads the registry, which may follow this file
                return False
            self._is_reading = True
            try:
                return self._follow(path, usual)
            finally:
                self._is_reading = False

    def _follow(self, path: Path, usual: Mapping[str, Any] | None) -> bool:
        stamp = path.stat().st_mtime_ns
        if self.file == path and self._stamp in (None, stamp):
            self._stamp = stamp
            return False
        is_first, self._stamp = self.file != path, stamp
        if is_first:
            self.register(path, usual=usual)
        else:
            self.extend(path)
        return True

    def make(self, entry: Mapping[str, Any]) -> T:
        """Create the object of one entry without registering it.

        Raises:
            ValuesError: the entry is invalid; lists all mistakes.
        """
        return self._make(entry, {})

    def _read_beside_built_in(self, path: Path | str, usual: Mapping[str, Any] | None) -> Entries[T]:
        reserved_ids = set(self.registry.names()) - self._registered
        if self.may_replace:
            reserved_ids -= set(self.kinds.names())
        entries = self.read(path, reserved_ids=reserved_ids, usual=usual)
        self.broken = entries.broken
        return entries

    def _add(self, objects: list[T]) -> list[str]:
        for each in objects:
            if self.may_replace:
                self.registry.discard(_name(each))
            self.registry.add(each)
            self._registered.add(_name(each))
        return [_name(each) for each in objects]

    def _make(self, raw: Any, usual: Mapping[str, Any]) -> T:
        """Create the object of one entry.

        Raises:
            ValuesError: the entry is invalid; lists all mistakes.
        """
        kind_name = raw.get("kind") if isinstance(raw, Mapping) else None
        kind = self.kinds.get(kind_name) if kind_name in self.kinds.names() else None
        entry: Any = values_read(self._model(kind), raw)
        assert kind is not None, "an entry without a kind was rejected"
        options = {key: value for key, value in usual.items() if key in kind.options.model_fields}
        options |= {key: getattr(entry.params, key) for key in entry.params.model_fields_set}
        title = entry.name or (entry.id if self.is_id_needed else "")
        return kind.make(name=entry.id or kind.name, title=title, **options)

    def _model(self, kind: YamlEntryKind[T] | None) -> type[InputModel]:
        """Return the model of an entry of this kind.

        Without a kind, `params` are not checked.
        """
        options: Any = kind.options if kind else dict[str, Any]
        return create_model(
            "Entry",
            __base__=InputModel,
            id=(self.id_type, ...) if self.is_id_needed else (self.id_type | None, None),
            kind=(Literal[tuple(self.kinds.names())], ...),  # type: ignore[arg-type]
            name=(Title | None, None),
            params=(
                Annotated[options, BeforeValidator(_nothing_is_empty)],
                Field(default_factory=dict, validate_default=True),
            ),
        )


Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), TypeDescription("a display name")]
"""Display name."""


def _nothing_is_empty(value: Any) -> Any:
    return {} if value is None else value


def _entries(path: Path, noun: str) -> list[Any]:
    """Return the entries of a file; none if it is missing."""
    if not path.exists():
        return []
    try:
        entries = yaml_read(path)
    except ValuesError as error:
        raise EntriesError(str(error)) from error
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise EntriesError(
            f"{path} must contain a list of {noun}s, each beginning with a hyphen; "
            f"it contains a {'mapping' if isinstance(entries, dict) else type(entries).__name__}"
        )
    return entries


def _name(registered: Any) -> str:
    return str(registered.name)


def _text(entry: Any, key: str) -> str:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value[:64] if isinstance(value, str) else ""


C = TypeVar("C", bound="type[ConfiguredBot]")

bot_kinds: Registry[YamlEntryKind[Bot]] = Registry("kind of bot", "chatbots.bots")
"""Kinds allowed in `bots.yaml`. Their files import no heavy libraries."""

BotId = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]+(?:[-_][a-z0-9]+)*$", max_length=64),
    TypeDescription("up to 64 lower-case letters, digits and hyphens, such as qwen-small"),
]

configured_bots: YamlRegistry[Bot] = YamlRegistry(bots, bot_kinds, id_type=BotId, is_id_needed=True, may_replace=False)
"""Bots declared in `bots.yaml`."""


def load_bots(path: Path | str) -> list[str]:
    """Register the bots that a file such as `bots.yaml` declares; returns their ids.

    They replace the bots of an earlier call. Warns about each invalid entry, which is skipped.

    Raises:
        EntriesError: the file cannot be read.
    """
    names = configured_bots.register(path)
    for broken in configured_bots.broken:
        warnings.warn(str(broken), stacklevel=2)
    return names


class ConfiguredBot(BotDefaults):
    """Base class of bots with options.

    Args:
        name: the bot's id.
        title: display name; the id if empty.
        options: fields of `options_type`.

    Raises:
        ValuesError: the options are invalid; lists all mistakes.
    """

    options_type: ClassVar[type[InputModel]]
    options: Any

    def __init__(self, *, name: str, title: str = "", **options: Any) -> None:
        self.options = values_read(self.options_type, options)
        self.name = name
        self.title = title or name


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a kind, for the catalogue. `default` is meaningless if `required`."""

    name: str
    type: str
    required: bool
    default: Any
    description: str


def register_bot_kind(name: str) -> Callable[[C], C]:
    """Register a class for the entries of `bots.yaml` with `kind: name`."""

    def register(cls: C) -> C:
        bot_kinds.add(YamlEntryKind(name, cls, cls.options_type))
        return cls

    return register


def kind_parameters(kind: str) -> tuple[Parameter, ...]:
    """Return the parameters of a kind in the order of its model.

    Raises:
        UnknownName: there is no such kind; the message suggests the nearest names.
    """
    return tuple(
        Parameter(
            name=name,
            type=describe_type(Annotated[field.rebuild_annotation(), None]),
            required=field.is_required(),
            default=field.get_default(call_default_factory=True),
            description=field.description or "",
        )
        for name, field in bot_kinds.get(kind).options.model_fields.items()
    )
