"""`can_replace STUDY`: whether metrics, judges or simulations can replace a study's participants.

`--json` prints the document that the page shows.
"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from evaluation.replacement.result import ReplacementResult
from webapp.core.management.base import ConfabCommand
from webapp.jobs.management.command_line import study_named
from webapp.ratings.services import without_argument, without_option
from webapp.results.cache import AnalysisKey, compute_now


class Command(ConfabCommand):
    help = "Say whether metrics, judges or simulations can replace the participants of a study."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="study with ratings of chats")
        parser.add_argument("--include-synthetic", action="store_true", help="count scripted participants")
        without_argument(parser)

    def run(self, **options: Any) -> dict[str, Any]:
        study = study_named(options["study"])
        key = AnalysisKey(
            study,
            "replacement",
            include_synthetic=options["include_synthetic"],
            without=tuple(without_option([study], options["without"])),
        )
        computed = compute_now(key, wait=lambda: None)
        if computed is None:
            raise LookupError(f"study {study.key} has no ratings yet, so nothing can be compared with people")
        document: dict[str, Any] = computed.result.to_json()
        return document

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(ReplacementResult.from_json(result).summary())
