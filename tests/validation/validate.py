"""How well does the hybrid metric, fitted without a bot, predict people's ratings of that bot?

    python -m tests.validation.validate --size quick|full [--data FOLDER]

Imports sets of real rated conversations through the product's own commands into a database that is
thrown away, computes the metrics, fits leaving one bot out, and prints a table. What comes out is
reported, not required: the exit code tells whether it could be done. `quick` takes the first 15
conversations of each bot and simulates nothing. All commands run in this process, so that models are loaded and texts
encoded once.
"""

import argparse
import gzip
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from evaluation.findings import findings_printed
from evaluation.hybrid.summary import STANDINGS
from evaluation.number_format import share, span
from tests.validation.noise_shares import noise_shares_told
from tests.validation.selfplay import BOTS_FILE, configured, selfplay_told
from tests.validation.simulated import simulations_told
from tests.validation.training_noise import training_noise_told
from tests.validation.values import PRESETS, VALUE_HEADINGS, samples_of, tables_of, value_rows

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "interactive"
QUICK_PER_BOT = 15
SIZES = {"quick": ((8,), 1), "full": ((60, 30), 10)}
"""Conversations a bot of the subsamples, and how many of each size."""
N_SIMULATED = 40_000
"""In the full size; the suite simulates some."""


@dataclass(frozen=True)
class RatedSet:
    """A set of rated conversations, and which of its ratings to predict."""

    name: str
    targets: tuple[str, ...]
    scale: str | None = None
    exclude_bots: tuple[str, ...] = ()
    note: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} {self.note}".strip()


ALL_SEVEN = ("robotic", "interesting", "fun", "consistent", "fluent", "repetitive", "topic")
SETS = (
    RatedSet(
        "reliable",
        # All seven run 0 to 100 with higher meaning better; their mean is the source's overall score.
        ALL_SEVEN,
        scale="0:100",
        exclude_bots=("qc",),  # the degraded control: it would make any metric look good
    ),
    RatedSet("dstc9", ("overall",)),
    RatedSet("reliable", ALL_SEVEN, scale="0:100", note="with qc"),
)
METRICS = "sentiment,laughter,words,semantic_similarity,word_coherence,question,length,reactions,emotions"
"""The metrics that the fits read."""


class Confab:
    """Commands on a data folder of their own, in this process."""

    def __init__(self, data_dir: Path) -> None:
        for name in [name for name in os.environ if name.startswith("CONFAB_")]:
            del os.environ[name]
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded",
            "CONFAB_DATA_DIR": str(data_dir),
            "CONFAB_LOG_LEVEL": "WARNING",
            "DATABASE_URL": "",
            "REDIS_URL": "",
        }
        import django

        from chatbots.encoders.cache import cache_folder_set
        from tests.databases import migrated_file

        if not (data_dir / "confab.sqlite3").exists():
            shutil.copy(migrated_file(), data_dir / "confab.sqlite3")
        django.setup()
        # Word vectors are made once for all runs of these scripts, and for the tests.
        cache_folder_set(ROOT / ".pytest_cache" / "d" / "confab")

    def command(self, *args: str) -> dict[str, Any]:
        """Run one command; what it prints, as JSON.

        Raises:
            SystemExit: if the command fails, with what it said.
        """
        from django.core.management import CommandError, call_command

        out = StringIO()
        try:
            call_command(*args, stdout=out)
        except CommandError as error:
            raise SystemExit(f"manage.py {' '.join(args)} failed: {error}") from error
        return json.loads(out.getvalue()) if "--json" in args else {}


def first_of_each_bot(source: Path, target: Path, per_bot: int) -> None:
    """Copy the first `per_bot` conversations of every bot."""
    taken: Counter[str] = Counter()
    with gzip.open(source, "rt", encoding="utf-8") as lines, target.open("w", encoding="utf-8") as out:
        for line in lines:
            bot = json.loads(line)["bot"]
            taken[bot] += 1
            if taken[bot] <= per_bot:
                out.write(line)


def measured(confab: Confab, rated: RatedSet, folder: Path, size: str, work: Path, metrics: str = METRICS) -> None:
    """Import one set and compute its metrics."""
    file = folder / f"{rated.name}.jsonl.gz"
    if size == "quick":
        part = work / f"{rated.name}.jsonl"
        first_of_each_bot(file, part, QUICK_PER_BOT)
        file = part
    study = ["--study", rated.name]
    scale = ["--scale", rated.scale] if rated.scale else []
    imported = confab.command("import_conversations", str(file), *study, *scale, "--json")
    if imported["skipped"]:
        print(f"  {len(imported['skipped'])} records of {rated.name} were left out")
    result = confab.command("compute_metrics", *study, "--metrics", metrics, "--inline", "--json")
    print(f"{rated.name}: {result['seconds']:.0f} s for the metrics", flush=True)


def fits_of(confab: Confab, rated: RatedSet) -> dict[str, dict[str, Any]]:
    """Fit one set by every preset; by its name the JSON of `fit_hybrid`, which tells of both intercepts."""
    excluded = ["--exclude-bots", ",".join(rated.exclude_bots)] if rated.exclude_bots else []
    fit = ["fit_hybrid", "--study", rated.name, "--target", ",".join(rated.targets), *excluded]
    return {preset: confab.command(*fit, "--preset", preset, "--intercept", "common", "--json") for preset in PRESETS}


def told(correlation: dict[str, Any] | None, kind: str) -> str:
    """Write a correlation with its interval, `.42 [.10, .68]`, or a dash where there is none."""
    result = (correlation or {}).get(kind) or {}
    if result.get("r") is None:
        return "–"
    ends = result.get("ci95")
    return share(result["r"]) + (f" {span(*ends, shares=True)}" if ends else "")


def rows_of(name: str, fit: dict[str, Any]) -> list[list[str]]:
    """Return the fit's rows of the table, one per intercept."""
    rows = []
    for intercept, result in fit["intercepts"].items():
        pearson, pairs = result["bot_level"]["pearson"], result["pairs"]
        null = pearson["null95"]
        rows.append(
            [
                name,
                f"{fit['preset']}, intercept {intercept}",
                str(fit["n_conversations"]),
                str(fit["n_bots"]),
                told(result["bot_level"], "pearson"),
                share(null),
                f"{pairs['ordered']}/{pairs['all']}",
                f"{pairs['resolvable_ordered']}/{pairs['resolvable']}",
            ]
        )
    return rows


def baseline_rows(fit: dict[str, Any]) -> list[list[str]]:
    """Return a row for each trivial predictor, by the common intercept."""
    rows = []
    for name, baseline in fit["baselines"].items():
        shown = share(baseline["bot_level"]["pearson"].get("null95"))
        rows.append(["", name, "", "", told(baseline["bot_level"], "pearson"), shown, "", ""])
    return rows


def notes_of(name: str, fit: dict[str, Any]) -> str:
    """Say how good it could be, what the blocks weigh, and the verdict."""
    best = fit["ceiling"]["best_r"]
    supports = STANDINGS[fit["verdict"]["standing"]]
    result = "; ".join(findings_printed(fit["verdict"]["findings"]))
    text = ", ".join(
        f"{block} {share(block_share['share'])} ({share(block_share['share_flat_prior'])} by a flat prior)"
        for block, block_share in fit["block_shares"].items()
    )
    within, partial = fit["within_bots"], fit["partial_r"] or {}
    return (
        f"{name}: ceiling {share(best)}; r given log turns and log words {share(partial.get('r'))}; r of single "
        f"conversations within bots {share(within['r'])}; shares of the blocks {text}. Supports {supports}. {result}"
    )


HEADINGS = ["set", "fit or baseline", "conv.", "bots", "r over bots", "null95", "pairs", "resolvable"]


def table(rows: list[list[str]], headings: list[str] = HEADINGS) -> str:
    """Write columns under each other, as Markdown."""
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    lines = [headings, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def main() -> int:
    """Validate on every set that is here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=["quick", "full"], default="quick")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the sets")
    options = parser.parse_args()
    here = [rated for rated in SETS if (options.data / f"{rated.name}.jsonl.gz").exists()]
    if not here:
        print(f"There is no validation data in {options.data}.", file=sys.stderr)
        return 1
    begun = time.monotonic()
    rows: list[list[str]] = []
    values: list[list[str]] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="confab-validate-") as work:
        confab = Confab(Path(work))
        here_run = configured(options.data)
        if here_run:
            shutil.copy(options.data / BOTS_FILE, Path(work) / BOTS_FILE)
        for rated in {rated.name: rated for rated in here}.values():
            measured(confab, rated, options.data, options.size, Path(work))
        for rated in here:
            started = time.monotonic()
            fits = fits_of(confab, rated)
            for fit in fits.values():
                rows += rows_of(rated.title, fit)
            rows += baseline_rows(fits[PRESETS[0]])
            notes.append(notes_of(rated.title, fits[PRESETS[-1]]))
            if not rated.note:
                tables = tables_of(rated.name, rated.targets, rated.exclude_bots)
                sizes, n_samples = SIZES[options.size]
                values += value_rows(rated.name, tables, fits, sizes, n_samples)
                samples = samples_of(tables, sizes[-1], n_samples)
                notes.append(training_noise_told(rated.name, sizes[-1], samples))
                notes.append(noise_shares_told(rated.name, tables, sizes[-1], n_samples))
                bots = sorted(set(tables.human["bot"]))
                notes.append(selfplay_told(confab, rated, bots, here_run, METRICS))
            print(f"{rated.title}: {time.monotonic() - started:.0f} s for the fits", flush=True)
    print()
    print(table(rows))
    print()
    print(table(values, VALUE_HEADINGS))
    print()
    print("\n".join(notes))
    if options.size == "full":
        print()
        print(simulations_told(N_SIMULATED))
    print()
    print("Intervals: 95 % over bots. null95: the r that bots' ratings permuted pass once in twenty.")
    print("pairs: of bots put in the order of their human means; resolvable: those that differ.")
    print(
        "Q², MAE, slope and intervals by the intercept of each fold. Inside: bots whose human mean lies in the "
        "interval of as many further ratings; score: of that interval, lower is better."
    )
    print(f"{time.monotonic() - begun:.0f} s in all.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
