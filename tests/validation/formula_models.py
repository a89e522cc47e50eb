"""Linear models of ratings by a formula: optima against `mixedlm`, levels of tests and coverage, by simulation.

    python -m tests.validation.formula_models [--studies 2000]

The studies are those of `tests.evaluation.stats.simulated_crossed`, of which the suite has a few. Prints only.
"""

import argparse
import sys

import numpy as np
from scipy.stats import t

from tests.evaluation.stats.simulated_crossed import FACTOR_ROW, RaterDesign, draw_ratings, fit_study

SIZES = [(6, 6, 0.5), (8, 6, 0.5), (12, 6, 0.5), (20, 6, 0.5), (24, 5, 0.5), (60, 5, 0.5)]
SIZES += [(8, 6, 0.0), (8, 6, 0.2), (12, 6, 0.3), (20, 6, 0.2), (8, 6, 1.0)]
DESIGNS = [
    RaterDesign(n_raters, n_each, tau, is_between) for n_raters, n_each, tau in SIZES for is_between in (True, False)
]


def main() -> int:
    """Print for each design how often p < .05, and how often 90 % intervals hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    n = parser.add_argument("--studies", type=int, default=2000) and parser.parse_args().studies
    for design in DESIGNS:
        rng, false, held, zero, sd_held, n_sd = np.random.default_rng(7), 0, 0, 0, 0, 0
        for _ in range(n):
            fit = fit_study(draw_ratings(rng, design))
            p = fit.test(FACTOR_ROW[None])[2]
            false += p is not None and p < 0.05
            half = float(t.ppf(0.95, fit.freedom(FACTOR_ROW))) * np.sqrt(fit.covariance[1, 1])
            held += abs(fit.beta[1]) <= half
            zero += fit.tau[0] == 0
            if fit.tau[0] > 0 < design.tau:
                n_sd += 1
                sd_held += abs(np.log(fit.tau[0] / design.tau)) <= 1.645 * fit.tau_errors[0]
        print(
            f"{design}: p < .05 in {false / n:.3f} of {n} studies, 90% held in {held / n:.3f}; standard deviation 0 in "
            f"{zero / n:.3f}, else its 90% interval held in {sd_held / max(n_sd, 1):.3f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
