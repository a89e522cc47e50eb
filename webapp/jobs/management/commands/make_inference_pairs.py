"""`make_inference_pairs CONFIG [--data FOLDER] --output FOLDER [--form tsv|jsonl]`.

Writes the inference pairs from which `train_metric CONFIG` learns DialogEntailment: one file for each part with pairs.
`--json` prints `{"files": {PART: FILE}, "pairs": {PART: {LABEL: N}}}`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from typing import Any

from webapp.core.management.base import ConfabCommand


class Command(ConfabCommand):
    help = "Write the inference pairs for training an entailment metric, as configured."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("config", type=Path, metavar="CONFIG", help="a YAML file")
        parser.add_argument(
            "--data", type=Path, metavar="FOLDER", help="folder of the corpora (default: the one in the config)"
        )
        parser.add_argument(
            "--output", type=Path, metavar="FOLDER", required=True, help="output folder; created if it does not exist"
        )
        parser.add_argument(
            "--form",
            choices=("tsv", "jsonl"),
            default="tsv",
            help="output format: a table as in MultiNLI (default), or JSON lines as in SNLI",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        from evaluation.training.config import config_load
        from evaluation.training.contract import Splits, dialogues_read
        from evaluation.training.inference_pairs import pairs_write
        from evaluation.training.metrics.entailment import EntailmentTraining, pairs_made

        config = config_load(options["config"], options["data"])
        if config.metric != EntailmentTraining.name:
            raise ValueError(
                f"{options['config']} trains {config.metric}; inference pairs can only be made for "
                f"{EntailmentTraining.name}"
            )
        splits = dialogues_read(config) if config.data.corpora else Splits((), (), (), "")
        options["output"].mkdir(parents=True, exist_ok=True)
        files, counts = {}, {}
        for name, pairs in pairs_made(config, splits).items():
            if pairs:
                path = options["output"] / f"{name}.{options['form']}"
                pairs_write(path, pairs)
                files[name] = str(path)
                counts[name] = dict(Counter(pair.label for pair in pairs))
        return {"files": files, "pairs": counts}

    def present(self, result: dict[str, Any]) -> None:
        for name, path in result["files"].items():
            counts_text = ", ".join(f"{n:,} {label}" for label, n in sorted(result["pairs"][name].items()))
            self.stdout.write(f"{path}: {counts_text}")
