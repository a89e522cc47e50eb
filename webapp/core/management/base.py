"""Base of Confab's commands: JSON output, clear errors, exit codes."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import InternalError, OperationalError, ProgrammingError

from chatbots.installation import release
from chatbots.text import quote
from webapp.core.audit_trail import Origin, in_origin
from webapp.core.database import database_complaint, is_new_embedded_database
from webapp.core.errors import Refused
from webapp.core.project_scope import in_project
from webapp.core.projects import project_by_key, projects_all

T = TypeVar("T")


class ConfabCommand(BaseCommand):
    """A command with `--json`.

    Subclasses implement `run(**options)`, which returns the JSON-serialisable result, and may override
    `present(result)` for people. Wrong usage (argparse, `Usage`) exits with 2; `Refused`, `LookupError`,
    `ValueError` and `CommandError` exit with 1 and one line on standard error.
    """

    requires_system_checks: list[str] = []

    def get_version(self) -> str:
        """Return the text that `--version` prints."""
        return f"Confab {release()}"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON document")
        parser.add_argument("--project", metavar="KEY", help="project to work in (default: all projects)")
        self.add_own_arguments(parser)

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's own arguments."""

    def run(self, **options: Any) -> Any:
        """Do the work and return the result."""
        raise NotImplementedError

    def present(self, result: Any) -> None:
        """Print the result as text."""
        self.stdout.write(json.dumps(result, indent=2, ensure_ascii=False, default=str))

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            result = self._run(options)
        except Usage as error:
            raise CommandError(str(error), returncode=2) from error
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
        except (Refused, LookupError, ValueError, OSError) as error:
            raise CommandError(_one_line(error)) from error
        except (OperationalError, ProgrammingError, InternalError) as error:
            raise CommandError(database_complaint(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(result, ensure_ascii=False, allow_nan=False, default=str))
        else:
            self.present(result)

    def _run(self, options: dict[str, Any]) -> Any:
        """Run the command.

        If the embedded database does not exist yet, create it first.
        """
        try:
            return self._run_in_project(options)
        except (OperationalError, ProgrammingError):
            if not is_new_embedded_database():
                raise
        self.note("Creating the database (only once) …")
        call_command("migrate", verbosity=0, interactive=False)
        return self._run_in_project(options)

    def _run_in_project(self, options: dict[str, Any]) -> Any:
        key = options.pop("project", None)
        if key is not None and project_by_key(key) is None:
            known = ", ".join(project.key for project in projects_all())
            raise LookupError(f"there is no project {quote(key)}; use one of: {known}")
        command = type(self).__module__.rpartition(".")[2]
        with in_project(key), in_origin(Origin("command", details={"command": command})):
            return self.run(**options)

    def note(self, text: str) -> None:
        """Print a message for the user on standard error."""
        self.stderr.write(text)

    def progress(self, items: Iterable[T], *, total: int | None = None, label: str = "") -> Iterable[T]:
        """Show a progress bar on standard error if that is a terminal."""
        from tqdm import tqdm

        return tqdm(items, total=total, desc=label, file=sys.stderr, disable=not sys.stderr.isatty())


def whole_number(at_least: int) -> Callable[[str], int]:
    """Return a parser of whole numbers not below `at_least`.

    Use it as `add_argument(type=…)`.
    """

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ArgumentTypeError(f"{quote(text)} is not a whole number") from None
        if value < at_least:
            raise ArgumentTypeError(f"{value} is too small; it must be at least {at_least}")
        return value

    return read


class Usage(Exception):
    """Wrong usage of a command: exit code 2."""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
