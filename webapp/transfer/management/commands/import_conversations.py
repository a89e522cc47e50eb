"""`import_conversations FILE --study KEY [--scale [QUESTION=]LOW:HIGH …] [--column ROLE=NAME …]`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from chatbots.text import quote
from evaluation.formats.csv_columns import ROLES, choose_roles
from evaluation.formats.scales import FileScales
from webapp.core.management.base import ConfabCommand, Usage
from webapp.transfer.import_file import ImportChoices, import_conversations


class Command(ConfabCommand):
    help = "Load conversations and ratings from a file into a study, or a study from its data package."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help=".jsonl, .jsonl.gz, a CSV with a header, or a data package (.zip)")
        parser.add_argument("--study", required=True, metavar="KEY", help="made if there is none")
        parser.add_argument(
            "--scale",
            action="append",
            default=[],
            metavar="[QUESTION=]LOW:HIGH",
            help="of one question, or of all others; repeatable (else the smallest and largest value seen, which bound "
            "no interval)",
        )
        parser.add_argument(
            "--language",
            default="",
            metavar="CODE",
            help="of all conversations, such as de; else metrics tell it by the words of each",
        )

        parser.add_argument(
            "--column",
            action="append",
            default=[],
            metavar="ROLE=NAME",
            help=f"column of a CSV in this role, or in none (=NAME) to leave it out; repeatable (else as its name "
            f"suggests). Roles: {', '.join(filter(None, ROLES))}",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        try:
            scales = FileScales.parse(options["scale"])
        except ValueError as error:
            raise Usage(f"--scale: {error}") from None
        try:
            chosen = _roles(options["column"])
        except ValueError as error:
            raise Usage(f"--column: {error}") from None
        columns = choose_roles(options["file"], chosen) if chosen else None
        with tqdm(unit=" records", file=sys.stderr, disable=not sys.stderr.isatty()) as bar:

            def progress(what: str, n_records: int) -> None:
                bar.set_description(what)
                bar.n = n_records
                bar.refresh()

            report = import_conversations(
                options["file"],
                study_key=options["study"],
                choices=ImportChoices(scales, options["language"], columns),
                progress=progress,
            )
        return report.as_dict()

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(f"{result['conversations']} conversations and {result['ratings']} ratings are new.")
        if not (result["conversations"] or result["ratings"] or result["skipped"]):
            self.stdout.write("Everything in the file was here already.")
        for skipped in result["skipped"]:
            self.stderr.write(f"left out, line {skipped['line']}: {skipped['reason']}")


def _roles(texts: Sequence[str]) -> dict[str, str]:
    """Read texts such as "bot=System", a role and its column; without a role, the column is left out.

    Raises:
        ValueError: for another text, or a column that is named twice.
    """
    roles: dict[str, str] = {}
    for text in texts:
        role, given, column = text.partition("=")
        column = column.strip()
        if not given or not column or role not in ROLES:
            known = ", ".join(filter(None, ROLES))
            raise ValueError(f"the column is {quote(text)}; ROLE=NAME is needed, with a role of {known}")
        if column in roles:
            raise ValueError(f"column {quote(column)} is given twice")
        roles[column] = role
    return roles
