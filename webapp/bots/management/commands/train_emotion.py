"""`train_emotion --data FILE [--config FILE] [--output FOLDER] [--measure FILE …]`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from chatbots.encoders.emotion import EMOTION_HEAD_FOLDER
from chatbots.encoders.emotion_training import CONFIG, emotion_train
from chatbots.encoders.sentence import EncoderError
from webapp.core.management.base import ConfabCommand


class Command(ConfabCommand):
    help = "Train the emotion head on GoEmotions and write its weights, manifest and card."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--data", type=Path, required=True, metavar="FILE", help="GoEmotions")
        parser.add_argument("--config", type=Path, default=CONFIG, metavar="FILE")
        parser.add_argument("--output", type=Path, default=EMOTION_HEAD_FOLDER, metavar="FOLDER")
        parser.add_argument(
            "--measure",
            type=Path,
            nargs="+",
            default=[],
            metavar="FILE",
            help="texts with a known polarity, to measure the sentiment for the card",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        try:
            manifest = emotion_train(
                options["data"], options["config"], options["output"], options["measure"], settings.CONFAB_DEVICE
            )
        except EncoderError as error:
            raise CommandError(str(error)) from error
        return {
            "checkpoint": str(options["output"]),
            "epochs": manifest["training"]["epochs"],
            "best": {
                "epoch": manifest["best_epoch"],
                "valid_loss": min(manifest["valid_losses"]),
                "test_macro_f1": manifest["test"]["macro_f1"],
            },
        }
