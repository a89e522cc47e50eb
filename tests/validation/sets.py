"""Evidence for the hybrid metric beyond the sets it was designed on: one table, and studies with permuted ratings.

    python -m tests.validation.sets [--data FOLDER] [--first N] [--samples N] [--sets a,b] [--work FOLDER]
        [--permuted-only]

Imports every set, computes its metrics, and fits `paper`, `strong` and their rivals where at least five bots are
rated. `--first` takes so many rated conversations of each bot, in the file's order. With `--work` the computed metrics
are kept there, and a second run goes on from them. Prints only.

Studies are permuted of all conversations, and of random ones as many as are kept back of each bot. No kept-back row is
in the files: these stand for them in number only, and the design has seen those of Ji et al. and DSTC9.

Rule, written down before the samples were scored: in each line a ranking is given in at most 5 % of permuted studies
and two Monte-Carlo errors.
"""

import argparse
import gzip
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.hybrid.calibration import q_squared
from evaluation.hybrid.features import LENGTHS, design_of, preset_get
from evaluation.hybrid.fit import fit_least_squares, fit_process
from evaluation.hybrid.levels import features_by_bot, permuted_lines
from evaluation.hybrid.rivals import error_ratio, rival_folds
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import pluralise, share
from evaluation.stats.correlation import null_point, rowwise
from tests.validation.validate import ALL_SEVEN, DATA, Confab, RatedSet, measured, table
from tests.validation.values import Tables, fitted, samples_of, tables_of

SETS = (
    RatedSet("convai2_hackathon", ("overall",), scale="1:5"),
    RatedSet("conture", ("overall",), scale="overall=1:5"),
    RatedSet("reliable_failed_raters", ALL_SEVEN, scale="0:100", exclude_bots=("qc",)),
    RatedSet("reliable", ALL_SEVEN, scale="0:100", exclude_bots=("qc",)),
    RatedSet("dstc9", ("overall",), scale="overall=1:5"),
    RatedSet("convai2_final", ("overall",), scale="overall=1:5"),
    RatedSet("convai2_export", ("overall",), scale="overall=1:5"),
    RatedSet("fed", ("overall",), scale="overall=0:4"),
    RatedSet("ieval", ("rank_score",), scale="rank_score=1:3"),
    RatedSet("ieval_otherplay", ("overall",), scale="overall=1:3"),
)
SIZES = (60, 30)
KEPT_BACK = 3 / 7
"""Conversations kept back of a bot, as a share of those in the file: 30 % to 70 %."""
PRESETS = ("paper", "strong")
HEADINGS = ["set", "conv. a bot", "bots", "ratings", "ceiling", "predictor", "r", "Q²", "inside 95 %", "verdict"]


def rated_part(rated: RatedSet, folder: Path, work: Path, first: int | None) -> tuple[int, int]:
    """Write the first rated conversations of each bot; return the number of bots and of ratings."""
    taken: Counter[str] = Counter()
    n_ratings = 0
    with (
        gzip.open(folder / f"{rated.name}.jsonl.gz", "rt", encoding="utf-8") as lines,
        gzip.open(work / f"{rated.name}.jsonl.gz", "wt", encoding="utf-8") as out,
    ):
        for line in lines:
            record = json.loads(line)
            if not record["ratings"] or record["bot"] in rated.exclude_bots:
                continue
            taken[record["bot"]] += 1
            if first is None or taken[record["bot"]] <= first:
                n_ratings += len(record["ratings"])
                out.write(line)
    return len(taken), n_ratings


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean of what is defined, None for nothing."""
    defined = [value for value in values if value is not None and np.isfinite(value)]
    return float(np.mean(defined)) if defined else None


def rows_of_size(size: str, samples: Sequence[Tables]) -> list[list[str]]:
    """Return a row for each preset and rival: means over the samples, and how often each verdict was given."""
    fits: dict[str, list[dict[str, Any]]] = {
        preset: [fitted(sample, preset) for sample in samples] for preset in PRESETS
    }
    ceiling = share(mean_of([fit["ceiling"]["best_r"] for fit in fits["strong"]]))
    n_bots = f"{np.mean([fit['n_bots'] for fit in fits['strong']]):.0f}"
    n_ratings = f"{np.mean([len(sample.ratings) for sample in samples]):.0f}"
    rows = []
    for preset, result in fits.items():
        inside = mean_of(
            [one["coverage95"] and one["coverage95"]["inside"] / one["coverage95"]["of"] for one in result]
        )
        counts = Counter(one["verdict"]["standing"] for one in result)
        verdict = ", ".join(name if len(result) == 1 else f"{name} {n}" for name, n in counts.most_common())
        r = mean_of([one["intercepts"]["common"]["bot_level"]["pearson"]["r"] for one in result])
        q2 = mean_of([one["q2"]["value"] for one in result])
        rows.append([size, n_bots, n_ratings, ceiling, f"`{preset}`", share(r), share(q2), share(inside), verdict])
    for rival in ("log_turns", "log_words", "log_turns_and_words"):
        known = [fit["rivals"][rival] for fit in fits["strong"] if rival in fit["rivals"]]
        r, q2 = (mean_of([one[name] for one in known]) for name in ("r", "q2"))
        rows.append([size, n_bots, n_ratings, ceiling, rival.replace("_", " "), share(r), share(q2), "", ""])
    return rows


def permuted_verdicts(tables: Tables, preset: str, seed: int = 0) -> Counter[str]:
    """Count the standings of studies whose bots have changed their mean ratings with each other.

    Each permutation is predicted by everything that a fit does, and stands where the null of the fit is drawn from.
    """
    chosen = preset_get(preset)
    design = design_of(tables.human, chosen.features, tables.targets, extra=LENGTHS)
    rated = design.rows(np.isfinite(design.y))
    if len(set(rated.bots)) < FEW_BOTS:
        return Counter(few_bots=1)
    means, at = None, features_by_bot(rated)
    if chosen.parts:
        kept, process = fit_process(rated, chosen, tables.targets, "common", tables.ratings, None)
        means, permute = kept.means, process.permuted
    else:
        _, factors, _ = fit_least_squares(rated, chosen, tables.targets, "common", seed, None)

        def permute(at: Any, *, common: bool, seed: int) -> Any:
            return permuted_lines(factors, at, common=common, seed=seed)

    by_common, human = permute(at, common=True, seed=seed)
    by_fold, _ = permute(at, common=False, seed=seed)
    r, q2 = rowwise(by_common, human, "pearson"), q_squared(by_fold, human)
    passed = (r > max(0.0, null_point(r) or 0.0)) & (q2 > max(0.0, null_point(q2) or 0.0))
    rivals = rival_folds(rated, means)
    predicted = [
        np.stack([one.left_out(bot, points[bot], human[passed])[0] for bot in one.all_bots.bots], axis=1)
        for one, points in rivals.values()
    ]
    counts: Counter[str] = Counter(chance=int((~passed).sum()))
    for place, row in enumerate(np.flatnonzero(passed)):
        better = {error_ratio(by_fold[row], rival[place], human[row]).is_better for rival in predicted}
        counts["baseline" if False in better else "ranking" if better == {True} else "unsettled"] += 1
    return counts


def permuted_told(samples: Sequence[Tables], preset: str) -> str:
    """Count standings of permuted studies of all samples, with the Monte-Carlo error of the share of rankings.

    The error is over samples where there are several, since permutations of one sample share its conversations.
    """
    given = [permuted_verdicts(sample, preset) for sample in samples]
    total = sum(given, Counter())
    shares = [one["ranking"] / one.total() for one in given]
    mean = float(np.mean(shares))
    spread = float(np.std(shares, ddof=1)) if len(shares) > 1 else np.sqrt(mean * (1 - mean))
    error = spread / np.sqrt(len(shares) if len(shares) > 1 else total.total())
    text = ", ".join(f"{name} {n}" for name, n in total.items())
    return f"{text}; rankings {mean:.2%} ± {error:.2%}, at most {max(shares):.1%} of a sample"


def main() -> int:
    """Print the table and what permuted studies are given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--first", type=int, help="rated conversations of each bot (default: all)")
    parser.add_argument("--samples", type=int, default=10, help="subsamples of each size")
    parser.add_argument("--sets", default=",".join(one.name for one in SETS))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--permuted-only", action="store_true", help="no table: permuted studies alone")
    options = parser.parse_args()
    rows: list[list[str]] = []
    notes = []
    with tempfile.TemporaryDirectory(prefix="confab-sets-") as folder:
        work = options.work or Path(folder)
        confab = Confab(work)
        for rated in (one for one in SETS if one.name in options.sets.split(",")):
            if not (options.data / f"{rated.name}.jsonl.gz").exists():
                print(f"{rated.name} is skipped: it is not in {options.data}")
                continue
            part = work / "parts"
            part.mkdir(exist_ok=True)
            n_bots, n_ratings = rated_part(rated, options.data, part, options.first)
            if n_bots < FEW_BOTS:
                verdict = f"none: {pluralise(n_bots, 'rated bot')}"
                rows.append([rated.name, "all", str(n_bots), str(n_ratings), "", "", "", "", "", verdict])
                continue
            measured(confab, rated, part, "full", work)
            tables = tables_of(rated.name, rated.targets, ())
            most = int(tables.human["bot"].value_counts().max())
            sizes = [None, *(size for size in SIZES if size < most)]
            for size in () if options.permuted_only else sizes:
                samples = samples_of(tables, size, options.samples)
                title = str(size) if size else f"all (at most {most})"
                rows += [[rated.name, *row] for row in rows_of_size(title, samples)]
            for preset in PRESETS:
                for size in (None, round(KEPT_BACK * most)):
                    told = permuted_told(samples_of(tables, size, options.samples), preset)
                    title = "all" if size is None else f"{size} a bot, {options.samples} samples"
                    notes.append(f"{rated.name}, `{preset}`, {title}, permuted studies: {told}")
                    print(notes[-1], flush=True)
    if not options.permuted_only:
        print(table(rows, HEADINGS))
    print("\n".join(notes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
