"""`compute_metrics (--study KEY | --run ID) [--metrics a,b] [--inline]`."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from webapp.core.management.base import ConfabCommand
from webapp.jobs.management.command_line import follow_job, study_named
from webapp.jobs.management.commands.selfplay import split_names
from webapp.jobs.selectors.metrics import left_out_sentences, metrics_left_out
from webapp.jobs.selectors.selfplay import run_by_id
from webapp.jobs.services.fits import metric_run_create


class Command(ConfabCommand):
    help = "Compute metrics for all conversations without results of the current version."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("--study", metavar="KEY")
        source.add_argument("--run", type=int, metavar="ID", help="a self-play run")
        parser.add_argument(
            "--metrics",
            default="",
            metavar="a,b",
            help="metrics to compute (default: all except those computed on request only)",
        )
        parser.add_argument("--inline", action="store_true", help="without Celery")

    def run(self, **options: Any) -> dict[str, Any]:
        started = time.monotonic()
        job = metric_run_create(
            study=study_named(options["study"]) if options["study"] else None,
            run=run_by_id(options["run"]) if options["run"] is not None else None,
            metrics=split_names(options["metrics"]),
            enqueue=not options["inline"],
        )
        job = follow_job(
            job,
            label="Metrics",
            unit="conversations",
            note=self.note,
            go_on="The metrics are still being computed; run the command again to follow.",
            inline=options["inline"],
        )
        left_out = metrics_left_out(study=job.study, run=job.run)
        for sentence in left_out_sentences([skipped for skipped in left_out if skipped.metric.name in job.metrics]):
            self.note(sentence)
        return {"conversations": job.n_done, "metrics": job.metrics, "seconds": round(time.monotonic() - started, 2)}

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(
            f"{', '.join(result['metrics'])}: {result['conversations']} conversations in {result['seconds']:g} s"
        )
