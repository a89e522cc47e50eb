"""`train_bot CONFIG [--data FOLDER] [--base BASE] [--output FOLDER] [--restart] [--ship FOLDER | --enqueue]`.

Trains a model, in this process or, with `--enqueue`, as a job of a worker. Called again, a stopped training goes on. A
config that starts from the weights of another training finds that one's config beside its own, and trains it first.
"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import CommandError

from webapp.core.management.base import ConfabCommand, Usage
from webapp.jobs.management.command_line import training_arguments
from webapp.jobs.services.jobs import job_create

if TYPE_CHECKING:
    from chatbots.training.config import TrainingConfig


class Command(ConfabCommand):
    help = "Train a dialogue model from a YAML config; called again, a stopped training goes on."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        training_arguments(parser, folder="training", holds="holds one folder per training, by the name in its config")
        parser.add_argument(
            "--base",
            default="",
            metavar="BASE",
            help="lay the config over this one, such as compat-2019 (the released code's behaviour)",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        from chatbots.checkpoints import CheckpointError
        from chatbots.encoders.sentence import EncoderError
        from chatbots.training.config import config_before, config_load
        from chatbots.training.held_out import table_3, version_name
        from chatbots.training.loop import TrainingError, finished, train
        from chatbots.training.run_folder import StateError
        from chatbots.training.shipping import ship

        config = config_load(options["config"], options["data"], options["base"])
        before = config_before(options["config"], config)
        if options["enqueue"]:
            if options["ship"]:
                raise Usage(
                    "--enqueue and --ship exclude each other; once the job is done, --ship without --enqueue ships it"
                )
            return self._enqueue(config, before, options)
        output, device = options["output"], settings.CONFAB_DEVICE
        try:
            if before is not None and not finished(output / before.name):
                self.note(f"{config.name} starts from {before.name}, which is trained first")
                train(before, output / before.name, device=device)
            result = train(config, output / config.name, device=device, restart=options["restart"])
            if options["ship"]:
                base = f" --base {options['base']}" if options["base"] else ""
                again = (
                    f"{settings.CONFAB_PROGRAM} train_bot {options['config']}{base} --data FOLDER --ship "
                    f"{options['ship']}"
                )
                ship(output / config.name, options["ship"] / config.name, config, again)
        except (CheckpointError, EncoderError, StateError, TrainingError) as error:
            raise CommandError(" ".join(str(error).split())) from error
        except KeyboardInterrupt:
            raise CommandError("stopped; the same command goes on from the last state") from None
        self.note(
            f"{result.tokens_per_s:,.0f} target tokens per second, {result.waiting_share:.1%} of the time "
            "spent waiting for data"
        )
        if result.skipped:
            self.note(
                f"batches left out because their gradient was not finite: {result.skipped} (at most "
                f"{config.optimiser.max_skipped})"
            )
        self._table = table_3([(config.model.upper(), version_name(config), result.best)])
        return result.to_json()

    def _enqueue(
        self, config: TrainingConfig, before: TrainingConfig | None, options: dict[str, Any]
    ) -> dict[str, Any]:
        """Ask for a job with the values of the configs: a worker reads no file of this process's folder for them."""
        payload = {
            "config": config.model_dump(mode="json"),
            "before": before and before.model_dump(mode="json"),
            "data": str(config.folder.resolve()),
            "output": str(options["output"].resolve()),
            "restart": options["restart"],
        }
        job = job_create(kind="training", payload=payload)
        return {"job": job.pk, "state": job.state}

    def present(self, result: dict[str, Any]) -> None:
        if "job" in result:
            self.stdout.write(
                f"Job {result['job']} waits for a worker; /dashboard/jobs/training/{result['job']}/ shows how far "
                "it is."
            )
            return
        self.stdout.write(self._table)
        self.stdout.write(f"\n{result['checkpoint']} ({result['epochs']} epochs)")
