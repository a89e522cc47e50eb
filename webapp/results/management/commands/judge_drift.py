"""`judge_drift [--job ID]`."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from webapp.core.management.base import ConfabCommand, whole_number
from webapp.jobs.management.command_line import run_inline
from webapp.jobs.services.jobs import job_create
from webapp.results.judges import DRIFT_KIND, judges_done


class Command(ConfabCommand):
    help = "Score the stored sample of a judge comparison again, and alert if a judge has drifted."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--job", type=whole_number(1), help=("job of compare_judges (default: the newest finished one)")
        )

    def run(self, **options: Any) -> list[dict[str, Any]]:
        if (comparison := judges_done(options["job"])) is None:
            raise CommandError("there is no finished comparison of judges with this number")
        payload = {"job": comparison.pk}
        job = job_create(kind=DRIFT_KIND, payload=payload, study=comparison.study, enqueue=False)
        return list(run_inline(job, label="Drift", unit="judges").result or ())

    def present(self, result: Any) -> None:
        for drift in result:
            self.stdout.write(drift["sentence"])
