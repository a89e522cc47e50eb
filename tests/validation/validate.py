"""How well does the hybrid metric, fitted without a bot, predict people's ratings of that bot?

    python -m tests.validation.validate --size quick|full [--data FOLDER]

Imports sets of real rated conversations through the product's own commands into a database that is
thrown away, computes the metrics, fits leaving one bot out, and prints a table. What comes out is
reported, not required: the exit code tells whether it could be done. `quick` takes the first 30
conversations of each bot.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "interactive"
QUICK_PER_BOT = 30


@dataclass(frozen=True)
class RatedSet:
    """A set of rated conversations, and which of its ratings to predict."""

    name: str
    targets: tuple[str, ...]
    scale: str | None = None
    exclude_bots: tuple[str, ...] = ()


SETS = (
    RatedSet(
        "reliable",
        # All seven run 0 to 100 with higher meaning better; their mean is the source's overall score.
        ("robotic", "interesting", "fun", "consistent", "fluent", "repetitive", "topic"),
        scale="0:100",
        exclude_bots=("qc",),  # the degraded control: it would make any metric look good
    ),
    RatedSet("dstc9", ("overall",)),
)


@dataclass(frozen=True)
class Confab:
    """Commands on a data folder of their own."""

    data_dir: Path

    def command(self, *args: str) -> dict[str, Any]:
        """Run one command; what it prints, as JSON.

        Raises:
            SystemExit: if the command fails, with what it said.
        """
        kept = {k: v for k, v in os.environ.items() if not k.startswith("CONFAB_")}
        env = {
            **kept,
            "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded",
            "CONFAB_DATA_DIR": str(self.data_dir),
            "CONFAB_LOG_LEVEL": "WARNING",
            "DATABASE_URL": "",
            "REDIS_URL": "",
        }
        done = subprocess.run(
            [sys.executable, "manage.py", *args],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"manage.py {' '.join(args)} failed with {done.returncode}")
        return json.loads(done.stdout) if "--json" in args else {}


def first_of_each_bot(source: Path, target: Path, per_bot: int) -> None:
    """Copy the first `per_bot` conversations of every bot."""
    taken: Counter[str] = Counter()
    with (
        gzip.open(source, "rt", encoding="utf-8") as lines,
        target.open("w", encoding="utf-8") as out,
    ):
        for line in lines:
            bot = json.loads(line)["bot"]
            taken[bot] += 1
            if taken[bot] <= per_bot:
                out.write(line)


def fits_of(rated: RatedSet, folder: Path, size: str, work: Path) -> list[dict[str, Any]]:
    """Import, measure and fit one set with either intercept; the JSON of `fit_hybrid`."""
    confab = Confab(work / rated.name)
    file = folder / f"{rated.name}.jsonl.gz"
    if size == "quick":
        part = work / f"{rated.name}.jsonl"
        first_of_each_bot(file, part, QUICK_PER_BOT)
        file = part
    study = ["--study", rated.name]
    confab.command("migrate", "--verbosity", "0")
    scale = ["--scale", rated.scale] if rated.scale else []
    imported = confab.command("import_conversations", str(file), *study, *scale, "--json")
    if imported["skipped"]:
        print(f"  {len(imported['skipped'])} records of {rated.name} were left out")
    measured = confab.command("compute_metrics", *study, "--inline", "--json")
    print(f"{rated.name}: {measured['seconds']:.0f} s for the metrics", flush=True)
    excluded = ["--exclude-bots", ",".join(rated.exclude_bots)] if rated.exclude_bots else []
    fit = ["fit_hybrid", *study, "--target", ",".join(rated.targets), *excluded, "--json"]
    return [confab.command(*fit, "--intercept", intercept) for intercept in ("fold", "common")]


def told(correlation: dict[str, Any] | None, kind: str) -> str:
    """`0.42 [0.10, 0.68]`, or a dash where there is none."""
    found = (correlation or {}).get(kind) or {}
    if found.get("r") is None:
        return "–"
    ends = found.get("ci95")
    return f"{found['r']:.2f}" + (f" [{ends[0]:.2f}, {ends[1]:.2f}]" if ends else "")


def rows_of(name: str, fit: dict[str, Any]) -> list[list[str]]:
    """The fit's row of the table, and one for each baseline."""
    bots = fit["bot_level"]
    null = (bots.get("pearson") or {}).get("null95")
    pairs = fit["pairs"]
    rows = [
        [
            name,
            f"{fit['preset']}, intercept {fit['intercept']}",
            str(fit["n_conversations"]),
            str(fit["n_bots"]),
            told(fit["conversation_level"], "pearson"),
            told(bots, "pearson"),
            told(bots, "spearman"),
            told(bots, "kendall"),
            "–" if null is None else f"{null:.2f}",
            f"{pairs['ordered']}/{pairs['all']}",
            f"{pairs['resolvable_ordered']}/{pairs['resolvable']}",
        ]
    ]
    for baseline, found in fit.get("baselines", {}).items():
        kinds = [told(found.get("bot_level"), k) for k in ("pearson", "spearman", "kendall")]
        rows.append(["", baseline, "", "", "", *kinds, "", "", ""])
    return rows


HEADINGS = [
    *("set", "fit or baseline", "conv.", "bots", "conversations r", "bots r", "bots rho"),
    *("bots tau", "null95", "pairs", "resolvable"),
]


def table(rows: list[list[str]]) -> str:
    """Columns under each other, as Markdown."""
    widths = [max(len(row[i]) for row in [HEADINGS, *rows]) for i in range(len(HEADINGS))]
    lines = [HEADINGS, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
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
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="confab-validate-") as work:
        for rated in here:
            started = time.monotonic()
            for fit in fits_of(rated, options.data, options.size, Path(work)):
                rows += rows_of(rated.name, fit)
            print(f"{rated.name}: {time.monotonic() - started:.0f} s in all", flush=True)
    print()
    print(table(rows))
    print()
    print("Intervals: 95 %. null95: the coefficient over bots that chance passes once in twenty.")
    print("pairs: of bots put in the order of their human means; resolvable: those that differ.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
