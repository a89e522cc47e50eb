"""The commands, by full and short names.

`confab fit` is `confab fit_hybrid` is `manage.py fit_hybrid`.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from django.core.management import ManagementUtility
from django.core.management.base import BaseCommand

from chatbots.devices import batches_made_exact
from chatbots.installation import release

SHORT: dict[str, tuple[str, ...]] = {
    "bots": ("list_bots",),
    "fit": ("fit_hybrid",),
    "import": ("import_conversations",),
    "metrics": ("compute_metrics",),
    "run": ("serve", "--demo", "--worker"),
    "study": ("list_studies",),
    "train": ("train_bot",),
}
"""Short name to the command and the arguments it stands for."""
ANSWERING = {"bot_host", "chat", "run", "serve"}
"""Commands whose bots answer people, one at a time: these want speed more than the last bit."""
_INTERNAL = {"docs"}
"""Commands for those who work on Confab itself."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit as it says."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
    # Threads of torch that wait by spinning slow down every other process on a small machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    arguments = list(argv if argv is not None else sys.argv)
    if not ANSWERING.intersection(arguments[1:2]):
        batches_made_exact()
    # Plug-ins may lie in the folder where the command is called, as they may beside manage.py.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    from django.core.exceptions import ImproperlyConfigured
    from django.db import DatabaseError

    try:
        _Commands(arguments).execute()
        sys.stdout.flush()
    except ImproperlyConfigured as error:
        sys.exit(f"Confab cannot start: {error}")
    except DatabaseError as error:
        from webapp.core.database import database_complaint, database_is_damaged

        if not database_is_damaged(error):
            raise
        sys.exit(f"{type(error).__name__}: {database_complaint(error)}")
    except BrokenPipeError:
        # Nobody reads on, as after `| head`. What Python would still write at its end must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit("The reader of this output has closed it; stopped.")


def commands_described() -> dict[str, str]:
    """Return Confab's own commands by shortest name, with descriptions.

    The lines are read from the source, so that listing them needs no database, settings or data folder.
    """
    described: dict[str, str] = {}
    shortest = {command[0]: short for short, command in SHORT.items() if len(command) == 1}
    for file in Path(__file__).parent.glob("*/management/commands/*.py"):
        if not file.stem.startswith("_") and file.stem not in _INTERNAL:
            described[shortest.get(file.stem, file.stem)] = _help_line(file)
    described["run"] = "Serve everything on this machine: pages, bots, a worker and two demo studies."
    return dict(sorted(described.items()))


def _help_line(file: Path) -> str:
    """Return the first sentence of `help = "…"` in a command's class."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "help":
            return re.split(r"(?<=\.) ", ast.literal_eval(node.value))[0]
    return ""


class _Commands(ManagementUtility):
    """Django's commands and Confab's own, with short names for the latter."""

    def __init__(self, argv: list[str]) -> None:
        name, *arguments = argv[1:] or ["help"]
        super().__init__([argv[0], name, *SHORT.get(name, ())[1:], *arguments])

    def execute(self) -> None:
        arguments = self.argv[1:]
        if arguments == ["--version"]:
            sys.stdout.write(f"Confab {release()}\n")
        elif arguments in (["help"], ["--help"], ["-h"]):
            sys.stdout.write(self.main_help_text() + "\n")
        else:
            super().execute()

    def fetch_command(self, subcommand: str) -> BaseCommand:
        """Return the command of this name, short or not."""
        return super().fetch_command(SHORT.get(subcommand, (subcommand,))[0])

    def main_help_text(self, commands_only: bool = False) -> str:
        """Return the list of Confab's commands.

        With `help --commands`, the names of all.
        """
        if commands_only:
            return super().main_help_text(commands_only=True)
        described = commands_described()
        width = max(map(len, described))
        lines = [f"  {name:<{width}}  {line}" for name, line in described.items()]
        return "\n".join(
            [
                f"usage: {self.prog_name} COMMAND [--json] …    ({self.prog_name} COMMAND --help says more)",
                "",
                *lines,
                "",
                "Django's own commands work too: migrate, createsuperuser, collectstatic, shell and others",
                f"({self.prog_name} help --commands). Data lies in ./confab-data (in a checkout: var/), or where",
                "CONFAB_DATA_DIR says.",
            ]
        )
