"""`train_metric CONFIG [--data FOLDER] [--output FOLDER] [--seed N] [--restart] [--ship FOLDER | --enqueue]`.

Trains a learned metric, in this process or, with `--enqueue`, as a job of a worker. Called again, a stopped training
goes on. In the usual folder its checkpoint is a metric from the next start on. With `--seed` weights, order and data
are by that seed and the training has a name of its own, such as grade-lite-seed-72: three seeds are three commands.
"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from webapp.core.management.base import ConfabCommand, Usage
from webapp.jobs.management.command_line import training_arguments
from webapp.jobs.services.jobs import job_create


class Command(ConfabCommand):
    help = "Train a learned metric from a YAML config; called again, a stopped training goes on."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        training_arguments(
            parser,
            folder="metrics",
            holds="holds one folder per training, by the name in its config; in the usual one each is a metric",
        )
        parser.add_argument(
            "--seed",
            type=int,
            metavar="N",
            help="of weights, order and data, in place of the config's; the training is called NAME-seed-N, and so "
            "is what it starts from",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        from chatbots.checkpoints import CheckpointError
        from chatbots.encoders.sentence import EncoderError
        from chatbots.training.engine import TrainingError
        from chatbots.training.run_folder import StateError
        from evaluation.training.config import config_load, config_seeded
        from evaluation.training.loop import train
        from evaluation.training.shipping import ship

        config = config_load(options["config"], options["data"])
        if options["seed"] is not None:
            config = config_seeded(config, options["seed"])
        output = options["output"]
        if options["enqueue"]:
            if options["ship"]:
                raise Usage(
                    "--enqueue and --ship exclude each other; once the job is done, --ship without --enqueue ships it"
                )
            payload = {
                "config": config.model_dump(mode="json"),
                "data": str(config.folder.resolve()),
                "output": str(output.resolve()),
                "restart": options["restart"],
            }
            job = job_create(kind="metric_training", payload=payload)
            return {"job": job.pk, "state": job.state}
        try:
            result = train(config, output / config.name, device=settings.CONFAB_DEVICE, restart=options["restart"])
            if options["ship"]:
                seeded = "" if options["seed"] is None else f" --seed {options['seed']}"
                again = (
                    f"{settings.CONFAB_PROGRAM} train_metric {options['config']} --data FOLDER{seeded} --ship "
                    f"{options['ship']}"
                )
                ship(output / config.name, options["ship"] / config.name, again)
        except (CheckpointError, EncoderError, StateError, TrainingError) as error:
            raise CommandError(" ".join(str(error).split())) from error
        except KeyboardInterrupt:
            raise CommandError("stopped; the same command goes on from the last state") from None
        self.note(f"{result.examples_per_s:,.0f} examples per second")
        if result.skipped:
            self.note(
                f"batches left out because their gradient was not finite: {result.skipped} (at most "
                f"{config.optimiser.max_skipped})"
            )
        return result.to_json()

    def present(self, result: dict[str, Any]) -> None:
        if "job" in result:
            self.stdout.write(
                f"Job {result['job']} waits for a worker; /dashboard/jobs/metric_training/{result['job']}/ shows how "
                "far it is."
            )
            return
        for name, value in result["best"].items():
            self.stdout.write(f"{name}: {'undefined' if value is None else format(value, '.4g')}")
        self.stdout.write(f"\n{result['checkpoint']} ({result['epochs']} epochs)")
