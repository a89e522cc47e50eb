"""Do the intervals that pages print hold what they claim? Simulated studies, many more than the suite has time for.

    python -m tests.validation.coverage --size quick|full

Differences by generalised least squares, means of bots with few and many raters, r over bots, agreement of raters, strengths of bots,
prediction-powered means, and the always-valid test, by the share of studies in which any look leaves the truth out, with raters dealt out evenly and by
what came out so far. The designs are those of the suite's tests. Those of `strong` are in `tests.validation.simulated`. Prints only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
from scipy import stats as distributions

from evaluation.hybrid.levels import bot_levels
from evaluation.stats.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha
from evaluation.stats.bradley_terry import bradley_terry
from evaluation.stats.gls import fit_gls
from evaluation.stats.ppi import powered_mean
from tests.evaluation.stats import simulated_means, test_gls, test_sequential

LEVEL = 0.90
N_STUDIES = {"quick": 100, "full": 1_500}
LEVELS = (0.90, 0.95)
RATERS = (3, 5, 8, 12, 20, 40)
BOTS = (4, 6, 8, 12, 20)
N_RESAMPLES = 500
RATERS_POWERED = (5, 8, 12, 20, 30, 60)


def told(what: str, held: int, n: int, width: float, level: float = LEVEL) -> str:
    """Return one line: how often an interval held the truth, and how wide it was."""
    error = np.sqrt(level * (1 - level) / n)
    less = held / n < level - 2 * error
    return (
        f"{what}, {level:.0%}: held in {held / n:.3f} of {n} studies (Monte-Carlo error {error:.3f}), mean width {width:.2f}"
        + (", LESS THAN IT CLAIMS" if less else "")
    )


def differences(n: int) -> list[str]:
    """Return how often intervals of differences held, over all pairs of a design and the worst pair."""
    lines = []
    for design in (test_gls.uneven, test_gls.within, test_gls.apart, test_gls.few):
        rng = np.random.default_rng(7)
        pairs = [(i, j) for i in range(4) for j in range(i)]
        held, width = np.zeros(len(pairs)), 0.0
        for _ in range(n):
            fit = fit_gls(*design(rng))
            for place, (i, j) in enumerate(pairs):
                gap = fit.gap(i, j)
                half = distributions.t.ppf(0.5 + LEVEL / 2, gap.df) * gap.error
                true = test_gls.TRUE[i] - test_gls.TRUE[j]
                held[place] += abs(gap.difference - true) <= half
                width += 2 * half / n / len(pairs)
        lines.append(told(f"difference, {design.__name__}", round(held.mean()), n, width))
        lines.append(f"  worst of its {len(pairs)} pairs {held.min() / n:.3f}")
    return lines


def means(n: int) -> list[str]:
    """Return how often intervals of a bot's mean held, by design, number of raters and level."""
    lines = [
        told(f"mean of {k} raters, {design}", round(share * n), n, width, level)
        for level in LEVELS
        for design in simulated_means.DESIGNS
        for k in RATERS
        for share, width in [simulated_means.held(design, k, level, n)]
    ]
    for sizes in ((3, 3), (8, 6), (20, 5), (5, 20), (20, 20)):
        for spreads in ((0.5, 0.5), (0.7, 0.1), (0.1, 0.7)):
            share, width = simulated_means.held_crossed(*sizes, spreads, LEVEL, n)
            what = (
                f"mean of {sizes[0]} raters of the same {sizes[1]} things, which vary by {spreads}"
            )
            lines.append(told(what, round(share * n), n, width))
    return lines


def correlations(n: int) -> list[str]:
    """Return how often the interval of r over bots held, as fits of the hybrid metric print it."""
    lines = []
    for n_bots in BOTS:
        for true in (0.0, 0.5, 0.9):
            rng = np.random.default_rng(12)
            held, width = 0, 0.0
            for _ in range(n):
                x, noise = rng.normal(size=(2, n_bots))
                y = true * x + np.sqrt(1 - true**2) * noise
                found = bot_levels(x, y, seed=0, null=lambda: None, methods=["pearson"])
                low, high = found["pearson"].correlation.low, found["pearson"].correlation.high
                assert low is not None
                assert high is not None
                held += low <= true <= high
                width += (high - low) / n
            lines.append(told(f"r = {true} over {n_bots} bots", held, n, width, 0.95))
    return lines


def agreements(n: int) -> list[str]:
    """Return how often intervals of agreement over resampled items held: four raters, who guess two times in five."""
    lines, true = [], 0.6**2
    for n_items in (10, 20, 40, 100):
        rng = np.random.default_rng(13)
        ends: dict[str, list[tuple[float, float]]] = {}
        for _ in range(n):
            table = _answers(rng, n_items)
            for name, found in {
                "Cohen's kappa": cohen_kappa(table[:, 0], table[:, 1], n_bootstrap=N_RESAMPLES),
                "Fleiss' kappa": fleiss_kappa(table, n_bootstrap=N_RESAMPLES),
                "Krippendorff's alpha": krippendorff_alpha(
                    table, "nominal", n_bootstrap=N_RESAMPLES
                ),
            }.items():
                if found.low is not None and found.high is not None:
                    ends.setdefault(name, []).append((found.low, found.high))
        for name, pairs in ends.items():
            low, high = np.array(pairs).T
            held = int(((low <= true) & (true <= high)).sum())
            what = f"{name}, {n_items} items"
            lines.append(told(what, held, len(pairs), float((high - low).mean()), 0.95))
    return lines


def strengths(n: int) -> list[str]:
    """Return how often differences of log strengths held, by raters who differ in what they prefer."""
    true = bradley_terry(*_judged(np.random.default_rng(9), 6_000, 10))
    truth = {(pair.a, pair.b): pair.difference for pair in true.comparisons}
    lines = []
    for n_raters, n_each in ((6, 10), (10, 10), (20, 6), (40, 4)):
        rng = np.random.default_rng(1)
        held, of, width = 0, 0, 0.0
        for _ in range(n):
            found = bradley_terry(*_judged(rng, n_raters, n_each), level=LEVEL)
            for pair in found.comparisons:
                low, high, real = pair.low, pair.high, truth[pair.a, pair.b]
                assert low is not None and high is not None and real is not None  # noqa: PT018
                held, of, width = held + (low <= real <= high), of + 1, width + high - low
        what = f"difference of strengths, {n_raters} raters of {n_each} pairs"
        lines.append(told(what, round(held / of * n), n, width / of))
    return lines


def _judged(
    rng: np.random.Generator, n_raters: int, n_each: int
) -> tuple[list[str], list[str], np.ndarray, list[str]]:
    """Return the first and the second bot of each pair, whether the first won, and who judged."""
    bots = np.array(["a", "b", "c"])
    first = rng.integers(3, size=(n_raters, n_each))
    second = (first + rng.integers(1, 3, size=first.shape)) % 3
    own = np.array([0.0, 0.4, 1.0]) + rng.normal(0, 0.7, size=(n_raters, 3))
    rater = np.repeat(np.arange(n_raters), n_each)
    ahead = own[rater, first.ravel()] - own[rater, second.ravel()]
    won = (rng.random(len(ahead)) < 1 / (1 + np.exp(-ahead))).astype(float)
    return bots[first.ravel()].tolist(), bots[second.ravel()].tolist(), won, rater.tolist()


def _answers(rng: np.random.Generator, n_items: int) -> np.ndarray:
    """Return (n_items, 4) answers: the true one of three, or by chance with the same frequencies."""
    frequency = [0.5, 0.3, 0.2]
    true = rng.choice(3, size=(n_items, 1), p=frequency)
    guessed = rng.choice(3, size=(n_items, 4), p=frequency)
    return np.where(rng.random((n_items, 4)) < 0.4, guessed, true).astype(float)


def powered(n: int) -> list[str]:
    """Return how often prediction-powered intervals held, where the prediction explains half of the variance."""
    return [_one(f"powered mean of {k} raters", n, k, _powered) for k in RATERS_POWERED]


Interval = Callable[[np.random.Generator, int], tuple[float | None, float | None]]


def _one(what: str, n: int, n_raters: int, interval: Interval) -> str:
    rng = np.random.default_rng(11)
    ends = np.array([interval(rng, n_raters) for _ in range(n)], dtype=float)
    low, high = ends.T
    return told(what, int(((low <= 0) & (high >= 0)).sum()), n, float(np.mean(high - low)))


def _powered(rng: np.random.Generator, n_raters: int) -> tuple[float | None, float | None]:
    predicted = rng.normal(size=n_raters)
    found = powered_mean(
        predicted + rng.normal(size=n_raters), predicted, rng.normal(size=5 * n_raters), level=LEVEL
    )
    return found.low, found.high


def looked_at_often(n: int) -> list[str]:
    """Return in how many studies the always-valid test never left the truth out."""
    lines = []
    shares = (test_sequential.LIKED, test_sequential.SPLIT)
    for rule in (test_sequential.balanced, test_sequential.greedy):
        for repeats in (1, 6):
            rng, widths = np.random.default_rng(8), list[float]()
            wrong = sum(
                test_sequential.ever_wrong(rng, rule, shares, repeats=repeats, widths=widths)
                for _ in range(n)
            )
            what = f"at every look, {rule.__name__}, up to {repeats} ratings a rater"
            lines.append(told(what, n - wrong, n, float(np.mean(widths))))
    return lines


def main() -> int:
    """Print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=["quick", "full"], default="quick")
    n = N_STUDIES[parser.parse_args().size]
    for part in (differences, means, correlations, powered, looked_at_often):
        print("\n".join(part(n)), flush=True)
    for part in (agreements, strengths):
        print("\n".join(part(n // 3)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
