"""Measure how often intervals of a metric's agreement on systems hold, in simulated studies.

    python -m tests.validation.systems [--studies 150]

Systems differ in quality, people and the metric see it with noise; contexts are easier or harder for all. A
coefficient or an accuracy should be found as it is with 3,000 contexts, soft pairwise accuracy, which rises with the
contexts, as it is in the mean of the studies.
"""

import argparse
import sys

import numpy as np

from evaluation.agreement.system_agreement import SystemAgreement, SystemFigure, agreement_of_systems
from evaluation.number_format import share
from evaluation.stats.correlation import METHODS

DESIGNS = ((30, 5, True), (100, 6, True), (40, 8, False))
"""Contexts of a system, systems, and whether they share their contexts."""
MANY = 3_000


def study(seed: int, n_contexts: int, n_systems: int, *, is_shared: bool) -> SystemAgreement:
    """Simulate ratings and scores of the same systems, and compare them."""
    fixed, rng = np.random.default_rng(5), np.random.default_rng(seed)
    quality, leaning = 0.4 * fixed.normal(size=n_systems), 0.15 * fixed.normal(size=n_systems)
    system = np.tile(np.arange(n_systems), n_contexts)
    context = np.repeat(np.arange(n_contexts), n_systems) if is_shared else np.arange(len(system))
    ease = rng.normal(size=len(system))[context]
    people = np.clip(np.round(3 + quality[system] + 0.7 * ease + rng.normal(size=len(system))), 1, 5)
    metric = 0.3 * people + leaning[system] + 0.3 * ease + rng.normal(size=len(system))
    texts = [np.array([str(k) for k in codes], dtype=object) for codes in (system, context)]
    result = agreement_of_systems(metric, people, *texts)
    assert result is not None, "there are several systems"
    return result


def figures(found: SystemAgreement) -> dict[str, SystemFigure]:
    """Return all figures that have intervals."""
    return {**found.correlations, "pairwise": found.accuracy, "soft pairwise": found.soft_accuracy}


def main() -> int:
    """Print how many intervals hold; 1 where fewer than 75 % of a kind do."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=150)
    n = parser.parse_args().studies
    worst = 1.0
    for n_contexts, n_systems, is_shared in DESIGNS:
        truth = {name: figure.value for name, figure in figures(study(n, MANY, n_systems, is_shared=is_shared)).items()}
        results = [figures(study(seed, n_contexts, n_systems, is_shared=is_shared)) for seed in range(n)]
        truth["soft pairwise"] = float(np.mean([one["soft pairwise"].value for one in results]))
        print(f"{n_systems} systems, {n_contexts} contexts{', shared' if is_shared else ' each'}")
        for name in (*METHODS, "pairwise", "soft pairwise"):
            held = np.mean([one[name].low - 1e-9 <= truth[name] <= one[name].high + 1e-9 for one in results])
            worst = min(worst, float(held))
            print(f"  {name}: {share(truth[name])}, held by {held:.0%} of {n} intervals of 95 %", flush=True)
    return int(worst < 0.75)


if __name__ == "__main__":
    sys.exit(main())
