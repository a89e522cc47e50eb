"""Reading a YAML file that is a list of entries, each of which makes one thing or says what is wrong with it.

One broken entry must not take the others away: it is left out, and told of wherever they are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class EntriesError(ValueError):
    """A file of which no entry can be read."""


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
    """What a file's entries made, in their order, and those that are broken."""

    made: list[T]
    broken: list[BrokenEntry]


def entries_read(
    path: Path | str, make: Callable[[Any], T], *, what: str, taken: Collection[str] = ()
) -> Entries[T]:
    """Make each entry of a file. A file that is not there has none.

    Args:
        make: makes one thing, with a `name`, of an entry; raises `ValueError` with what is wrong.
        what: the word for one thing in messages ("bot").
        taken: names that are built in.

    Raises:
        EntriesError: if the file cannot be read, or is no list.
    """
    import yaml

    path = Path(path)
    if not path.exists():
        return Entries([], [])
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise EntriesError(f"{path} cannot be read: {error}") from error
    if entries is None:
        return Entries([], [])
    if not isinstance(entries, list):
        raise EntriesError(
            f"{path} must hold a list of {what}s, each beginning with a hyphen; "
            f"it holds a {kind_of(entries)}"
        )
    found: Entries[T] = Entries([], [])
    names: set[str] = set()
    for number, entry in enumerate(entries, start=1):
        try:
            thing = make(entry)
            name: str = thing.name  # type: ignore[attr-defined]
            if name in taken:
                raise ValueError(f"{name!r} is a built-in {what}; choose another id")
            if name in names:
                raise ValueError(f"a second {what} with the id {name!r}; ids must be unique")
        except Exception as error:  # whatever it is, the other entries have no part in it
            said = (
                str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            )
            found.broken.append(
                BrokenEntry(str(path), number, _text(entry, "id"), _text(entry, "kind"), said)
            )
            continue
        names.add(name)
        found.made.append(thing)
    return found


def _text(entry: Any, key: str) -> str:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value[:64] if isinstance(value, str) else ""


def kind_of(value: Any) -> str:
    """What a value read from YAML is, in a word."""
    names = {
        str: "text",
        int: "number",
        float: "number",
        list: "list",
        dict: "mapping",
        bool: "truth value",
    }
    return names.get(type(value), type(value).__name__)
