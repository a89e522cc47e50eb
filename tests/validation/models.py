"""Coverage of intervals of mixed models, analysis of variance and proportional odds, by simulation.

    python -m tests.validation.models [--studies 800]

The studies are those of `tests.evaluation.stats.simulated_models`, of which the suite has a few. Prints only.
"""

import argparse
import sys
from collections.abc import Mapping

import numpy as np

from tests.evaluation.stats.simulated_models import (
    DESIGNS,
    DRAWN,
    LEVEL,
    Held,
    held,
    of_anova,
    of_mixed,
    of_odds,
    of_tests,
    once,
)

N_STUDIES = 800
RATERS = (8, 16, 40)


def told(what: str, found: Mapping[str, Held]) -> list[str]:
    """Return a line for the raters' share and one for all other intervals, over them and the worst of them."""
    lines = []
    share = {name: one for name, one in found.items() if name == "raters' share"}
    others = {name: one for name, one in found.items() if name not in share and one.of}
    for of, names in ((share, "raters' share"), (others, "")):
        if not of:
            continue
        shares = {name: one.inside / one.of for name, one in of.items()}
        worst = min(shares, key=lambda name: shares[name])
        n = of[worst].of
        error = np.sqrt(LEVEL * (1 - LEVEL) / n)
        # The least of several intervals falls further below by chance than each of them.
        limit = LEVEL - (3 if len(of) > 1 else 2) * error
        mean = float(np.mean(list(shares.values())))
        width = float(np.mean([width for one in of.values() for width in one.widths]))
        lines.append(
            f"{what}{', ' + names if names else ''}: held in {mean:.3f} of {n} studies, {LEVEL:.0%} claimed "
            f"(Monte-Carlo error {error:.3f}), mean width {width:.2f}; least: {worst} {shares[worst]:.3f}"
            + (", LESS THAN IT CLAIMS" if shares[worst] < limit or mean < LEVEL - 2 * error else "")
        )
    return lines


def main() -> int:
    """Print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=N_STUDIES)
    n = parser.parse_args().studies
    for drawn in DRAWN:
        for design in (*DESIGNS, once):
            for n_raters in RATERS:
                where = f"{drawn}, {design.__name__}, {n_raters} raters"
                ways = {"mixed model": of_mixed, "analysis of variance": of_anova}
                if design is not once:  # where ratings are independent it is the usual one
                    ways["tests without a difference"] = of_tests
                if "points" in drawn:
                    ways["proportional odds"] = of_odds(design)
                for name, way in ways.items():
                    if name == "mixed model" and design is once:
                        continue  # which has none where everybody rates once
                    for line in told(f"{name}, {where}", held(way, drawn, design, n_raters, n)):
                        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
