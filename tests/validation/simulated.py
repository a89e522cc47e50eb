"""Do the intervals of `strong` hold what they claim? Studies of bots drawn from its model, ratings and all.

    python -m tests.validation.simulated [--studies 40000]

Each batch of studies has features of its own for eight rated bots and two new ones, and a variance of ratings that is
estimated from the rated bots' 30 ratings each. Hyperparameters are drawn from the prior, true means from the process,
mean ratings around them. Covariances are made here, bot by bot, and not by the process that is tested.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from evaluation.hybrid.bot_means import BotFeatureMeans, BotSums
from evaluation.hybrid.calibration import CONFLICT, combine
from evaluation.hybrid.gaussian_process import (
    BLOCK_VARIANCE_GRID,
    PRIOR_MEDIAN,
    PRIOR_SIGMA,
    RESIDUAL_VARIANCE_GRID,
    BotGaussianProcess,
    Noise,
)
from evaluation.hybrid.gaussian_process_folds import FoldMeans
from evaluation.hybrid.rating_noise import RatingNoise

N_BOTS, N_NEW, N_EACH = 8, 2, 30
BLOCKS = (np.array([0, 1, 2]), np.array([3, 4]))
SPREAD = 20.0
"""Standard deviation of a rating within bots."""


@dataclass(frozen=True)
class Coverage:
    """How often an interval held what it is about.

    Attributes:
        held, of: in so many of so many simulated studies.
        width: mean width of the interval, in units of the rating.
    """

    name: str
    held: int
    of: int
    width: float

    @property
    def share(self) -> float:
        return self.held / self.of

    @property
    def error(self) -> float:
        """Monte-Carlo standard error of the share, were it .95."""
        return float(np.sqrt(0.95 * 0.05 / self.of))

    def __str__(self) -> str:
        return (
            f"{self.name}: held in {100 * self.share:.1f} % of {self.of} studies (Monte-Carlo error "
            f"{100 * self.error:.1f} %), mean width {self.width:.2f}"
        )


@dataclass(frozen=True)
class Simulated:
    """What came out.

    Attributes:
        coverages: by interval.
        gain: squared error of ratings and prediction together, as a share of that of the ratings alone.
        gain_of_differences: the same of differences between two new bots.
    """

    coverages: dict[str, Coverage]
    gain: float
    gain_of_differences: float


def simulated(n_studies: int, n_ratings: int = 20, seed: int = 0, batch: int = 1000) -> Simulated:
    """Simulate so many studies, in which two new bots have so many ratings each."""
    results: dict[str, list[np.ndarray]] = {}
    errors: list[np.ndarray] = []
    for part in _batches(n_studies, n_ratings, seed, batch):
        for name, values in part.items():
            if name == "errors":
                errors.append(values)
            else:
                results.setdefault(name, []).append(values)
    coverages = {}
    for name, parts in results.items():
        held, width = np.concatenate(parts).T
        if not len(held):
            continue  # in few studies nothing is contradicted
        coverages[name] = Coverage(name, int(held.sum()), len(held), float(width.mean()))
    together, alone = np.concatenate(errors).transpose(1, 0, 2)  # (P, new) each
    gain = float((together**2).mean() / (alone**2).mean())
    differences = [np.ptp(one, axis=1) for one in (together, alone)]
    apart = float((differences[0] ** 2).mean() / (differences[1] ** 2).mean())
    return Simulated(coverages, gain, apart)


def _batches(n_studies: int, n_ratings: int, seed: int, batch: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield by interval (P, 2), whether it held and how wide it is; and under `errors` (P, 2, new)."""
    rng = np.random.default_rng(seed)
    for start in range(0, n_studies, batch):
        n = min(batch, n_studies - start)
        x = rng.normal(size=(N_BOTS + N_NEW, 5)) * rng.uniform(0.3, 3, size=5)
        kernels = [kernel_of(x[:, columns]) for columns in BLOCKS]
        free = N_BOTS * (N_EACH - 1)
        means = means_of(x[:N_BOTS], SPREAD**2 * rng.chisquare(free) / free, N_EACH)
        process = BotGaussianProcess(means, BLOCKS)
        true = 50 + drawn_means(rng, kernels, n)
        rated = true[:, :N_BOTS] + rng.normal(scale=SPREAD / N_EACH**0.5, size=(n, N_BOTS))
        posterior = process.posterior(rated)
        noise, error = SPREAD / n_ratings**0.5, (means.variance / n_ratings) ** 0.5
        both = np.empty((n, 2, N_NEW))
        told: dict[str, np.ndarray] = {}
        for k in range(N_NEW):
            now = true[:, N_BOTS + k]
            ratings = now + rng.normal(scale=noise, size=n)
            expected = process.expected(posterior, x[N_BOTS + k])
            together = expected.updated(ratings, Noise.alone(error**2))
            both[:, 0, k], both[:, 1, k] = together.mean - now, ratings - now
            if k:
                continue  # one bot a study, so that studies are independent
            z = (ratings - expected.mean) / np.sqrt(expected.variance + error**2)
            low, high = together.interval(0.95)
            told["true mean"] = _held(*expected.interval(0.95), now)
            ends = expected.widened(error**2).interval(0.95)
            told["further ratings"] = _held(*ends, now + rng.normal(scale=noise, size=n))
            told["ratings alone"] = _held(ratings - 1.96 * error, ratings + 1.96 * error, now)
            told["together"] = _held(low, high, now)
            warned = np.abs(z) > CONFLICT
            told["together, contradicted"] = told["together"][warned]
            told["ratings alone, contradicted"] = told["ratings alone"][warned]
            # A bot unlike the others: three standard deviations from where the others say it is.
            odd = expected.mean + 3 * np.sqrt(expected.variance)
            ratings = odd + rng.normal(scale=noise, size=n)
            ends = expected.updated(ratings, Noise.alone(error**2)).interval(0.95)
            told["together, a bot unlike the others"] = _held(*ends, odd)
        yield {**told, "errors": both}


RATERS = {
    "one rating each": (30, 1, 1),
    "two bots a rater": (30, 2, 1),
    "three bots a rater": (30, 3, 1),
    "six raters of each bot alone, five ratings each": (6, 1, 5),
    "two bots a rater, five ratings of each": (12, 2, 5),
    "eight raters rate all bots five times": (8, N_BOTS, 5),
}
"""By name how many raters each bot has, how many bots each of them rates, and how often each bot."""


def _raters(n_each: int, n_rated: int, n_times: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bot and the rater of every rating: (R,) both. Each rater rates bots that stand beside each other in
    a ring.
    """
    n_raters = n_each * N_BOTS // n_rated
    first = np.arange(n_raters) % N_BOTS
    bot = (first[:, None] + np.arange(n_rated)) % N_BOTS
    rater = np.repeat(np.arange(n_raters), n_rated * n_times)
    return np.repeat(bot.ravel(), n_times), rater


def simulated_raters(name: str, n_studies: int, seed: int = 0, share: float = 0.5) -> dict[str, Coverage]:
    """Simulate studies in which raters with habits rate as `RATERS` says, and the first bot is left out.

    Args:
        share: of the variance of a rating within bots, how much is the raters'.
    """
    rng = np.random.default_rng(seed)
    bot, rater = _raters(*RATERS[name])
    results: dict[str, list[np.ndarray]] = {}
    everybody = np.ones(N_BOTS, dtype=bool)
    others = everybody & (np.arange(N_BOTS) > 0)
    for _ in range(n_studies):
        x = rng.normal(size=(N_BOTS, 5))
        # In units of a rating less its rater, as the process counts.
        apart = drawn_means(rng, [kernel_of(x[:, columns]) for columns in BLOCKS], 1)[0]
        true = 50 + (1 - share) ** 0.5 * apart
        # Twice, by other raters: further ratings are the second time.
        sums, again = (_rated(rng, x, true, bot, rater, share) for _ in range(2))
        means, fold = sums.compute_means(everybody), replace(sums.compute_means(others), scale=np.ones(5))
        told = FoldMeans({str(k): tuple(block.tolist()) for k, block in enumerate(BLOCKS)}, means, {"b0": fold})
        expected = told.expected("b0", x[:1])
        _, variance = told.all_bots.new_ratings("b0")
        noise = told.noise("b0", x[:1])
        combined = combine(expected, float(means.rating[0]), noise, 1, variance=variance, df=told.all_bots.df_of("b0"))
        further = float(again.compute_means(everybody).rating[0])
        gap = float(means.rating[0] - means.rating[1])
        half = 1.96 * np.sqrt(means.variance * (means.noise[0, 0] + means.noise[1, 1] - 2 * means.noise[0, 1]))
        for what, ends, value in (
            ("ratings alone", combined.ratings_interval, true[0]),
            ("true mean", expected.first_interval(0.95), true[0]),
            ("further ratings", expected.widened(variance).first_interval(0.95), further),
            ("together", combined.together_interval, true[0]),
            ("difference of two bots", (gap - half, gap + half), true[0] - true[1]),
        ):
            low, high = (np.array([end]) for end in ends)
            results.setdefault(what, []).append(_held(low, high, np.array([value])))
    return {
        what: Coverage(what, int(held.sum()), len(held), float(width.mean()))
        for what, (held, width) in ((what, np.concatenate(parts).T) for what, parts in results.items())
    }


def _rated(
    rng: np.random.Generator, x: np.ndarray, true: np.ndarray, bot: np.ndarray, rater: np.ndarray, share: float
) -> BotSums:
    """Return ratings of all bots by people with habits, one of each conversation."""
    habit = rng.normal(scale=SPREAD * share**0.5, size=int(rater.max()) + 1)
    y = true[bot] + habit[rater] + rng.normal(scale=SPREAD * (1 - share) ** 0.5, size=len(bot))
    ratings = RatingNoise(y, np.arange(len(y)), bot, rater, len(y), len(true))
    return BotSums(x[bot], y, bot, [f"b{k}" for k in range(len(true))], ratings)


def _held(low: np.ndarray, high: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return (P, 2): whether the value lies inside, and the width."""
    return np.column_stack([(low <= value) & (value <= high), high - low])


def kernel_of(x: np.ndarray, n_bots: int = N_BOTS) -> np.ndarray:
    """Return the covariances of all bots, new ones too, by centre and trace of the rated ones."""
    z = x - x[:n_bots].mean(axis=0)
    products = z @ z.T
    return np.asarray(products * n_bots / np.trace(products[:n_bots, :n_bots]))


def left_out(
    n_studies: int, n_bots: int, n_each: int, seed: int = 0, batch: int = 50
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield of each study the bots' means predicted by the other bots, and their mean ratings, (bots,) both."""
    rng = np.random.default_rng(seed)
    for start in range(0, n_studies, batch):
        n = min(batch, n_studies - start)
        x = rng.normal(size=(n_bots, 5)) * rng.uniform(0.3, 3, size=5)
        true = 50 + drawn_means(rng, [kernel_of(x[:, columns], n_bots) for columns in BLOCKS], n)
        rated = true + rng.normal(scale=SPREAD / n_each**0.5, size=(n, n_bots))
        predicted = np.empty((n, n_bots))
        for k in range(n_bots):
            others = np.arange(n_bots) != k
            process = BotGaussianProcess(means_of(x[others], SPREAD**2, n_each), BLOCKS)
            posterior = process.posterior(rated[:, others])
            predicted[:, k] = process.expected(posterior, x[k]).mean
        yield from zip(predicted, rated, strict=True)


def means_of(x: np.ndarray, variance: float, n_each: int, ratings: np.ndarray | None = None) -> BotFeatureMeans:
    """Return bots with these mean features and so many independent ratings each, whose means are these, or 0."""
    n = len(x)
    return BotFeatureMeans(
        bots=tuple(f"b{k}" for k in range(n)),
        x=x,
        scale=np.ones(5),
        rating=np.zeros(n) if ratings is None else ratings,
        n=np.full(n, float(n_each)),
        noise=np.eye(n) / n_each,
        df=np.full(n, n * (n_each - 1.0)),
        variance=variance,
    )


def drawn_means(
    rng: np.random.Generator, kernels: list[np.ndarray], n: int, at: tuple[float, ...] | None = None
) -> np.ndarray:
    """Draw hyperparameters by the prior and with them true means, less their level: (n, bots).

    Args:
        at: theta and each tau, in place of a draw.
    """
    grid = [(theta, *taus) for theta, *taus in product(RESIDUAL_VARIANCE_GRID, *[BLOCK_VARIANCE_GRID] * len(kernels))]
    grid = grid if at is None else [at]
    total = np.array([sum(point) for point in grid])
    density = np.exp(-0.5 * (np.log(total / PRIOR_MEDIAN) / PRIOR_SIGMA) ** 2) / total
    chosen = rng.choice(len(grid), size=n, p=density / density.sum())
    drawn = np.empty((n, len(kernels[0])))
    for point in set(chosen.tolist()):
        theta, *taus = grid[point]
        covariance = theta * np.eye(len(kernels[0]))
        covariance += sum(tau * kernel for tau, kernel in zip(taus, kernels, strict=True))
        root = np.linalg.cholesky(SPREAD**2 * covariance)
        mine = chosen == point
        drawn[mine] = rng.normal(size=(int(mine.sum()), len(root))) @ root.T
    return drawn


def simulations_told(n_studies: int) -> str:
    """Return how often each interval held, with 20 and 40 ratings of a new bot."""
    lines = []
    for n_ratings in (20, 40):
        result = simulated(n_studies, n_ratings)
        lines.append(f"Simulated studies of {N_BOTS} rated bots, {n_ratings} ratings of a new one:")
        lines += [f"  {coverage}" for coverage in result.coverages.values()]
        lines.append(
            f"  squared error of ratings and prediction together, as a share of that of the ratings: "
            f"{result.gain:.2f}; of differences between two new bots {result.gain_of_differences:.2f}"
        )
    lines.append("Raters who rate more than once, half of the variance within bots theirs:")
    for name in RATERS:
        text = ", ".join(
            f"{what} {100 * simulated_rater.share:.1f} % (width {simulated_rater.width:.1f})"
            for what, simulated_rater in simulated_raters(name, n_studies // 50 or 1).items()
        )
        lines.append(f"  {name}, {n_studies // 50 or 1} studies: {text}")
    return "\n".join(lines)


def main() -> None:
    """Print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=40_000)
    print(simulations_told(parser.parse_args().studies))


if __name__ == "__main__":
    main()
