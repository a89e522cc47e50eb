"""Verdicts on judges by the number of items, in simulated gold sets of four raters.

    python -m tests.validation.judge_verdicts [--sets 200]

A judge as good as each rater, one that rates at random, and one of twice the raters' error. Prints only.
"""

import argparse
import sys
from collections import Counter

import numpy as np

from evaluation.agreement.judges.alternative_test import EPSILON
from evaluation.agreement.judges.comparison import compare_judges
from evaluation.agreement.judges.scoring import JudgeScores
from tests.evaluation.agreement.judges.fake_judge import gold_of

ITEMS = (40, 100, 200, 400)
RATER_SD = 0.8
JUDGES = {"as good": RATER_SD, "twice the error": 2 * RATER_SD, "random": None}


def rate(rng: np.random.Generator, truth: np.ndarray, error: float | None) -> np.ndarray:
    """Return ratings of 1 to 5 with an error of this size; None: any of the points."""
    if error is None:
        return rng.integers(1, 6, len(truth)).astype(float)
    return np.clip(np.round(truth + rng.normal(0, error, len(truth))), 1, 5)


def main() -> int:
    """Print the share of each verdict, and the median of the items that are said to be needed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200)
    n_sets = parser.parse_args().sets
    for expertise, epsilon in EPSILON.items():
        for title, error in JUDGES.items():
            for n in ITEMS:
                rng, verdicts, needed = np.random.default_rng(n), Counter[str](), []
                for _ in range(n_sets):
                    truth = rng.uniform(1, 5, n)
                    gold = gold_of(np.stack([rate(rng, truth, RATER_SD) for _ in range(4)], axis=1))
                    scores = JudgeScores("j", "J", "", "", "", rate(rng, truth, error)[None], is_fixed=True)
                    [judge] = compare_judges(gold, [scores], expertise=expertise, families={}).judges
                    verdicts[judge.verdict] += 1
                    if judge.verdict == "unknown" and judge.test.n_needed is not None:
                        needed.append(judge.test.n_needed)
                shares = ", ".join(f"{name} {verdicts[name] / n_sets:.2f}" for name in ("may", "unknown", "may not"))
                plan = f"; median of items needed {np.median(needed):.0f}" if needed else ""
                print(f"ε {epsilon}, {title}, {n} items: {shares}{plan}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
