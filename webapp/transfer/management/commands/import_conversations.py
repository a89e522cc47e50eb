"""`import_conversations FILE --study KEY [--scale LOW:HIGH]`."""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from tqdm import tqdm

from webapp.core.management.base import ConfabCommand, Usage
from webapp.transfer.jobs import import_conversations


class Command(ConfabCommand):
    help = (
        "Load conversations and ratings from a file into a study, or a study from its data package."
    )

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file",
            type=Path,
            help=".jsonl, .jsonl.gz, a CSV of the 2019 server, or a data package (.zip)",
        )
        parser.add_argument("--study", required=True, metavar="KEY", help="made if there is none")
        parser.add_argument(
            "--scale",
            metavar="LOW:HIGH",
            help="of all dimensions; else the smallest and largest value seen",
        )
        parser.add_argument(
            "--language",
            default="",
            metavar="CODE",
            help="of all conversations, such as de; else metrics tell it by the words of each",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        scale = _scale(options["scale"])
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
        self.stdout.write(
            f"{result['conversations']} conversations and {result['ratings']} ratings are new."
        )
        if not (result["conversations"] or result["ratings"] or result["skipped"]):
            self.stdout.write("Everything in the file was here already.")
        for skipped in result["skipped"]:
            self.stderr.write(f"line {skipped['line']} left out: {skipped['reason']}")


def _scale(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise Usage(f"--scale is {text!r}; two numbers such as 1:7 are needed") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise Usage(f"--scale is {text!r}; the first number must be below the second")
    return low, high
