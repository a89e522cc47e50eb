"""`fit_hybrid --study KEY [--target …] [--run ID] [--preset …] [--train-study KEY2] …`."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from evaluation.findings import findings_printed
from evaluation.hybrid.bot_level import INTERCEPTS, PREFERRED_INTERCEPT
from evaluation.hybrid.summary import summary_of
from webapp.core.errors import Refused
from webapp.core.management.base import ConfabCommand, Usage
from webapp.jobs.management.command_line import run_inline, study_named
from webapp.jobs.management.commands.selfplay import split_names
from webapp.jobs.selectors.selfplay import run_by_id
from webapp.jobs.services.fits import fit_create
from webapp.ratings.services import without_argument, without_option


class Command(ConfabCommand):
    help = "Fit or apply the leave-bot-out hybrid metric for a study's ratings."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", required=True, metavar="KEY")
        parser.add_argument(
            "--target",
            metavar="quality[,fluency…]",
            help="rating dimensions; several are averaged (default: the question about the chat as a whole)",
        )
        parser.add_argument("--run", type=int, metavar="ID", help="also predict the bots of this self-play run")
        parser.add_argument("--preset", default="paper", help="paper or strong (default: paper)")
        parser.add_argument(
            "--intercept",
            choices=sorted(INTERCEPTS),
            default=PREFERRED_INTERCEPT,
            help="intercept common to all folds (default), or one for each fold as in the paper",
        )
        parser.add_argument("--train-study", metavar="KEY2", help="fit on this study instead")
        parser.add_argument(
            "--same-instrument",
            action="store_true",
            help="with --train-study or --fit: both studies ask the same questions, so values count, not only ranks",
        )
        parser.add_argument("--features", metavar="a,b", help="columns to use instead of the preset's")
        parser.add_argument("--exclude-bots", default="", metavar="A,B", help="bots to exclude")
        parser.add_argument("--with-people", action="store_true", help="also fit on chats with a human partner")
        parser.add_argument("--include-synthetic", action="store_true")
        without_argument(parser)
        parser.add_argument(
            "--condition",
            action="append",
            default=[],
            metavar="scenario=trip",
            help="use only conversations and self-play with this level of a factor (repeat for each factor)",
        )
        parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap and the permutations")
        parser.add_argument("--output", type=Path, metavar="FIT.json", help="file in which to save the fit")
        parser.add_argument("--fit", type=Path, metavar="FIT.json", help="saved fit to apply")

    def run(self, **options: Any) -> dict[str, Any]:
        if options["fit"] and options["train_study"]:
            raise Usage("--fit and --train-study exclude each other")
        if options["same_instrument"] and not (options["fit"] or options["train_study"]):
            raise Usage("--same-instrument needs --train-study or --fit")
        stored_fit = _read(options["fit"]) if options["fit"] else None
        output: Path | None = options["output"]
        if output is not None and not output.resolve().parent.is_dir():
            raise LookupError(f"there is no folder {output.resolve().parent}")
        study = study_named(options["study"])
        train_study = study_named(options["train_study"]) if options["train_study"] else None
        targets, features = (split_names(options["target"] or ""), split_names(options["features"] or ""))
        exclude_bots = split_names(options["exclude_bots"])
        try:
            fit = fit_create(
                study=study,
                targets=targets or None,
                run=run_by_id(options["run"]) if options["run"] is not None else None,
                preset=options["preset"],
                intercept=options["intercept"],
                train_study=train_study,
                features=features or None,
                exclude_bots=exclude_bots,
                with_people=options["with_people"],
                include_synthetic=options["include_synthetic"],
                excluded_flags=without_option(
                    [used_study for used_study in (study, train_study) if used_study is not None], options["without"]
                ),
                condition=options["condition"],
                seed=options["seed"],
                stored_fit=stored_fit,
                same_instrument=options["same_instrument"],
                enqueue=False,
            )
        except Refused as refused:
            raise Usage(refused.message) from None
        fit = run_inline(fit, label="Hybrid metric", unit="steps")
        assert fit.result is not None
        if options["json"]:  # for users they are in the summary
            for caution in findings_printed(fit.result["cautions"]):
                self.note(f"caution: {caution}")
        if output is not None:
            output.write_text(json.dumps(fit.kept, allow_nan=False) + "\n", encoding="utf-8")
        return fit.result

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(summary_of(result))


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a saved fit: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path} is not a saved fit: it must contain a JSON object")
    return document
