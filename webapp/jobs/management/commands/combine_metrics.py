"""`combine_metrics --data FILE --data FILE … --metrics a,b [--target DIMENSION]`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evaluation.number_format import share, span
from webapp.core.management.base import ConfabCommand, Usage
from webapp.jobs.management.command_line import reply_bar, scoring_arguments
from webapp.jobs.management.commands.selfplay import split_names


class Command(ConfabCommand):
    help = "Combine turn-level metrics into one score and compare it with human ratings on held-out data sets."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--data",
            type=Path,
            action="append",
            required=True,
            metavar="FILE",
            help=".jsonl or .jsonl.gz with one rated reply per line; at least three data sets, in one or more files",
        )
        scoring_arguments(
            parser,
            metrics="at least two metrics, or single columns of metrics",
            target=(
                "rating dimension to predict, in every file (default: each file's only dimension, else `overall`, "
                "else its first)"
            ),
        )

    def run(self, **options: Any) -> dict[str, Any]:
        from evaluation.agreement.combination import combine
        from evaluation.metrics.text_cache import TextCache
        from webapp.bots.selectors import text_store

        metric_names = split_names(options["metrics"])
        if len(metric_names) < 2:
            raise Usage(f"--metrics lists {len(metric_names)} metrics; a combination needs at least two")
        return combine(
            options["data"],
            metric_names,
            target=options["target"],
            shared=TextCache(options["device"], store=text_store()),
            progress=reply_bar,
        ).to_json()

    def present(self, result: Mapping[str, Any]) -> None:
        self.stdout.write("\n".join(_format_lines(result)))


def _format_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Write a line for each data set, then the gain by combining."""
    for name, dataset in result["sets"].items():
        weights = ", ".join(f"{metric} {weight:+.2f}" for metric, weight in dataset["weights"].items())
        yield (
            f"{name} ({dataset['n']} replies): Pearson {_pair(dataset, 'pearson')}, "
            f"Spearman {_pair(dataset, 'spearman')}; weights {weights}"
        )
        if dataset["imputed"]:
            missing = ", ".join(f"{n} of {metric}" for metric, n in dataset["imputed"].items())
            yield f"  undefined values, replaced by the middle score: {missing}"
    yield ""
    for method in ("pearson", "spearman"):
        comparison = result[method]
        verdict = "better than" if comparison["claimed"] else "not significantly better than"
        yield (
            f"{method.title()}, mean over data sets: {share(comparison['combined'], 3)}, {verdict} the best single "
            f"metric of the other sets ({share(comparison['best'], 3)}); gain {share(comparison['gain'], 3)} "
            f"{_interval(comparison)}"
        )
    yield (
        "Each data set was held out when the weights were fitted and the best single metric was chosen. The 95 % "
        "interval is over data sets and contexts."
    )


def _interval(comparison: Mapping[str, Any]) -> str:
    few = comparison.get("reason")
    if few:
        return f"(no interval: only {share(few['n_carrying'], 1)} of {few['n_units']} contexts carry one side)"
    return span(*comparison["ci95"], shares=True)


def _pair(dataset: Mapping[str, Any], method: str) -> str:
    best = dataset[method]["best"]
    best_text = "undefined" if best is None else share(best, 3)
    return f"{share(dataset[method]['combined'], 3)} (best single, {dataset['best']}: {best_text})"
