"""`make_items --study KEY (--from-study KEY | --run ID)`: draw items.

`--json` prints `{"items", "unchanged", "alike", "same_replies"}`: new items, already present ones, duplicates of
another item, and pairs skipped because both bots gave the same reply.
"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from webapp.core.management.base import ConfabCommand, whole_number
from webapp.jobs.kinds.items import KIND
from webapp.jobs.management.command_line import follow_job
from webapp.jobs.services.jobs import job_create
from webapp.studies.models import Study


class Command(ConfabCommand):
    help = "Draw rating items from stored conversations or a self-play run."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", required=True, metavar="KEY", help="study that gets the items")
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("--from-study", default="", metavar="KEY", help="study with the chats to draw from")
        source.add_argument("--run", type=int, metavar="ID", help="self-play run to draw from")
        parser.add_argument(
            "--bots",
            default="",
            metavar="A,B",
            help="bots that reply to the contexts (default: rate the original replies, or whole chats in best_worst)",
        )
        parser.add_argument(
            "--contexts",
            type=whole_number(1),
            default=100,
            help="number of contexts to draw, or of items with whole chats",
        )
        parser.add_argument(
            "--utterances",
            type=whole_number(1),
            default=3,
            help="number of utterances in each context, counted from its end",
        )
        parser.add_argument(
            "--more-than-tokens",
            type=whole_number(0),
            default=10,
            help="minimum length of each context: more tokens than this",
        )
        parser.add_argument("--unknown", action="store_true", help="also accept contexts with unknown tokens")
        parser.add_argument(
            "--most-mean-words",
            type=float,
            default=0,
            help="maximum mean number of words per utterance of a context; 0 for no limit",
        )
        parser.add_argument("--fewest-turns", type=whole_number(0), default=0)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--inline", action="store_true", help="without Celery")

    def run(self, **options: Any) -> dict[str, Any]:
        job = job_create(
            kind=KIND,
            study=Study.objects.filter(key=options["study"]).first(),
            payload={
                "study": options["study"],
                "of_study": options["from_study"],
                "run": options["run"],
                "n_contexts": options["contexts"],
                "bots": [name.strip() for name in options["bots"].split(",") if name.strip()],
                "seed": options["seed"],
                "n_utterances": options["utterances"],
                "more_than_tokens": options["more_than_tokens"],
                "unknown": options["unknown"],
                "most_mean_words": options["most_mean_words"],
                "fewest_turns": options["fewest_turns"],
            },
            enqueue=not options["inline"],
        )
        job = follow_job(
            job,
            label="Items",
            unit="contexts",
            note=self.note,
            go_on="The items are still being made; follow them in the dashboard.",
            inline=options["inline"],
        )
        return {"items": 0, "unchanged": 0, "alike": 0, "same_replies": 0, **(job.result or {})}

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(
            f"Items: {result['items']} new, {result['unchanged']} already present. Skipped: {result['alike']} that "
            f"duplicate another item and {result['same_replies']} that contain the same reply twice."
        )
