"""Errors, coverage and power of the fixed-sample test where one bot has few ratings.

    python -m tests.validation.small_groups [--studies N]

Bot `a` has few raters and bot `b` has 50; each gives one rating, or three. Answers are skewed, at the ceiling of a
scale of 1 to 5, or 0 and 1. The bots are equal, or one of them is worse. The scale is known or not. A pair without a
test counts as not different, its missing interval as holding; the share of such pairs is printed.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import stats

from evaluation.stats.comparisons import pairwise

N_STUDIES = 2000
N_MANY = 50
FEW = (2, 3, 5, 8, 12, 30)
LEVELS = (0.90, 0.95)
REPEATS = 2 / 3
"""Chance that a rater's further answer is the first one again."""
DESIGNS = (("known", 1), ("not known", 1), ("known", 3))
"""Whether the scale is known, and the ratings of each rater."""


class Answers(NamedTuple):
    """Chances of a bot's answers, from the lowest to the highest, and of a worse bot's."""

    scale: tuple[float, float]
    usual: tuple[float, ...]
    worse: tuple[float, ...]

    @property
    def values(self) -> np.ndarray:
        """Return the possible answers."""
        return np.linspace(*self.scale, len(self.usual))

    @property
    def gap(self) -> float:
        """Return the true difference of the usual and the worse bot."""
        return float(self.values @ np.subtract(self.usual, self.worse))

    def draw(self, rng: np.random.Generator, n_raters: int, n_each: int, *, is_worse: bool) -> np.ndarray:
        """Return (raters, ratings) random answers."""
        drawn = rng.choice(self.values, size=(n_raters, n_each), p=self.worse if is_worse else self.usual)
        return np.where(rng.random(drawn.shape) < REPEATS, drawn[:, :1], drawn)


ANSWERS = {
    "skewed": Answers((1, 5), (0.05, 0.05, 0.1, 0.2, 0.6), (0.15, 0.2, 0.25, 0.2, 0.2)),
    "ceiling, down to 1": Answers((1, 5), (0.02, 0.02, 0.02, 0.04, 0.9), (0.1, 0.1, 0.1, 0.2, 0.5)),
    "ceiling, down to 3": Answers((1, 5), (0, 0, 0.02, 0.08, 0.9), (0.05, 0.1, 0.15, 0.2, 0.5)),
    "0/1, .75": Answers((0, 1), (0.25, 0.75), (0.6, 0.4)),
    "0/1, .90": Answers((0, 1), (0.1, 0.9), (0.4, 0.6)),
}


class Outcome(NamedTuple):
    """Shares of studies, at each level.

    Attributes:
        different: pairs called different; held: intervals that hold the truth; unknown: pairs without a test.
        welch: pairs that differ by Welch's test of the raters' means, which takes equal ratings for certain.
    """

    different: np.ndarray
    held: np.ndarray
    unknown: np.ndarray
    welch: np.ndarray


def simulate(
    answers: Answers, n_few: int, n_studies: int, *, worse: str = "", n_each: int = 1, is_scale_known: bool = True
) -> Outcome:
    """Simulate studies of two bots.

    Args:
        worse: the bot that is worse, `a` or `b`; none if empty.
    """
    rng = np.random.default_rng(n_few)
    bots = np.repeat(["a", "b"], [n_few * n_each, N_MANY * n_each]).tolist()
    raters = np.repeat(np.arange(n_few + N_MANY), n_each)
    truth = answers.gap * ((worse == "b") - (worse == "a"))
    alphas = 1 - np.array(LEVELS)
    studies = np.zeros((n_studies, 4, len(LEVELS)))
    for study in studies:
        few, many = (answers.draw(rng, n, n_each, is_worse=worse == bot) for bot, n in (("a", n_few), ("b", N_MANY)))
        (pair,) = pairwise(
            np.concatenate([few.ravel(), many.ravel()]),
            bots,
            raters.tolist(),
            level=LEVELS[1],
            equal_alpha=(1 - LEVELS[0]) / 2,
            scale=answers.scale if is_scale_known else None,
        ).pairs
        ends = np.array([[pair.equal_low, pair.equal_high], [pair.low, pair.high]], dtype=float)
        study[0] = False if pair.p is None else pair.p < alphas
        study[1] = np.isnan(ends[:, 0]) | ((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        study[2] = pair.p is None
        study[3] = welch_p(few.mean(axis=1), many.mean(axis=1)) < alphas
    return Outcome(*studies.mean(axis=0))


def welch_p(few: np.ndarray, many: np.ndarray) -> float:
    """Return the p-value of Welch's test, by which a group without spread has no error."""
    variances = np.array([few.var(ddof=1) / len(few), many.var(ddof=1) / len(many)])
    if not variances.sum() > 0:
        return 1.0
    df = variances.sum() ** 2 / (variances**2 / [len(few) - 1, len(many) - 1]).sum()
    return float(2 * stats.t.sf(abs(few.mean() - many.mean()) / np.sqrt(variances.sum()), df))


def tables(n_studies: int) -> Iterator[str]:
    """Yield the lines of a Markdown table; studies of unequal bots are half as many."""
    heads = "scale|ratings each|answers|n|not known|level|error|by Welch|held|held, a worse|held, b worse"
    heads += "|power, a worse|by Welch|power, b worse|by Welch"
    yield f"| {heads.replace('|', ' | ')} |"
    yield f"|{'---|' * (heads.count('|') + 1)}"
    for scale, n_each in DESIGNS:
        for name, answers in ANSWERS.items():
            for n_few in FEW:
                equal, a_worse, b_worse = (
                    simulate(answers, n_few, n, worse=worse, n_each=n_each, is_scale_known=scale == "known")
                    for worse, n in (("", n_studies), ("a", n_studies // 2), ("b", n_studies // 2))
                )
                for k, level in enumerate(LEVELS):
                    figures = [equal.different[k], equal.welch[k], equal.held[k], a_worse.held[k], b_worse.held[k]]
                    figures += [value[k] for one in (a_worse, b_worse) for value in (one.different, one.welch)]
                    cells = [scale, n_each, name, n_few, f"{equal.unknown[k]:.2f}", level]
                    cells += [f"{figure:.3f}" for figure in figures]
                    yield f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=N_STUDIES)
    for line in tables(parser.parse_args().studies):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
