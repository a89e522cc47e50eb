"""`compare_judges (--data FILE | --study KEY) --judges a,b`: test judges.

Further options: `[--question NAME] [--expertise skilled] [--run ID]`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any, get_args

from evaluation.agreement.judges.alternative_test import Expertise
from webapp.core.management.base import ConfabCommand, whole_number
from webapp.jobs.management.command_line import run_inline, study_named
from webapp.jobs.management.commands.selfplay import split_names
from webapp.jobs.services.jobs import job_create
from webapp.results.benchmark_data import benchmark_file_keep
from webapp.results.judges import JUDGES_KIND, judge_named


class Command(ConfabCommand):
    help = "Compare language models with human raters, to see whether a model can replace a rater."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("--data", type=Path, metavar="FILE", help=".jsonl or .jsonl.gz, one rated reply per line")
        source.add_argument("--study", metavar="KEY", help="its rated conversations or replies")
        parser.add_argument("--judges", required=True, metavar="A,B", help="metrics of the kind judge, or judge_BOT")
        parser.add_argument("--question", default="", help="question that people rated (default: the usual one)")
        parser.add_argument("--expertise", default="skilled", choices=get_args(Expertise), help="of the raters")
        parser.add_argument(
            "--repeats", type=whole_number(1), default=2, help=("number of times that an endpoint scores")
        )
        parser.add_argument("--most", type=whole_number(30), default=300, help="maximum number of scored instances")
        parser.add_argument("--run", type=whole_number(1), help="additional run to score")

    def run(self, **options: Any) -> dict[str, Any]:
        path, study = options["data"], None if options["study"] is None else study_named(options["study"])
        params = {name: options[name] for name in ("question", "expertise", "repeats", "most", "run")}
        if path is not None:
            ending = ".jsonl.gz" if path.name.lower().endswith(".gz") else ".jsonl"
            params |= {"file": benchmark_file_keep(path, ending), "title": path.name}
        judges = [judge_named(name).name for name in split_names(options["judges"])]
        payload = {**params, "study": options["study"] or "", "judges": judges}
        job = job_create(kind=JUDGES_KIND, payload=payload, study=study, enqueue=False)
        job = run_inline(job, label="Judges", unit="scores")
        return {"job": job.pk, **(job.result or {})}

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write("\n".join(result["sentences"]))
