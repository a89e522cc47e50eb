"""`export --study KEY --what TABLE --output FILE.csv|FILE.jsonl|FILE.parquet`; `--what package --output FILE.zip`.

`export --run ID --what TABLE …` writes a table of a self-play run.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from chatbots.text import quote
from webapp.core.management.base import ConfabCommand, Usage
from webapp.jobs.selectors.selfplay import run_by_id
from webapp.ratings.services import without_argument, without_option
from webapp.search.fields import Unreadable
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key
from webapp.transfer.exporters.base import ExportOptions, Source, exporter_list, search_check, table_of, table_of_run
from webapp.transfer.job_files import PACKAGE, export_record
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.writers import FORMATS, Format, whole_file, write_file


class Command(ConfabCommand):
    help = "Write a table of a study or self-play run, or a study's data package, to a file of any size."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("--study", metavar="KEY")
        source.add_argument("--run", type=int, metavar="ID", help="a self-play run")
        parser.add_argument(
            "--what",
            required=True,
            choices=[*(exporter.name for exporter in exporter_list()), PACKAGE],
            help="table to export; package: all tables in one zip",
        )
        parser.add_argument("--format", choices=FORMATS, help="format of the table, if the file name has no ending")
        parser.add_argument("--output", required=True, type=Path, metavar="FILE")
        parser.add_argument(
            "--include-synthetic", action="store_true", help="also export chats of scripted participants"
        )
        parser.add_argument("--include-failed", action="store_true", help="also export chats in which the bot failed")
        parser.add_argument(
            "--include-private",
            "--with-ids",
            action="store_true",
            help="also export recruitment ids, completion codes and answers before the task; do not share such a file",
        )
        parser.add_argument(
            "--include-images", action="store_true", help="include the participants' images in a package"
        )
        parser.add_argument(
            "--redacted",
            action="store_true",
            help="replace personal data in texts, as reviewed on the study's page; without images",
        )
        without_argument(parser)
        parser.add_argument(
            "--search",
            default="",
            metavar="LINE",
            help="only conversations found by this search query: 'bot:eliza flags>0'",
        )
        parser.add_argument(
            "--raw", action="store_true", help="do not escape CSV cells that a spreadsheet would run as formulas"
        )

    def run(self, **options: Any) -> dict[str, Any]:
        source = _source(options)
        file_format: Format | None = None
        if options["redacted"] and not isinstance(source, Study):
            raise Usage("--redacted is for studies: in self-play, bots talk to each other")
        if options["what"] == PACKAGE and isinstance(source, Study):
            _package_check(options["output"])
        else:
            file_format = _format(options["output"], options["format"])
        export_options = ExportOptions(
            include_synthetic=options["include_synthetic"],
            include_failed=options["include_failed"],
            include_private=options["include_private"],
            without=without_option([source] if isinstance(source, Study) else [], options["without"]),
            search=" ".join(options["search"].split()),
            include_images=options["include_images"],
            is_redacted=options["redacted"],
        )
        try:
            search_check(source, options["what"], export_options)
        except Unreadable as error:
            raise Usage(f"--search is invalid: {error} For example: {error.example}") from None
        export_record(source, options["what"], file_format or "zip", export_options)
        if file_format is None:
            assert isinstance(source, Study), "a package needs --study"
            return self._package(source, export_options, options["output"])
        if isinstance(source, Study):
            table = table_of(source, options["what"], export_options)
        else:
            table = table_of_run(source, options["what"], export_options)
        columns, rows = table.columns, self.progress(table.rows, label=table.exporter.title)
        n_rows = write_file(options["output"], file_format, columns, rows, raw=options["raw"])
        return {"rows": n_rows, "file": str(options["output"])}

    def _package(self, study: Study, export_options: ExportOptions, output: Path) -> dict[str, Any]:
        n_rows = 0

        def report_rows(n: int) -> None:
            nonlocal n_rows
            n_rows = n

        pieces = package_pieces(study, export_options, report_rows=report_rows)
        with whole_file(output) as file:
            for piece in self.progress(pieces, label="Data package"):
                file.write(piece)
        return {"rows": n_rows, "file": str(output)}

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(f"{result['rows']} rows written to {result['file']}")


def _format(output: Path, requested_format: Format | None) -> Format:
    """Return a table's format by its file's ending, or --format.

    Raises:
        Usage: neither names one, the ending is unknown, or the two contradict one another.
    """
    ending = output.suffix.lower()
    endings = ", ".join(f".{name}" for name in FORMATS)
    ending_format = next((name for name in FORMATS if ending == f".{name}"), None)
    if ending and ending_format is None:
        raise Usage(f"{output.name} ends in {output.suffix}; a table must end in {endings}")
    if ending_format and requested_format and ending_format != requested_format:
        raise Usage(f"{output.name} ends in {output.suffix}, but --format is {requested_format}; leave out --format")
    file_format = ending_format or requested_format
    if file_format is None:
        raise Usage(f"{output.name} has no ending; use a name ending in {endings}, or add --format")
    return file_format


def _package_check(output: Path) -> None:
    """Refuse a package whose name does not end in .zip.

    --format is for tables and has no effect here.
    """
    if output.suffix.lower() not in ("", ".zip"):
        raise Usage(f"{output.name} ends in {output.suffix}; a data package must end in .zip")


def _source(options: dict[str, Any]) -> Source:
    """Return the requested study or run.

    Raises:
        LookupError: there is none.
    """
    if options["run"] is not None:
        return run_by_id(options["run"])
    try:
        return study_by_key(options["study"])
    except Study.DoesNotExist:
        raise LookupError(f"there is no study {quote(options['study'])}") from None
