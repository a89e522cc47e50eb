"""Two things that need several trainings or sets: RADE-lite's network on folds, and metrics combined across data sets.

    python -m tests.validation.folds --size quick|full [--data FOLDER]

`quick`: a third of RADE's chitchat set, three folds, one seed, so its figure is of little data; and a combination of three
metrics that need no language model, on 40 replies of each of GRADE's cells. `full`: all three sets, five folds, three
seeds, by the committed config; and mutual information among the metrics. Prints only; what is not here is skipped with
its reason.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from evaluation.metrics.registry import metric_get
from evaluation.printing import share, span
from evaluation.training.rade_data import RatedPair, rated_pairs_read
from evaluation.training.rade_folds import SEEDS, folds_measured
from tests.validation.replies import QUICK_PER_CELL, RADE_SETS, SHARED, first_of_each_cell
from tests.validation.validate import ROOT, Confab

CONFIG = ROOT / "evaluation" / "training" / "configs" / "rade-lite.yaml"
QUICK_PAIRS = 240
METRICS = ("semantic_similarity", "grade_lite", "pone_lite")
SLOW_METRICS = ("reply_pmi",)


def release_lines(pairs: Sequence[RatedPair]) -> str:
    """Return pairs as lines of RADE's release, system responses only."""
    return "\n".join(
        json.dumps(
            {
                "context": one.context,
                "output": one.response,
                "reference": one.reference,
                "s_output": one.score,
                "s_reference": one.reference_score,
            }
        )
        for one in pairs
    )


def rade_told(source: Path, work: Path, *, quick: bool) -> str:
    """Train RADE-lite on all folds but one, for each of them, and return how it agrees with people."""
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    pairs = rated_pairs_read(source).pairs
    options = {**config["options"], "rated": [f"{source.stem}.jsonl"]}
    seeds = SEEDS[:1] if quick else SEEDS
    if quick:
        pairs, options["folds"] = pairs[:QUICK_PAIRS], 3
    (work / f"{source.stem}.jsonl").write_text(release_lines(pairs), encoding="utf-8")
    found = folds_measured({**config, "options": options}, work, seeds)
    interval = f" {span(*found.ci95, shares=True)}" if found.ci95 else ""
    return (
        f"rade-lite, {source.name}: Pearson {share(found.mean(), 3)}{interval}, by seed "
        f"{', '.join(share(one, 3) for one in found.r['pearson'])}, Spearman "
        f"{share(found.mean('spearman'), 3)} ({found.n} pairs, {options.get('folds', 5)} folds by context, "
        f"{len(seeds)} seed{'s' * (len(seeds) > 1)})"
    )


def combined_told(confab: Confab, file: Path, metrics: Sequence[str]) -> str:
    """Combine metrics, each data set of a file left out once, and return what that gains."""
    wanted, lines = [], []
    for name in metrics:
        reason = metric_get(name).unavailable_reason()
        if reason is None:
            wanted.append(name)
        else:
            lines.append(f"{name} is skipped: {reason}")
    if len(wanted) < 2:
        return "\n".join([*lines, "the combination is skipped: it has two metrics or more"])
    made = confab.command(
        "combine_metrics", "--data", str(file), "--metrics", ",".join(wanted), "--json"
    )
    for name, one in made["sets"].items():
        lines.append(
            f"combined, {name} left out of learning ({one['n']} replies): Pearson "
            f"{share(one['pearson']['combined'], 3)}, best single ({one['best']}) "
            f"{share(one['pearson']['best'], 3)}"
        )
    for method in ("pearson", "spearman"):
        gain = made[method]
        lines.append(
            f"combined gains {share(gain['gain'], 3)} {span(*gain['ci95'], shares=True)} in {method}: "
            + (
                "better"
                if gain["claimed"]
                else "worse"
                if gain["ci95"][1] < 0
                else "not to be told apart"
            )
        )
    return "\n".join(lines)


def main() -> int:
    """Validate what is here; 1 where no set is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=["quick", "full"], default="quick")
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "turn_level")
    options = parser.parse_args()
    quick = options.size == "quick"
    begun, done = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="confab-validate-") as folder:
        work = Path(folder)
        confab = Confab(work)
        for name in RADE_SETS[:1] if quick else RADE_SETS:
            source = options.data / f"{name}.jsonl.gz"
            if not source.exists():
                print(f"rade-lite is skipped: there is no {source}")
                continue
            print(rade_told(source, work, quick=quick), flush=True)
            done += 1
        source = options.data / "grade.jsonl.gz"
        if source.exists():
            file = source
            if quick:
                file = work / "grade.jsonl"
                first_of_each_cell(source, file, QUICK_PER_CELL)
            metrics = METRICS if quick else (*METRICS, *SLOW_METRICS)
            print(combined_told(confab, file, metrics), flush=True)
            done += 1
        else:
            print(f"the combination is skipped: there is no {source}")
    print(f"{time.monotonic() - begun:.0f} s, {time.process_time():.0f} s of them computing.")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
