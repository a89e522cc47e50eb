"""How much less the differences of bots vary by least squares than by plain means, on sets of real ratings.

    python -m tests.validation.comparisons [--data FOLDER]

For each set the variance of every pair's difference, by `evaluation.stats.comparisons` (raters as a random effect,
errors clustered by rater, CR2) and by a bootstrap of whole raters of the plain means, which decided before; and how
many pairs each tells apart. Then what prediction-powered estimates gain where half the conversations are taken as
unrated.
"""

import argparse
import gzip
import json
import sys
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from evaluation.analysis.comparisons import compare
from evaluation.analysis.prediction_powered import powered_by
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.stats.comparisons import ORDER_ALPHA, holm

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "interactive"
SEVEN = ("robotic", "interesting", "fun", "consistent", "fluent", "repetitive", "topic")
SETS: dict[str, tuple[tuple[str, ...], tuple[float, float], frozenset[str]]] = {
    "reliable": (SEVEN, (0, 100), frozenset({"qc"})),
    "dstc9": (("overall",), (1, 5), frozenset()),
}
N_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Saved:
    """What least squares save on one set.

    Attributes:
        less: mean share by which the variance of a difference is smaller.
        least, most: of the single pairs.
        apart, apart_before: pairs told apart by either, of `n_pairs`.
        rater_share: of the variance around the bots' means.
    """

    less: float
    least: float
    most: float
    apart: int
    apart_before: int
    n_pairs: int
    rater_share: float


def read(path: Path, keys: tuple[str, ...], scale: tuple[float, float], without: frozenset[str]) -> Ratings:
    """Return the ratings of a file of conversations, without some bots."""
    rows = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            if document["bot"] in without:
                continue
            for rating in document.get("ratings", ()):
                answers = {key: rating.get(key) for key in keys}
                rows.append(
                    {
                        "conversation": document["dialogue_id"],
                        "bot": document["bot"],
                        "rater": rating.get("rater"),
                        **answers,
                    }
                )
    dimensions = [RatingDimension(key, key, *scale) for key in keys]
    return Ratings.from_frame(pd.DataFrame(rows), dimensions)


def plain_errors(ratings: Ratings, bots: list[str], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return plain means, the bootstrap's errors of their differences, and how many raters each bot has."""
    values, units = ratings.values(), np.unique(ratings.unit.astype(str), return_inverse=True)[1]
    column = np.array([bots.index(bot) for bot in ratings.bot])
    known = np.isfinite(values)
    sums, counts = np.zeros((2, units.max() + 1, len(bots)))
    np.add.at(sums, (units[known], column[known]), values[known])
    np.add.at(counts, (units[known], column[known]), 1.0)
    rng = np.random.default_rng(seed)
    times = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=N_RESAMPLES).astype(float)
    draws = (times @ sums) / (times @ counts)
    gaps = draws[:, :, None] - draws[:, None]
    return sums.sum(axis=0) / counts.sum(axis=0), gaps.std(axis=0, ddof=1), (counts > 0).sum(axis=0)


def saved(ratings: Ratings) -> Saved:
    """Return what least squares save on these ratings."""
    result = compare(ratings, plans=False)
    bots = sorted(result.means)
    means, errors, n = plain_errors(ratings, bots)
    shares, p_before = [], []
    for i, j in combinations(range(len(bots)), 2):
        pair = result.pair(bots[i], bots[j])
        assert pair is not None
        assert pair.error is not None
        shares.append(1 - pair.error**2 / errors[i, j] ** 2)
        statistic = abs(means[i] - means[j]) / errors[i, j]
        p_before.append(float(2 * stats.t.sf(statistic, min(n[i], n[j]) - 1)))
    before = [p for p in holm(p_before) if p is not None]
    return Saved(
        float(np.mean(shares)),
        min(shares),
        max(shares),
        result.n_told_apart,
        sum(p < ORDER_ALPHA for p in before),
        result.n_pairs,
        result.rater_share,
    )


DRAWS = 10


def powered_by_counts(path: Path, ratings: Ratings, draws: int = DRAWS) -> dict[str, list[float]]:
    """Return what share of the bots' variances predictions save, by predictor, at each draw of a half that is unrated.

    What predicts are counts of a conversation that cost nothing: how much people wrote, how often, and how much they
    asked.
    """
    names, bots = [], []
    counted: dict[str, list[float]] = {"words (log)": [], "turns (log)": [], "questions": []}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            if document["bot"] in ratings.bots:
                texts = [t["text"] for t in document["turns"] if t["speaker"] == "human"]
                names.append(document["dialogue_id"])
                bots.append(document["bot"])
                counted["words (log)"].append(float(np.log1p(sum(len(t.split()) for t in texts))))
                counted["turns (log)"].append(float(np.log1p(len(texts))))
                counted["questions"].append(sum("?" in t for t in texts) / max(len(texts), 1))
    saved: dict[str, list[float]] = {by: [] for by in counted}
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        kept = dict(zip(names, (rng.random(len(names)) < 0.5).tolist(), strict=True))
        half = ratings.select(np.array([kept[name] for name in ratings.conversation]))
        for by, found in powered_by(half, names, bots, counted).items():
            saved[by].append(0.0 if found.saved is None else found.saved)
    return saved


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 0."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the sets")
    options = parser.parse_args(arguments)
    for name, (keys, scale, without) in SETS.items():
        ratings = read(options.data / f"{name}.jsonl.gz", keys, scale, without)
        result = saved(ratings)
        print(
            f"{name}: {len(ratings):,} ratings, raters' share {result.rater_share:.2f}; variance of a difference "
            f"{result.less:.1%} less ({result.least:.1%} to {result.most:.1%} over {result.n_pairs} pairs); "
            f"told apart {result.apart}, by the bootstrap of plain means {result.apart_before}"
        )
        for by, found_by in powered_by_counts(options.data / f"{name}.jsonl.gz", ratings).items():
            print(
                f"  half of it unrated, {len(found_by)} draws: by {by} the bots' variances are "
                f"{np.mean(found_by):.1%} smaller ({min(found_by):.1%} to {max(found_by):.1%})"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
