"""`import_conversations FILE --study KEY [--scale [QUESTION=]LOW:HIGH …]`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from tqdm import tqdm

from evaluation.formats.scales import FileScales
from webapp.core.management.base import ConfabCommand, Usage
from webapp.transfer.import_file import import_conversations


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

    def run(self, **options: Any) -> dict[str, Any]:
        try:
            scale = FileScales.parse(options["scale"])
        except ValueError as error:
            raise Usage(f"--scale: {error}") from None
        with tqdm(unit=" records", file=sys.stderr, disable=not sys.stderr.isatty()) as bar:

            def progress(what: str, n_records: int) -> None:
                bar.set_description(what)
                bar.n = n_records
                bar.refresh()

            report = import_conversations(
                options["file"],
                study_key=options["study"],
                scale=scale,
                language=options["language"],
                progress=progress,
            )
        return report.as_dict()

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(f"{result['conversations']} conversations and {result['ratings']} ratings are new.")
        if not (result["conversations"] or result["ratings"] or result["skipped"]):
            self.stdout.write("Everything in the file was here already.")
        for skipped in result["skipped"]:
            self.stderr.write(f"left out, line {skipped['line']}: {skipped['reason']}")
