"""Files that are lists of entries: `bots.yaml` and `metrics.yaml`. Each entry makes one object or names its errors.

    - id: qwen-small
      kind: transformers
      name: Qwen, small
      params: {model: path/or/hub-id, temperature: 0.7, window: 10}

A kind is a class that takes options; its file declares them as a model and registers it (`Kind`). One broken
entry must not take the others away: it is left out, and told of wherever they are listed, with all its mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BeforeValidator, Field, StringConstraints, create_model

from chatbots.outside import Values, ValuesError, values_read, yaml_read
from chatbots.outside_types import Wanted
from chatbots.registry import Registry
from chatbots.storable import quote

T = TypeVar("T")


class EntriesError(ValueError):
    """A file that cannot be used; the message names it, the entry and what would be right."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """Kind of entry: its class and the model of its options.

    Attributes:
        name: what stands under `kind` in a file.
        make: the class: takes `name` and `title`, and the options by their names.
        options: the model of what may stand under `params`.
    """

    name: str
    make: Callable[..., T]
    options: type[Values]


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

    made: list[T]
    broken: list[BrokenEntry]


class Configured(Generic[T]):
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
        kinds: Registry[Kind[T]],
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
        self._registered: set[str] = set()

    def read(
        self,
        path: Path | str,
        *,
        taken: Collection[str] = (),
        usual: Mapping[str, Any] | None = None,
    ) -> Entries[T]:
        """Make what a file's entries say, nothing loaded. A file that is not there has none.

        Args:
            taken: ids that are built in.
            usual: options that an entry has where it names no other, if its kind knows them.

        Raises:
            EntriesError: if the file cannot be read, or is no list.
        """
        found: Entries[T] = Entries([], [])
        names: set[str] = set()
        for number, raw in enumerate(_entries(Path(path), self.registry.what), start=1):
            try:
                made = self._make(raw, usual or {})
                name: str = made.name  # type: ignore[attr-defined]
                if name in taken:
                    raise ValueError(
                        f"{quote(name)} is a built-in {self.registry.what}; choose another id"
                    )
                if name in names:
                    raise ValueError(
                        f"a second {self.registry.what} with the id {quote(name)}; ids must be unique"
                    )
            except Exception as error:  # whatever it is, the other entries have no part in it
                is_told = isinstance(error, ValueError)
                said = str(error) if is_told else f"{type(error).__name__}: {error}"
                found.broken.append(
                    BrokenEntry(str(path), number, _text(raw, "id"), _text(raw, "kind"), said)
                )
                continue
            names.add(name)
            found.made.append(made)
        return found

    def load(self, path: Path | str, **options: Any) -> list[T]:
        """Make what a file's entries say, as `read`.

        Raises:
            EntriesError: also where an entry is broken.
        """
        found = self.read(path, **options)
        if found.broken:
            raise EntriesError(str(found.broken[0]))
        return found.made

    def register(self, path: Path | str, *, usual: Mapping[str, Any] | None = None) -> list[str]:
        """Register what a file's entries make, in place of what an earlier call registered. Returns their ids.

        A broken entry is left out, and stands in `broken`.

        Raises:
            EntriesError: if the file cannot be read; the registry is unchanged.
        """
        found = self._read_beside_built_in(path, usual)
        for name in self._registered:
            self.registry.discard(name)
            if self.may_replace and name in self.kinds:
                self.registry.add(self.kinds.get(name).make())
        self._registered.clear()
        return self._add(found.made)

    def extend(self, path: Path | str) -> list[str]:
        """Register those whose ids are new; the others stay as they are. Returns the new ids.

        Raises:
            EntriesError: as `register`.
        """
        made = self._read_beside_built_in(path, None).made
        return self._add([each for each in made if _name(each) not in self._registered])

    def _read_beside_built_in(
        self, path: Path | str, usual: Mapping[str, Any] | None
    ) -> Entries[T]:
        taken = set(self.registry.names()) - self._registered
        if self.may_replace:
            taken -= set(self.kinds.names())
        found = self.read(path, taken=taken, usual=usual)
        self.broken = found.broken
        return found

    def _add(self, made: list[T]) -> list[str]:
        for each in made:
            if self.may_replace:
                self.registry.discard(_name(each))
            self.registry.add(each)
            self._registered.add(_name(each))
        return [_name(each) for each in made]

    def _make(self, raw: Any, usual: Mapping[str, Any]) -> T:
        """Make the thing of one entry.

        Raises:
            ValuesError: with all mistakes of the entry.
        """
        named = raw.get("kind") if isinstance(raw, Mapping) else None
        kind = self.kinds.get(named) if named in self.kinds.names() else None
        entry: Any = values_read(self._model(kind), raw)
        assert kind is not None, "an entry of no kind is refused"
        options = {key: value for key, value in usual.items() if key in kind.options.model_fields}
        options |= {key: getattr(entry.params, key) for key in entry.params.model_fields_set}
        title = entry.name or (entry.id if self.is_id_needed else "")
        return kind.make(name=entry.id or kind.name, title=title, **options)

    def _model(self, kind: Kind[T] | None) -> type[Values]:
        """Return the model of an entry of a kind; of one without, the rest of it is checked."""
        options: Any = kind.options if kind else dict[str, Any]
        return create_model(
            "Entry",
            __base__=Values,
            id=(self.id_type, ...) if self.is_id_needed else (self.id_type | None, None),
            kind=(Literal[tuple(self.kinds.names())], ...),  # type: ignore[arg-type]
            name=(Title | None, None),
            params=(
                Annotated[options, BeforeValidator(_nothing_is_empty)],
                Field(default_factory=dict, validate_default=True),
            ),
        )


Title = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), Wanted("a text for people")
]
"""A name for people."""


def _nothing_is_empty(value: Any) -> Any:
    return {} if value is None else value


def _entries(path: Path, what: str) -> list[Any]:
    """Return the entries of a file, none of a file that is not there."""
    if not path.exists():
        return []
    try:
        found = yaml_read(path)
    except ValuesError as error:
        raise EntriesError(str(error)) from error
    if found is None:
        return []
    if not isinstance(found, list):
        raise EntriesError(
            f"{path} must hold a list of {what}s, each beginning with a hyphen; "
            f"it holds a {'mapping' if isinstance(found, dict) else type(found).__name__}"
        )
    return found


def _name(made: Any) -> str:
    return str(made.name)


def _text(entry: Any, key: str) -> str:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value[:64] if isinstance(value, str) else ""
