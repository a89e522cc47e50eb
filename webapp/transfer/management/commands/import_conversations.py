"""`import_conversations FILE --study KEY [--scale [QUESTION=]LOW:HIGH …] [--column ROLE=NAME …]`."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from tqdm import tqdm

from chatbots.text import quote
from evaluation.data.formats.csv_roles import ROLES, role_named
from evaluation.data.formats.mapping import FileMapping
from evaluation.data.formats.scales import FileScales
from webapp.core.management.base import ConfabCommand, Usage
from webapp.transfer.import_file import ImportChoices, import_conversations
from webapp.transfer.import_mappings import get_mapping


class Command(ConfabCommand):
    help = "Load conversations and ratings from a file into a study, or restore a study from its data package."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file", type=Path, help="file in any format of docs/reference/data_formats.md, or data package (.zip)"
        )
        parser.add_argument(
            "--study", required=True, metavar="KEY", help="key of the study; created if it does not exist"
        )
        parser.add_argument(
            "--scale",
            action="append",
            default=[],
            metavar="[QUESTION=]LOW:HIGH",
            help=(
                "scale of one question, or of all others; repeatable (default: smallest and largest value found, "
                "which do not limit intervals)"
            ),
        )
        parser.add_argument(
            "--language",
            default="",
            metavar="CODE",
            help="language of all conversations, such as de (default: detected in each conversation)",
        )

        for name, value in (("lower", "a low"), ("higher", "a high")):
            parser.add_argument(
                f"--{name}",
                action="append",
                default=[],
                metavar="QUESTION",
                help=f"{value} answers to this question are better; repeatable (default: unknown)",
            )
        parser.add_argument(
            "--column",
            action="append",
            default=[],
            metavar="ROLE=NAME",
            help=(
                "role of a CSV column, or none (=NAME) to skip the column; repeatable (default: guessed from the "
                f"column name). Roles: {', '.join(filter(None, ROLES))} (or user for human, response for reply)"
            ),
        )

        parser.add_argument(
            "--speaker",
            action="append",
            default=[],
            metavar="NAME=ROLE",
            help="role of a speaker of the file: human, bot or none (NAME=) to leave it out; repeatable",
        )
        parser.add_argument("--bot", default="", help="name of the bot where the file names none (default: assistant)")
        parser.add_argument(
            "--keep",
            action="append",
            default=[],
            metavar="FIELD",
            help="field of the source that becomes a condition; repeatable (default: all are dropped)",
        )
        parser.add_argument("--mapping", default="", metavar="NAME", help="mapping saved on the page Import")
        parser.add_argument("--licence", default="", help="licence of the file, such as CC-BY-4.0")
        parser.add_argument("--source", default="", help="where the file comes from: an address or a citation")

    def run(self, **options: Any) -> dict[str, Any]:
        try:
            scales = FileScales.parse(options["scale"])
        except ValueError as error:
            raise Usage(f"--scale: {error}") from None
        try:
            chosen = _roles(options["column"])
        except ValueError as error:
            raise Usage(f"--column: {error}") from None
        try:
            mapping = _mapping(options, chosen)
        except ValueError as error:
            raise Usage(str(error)) from None
        with tqdm(unit=" records", file=sys.stderr, disable=not sys.stderr.isatty()) as bar:

            def progress(stage: str, n_records: int) -> None:
                bar.set_description(stage)
                bar.n = n_records
                bar.refresh()

            report = import_conversations(
                options["file"],
                study_key=options["study"],
                choices=ImportChoices(
                    scales,
                    options["language"],
                    mapping,
                    options["lower"],
                    higher=options["higher"],
                    licence=options["licence"],
                    source=options["source"],
                ),
                progress=progress,
            )
        self.is_empty = not report.n_good
        return report.as_dict()

    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, **options)
        if self.is_empty:
            raise CommandError(f"no record of {options['file'].name} could be read")

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(f"{result['conversations']} new conversations and {result['ratings']} new ratings.")
        if not (result["conversations"] or result["ratings"] or result["skipped"]):
            self.stdout.write("Everything in the file was already imported.")
        for note in result.get("notes", ()):
            self.stderr.write(f"note: {note}")
        for lines, reason in group_reasons(result["skipped"]):
            lines_text = ", ".join(map(str, lines[:_LINES_SHOWN])) + ", …" * (len(lines) > _LINES_SHOWN)
            repeats_text = f" (and {len(lines) - 1} more like it)" if len(lines) > 1 else ""
            self.stderr.write(f"skipped line{'s' * (len(lines) > 1)} {lines_text}: {reason}{repeats_text}")


_LINES_SHOWN = 8
_DIFFERENCES = re.compile(r"'[^']*'|\"[^\"]*\"|[\d.]+")


def group_reasons(skipped: Sequence[dict[str, Any]]) -> list[tuple[list[int], str]]:
    """Group reasons that differ only in names and numbers.

    Each group has its lines.
    """
    groups: dict[str, tuple[list[int], str]] = {}
    for item in skipped:
        lines, _reason = groups.setdefault(_DIFFERENCES.sub("…", item["reason"]), ([], item["reason"]))
        lines.append(item["line"])
    return list(groups.values())


def _mapping(options: dict[str, Any], columns: dict[str, str]) -> FileMapping:
    """Return the saved mapping with the changes of the options.

    Raises:
        ValueError: if a speaker's role is invalid.
        Refused: there is no mapping of this name.
    """
    saved = get_mapping(options["mapping"]) if options["mapping"] else FileMapping()
    speakers = dict(text.rpartition("=")[::2] for text in options["speaker"])
    return FileMapping(
        columns or saved.columns,
        {**saved.speakers, **speakers},
        options["bot"] or saved.bot,
        tuple(options["keep"]) or saved.keep,
        saved.questions,
    )


def _roles(texts: Sequence[str]) -> dict[str, str]:
    """Parse texts such as "bot=System" into a role and its column.

    Without a role, the column is left out.

    Raises:
        ValueError: for another text, or a column that is named twice.
    """
    roles: dict[str, str] = {}
    for text in texts:
        name, separator, column = text.partition("=")
        column, role = column.strip(), role_named(name)
        if not separator or not column or role is None:
            known = ", ".join(filter(None, ROLES))
            raise ValueError(f"the column is {quote(text)}; use ROLE=NAME with one of the roles {known}")
        if column in roles:
            raise ValueError(f"column {quote(column)} is listed twice")
        roles[column] = role
    return roles
