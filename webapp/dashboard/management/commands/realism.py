"""`realism STUDY [--run N]`: compare simulated with real participants.

`--participant NAME` selects one kind. `--json` prints the document that the page shows.
"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from evaluation.simulation.realism.result import RealismResult
from webapp.core.management.base import ConfabCommand
from webapp.jobs.management.command_line import run_inline, study_named
from webapp.jobs.models import State
from webapp.jobs.services.jobs import job_restart
from webapp.results.realism import realism_ask, realism_of


class Command(ConfabCommand):
    help = "Compare simulated participants with the participants of a study."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="study whose participants were simulated")
        parser.add_argument("--run", type=int, metavar="ID", help="run of simulated participants (default: the newest)")
        parser.add_argument(
            "--participant", default="", metavar="NAME", help=("participant of the run (default: the first)")
        )

    def run(self, **options: Any) -> dict[str, Any]:
        study = study_named(options["study"])
        runs = study.simulations.order_by("-pk")
        run = (runs if options["run"] is None else runs.filter(pk=options["run"])).first()
        if run is None:
            known_runs = ", ".join(map(str, runs.values_list("pk", flat=True)[:5])) or (
                "none; create one with `simulate`"
            )
            raise LookupError(f"study {study.key} has no such simulation; available: {known_runs}")
        job = realism_ask(run, options["participant"])
        if job.can_go_on:
            job = job_restart(job=job, enqueue=False)
        if job.state != State.DONE:
            job = run_inline(job, label="Comparison", unit="step")
        comparison = realism_of(job)
        assert comparison is not None, "the job has finished"
        return comparison.to_json()

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(RealismResult.from_json(result).summary())
