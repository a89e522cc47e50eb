"""`import_items FILE --study KEY`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from webapp.core.errors import Refused
from webapp.core.management.base import ConfabCommand
from webapp.studies.items import origin_of_file
from webapp.studies.lifecycle import items_import
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key
from webapp.studies.study_file import items_of_file


class Command(ConfabCommand):
    help = "Load items to rate (context, response, reference) from a file into a study."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help=".jsonl or .jsonl.gz, one item per line")
        parser.add_argument("--study", required=True, metavar="KEY", help="existing study")

    def run(self, **options: Any) -> dict[str, Any]:
        path: Path = options["file"]
        try:
            study = study_by_key(options["study"])
        except Study.DoesNotExist:
            raise Refused("not_found", f"there is no study {options['study']!r}") from None
        if not path.is_file():
            raise Refused("not_found", f"there is no file {str(path)!r}")
        origin = origin_of_file(study, path.name, path)
        return items_import(study=study, lines=items_of_file(path), origin=origin).as_dict()

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(f"{result['items']} new items, {result['unchanged']} already present.")
        for skipped in result["skipped"]:
            self.stderr.write(f"line {skipped['line']} skipped: {skipped['reason']}")
