"""Registries with discovery of one decorated class per file in a folder.

`Registry` serves bots here, metrics in `evaluation` and protocols, rules and exporters in `webapp`.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from chatbots.bots.base import Bot
from chatbots.text import nearest_names, quote

T = TypeVar("T")
C = TypeVar("C", bound=type)


class UnknownName(KeyError):
    """Error for an unregistered name; suggests the nearest ones."""

    def __str__(self) -> str:
        return str(self.args[0])


class Registry(Generic[T]):
    """Named objects, discovered by importing every module of a package folder once.

    Args:
        noun: the word for one entry in error messages ("bot", "metric").
        package: dotted name of the package to search.
    """

    def __init__(self, noun: str, package: str) -> None:
        self.noun = noun
        self.packages = [package]
        self._entries: dict[str, T] = {}
        self._searched = False
        self._refresh: Callable[[str], object] | None = None
        self._refreshing = threading.local()

    def look_into(self, package: str) -> None:
        """Search another package too, such as that of a Django app."""
        if package not in self.packages:
            self.packages.append(package)
            self._searched = False

    def register(self, make: Callable[[], T]) -> None:
        """Create an entry and add it under its `name`."""
        self.add(make())

    def add(self, entry: T) -> T:
        """Add an existing entry, such as a configured bot. Names must be unique."""
        name: str = entry.name  # type: ignore[attr-defined]
        if not name:
            raise ValueError(f"a {self.noun} without a name: {quote(entry)}")
        if name in self._entries:
            raise ValueError(f"two {self.noun}s are called {quote(name)}; names must be unique")
        self._entries[name] = entry
        return entry

    def put(self, entry: T) -> T:
        """Add an existing entry, replacing any with the same name."""
        self._entries[entry.name] = entry  # type: ignore[attr-defined]
        return entry

    def refresh_by(self, refresh: Callable[[str], object]) -> None:
        """Call a function before every lookup, so that it can add new entries.

        Args:
            refresh: takes the name to be looked up, empty for all; may use the registry.
        """
        self._refresh = refresh

    @property
    def is_refreshed(self) -> bool:
        """True if a function adds new entries before every lookup."""
        return self._refresh is not None

    def discard(self, name: str) -> None:
        """Remove an entry if it exists, for reloaded configuration and tests."""
        self._entries.pop(name, None)

    def search(self, name: str = "") -> None:
        """Import every module of the packages once, then add new entries.

        Args:
            name: the entry to be looked up; empty for all.
        """
        if not self._searched:
            for package_name in self.packages:
                package = importlib.import_module(package_name)
                for module in pkgutil.iter_modules(package.__path__):
                    importlib.import_module(f"{package_name}.{module.name}")
            self._searched = True  # only now, so that a file that fails to import is reported every time
        if self._refresh is None or getattr(self._refreshing, "is_busy", False):  # called from the function itself
            return
        self._refreshing.is_busy = True
        try:
            self._refresh(name)
        finally:
            self._refreshing.is_busy = False

    def names(self) -> list[str]:
        """Return all names, sorted."""
        self.search()
        return sorted(self._entries)

    def __iter__(self) -> Iterator[T]:
        return iter([self._entries[name] for name in self.names()])

    def __contains__(self, name: object) -> bool:
        self.search(str(name))
        return name in self._entries

    def get(self, name: str) -> T:
        """Return the entry called `name`.

        Raises:
            UnknownName: there is none; the message suggests the nearest names.
        """
        self.search(name)
        try:
            return self._entries[name]
        except KeyError:
            near = nearest_names(name, list(self._entries))
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise UnknownName(f"there is no {self.noun} called {quote(name)}{hint}") from None


def title_of(registry: Registry[Any], name: str) -> str:
    """Return the title of the entry called `name`, or the name if unregistered."""
    return next((entry.title for entry in registry if entry.name == name), name)


bots: Registry[Bot] = Registry("bot", "chatbots.bots")


def register_bot(cls: C) -> C:
    """Register a bot: decorator of a class whose constructor needs no arguments."""
    bots.register(cls)
    return cls


def bot_list() -> list[Bot]:
    """Return all registered bots by name, without loading any."""
    return list(bots)


def bot_get(name: str) -> Bot:
    """Return the bot called `name` without loading it.

    Raises:
        UnknownName: there is none; the message suggests the nearest names.
    """
    return bots.get(name)


def bot_load(name: str, device: str = "cpu") -> Bot:
    """Return the bot called `name`, ready to answer.

    Raises:
        UnknownName: there is none; the message suggests the nearest names.
        BotError: it cannot be loaded; the message gives the reason.
    """
    from chatbots.bots.base import BotError

    bot = bot_get(name)
    reason = bot.unavailable_reason()
    if reason is not None:
        raise BotError(f"{name} cannot be loaded: {reason}")
    bot.load(device)
    return bot


class PluginError(ImportError):
    """Error for a plug-in module that cannot be imported, with the reason."""


def plugins_import(modules: list[str]) -> None:
    """Import plug-in modules, and every file of plug-in packages.

    Their decorators add entries to all registries: bots and metrics, and in the web app assignment rules, protocols,
    exporters, file formats and job kinds.

    Raises:
        PluginError: a module is missing or fails to import.
    """
    for module in filter(None, (name.strip() for name in modules)):
        try:
            _import_with_files(module)
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
                problem = "there is no such module on Python's path"
            else:
                message = " ".join(str(error).split())
                problem = f"it cannot be imported: {type(error).__name__}: {message}{_locate_error(error)}"
            raise PluginError(f"{quote(module)}: {problem}") from error


def _import_with_files(module: str) -> None:
    imported = importlib.import_module(module)
    for file in pkgutil.iter_modules(getattr(imported, "__path__", [])):
        importlib.import_module(f"{module}.{file.name}")


def _locate_error(error: BaseException) -> str:
    """Return the file and line that raised the error, in brackets.

    Empty for a syntax error, whose message contains both.
    """
    if isinstance(error, SyntaxError):
        return ""  # its message contains them
    called = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in called if not frame.filename.startswith("<")]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
