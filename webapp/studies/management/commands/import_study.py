"""`import_study FILE.yaml [--key KEY] [--open]`."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from chatbots.validation import ValuesError
from webapp.core.errors import Refused
from webapp.core.management.base import ConfabCommand
from webapp.studies.lifecycle import study_import, study_read


class Command(ConfabCommand):
    help = "Create a study from a file (YAML or JSON), or a new version of the study with its key."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="file written by export_study or study_example")
        parser.add_argument("--key", help="use this key instead of the file's")
        parser.add_argument("--open", action="store_true", help="open the study, so that it starts collecting")

    def run(self, **options: Any) -> dict[str, Any]:
        path: Path = options["file"]
        if not path.is_file():
            raise Refused("not_found", f"there is no file {str(path)!r}")
        try:
            opens = options["open"]
            file = study_read(path.read_bytes(), key=options["key"] or "", opens=opens)
            done = study_import(file=file, folder=path.parent, opens=opens)
        except ValuesError as error:
            self._tell(error, as_json=options["json"])
            n = len(error.mistakes)
            error_text = f"{n} mistake{'s' if n > 1 else ''} in {path}; nothing was changed"
            raise CommandError(error_text) from None
        return {
            "study": done.study.key,
            "version": done.study.version.number,
            "state": done.study.state,
            "is_new": done.is_new,
            "items": done.n_items,
            "changes": [change.as_dict() | {"words": str(change)} for change in done.changes],
        }

    def _tell(self, error: ValuesError, *, as_json: bool) -> None:
        if as_json:
            errors = [{"path": mistake.path, "message": mistake.message} for mistake in error.mistakes]
            self.stdout.write(json.dumps({"errors": errors}, ensure_ascii=False))
            return
        for mistake in error.mistakes:
            self.stderr.write(f"- {mistake}")

    def present(self, result: dict[str, Any]) -> None:
        change_text = "is new" if result["is_new"] else "is changed" if result["changes"] else "is unchanged"
        self.stdout.write(f"Study {result['study']} {change_text}: version {result['version']}, {result['state']}.")
        for change in result["changes"]:
            self.stdout.write(f"- {change['words']}")
        if result["items"]:
            self.stdout.write(f"{result['items']} new items.")
