"""Errors and coverage of the test within conditions where some cells (bot × condition) have few, equal ratings.

    python -m tests.validation.condition_cells [--studies N]

Two equal bots are rated under some conditions, each rating by a rater of its own: bot `a` by few raters a cell, bot
`b` by 50 in all. All cells have the same distribution of answers. The errors are given for all studies, and for those
where all ratings of a cell of bot `a` are equal while another cell of it varies.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from evaluation.stats.comparisons import pairwise
from tests.validation.small_groups import ANSWERS, N_MANY, Answers

N_STUDIES = 2000
LEVEL = 0.90
CELLS = ((2, 2), (2, 3), (2, 5), (2, 10), (4, 2), (4, 3), (4, 5), (10, 2))
"""Conditions, and raters of bot `a` under each."""


class Outcome(NamedTuple):
    """Shares of studies.

    Attributes:
        different: bots called different; held: intervals of their difference that hold 0.
        constant: studies in which a cell of bot `a` is constant and another is not; constant_different: those of them
            in which the bots are called different.
    """

    different: float
    held: float
    constant: float
    constant_different: float


def simulate(
    answers: Answers, n_conditions: int, n_each: int, n_studies: int, *, is_scale_known: bool = True
) -> Outcome:
    """Simulate studies of two equal bots. A pair without a test counts as not different, its interval as holding."""
    rng = np.random.default_rng(n_conditions * 100 + n_each)
    per_cell = {"a": n_each, "b": max(N_MANY // n_conditions, n_each)}
    bots = [bot for bot, n in per_cell.items() for _ in range(n * n_conditions)]
    conditions = [f"c{k}" for n in per_cell.values() for k in range(n_conditions) for _ in range(n)]
    scale = answers.scale if is_scale_known else None
    different, held, constant = np.zeros((3, n_studies), dtype=bool)
    for k in range(n_studies):
        values = rng.choice(answers.values, size=len(bots), p=answers.usual)
        (pair,) = pairwise(values, bots, conditions=conditions, level=LEVEL, scale=scale).pairs
        different[k] = pair.p is not None and pair.p < 1 - LEVEL
        held[k] = pair.low is None or pair.high is None or pair.low <= 0 <= pair.high
        spreads = np.ptp(values[: n_each * n_conditions].reshape(n_conditions, n_each), axis=1)
        constant[k] = spreads.min() == 0 < spreads.max()
    among_constant = float(different[constant].mean()) if constant.any() else 0.0
    return Outcome(float(different.mean()), float(held.mean()), float(constant.mean()), among_constant)


def tables(n_studies: int) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    heads = "scale|answers|conditions|raters a cell|error|held|a cell is constant|error of these"
    yield f"| {heads.replace('|', ' | ')} |"
    yield f"|{'---|' * (heads.count('|') + 1)}"
    for is_scale_known in (True, False):
        for name, answers in ANSWERS.items():
            for n_conditions, n_each in CELLS:
                outcome = simulate(answers, n_conditions, n_each, n_studies, is_scale_known=is_scale_known)
                cells = ["known" if is_scale_known else "not known", name, n_conditions, n_each]
                yield f"| {' | '.join(map(str, [*cells, *(f'{share:.3f}' for share in outcome)]))} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=N_STUDIES)
    for line in tables(parser.parse_args().studies):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
