"""Registry of bots and metrics declared in YAML files (`bots.yaml`, `metrics.yaml`).

    - id: qwen-small
      kind: transformers
      name: Qwen, small
      params: {model: path/or/hub-id, temperature: 0.7, window: 10}

Each entry makes one bot or metric, or reports what is wrong with it. A kind is a class that takes options; its file
declares them as a model and registers it (`YamlEntryKind`). One broken entry must not take the others away: it is
left out, and reported with all its mistakes wherever they are listed.

A kind of bot is a class on `ConfiguredBot` in a file of `chatbots/bots` or of a plug-in, which names the model of
its options and registers itself. No secret may stand in the file.

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
    """A file that cannot be used; the message names it, the entry and what would be right."""


@dataclass(frozen=True, slots=True)
class YamlEntryKind(Generic[T]):
    """Kind of entry: its class and the model of its options.

    Attributes:
        name: what stands under `kind` in a file.
        make: the class: takes `name` and `title`, and the options by their names.
        options: the model of what may stand under `params`.
    """

    name: str
    make: Callable[..., T]
    options: type[InputModel]


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """An entry that makes nothing. `id` and `kind` are empty where it names none."""

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
    """Objects made from a file's entries, in their order, and the broken entries."""

    objects: list[T]
    broken: list[BrokenEntry]


class YamlRegistry(Generic[T]):
    """The things of one sort that a file configures, and those of them that are registered.

    Args:
        registry: where they are registered.
        kinds: what an entry may be.
        id_type: what an entry's `id` must be.
        is_id_needed: whether an entry must have one, which then is its title, too, where it has no `name`; otherwise it
            goes by the name of its kind.
        may_replace: whether an entry may take the place of the registered thing that is named as a kind.
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
        """Make what a file's entries say, nothing loaded. A file that is not there has none.

        Args:
            reserved_ids: ids that are built in.
            usual: options that an entry has where it names no other, if its kind knows them.

        Raises:
            EntriesError: if the file cannot be read, or is no list.
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
            except Exception as error:  # whatever it is, the other entries have no part in it
                is_told = isinstance(error, ValueError)
                message = str(error) if is_told else f"{type(error).__name__}: {error}"
                entries.broken.append(BrokenEntry(str(path), number, _text(raw, "id"), _text(raw, "kind"), message))
                continue
            names.add(name)
            entries.objects.append(new_object)
        return entries

    def load(self, path: Path | str, **options: Any) -> list[T]:
        """Make what a file's entries say, as `read`.

        Raises:
            EntriesError: also where an entry is broken.
        """
        entries = self.read(path, **options)
        if entries.broken:
            raise EntriesError(str(entries.broken[0]))
        return entries.objects

    def register(self, path: Path | str, *, usual: Mapping[str, Any] | None = None) -> list[str]:
        """Register what a file's entries make, in place of what an earlier call registered. Returns their ids.

        A broken entry is left out, and stands in `broken`.

        Raises:
            EntriesError: if the file cannot be read; the registry is unchanged.
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
        """Register those whose ids are new; the others stay as they are. Returns the new ids.

        Raises:
            EntriesError: as `register`.
        """
        objects = self._read_beside_built_in(path, None).objects
        return self._add([each for each in objects if _name(each) not in self._registered])

    def follow(self, path: Path, *, usual: Mapping[str, Any] | None = None) -> bool:
        """Register a file's entries once, and later those that were added to it. Returns True if the file was read.

        A changed entry stays as it was until the process restarts: conversations may use its bot.

        Raises:
            EntriesError: as `register`.
            FileNotFoundError: there is no such file.
        """
        with self._reading:
            if self._is_reading:  # `register` looks into the registry, which may follow this file
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
        """Make the thing of one entry, which is not registered.

        Raises:
            ValuesError: with all mistakes of the entry.
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
        """Make the thing of one entry.

        Raises:
            ValuesError: with all mistakes of the entry.
        """
        kind_name = raw.get("kind") if isinstance(raw, Mapping) else None
        kind = self.kinds.get(kind_name) if kind_name in self.kinds.names() else None
        entry: Any = values_read(self._model(kind), raw)
        assert kind is not None, "an entry of no kind is refused"
        options = {key: value for key, value in usual.items() if key in kind.options.model_fields}
        options |= {key: getattr(entry.params, key) for key in entry.params.model_fields_set}
        title = entry.name or (entry.id if self.is_id_needed else "")
        return kind.make(name=entry.id or kind.name, title=title, **options)

    def _model(self, kind: YamlEntryKind[T] | None) -> type[InputModel]:
        """Return the model of an entry of a kind; of one without, the rest of it is checked."""
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


Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), TypeDescription("a text for people")]
"""A name for people."""


def _nothing_is_empty(value: Any) -> Any:
    return {} if value is None else value


def _entries(path: Path, noun: str) -> list[Any]:
    """Return the entries of a file, none of a file that is not there."""
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
            f"{path} must hold a list of {noun}s, each beginning with a hyphen; "
            f"it holds a {'mapping' if isinstance(entries, dict) else type(entries).__name__}"
        )
    return entries


def _name(registered: Any) -> str:
    return str(registered.name)


def _text(entry: Any, key: str) -> str:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value[:64] if isinstance(value, str) else ""


C = TypeVar("C", bound="type[ConfiguredBot]")

bot_kinds: Registry[YamlEntryKind[Bot]] = Registry("kind of bot", "chatbots.bots")
"""The kinds that `bots.yaml` may name. Their files import nothing heavy."""

BotId = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]+(?:[-_][a-z0-9]+)*$", max_length=64),
    TypeDescription("up to 64 lower-case letters, digits and hyphens, such as qwen-small"),
]

configured_bots: YamlRegistry[Bot] = YamlRegistry(bots, bot_kinds, id_type=BotId, is_id_needed=True, may_replace=False)
"""The bots of `bots.yaml`."""


def load_bots(path: Path | str) -> list[str]:
    """Register the bots that a file such as `bots.yaml` declares, and return their ids.

    They take the place of those that an earlier call registered. Warns of each broken entry, which is left out.

    Raises:
        EntriesError: if the file cannot be read.
    """
    names = configured_bots.register(path)
    for broken in configured_bots.broken:
        warnings.warn(str(broken), stacklevel=2)
    return names


class ConfiguredBot(BotDefaults):
    """Base of the bots that take options.

    Args:
        name: the bot's id.
        title: its name for people; the id if empty.
        options: by the names of the fields of `options_type`.

    Raises:
        ValuesError: with everything that is wrong with the options.
    """

    options_type: ClassVar[type[InputModel]]
    options: Any

    def __init__(self, *, name: str, title: str = "", **options: Any) -> None:
        self.options = values_read(self.options_type, options)
        self.name = name
        self.title = title or name


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kind, for the catalogue. `default` means nothing where `required` is true."""

    name: str
    type: str
    required: bool
    default: Any
    description: str


def register_bot_kind(name: str) -> Callable[[C], C]:
    """Decorate a class whose bots are described by entries of `bots.yaml` that say `kind: name`."""

    def register(cls: C) -> C:
        bot_kinds.add(YamlEntryKind(name, cls, cls.options_type))
        return cls

    return register


def kind_parameters(kind: str) -> tuple[Parameter, ...]:
    """Return the parameters that a kind takes, in the order of its model.

    Raises:
        UnknownName: with the nearest names.
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
