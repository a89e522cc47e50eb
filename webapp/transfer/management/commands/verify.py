"""`verify FILE.zip`."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from evaluation.data.package import package_open
from webapp.core.management.base import ConfabCommand
from webapp.transfer.package.metadata import versions_differ


class Command(ConfabCommand):
    help = "Check that no file of a data package has changed."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="data package written by export --what package")

    def run(self, **options: Any) -> dict[str, Any]:
        path: Path = options["file"]
        with package_open(path) as package:
            checked = package.check()
            versions = package.json("versions.json") if "versions.json" in package.paths else {}
        result = {
            "file": str(path),
            "whole": checked.is_whole,
            "files": checked.n_files,
            "changed": list(checked.changed),
            "missing": list(checked.missing),
            "extra": list(checked.extra),
            "versions": versions_differ(versions),
        }
        if not checked.is_whole:
            if options["json"]:
                self.stdout.write(json.dumps(result, ensure_ascii=False))
            else:
                self._tell(result)
            raise CommandError(f"{path} has changed")
        return result

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(f"All {result['files']} files are unchanged.")
        for difference in result["versions"]:
            self.stdout.write(
                f"Made with {difference['what']} {difference['package']}; the version here is "
                f"{difference['here'] or 'none'}."
            )

    def _tell(self, result: dict[str, Any]) -> None:
        for change, words in (
            ("changed", "has changed"),
            ("missing", "is missing"),
            ("extra", "does not belong to the package"),
        ):
            for name in result[change]:
                self.stderr.write(f"{name} {words}")
