"""Coverage of intervals of trajectories, metrics of replies and self-play, by simulated studies.

    python -m tests.validation.held [--studies 600]

The studies are those of which the suite has a few: `simulated_courses`, `simulated_gains` and `simulated_selfplay`
under `tests.evaluation`. Prints only.
"""

import argparse
import sys
from collections.abc import Iterator

import numpy as np

from evaluation.stats.constants import RATING_LEVEL
from tests.evaluation import simulated_gains
from tests.evaluation.hybrid import simulated_selfplay
from tests.evaluation.stats import simulated_courses
from tests.evaluation.stats.simulated_models import Held
from tests.validation.coverage import coverage_line

N_STUDIES = 600


def courses(n: int) -> Iterator[str]:
    """Yield how often intervals of courses and of differences held, where there is one in half of the studies or
    more.
    """
    for design in simulated_courses.DESIGNS:
        for what, one in simulated_courses.held(design, n).items():
            if one.of >= n / 2:
                yield _line(f"{design}: {what}", one, RATING_LEVEL)


def gains(n: int) -> Iterator[str]:
    """Yield how often intervals of gains held."""
    for name, judged in simulated_gains.JUDGED.items():
        for what, one in simulated_gains.paired(judged, n).items():
            yield _line(f"gain of one metric over another, {name}: {what}", one, 0.95)
    for name, sets in simulated_gains.COMBINED.items():
        yield _line(f"gain of a combined metric, {name}", simulated_gains.combined(sets, n), 0.95)


def selfplay(n: int) -> Iterator[str]:
    """Yield how often intervals of what self-play predicts held."""
    for name, sizes in simulated_selfplay.SIZES.items():
        for shift, moved in simulated_selfplay.SHIFTS.items():
            result = simulated_selfplay.held(sizes, moved, n)
            if not result:
                yield f"self-play, {name}, {shift}: no interval, for too few rated bots have self-play"
            for what, parts in result.items():
                one = Held(sum(inside for inside, _width in parts), len(parts))
                one.widths = [width for _inside, width in parts]
                yield _line(f"self-play, {name}, {shift}: {what}", one, 0.95)


def _line(what: str, one: Held, level: float) -> str:
    return coverage_line(what, int(one.inside), one.of, float(np.median(one.widths)), level)


def main() -> int:
    """Print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=N_STUDIES)
    n = parser.parse_args().studies
    for part in (courses, gains, selfplay):
        for line in part(n):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
