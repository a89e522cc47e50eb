"""`audit_verify [--project KEY] [--heads | --against FILE]`: check chains."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from chatbots.text import quote
from webapp.audit.chain import chain_check, chain_projects, has_entry, head_of, pending_write
from webapp.core.management.base import ConfabCommand


class Command(ConfabCommand):
    help = "Check that nobody has changed the audit log; exits with 1 and names the entry if somebody has."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--heads", action="store_true", help="print the last hash of each chain, to keep outside this server"
        )

        parser.add_argument(
            "--against", type=Path, metavar="FILE", help="also check that the chains contain the hashes of --heads"
        )

    def run(self, **options: Any) -> Any:
        pending_write()
        if options["heads"]:
            return {"heads": [head_of(project) for project in chain_projects()]}
        checks = [chain_check(project) for project in chain_projects()]
        problems = [f"project {check.project}: {check.problem}" for check in checks if check.problem]
        if options["against"] is not None:
            problems += _heads_differing(options["against"])
        if problems:
            raise CommandError("; ".join(problems))
        return {"chains": [asdict(check) for check in checks]}

    def present(self, result: dict[str, Any]) -> None:
        for head in result.get("heads", ()):
            self.stdout.write(f"{head['project']} {head['sequence']} {head['hash']}")
        for chain in result.get("chains", ()):
            deleted = f" ({chain['n_deleted']:,} deleted by retention)" if chain["n_deleted"] else ""
            self.stdout.write(f"{chain['project']}: intact, {chain['n_entries']:,} entries{deleted}")
        if not result.get("heads") and not result.get("chains"):
            self.stdout.write("The audit log is empty.")


def _heads_differing(file: Path) -> Iterator[str]:
    """Yield the saved heads that the chains do not contain.

    They were written by `--heads`.

    Raises:
        ValueError: a line is not one of `--heads`.
    """
    for line in file.read_text("utf-8").splitlines():
        project, sequence, digest = [*line.split(), "", "", ""][:3]
        if not sequence.isdecimal():
            raise ValueError(f"{file.name} has the line {quote(line)}; use lines of `audit_verify --heads`")
        if int(sequence) and not has_entry(project, int(sequence), digest):
            yield f"project {project}: entry {sequence} is not the one in {file.name}"
