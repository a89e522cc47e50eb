"""Simulated studies of bots that people rated and that talk to themselves: how often the intervals of what self-play
predicts hold.

For the suite in small, for `tests.validation.held` in full. True means are drawn from the model of `strong` by the
bots' features; in self-play these are moved: not at all, of all bots alike, of each bot in its own way, or both.
"""

from dataclasses import dataclass

import numpy as np

from evaluation.hybrid.features import Design
from evaluation.hybrid.gaussian_process_folds import FoldMeans, from_selfplay
from tests.validation.simulated import BLOCKS, SPREAD, drawn_means, kernel_of, means_of

N_FEATURES = sum(map(len, BLOCKS))


@dataclass(frozen=True)
class Moved:
    """How self-play lies from conversations with people, in standard deviations within bots.

    Attributes:
        alike: of all bots together; own: standard deviation of what each bot adds.
    """

    alike: float
    own: float


SHIFTS = {
    "not moved": Moved(0.0, 0.0),
    "all moved by .5": Moved(0.5, 0.0),
    "all moved by 2": Moved(2.0, 0.0),
    "each moved by .5": Moved(0.0, 0.5),
    "each moved by 1.5": Moved(0.0, 1.5),
    "all moved by 1, each by 1": Moved(1.0, 1.0),
}


@dataclass(frozen=True)
class Sizes:
    """Of a study.

    Attributes:
        rated: bots that people rated; checked: how many of them have self-play, the first ones.
        each: ratings of a bot, one of each conversation; played: conversations of a bot with itself.
        at: theta and each tau of the model; None: drawn by its prior.
    """

    rated: int
    checked: int
    each: int
    played: int
    at: tuple[float, ...] | None = None


FEATURES_TELL = (0.01, 0.2, 0.2)
"""Nearly all differences between bots lie in their features, so that a shift moves predictions most."""
SIZES = {
    "8 bots": Sizes(8, 8, 40, 20),
    "12 bots": Sizes(12, 12, 40, 20),
    "5 bots": Sizes(5, 5, 60, 20),
    "8 bots, 10 conversations": Sizes(8, 8, 20, 10),
    "8 bots, 200 ratings": Sizes(8, 8, 200, 50),
    "8 bots, self-play of 3": Sizes(8, 3, 40, 20),
    "8 bots, self-play of none": Sizes(8, 0, 40, 20),
    "8 bots whose features tell": Sizes(8, 8, 40, 20, FEATURES_TELL),
    "5 bots whose features tell": Sizes(5, 5, 60, 20, FEATURES_TELL),
    "8 bots whose features tell, self-play of none": Sizes(8, 0, 40, 20, FEATURES_TELL),
}
Held = dict[str, list[tuple[bool, float]]]
"""By interval, for each time there is one whether it held, and its width in standard deviations of a rating."""


def add_study(rng: np.random.Generator, sizes: Sizes, moved: Moved, result: Held) -> None:
    """Draw a study, and add whether the intervals of a rated bot and of a new one held."""
    k = sizes.rated
    x = rng.normal(size=(k + 1, N_FEATURES)) * rng.uniform(0.3, 3, size=N_FEATURES)
    true = 50 + drawn_means(rng, [kernel_of(x[:, columns], k) for columns in BLOCKS], 1, sizes.at)[0]
    seen = x[:k] + rng.normal(size=(k, N_FEATURES)) / sizes.each**0.5
    ratings = true[:k] + SPREAD * rng.normal(size=k) / sizes.each**0.5
    names = [f"b{i}" for i in range(k)]
    free = k * (sizes.each - 1)
    variance = SPREAD**2 * rng.chisquare(free) / free
    folds = {}
    for i, name in enumerate(names):
        others = np.arange(k) != i
        folds[name] = means_of(seen[others], variance, sizes.each, ratings[others])
    whole = means_of(seen, variance, sizes.each, ratings)
    means = FoldMeans({str(b): tuple(block.tolist()) for b, block in enumerate(BLOCKS)}, whole, folds)
    direction = rng.choice([-1.0, 1.0], size=N_FEATURES)
    shift = moved.alike * direction + moved.own * rng.normal(size=x.shape)
    at = [*range(sizes.checked), k]
    rows = np.repeat(at, sizes.played)
    played = (x + shift)[rows] + rng.normal(size=(len(rows), N_FEATURES))
    labels = np.array([*names, "new"])[rows]
    told = from_selfplay(means, _design(played, labels))
    for what, bot, number in (("of a rated bot", "b0", 0), ("of a new bot", "new", k)):
        interval = told.interval(means.all_bots, bot) if number in at else None
        if interval is None:
            continue
        again = true[number] + SPREAD * rng.normal() / sizes.each**0.5
        for name, ends, truth in (
            ("true mean", interval.true_mean, true[number]),
            ("further ratings", interval.new, again),
        ):
            inside = bool(ends[0] <= truth <= ends[1])
            result.setdefault(f"{name} {what}", []).append((inside, (ends[1] - ends[0]) / SPREAD))


def held(sizes: Sizes, moved: Moved, n_studies: int, seed: int = 0) -> Held:
    """Return how often the intervals held in so many studies."""
    rng = np.random.default_rng(seed)
    results: Held = {}
    for _ in range(n_studies):
        add_study(rng, sizes, moved, results)
    return results


def _design(x: np.ndarray, bots: np.ndarray) -> Design:
    """Return conversations without ratings."""
    n = len(x)
    return Design(
        features=tuple(f"f{c}" for c in range(x.shape[1])),
        ids=np.arange(n),
        x=x,
        y=np.full(n, np.nan),
        bots=bots,
        people=np.full(n, None),
        ratings={},
        extra={},
        means={},
        rated={},
        n_dropped=0,
        dropped={},
    )
