"""`export --study KEY --what TABLE --format csv|jsonl|parquet --output FILE`; `--what package --output FILE.zip`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from webapp.core.management.base import ConfabCommand, Usage
from webapp.quality.arguments import without_argument, without_asked
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key
from webapp.transfer.exporters.base import ExportOptions, exporter_get, exporter_list
from webapp.transfer.exports import PACKAGE
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.writers import FORMATS, whole_file, write_file


class Command(ConfabCommand):
    help = "Write a table of a study, or its whole data package, to a file, of any size."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", required=True, metavar="KEY")
        parser.add_argument(
            "--what",
            required=True,
            choices=[*(exporter.name for exporter in exporter_list()), PACKAGE],
            help="a table; package: all of it in one zip",
        )
        parser.add_argument("--format", choices=FORMATS, help="of a table; a package is a zip")
        parser.add_argument("--output", required=True, type=Path, metavar="FILE")
        parser.add_argument(
            "--include-synthetic", action="store_true", help="chats of scripted participants too"
        )
        parser.add_argument(
            "--include-failed", action="store_true", help="chats in which the bot failed too"
        )
        parser.add_argument(
            "--include-private",
            "--with-ids",
            action="store_true",
            help="recruitment ids and completion codes too; keep such a file to yourself",
        )
        without_argument(parser)
        parser.add_argument(
            "--raw",
            action="store_true",
            help="leave CSV cells as they are, even where a spreadsheet would run them as formulas",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        try:
            study = study_by_key(options["study"])
        except Study.DoesNotExist:
            raise LookupError(f"there is no study {options['study']!r}") from None
        asked = ExportOptions(
            include_synthetic=options["include_synthetic"],
            include_failed=options["include_failed"],
            include_private=options["include_private"],
            without=without_asked([study], options["without"]),
        )
        if options["what"] == PACKAGE:
            return self._package(study, asked, options["output"])
        if options["format"] is None:
            raise Usage(f"--format is missing; a table can be {', '.join(FORMATS)}")
        exporter = exporter_get(options["what"])
        columns = exporter.columns(study, asked)
        rows = self.progress(exporter.rows(study, asked), what=exporter.title)
        n_rows = write_file(options["output"], options["format"], columns, rows, raw=options["raw"])
        return {"rows": n_rows, "file": str(options["output"])}

    def _package(self, study: Study, asked: ExportOptions, output: Path) -> dict[str, Any]:
        n_rows = 0

        def told(n: int) -> None:
            nonlocal n_rows
            n_rows = n

        pieces = package_pieces(study, asked, told=told)
        with whole_file(output) as file:
            for piece in self.progress(pieces, what="Data package"):
                file.write(piece)
        return {"rows": n_rows, "file": str(output)}

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(f"{result['rows']} rows in {result['file']}")
