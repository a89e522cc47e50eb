"""Two things that need several trainings or sets: RADE-lite's network on folds, and metrics combined across data sets.

    python -m tests.validation.folds [--data FOLDER]
    python -m tests.validation.folds --config rade-lite-no-pr --against rade-lite --sets chitchat,persona --seeds 11

All three sets of RADE, five folds, three seeds, by the committed config; and a combination of four metrics. With
`--against` another config is measured on the same folds, the first one's gain over it is told with its interval over
contexts, and nothing is combined. Prints only; what is not here is skipped with its reason.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.agreement.paired_comparison import compare_paired
from evaluation.metrics.registry import metric_get
from evaluation.number_format import share, span
from evaluation.training.config import config_values
from evaluation.training.rade_data import RatedPair, rated_pairs_read
from tests.validation.rated_folds import SEEDS, FoldsMeasured, folds_measured
from tests.validation.replies import RADE_SETS, SHARED
from tests.validation.validate import ROOT, Confab

CONFIGS = ROOT / "evaluation" / "training" / "configs"
METRICS = ("semantic_similarity", "grade_lite", "pone_lite", "reply_pmi")


def release_lines(pairs: Sequence[RatedPair]) -> str:
    """Return pairs as lines of RADE's release, system responses only."""
    return "\n".join(
        json.dumps(
            {
                "context": pair.context,
                "output": pair.response,
                "reference": pair.reference,
                "s_output": pair.score,
                "s_reference": pair.reference_score,
            }
        )
        for pair in pairs
    )


def rade_folds(config: str, source: Path, work: Path, seeds: Sequence[int]) -> FoldsMeasured:
    """Train by a config on all folds but one, for each of them."""
    values: dict[str, Any] = config_values(CONFIGS / f"{config}.yaml")
    pairs = rated_pairs_read(source).pairs
    options = {**values["options"], "rated": [f"{source.stem}.jsonl"]}
    (work / f"{source.stem}.jsonl").write_text(release_lines(pairs), encoding="utf-8")
    return folds_measured({**values, "options": options}, work, seeds)


def rade_told(name: str, found: FoldsMeasured) -> str:
    """Return how scores of folds agree with people."""
    interval = f" {span(*found.ci95, shares=True)}" if found.ci95 else ""
    return (
        f"{name}: Pearson {share(found.mean(), 3)}{interval}, by seed "
        f"{', '.join(share(one, 3) for one in found.r['pearson'])}, Spearman {share(found.mean('spearman'), 3)} "
        f"({found.n} pairs, folds by context, {len(found.seeds)} seed{'s' * (len(found.seeds) > 1)})"
    )


def gain_told(name: str, ours: Sequence[FoldsMeasured], theirs: Sequence[FoldsMeasured]) -> str:
    """Return the paired gain in Pearson's coefficient of one config over another: mean over the sets, and over seeds
    in each.

    Both score the pairs of a set in one order when their seeds are the same, for then the folds are.
    """
    cells = [(str(k), "") for k, folds in enumerate(ours) for _ in range(folds.n)]
    gain = compare_paired(
        *(np.hstack([one.scores for one in side]) for side in (ours, theirs)),
        np.hstack([folds.people for folds in ours]),
        np.hstack([folds.contexts for folds in ours]),
        cells,
        name,
    ).gains["pearson"]
    return (
        f"{name}: {share(gain.ours, 3)} less {share(gain.theirs, 3)}, a gain of {share(gain.gain, 3)} "
        f"{span(gain.low, gain.high, 3, shares=True)} in Pearson's r"
    )


def combined_told(confab: Confab, file: Path, metrics: Sequence[str]) -> str:
    """Combine metrics, each data set of a file left out once, and return what that gains."""
    expected, lines = [], []
    for name in metrics:
        reason = metric_get(name).unavailable_reason()
        if reason is None:
            expected.append(name)
        else:
            lines.append(f"{name} is skipped: {reason}")
    if len(expected) < 2:
        return "\n".join([*lines, "the combination is skipped: it has two metrics or more"])
    made = confab.command("combine_metrics", "--data", str(file), "--metrics", ",".join(expected), "--json")
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
            + ("better" if gain["claimed"] else "worse" if gain["ci95"][1] < 0 else "not to be told apart")
        )
    return "\n".join(lines)


def main() -> int:
    """Validate what is here; 1 where no set is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "turn_level")
    parser.add_argument("--config", default="rade-lite", help="one of evaluation/training/configs")
    parser.add_argument("--against", default="", help="another one, on the same folds")
    parser.add_argument("--sets", default=",".join(name.removeprefix("rade_") for name in RADE_SETS))
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    options = parser.parse_args()
    sets = [f"rade_{name}" for name in options.sets.split(",")]
    seeds = [int(seed) for seed in options.seeds.split(",")]
    configs = [name for name in (options.config, options.against) if name]
    results: dict[str, list[FoldsMeasured]] = {name: [] for name in configs}
    begun, done = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="confab-validate-") as folder:
        work = Path(folder)
        confab = Confab(work)
        for name in sets:
            source = options.data / f"{name}.jsonl.gz"
            if not source.exists():
                print(f"{options.config} is skipped: there is no {source}")
                continue
            for config in configs:
                one = rade_folds(config, source, work, seeds)
                results[config].append(one)
                print(rade_told(f"{config}, {source.name}", one), flush=True)
            if options.against:
                text = f"{options.config} against {options.against}, {source.name}"
                print(gain_told(text, *([results[config][-1]] for config in configs)), flush=True)
            done += 1
        if options.against:
            if done > 1:
                text = f"{options.config} against {options.against}, mean of {done} sets"
                print(gain_told(text, *results.values()))
        elif (source := options.data / "grade.jsonl.gz").exists():
            print(combined_told(confab, source, METRICS), flush=True)
            done += 1
        else:
            print(f"the combination is skipped: there is no {source}")
    print(f"{time.monotonic() - begun:.0f} s, {time.process_time():.0f} s of them computing.")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
