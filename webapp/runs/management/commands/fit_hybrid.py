"""`fit_hybrid --study KEY [--target …] [--run ID] [--preset …] [--train-study KEY2] …`."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from textwrap import fill
from typing import Any

from evaluation.hybrid.verdict import FEW_BOTS, INTERCEPT_WORDS
from evaluation.printing import figure, share, span
from webapp.core.errors import Refused
from webapp.core.management.base import ConfabCommand, Usage
from webapp.runs.management.commands.selfplay import names
from webapp.runs.management.following import work_inline
from webapp.runs.management.studies import study_named
from webapp.runs.selectors.fit_arguments import fit_arguments_check
from webapp.runs.selectors.selfplay import run_by_id
from webapp.runs.services.fits import fit_create

_LEVELS = {
    "conversation_level": "over conversations",
    "bot_level": "over bots",
    "bot_level_selfplay": "over bots, from self-play",
}


class Command(ConfabCommand):
    help = "Fit the leave-bot-out hybrid metric against a study's ratings, or apply one."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", required=True, metavar="KEY")
        parser.add_argument(
            "--target",
            metavar="quality[,fluency…]",
            help="rating dimensions; several: their mean (default: the question about the whole)",
        )
        parser.add_argument("--run", type=int, metavar="ID", help="predict this self-play run too")
        parser.add_argument("--preset", default="paper", help="paper or strong (default: paper)")
        parser.add_argument(
            "--intercept",
            choices=["common", "fold"],
            default="common",
            help="common to all folds (default), or of each fold, as the paper has it",
        )
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
        study = study_named(options["study"])
        train_study = study_named(options["train_study"]) if options["train_study"] else None
        targets, features = names(options["target"] or ""), names(options["features"] or "")
        exclude_bots = names(options["exclude_bots"])
        if kept is None:
            try:
                fit_arguments_check(
                    study=train_study or study,
                    preset=options["preset"],
                    targets=targets,
                    features=features,
                    exclude_bots=exclude_bots,
                )
            except Refused as refused:
                raise Usage(refused.message) from None
        fit = fit_create(
            study=study,
            targets=targets or None,
            run=run_by_id(options["run"]) if options["run"] is not None else None,
            preset=options["preset"],
            intercept=options["intercept"],
            train_study=train_study,
            features=features or None,
            exclude_bots=exclude_bots,
            include_synthetic=options["include_synthetic"],
            seed=options["seed"],
            kept=kept,
            enqueue=False,
        )
        fit = work_inline(fit, what="Hybrid metric", unit="steps")
        assert fit.result is not None
        for caution in fit.result.get("cautions", []):
            self.note(caution)
        if output is not None:
            output.write_text(json.dumps(fit.kept, allow_nan=False) + "\n", encoding="utf-8")
        return fit.result

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(
            f"{result['preset']}, target {result['target']}: {result['n_conversations']} "
            f"conversations of {result['n_bots']} bots, {INTERCEPT_WORDS[result['intercept']]}"
        )
        for level, title in _LEVELS.items():
            pearson = (result.get(level) or {}).get("pearson") or {}
            # Over fewer bots any order can look like a line; the verdict says so.
            told = level == "conversation_level" or result["n_bots"] >= FEW_BOTS
            if told and pearson.get("r") is not None:
                ends = span(*(pearson.get("ci95") or (None, None)), shares=True)
                chance = ""
                if pearson.get("null95") is not None:
                    chance = f", chance passes {share(pearson['null95'])} once in twenty"
                self.stdout.write(f"  {title}: r = {share(pearson['r'])} {ends}{chance}")
        self.stdout.write(f"  {'bot':24} {'human':>8} {'predicted':>10} {'self-play':>10}")
        for bot, found in result["bots"].items():
            cells = [found["human_mean"], found["predicted"], found["predicted_selfplay"]]
            told = " ".join(
                f"{figure(value):>{width}}" for value, width in zip(cells, (8, 10, 10), strict=True)
            )
            ends = found.get("predicted_selfplay_ci90")
            self.stdout.write(f"  {bot:24} {told}{f' {span(*ends)}' if ends else ''}")
        if result.get("verdict"):
            self.stdout.write("\n" + fill(result["verdict"], width=100))


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no kept fit: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no kept fit: an object is needed")
    return found
