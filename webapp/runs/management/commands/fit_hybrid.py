"""`fit_hybrid --study KEY [--target …] [--run ID] [--preset …] [--train-study KEY2] …`."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from textwrap import fill
from typing import Any

from webapp.core.management.base import ConfabCommand, Usage
from webapp.runs import jobs
from webapp.runs.management.commands.selfplay import names
from webapp.runs.management.following import work_inline
from webapp.runs.management.studies import study_named
from webapp.runs.selectors.selfplay import run_by_id
from webapp.runs.services.fits import fit_create


class Command(ConfabCommand):
    help = "Fit the leave-bot-out hybrid metric against a study's ratings, or apply one."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", required=True, metavar="KEY")
        parser.add_argument(
            "--target",
            metavar="quality[,fluency…]",
            help="rating dimensions; several: their mean (default: quality)",
        )
        parser.add_argument("--run", type=int, metavar="ID", help="predict this self-play run too")
        parser.add_argument("--preset", default="paper", help="paper or strong (default: paper)")
        parser.add_argument("--intercept", choices=["fold", "common"], default="fold")
        parser.add_argument("--train-study", metavar="KEY2", help="fit on that study instead")
        parser.add_argument("--features", metavar="a,b", help="columns instead of the preset's")
        parser.add_argument("--exclude-bots", default="", metavar="A,B", help="bots to leave out")
        parser.add_argument("--include-synthetic", action="store_true")
        parser.add_argument("--seed", type=int, default=0, help="of bootstrap and permutations")
        parser.add_argument("--output", type=Path, metavar="FIT.json", help="keep the fit")
        parser.add_argument("--fit", type=Path, metavar="FIT.json", help="apply a kept fit")

    def run(self, **options: Any) -> dict[str, Any]:
        if options["fit"] and options["train_study"]:
            raise Usage("--fit and --train-study exclude each other")
        kept = _read(options["fit"]) if options["fit"] else None
        output: Path | None = options["output"]
        if output is not None and not output.resolve().parent.is_dir():
            raise LookupError(f"there is no folder {output.resolve().parent}")
        fit = fit_create(
            study=study_named(options["study"]),
            targets=names(options["target"]) or None if options["target"] else None,
            run=run_by_id(options["run"]) if options["run"] is not None else None,
            preset=options["preset"],
            intercept=options["intercept"],
            train_study=study_named(options["train_study"]) if options["train_study"] else None,
            features=names(options["features"]) if options["features"] else None,
            exclude_bots=names(options["exclude_bots"]),
            include_synthetic=options["include_synthetic"],
            seed=options["seed"],
            kept=kept,
            enqueue=False,
        )
        fit = work_inline(fit, jobs.fit_do, what="Hybrid metric", unit="steps")
        assert fit.result is not None
        for caution in fit.result.get("cautions", []):
            self.note(caution)
        if output is not None:
            output.write_text(json.dumps(fit.kept, allow_nan=False) + "\n", encoding="utf-8")
        return fit.result

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(
            f"{result['preset']}, target {result['target']}: {result['n_conversations']} "
            f"conversations of {result['n_bots']} bots"
        )
        for level in ("conversation_level", "bot_level"):
            pearson = (result.get(level) or {}).get("pearson") or {}
            if pearson.get("r") is not None:
                self.stdout.write(
                    f"  {level.replace('_', ' ')}: r = {pearson['r']:.3f}{_interval(pearson.get('ci95'))}"
                )
        self.stdout.write(f"  {'bot':24} {'human':>8} {'predicted':>10} {'self-play':>10}")
        for bot, found in result["bots"].items():
            cells = [found["human_mean"], found["predicted"], found["predicted_selfplay"]]
            told = " ".join(
                f"{'–' if value is None else format(value, '.2f'):>{width}}"
                for value, width in zip(cells, (8, 10, 10), strict=True)
            )
            self.stdout.write(f"  {bot:24} {told}{_interval(found.get('predicted_selfplay_ci90'))}")
        if result.get("verdict"):
            self.stdout.write("\n" + fill(result["verdict"], width=100))


def _interval(ends: list[float] | None) -> str:
    return f" [{ends[0]:.2f}, {ends[1]:.2f}]" if ends else ""


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no kept fit: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no kept fit: an object is needed")
    return found
