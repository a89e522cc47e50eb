"""`train_bot CONFIG [--data FOLDER] [--output FOLDER] …`: train a model.

The training runs in this process or, with `--enqueue`, as a job of a worker. If it was stopped, running the command
again resumes it. If a config starts from the weights of another training, that config is read from the same folder and
trained first. Several configs, `--seeds`, `--sweep` and `--data-share` train several models as one job; the
hyper-parameters of all configs are printed as in Table 9 of Ghandeharioun et al. (2019).
"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from evaluation.training.sweeps import BotTrainee
from webapp.core.management.base import Usage
from webapp.jobs.management.command_line import TrainingCommand, training_arguments


class Command(TrainingCommand):
    kind = "training"
    trainee = BotTrainee()
    sweep_kind = "bot_sweep"
    help = "Train a dialogue model from a YAML config; run it again to resume a stopped training."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        training_arguments(
            parser, folder="training", holds="output folder; each training gets a subfolder named in its config"
        )
        parser.add_argument(
            "--base",
            default="",
            metavar="BASE",
            help="config to override with this one, such as compat-2019 (the behaviour of the released code)",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        if self.is_sweep(options):
            return self._sweep_bots(options)
        options["config"] = options["config"][0]
        from chatbots.training.config import config_before, config_load
        from chatbots.training.held_out import table_3, version_name
        from chatbots.training.loop import finished, train
        from chatbots.training.shipping import ship

        config = config_load(options["config"], options["data"], options["base"])
        before = config_before(options["config"], config)
        if options["enqueue"]:
            return self.enqueue(config, options, before=before and before.model_dump(mode="json"))
        output, device = options["output"], settings.CONFAB_DEVICE
        with self.training():
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
        self.note(
            f"{result.tokens_per_s:,.0f} target tokens per second, {result.waiting_share:.1%} of the time spent "
            "waiting for data"
        )
        self.note_skipped(result.skipped, config)
        self._table = table_3([(config.model.upper(), version_name(config), result.best)])
        return result.to_json()

    def _sweep_bots(self, options: dict[str, Any]) -> dict[str, Any]:
        from chatbots.training.config import config_load
        from evaluation.training.sweep_results import hyperparameters_table

        if options["base"]:
            raise Usage("--base is for a single training; name the base in the configs of a sweep")
        configs = [config_load(path, options["data"]) for path in options["config"]]
        self._table = hyperparameters_table(configs).printed()
        return self.sweep(options)

    def present_sweep(self, result: dict[str, Any]) -> None:
        self.stdout.write(f"{self._table}\n")
        super().present_sweep(result)

    def present_best(self, best: dict[str, Any]) -> None:
        self.stdout.write(self._table)
