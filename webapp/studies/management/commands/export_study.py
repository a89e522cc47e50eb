"""`export_study --study KEY --output FILE.yaml`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from chatbots.text import quote
from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.errors import Refused
from webapp.core.management.base import ConfabCommand
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key
from webapp.studies.study_file import items_lines, study_file_json, study_file_of, study_file_text


class Command(ConfabCommand):
    help = "Write a study as a file for `import_study`; if it has many items, they get a second file."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", required=True, metavar="KEY")
        parser.add_argument("--output", required=True, type=Path, metavar="FILE", help=".yaml, or .json")

    def run(self, **options: Any) -> dict[str, Any]:
        path: Path = options["output"]
        try:
            study = study_by_key(options["study"])
        except Study.DoesNotExist:
            raise Refused("not_found", f"there is no study {quote(options['study'])}") from None
        file = study_file_of(study)
        text = study_file_json(file) if path.suffix == ".json" else study_file_text(file)
        record(DOWNLOAD, study, file="study_file")
        path.write_text(text, encoding="utf-8", newline="\n")
        result = {"study": study.key, "version": study.version.number, "state": study.state}
        if isinstance(file.items, str):
            with path.with_name(file.items).open("w", encoding="utf-8", newline="\n") as lines:
                lines.writelines(items_lines(study))
            result["items"] = file.items
        return result

    def present(self, result: dict[str, Any]) -> None:
        items_note = f"; its items were written to {result['items']}" if "items" in result else ""
        self.stdout.write(f"Version {result['version']} of {result['study']} was written{items_note}.")
