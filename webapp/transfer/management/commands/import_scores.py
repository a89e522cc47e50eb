"""`import_scores FILE (--study KEY | --run ID) [--lower METRIC …]`, or `import_scores --remove METRIC`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from webapp.core.management.base import ConfabCommand, Usage
from webapp.transfer.import_scores import imported_metric_delete, scores_import, scores_target


class Command(ConfabCommand):
    help = "Import scores of other programs (columns id, metric and value) as metrics, or delete such a metric."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="?", type=Path, help="CSV, Excel, Parquet or JSON Lines")
        parser.add_argument("--study", metavar="KEY", default="", help="study with the conversations or items")
        parser.add_argument("--run", type=int, metavar="ID", help="self-play run with the conversations")
        parser.add_argument(
            "--lower",
            action="append",
            default=[],
            metavar="METRIC",
            help="lower values of this metric are better; repeatable",
        )
        parser.add_argument("--licence", default="", help="licence of the scores, such as CC-BY-4.0")
        parser.add_argument("--source", default="", help="where the scores come from: an address or a citation")
        parser.add_argument("--remove", metavar="METRIC", default="", help="delete this metric with its values")

    def run(self, **options: Any) -> dict[str, Any]:
        if bool(options["remove"]) == (options["file"] is not None):
            raise Usage("name a file, or a metric with --remove")
        if options["remove"]:
            return {"removed": {options["remove"]: imported_metric_delete(options["remove"])}}
        if bool(options["study"]) == (options["run"] is not None):
            raise Usage("name either --study or --run")
        study, run = scores_target(options["study"], options["run"])
        origin = {name: options[name] for name in ("lower", "licence", "source")}
        return scores_import(options["file"], study=study, run=run, **origin).as_dict()

    def present(self, result: dict[str, Any]) -> None:
        for name, n_values in result.get("removed", {}).items():
            self.stdout.write(f"{name} was deleted with {n_values} values.")
        for name, counts in result.get("metrics", {}).items():
            self.stdout.write(
                f"{name}: {counts['new']} new, {counts['replaced']} replaced, {counts['unchanged']} unchanged; "
                f"{counts['without']} conversations or items without a value, {counts['missing']} empty rows"
            )
        for row in result.get("skipped", ()):
            self.stderr.write(f"skipped line {row['line']}: {row['reason']}")
        if (n_more := result.get("n_skipped", 0) - len(result.get("skipped", ()))) > 0:
            self.stderr.write(f"{n_more} more lines were skipped")
