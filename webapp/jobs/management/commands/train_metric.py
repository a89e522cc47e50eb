"""`train_metric CONFIG [--data FOLDER] [--output FOLDER] …`: train a metric.

The training runs in this process or, with `--enqueue`, as a job of a worker. If it was stopped, running the command
again resumes it. In the default folder its checkpoint is a metric from the next start on. `--seed` sets the seed of
weights, order and data, and the training gets its own name, such as grade-lite-seed-72. `--seeds`, `--sweep` and
`--data-share` train several metrics as one job, with a table of means and standard deviations.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings

from evaluation.training.sweeps import MetricTrainee
from webapp.core.management.base import Usage
from webapp.jobs.management.command_line import TrainingCommand, training_arguments


class Command(TrainingCommand):
    kind = "metric_training"
    trainee = MetricTrainee()
    sweep_kind = "metric_sweep"
    help = "Train a learned metric from a YAML config; run it again to resume a stopped training."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        training_arguments(
            parser,
            folder="metrics",
            holds=(
                "output folder; each training gets a subfolder named in its config. Each subfolder of the default "
                "folder is a metric"
            ),
        )
        parser.add_argument(
            "--seed",
            type=int,
            metavar="N",
            help=(
                "seed of weights, data order and data, overriding the config; the training, and the one it starts "
                "from, is named NAME-seed-N"
            ),
        )

        parser.add_argument(
            "--benchmark",
            action="append",
            type=Path,
            metavar="FILE",
            help="file of rated replies with which each metric of a sweep is compared; repeatable",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        if self.is_sweep(options):
            if options["seed"] is not None:
                raise Usage("--seed is for a single training; give --seeds")
            return self.sweep(options)
        if options["benchmark"]:
            raise Usage("--benchmark is for a sweep; give --seeds, --sweep or --data-share")
        options["config"] = options["config"][0]
        from evaluation.training.config import config_load, config_seeded
        from evaluation.training.loop import train
        from evaluation.training.shipping import ship

        config = config_load(options["config"], options["data"])
        if options["seed"] is not None:
            config = config_seeded(config, options["seed"])
        output = options["output"]
        if options["enqueue"]:
            return self.enqueue(config, options)
        with self.training():
            result = train(config, output / config.name, device=settings.CONFAB_DEVICE, restart=options["restart"])
            if options["ship"]:
                seeded = "" if options["seed"] is None else f" --seed {options['seed']}"
                again = (
                    f"{settings.CONFAB_PROGRAM} train_metric {options['config']} --data FOLDER{seeded} --ship "
                    f"{options['ship']}"
                )
                ship(output / config.name, options["ship"] / config.name, again)
        self.note(f"{result.tokens_per_s:,.0f} examples per second")
        self.note_skipped(result.skipped, config)
        return result.to_json()

    def present_best(self, best: dict[str, Any]) -> None:
        for name, value in best.items():
            self.stdout.write(f"{name}: {'undefined' if value is None else format(value, '.4g')}")
