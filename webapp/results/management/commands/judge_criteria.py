"""`judge_criteria --study KEY --judge NAME`: let a judge check the criteria of a study's items.

`--json` prints `{"job", "judge", "identity", "ticks", "problems"}`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from webapp.core.management.base import ConfabCommand
from webapp.jobs.kinds.base import kind_of
from webapp.jobs.management.command_line import run_inline, study_named
from webapp.jobs.models import Job
from webapp.jobs.services.jobs import job_create
from webapp.results.fingerprint import CRITERIA_KIND


class Command(ConfabCommand):
    help = "Let a language model check the criteria of a study's items, for comparison with people."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", required=True, metavar="KEY", help="study of the protocol criteria")
        parser.add_argument("--judge", required=True, metavar="NAME", help="metric of the kind judge, or judge_BOT")

    def run(self, **options: Any) -> dict[str, Any]:
        study, payload = study_named(options["study"]), {name: options[name] for name in ("study", "judge")}
        job = job_create(kind=CRITERIA_KIND, payload=payload, study=study, enqueue=False)
        job = run_inline(job, label="Criteria", unit="items")
        return {"job": job.pk, **(job.result or {})}

    def present(self, result: dict[str, Any]) -> None:
        job = Job.objects.get(pk=result["job"])
        self.stdout.write("\n".join(kind_of(job).describe_result(job, result)))
