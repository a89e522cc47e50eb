"""Does the announced number of further participants contain the number at which the test decides?

    python -m tests.validation.stopping [--studies 400] [--seed 1]

Ratings are whole numbers from 1 to 7, from normal values with a standard deviation of 1.4 rounded and cut at the ends.
A study is looked at when every bot has 10, 20 and 40 raters. Every undecided pair then gets a range, as pages show it.
The study goes on, up to 1,000 further raters per bot, and is tested after every round. The range holds if the pair is
decided within it; a range without an end holds if the pair is not decided before it begins. The test is written here
a second time, from means, variances and covariances of the ratings so far.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evaluation.stats.sequential import means_of, pairwise_always
from evaluation.stats.stopping import MOST_RATERS, forecast_decisions

LOOKS = (10, 20, 40)
SD, LOW, HIGH, ALPHA = 1.4, 1.0, 7.0, 0.05
SMALLEST = 0.1 * (HIGH - LOW)


@dataclass(frozen=True)
class Cell:
    """Kind of study: true means in standard deviations, and whether each participant rates all bots."""

    name: str
    means: tuple[float, ...]
    rates_all: bool = False
    smallest: float | None = SMALLEST


CELLS = (
    *(Cell(f"{gap:g} sd", (0.0, gap)) for gap in (0.0, 0.3, 0.5, 0.8)),
    Cell("0 sd, equality off", (0.0, 0.0), smallest=None),
    *(Cell(f"{gap:g} sd, everyone rates both", (0.0, gap), rates_all=True) for gap in (0.0, 0.3, 0.5, 0.8)),
    Cell("five bots: 0, 0, .3, .5, .8 sd", (0.0, 0.0, 0.3, 0.5, 0.8)),
)


def draw_ratings(cell: Cell, rng: np.random.Generator) -> np.ndarray:
    """Return ratings, (raters per bot, bots); in a row by one participant if everyone rates all bots."""
    n = MOST_RATERS + max(LOOKS)
    habit = rng.normal(size=(n, 1)) * (0.4**0.5 if cell.rates_all else 0.0)
    own = rng.normal(size=(n, len(cell.means))) * (0.6**0.5 if cell.rates_all else 1.0)
    centred = np.array(cell.means) - np.mean(cell.means)
    return np.clip(np.round(4 + SD * (centred + habit + own)), LOW, HIGH)


def decide(ratings: np.ndarray, *, rates_all: bool, smallest: float | None, alpha: float = ALPHA) -> np.ndarray:
    """Test all pairs after every round: (n, P), True if decided; the first row is of one rater and never decides."""
    n = np.arange(1, len(ratings) + 1)[:, None]
    mean = np.cumsum(ratings, axis=0) / n
    pairs = list(combinations(range(ratings.shape[1]), 2))

    def covariance(i: int, j: int) -> np.ndarray:
        products = np.cumsum(ratings[:, i] * ratings[:, j]) / n[:, 0] - mean[:, i] * mean[:, j]
        return products / np.maximum(n[:, 0] - 1, 1)

    end = ((HIGH - LOW) / 2) ** 2
    variance = [(covariance(i, i) * n[:, 0] + 3 * end / n[:, 0]) / (n[:, 0] + 3) for i in range(ratings.shape[1])]
    log_p, equal = np.empty((len(n), len(pairs))), np.zeros((len(n), len(pairs)), dtype=bool)
    spread, cost = 1 + 1 / (0.2 * n[:, 0]), np.log1p(0.2 * n[:, 0])
    for k, (i, j) in enumerate(pairs):
        error = variance[i] + variance[j] - (2 * covariance(i, j) if rates_all else 0.0)
        gap = mean[:, i] - mean[:, j]
        log_p[:, k] = np.minimum(cost - gap**2 / (2 * error * spread), 0)
        if smallest is not None:
            half = np.sqrt(2 * error * spread * (np.log(1 / alpha) + cost))
            equal[:, k] = (gap - half > -smallest) & (gap + half < smallest)
    ordered = np.zeros_like(equal)
    for row, values in enumerate(log_p):
        for rank, k in enumerate(np.argsort(values)):
            if not values[k] < np.log(alpha / (len(pairs) - rank)):
                break
            ordered[row, k] = True
    decided = ordered | equal
    decided[0] = False
    return decided


@dataclass(frozen=True)
class Announcement:
    """A range for one pair or group, and the number of participants that was in fact needed; infinite if never."""

    low: int
    high: float
    needed: float

    @property
    def holds(self) -> bool:
        return self.low <= self.needed <= self.high


def announcements(cell: Cell, rng: np.random.Generator) -> Iterator[tuple[str, int, Announcement]]:
    """Yield what one study announces at each look, with its kind: a pair, the next pairs, or all."""
    ratings = draw_ratings(cell, rng)
    decided = decide(ratings, rates_all=cell.rates_all, smallest=cell.smallest)
    n_bots = len(cell.means)
    pairs = list(combinations(range(n_bots), 2))
    for look in LOOKS:
        so_far = ratings[:look]
        bots = [f"bot{k}" for k in range(n_bots)] * look
        raters = [str(row) if cell.rates_all else f"{row}/{k}" for row in range(look) for k in range(n_bots)]
        given = (so_far.ravel(), bots, raters)
        means = means_of(*given, low=LOW, high=HIGH)
        tested = pairwise_always(*given, low=LOW, high=HIGH, level=1 - ALPHA)
        n_people = look if cell.rates_all else look * n_bots
        forecast = forecast_decisions(means, tested, n_people=n_people, alpha=ALPHA, smallest=cell.smallest)
        per_round = n_people // look
        needed = {}
        for k, (i, j) in enumerate(pairs):
            rows = np.flatnonzero(decided[look - 1 :, k])
            needed[f"bot{i}", f"bot{j}"] = float(rows[0] * per_round) if len(rows) else np.inf
        for a, b, people in forecast.pairs:
            yield "pair", look, Announcement(people.low, people.high or np.inf, needed[a, b])
        in_order = sorted(needed[a, b] for a, b, _people in forecast.pairs)
        if forecast.next_people is not None:
            people = forecast.next_people
            yield "next", look, Announcement(people.low, people.high or np.inf, in_order[forecast.n_next - 1])
        if forecast.later_people is not None:
            yield "all", look, Announcement(forecast.later_people, np.inf, in_order[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print("| true difference | announced | look | announcements | held | with an end | median range | median truth |")
    print("|---|---|---|---|---|---|---|---|")
    for number, cell in enumerate(CELLS):
        started = time.monotonic()
        rows: dict[tuple[str, object], list[Announcement]] = defaultdict(list)
        for study in range(arguments.studies):
            rng = np.random.default_rng([arguments.seed, number, study])
            for kind, look, announcement in announcements(cell, rng):
                rows[kind, look].append(announcement)
                rows[kind, "all"].append(announcement)
        for (kind, look), made in sorted(
            rows.items(), key=lambda row: (row[0][0] != "next", row[0][0], str(row[0][1]))
        ):
            held = np.mean([announcement.holds for announcement in made])
            ends = np.mean([np.isfinite(announcement.high) for announcement in made])
            low, high, truth = (
                np.median([getattr(announcement, name) for announcement in made]) for name in ("low", "high", "needed")
            )
            numbers = ["never" if np.isinf(value) else f"{value:,.0f}" for value in (high, truth)]
            print(
                f"| {cell.name} | {kind} | {look} | {len(made)} | {held:.3f} | {ends:.2f} | {low:,.0f} to {numbers[0]} "
                f"| {numbers[1]} |",
                flush=True,
            )
        print(f"<!-- {time.monotonic() - started:.0f} s -->", flush=True)


if __name__ == "__main__":
    main()
