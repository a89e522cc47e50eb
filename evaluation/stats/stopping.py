"""Forecast of the number of further participants until the anytime-valid test decides pairs of bots.

A pair is decided if the test orders it after Holm's correction, or if both bots are equal for practical purposes. The
forecast is a posterior predictive simulation. Each of `SIMULATIONS` draws takes a variance of every bot (scaled inverse
chi-square around the observed one), the true means given that variance, and the ratings of further participants, who
rate each bot as often as the participants so far. True means have a normal prior with a flat mean and a standard
deviation that is uniform up to half the scale: among several bots, the largest observed differences are partly chance,
and without the prior the forecast would promise too much. The means and variances after m further participants then go
through the test of `evaluation.stats.sequential`, for m on a grid. The answer is a range: the 10th and 90th percentile
of the first m at which a pair, or a number of pairs, is decided. It is not the plan for the smallest difference of
interest (`sequential.count_further_raters`), which assumes a difference; here the ratings say how large it may be.

`tests/validation/stopping.py` measures how often the range contains the number at which a simulated study decides
(docs/research/stopping.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.stats.comparisons import Comparison, is_equal
from evaluation.stats.sequential import IMAGINED, MIXING, SequentialMeans, pair_label

FEWEST_RATERS = 10
"""Minimum raters of every bot; before, the spread of the ratings is too uncertain."""
SIMULATIONS = 400
MOST_RATERS = 1000
"""Further raters per bot that are simulated."""
LOW, HIGH = 0.10, 0.90
"""Percentiles of the range."""
_STEPS = 48
_SPREADS = 40
FEW_RATERS = Reason("few_raters_for_forecast", f"a bot has fewer than {FEWEST_RATERS} raters")
SHARED_ITEMS = Reason(
    "shared_items_in_forecast", "several participants rate the same items, so more participants may not help"
)
NO_TEST = Reason("no_pair_tested", "no two bots can be compared")


@dataclass(frozen=True, slots=True)
class PeopleRange:
    """Range of a number of further participants.

    Attributes:
        low: 10th percentile: fewer are not enough in 90 % of the simulations.
        high: 90th percentile; None if it is beyond the simulated number.
    """

    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class StoppingForecast:
    """Forecast for all pairs of bots.

    Attributes:
        n_pairs, n_decided: testable pairs, and those that are decided already.
        n_people: participants so far.
        fewest_raters: number of raters of the bot with the fewest.
        pairs: range of every undecided pair, as `(a, b, range)`; empty with a reason.
        n_next, next_people: number of pairs that as many people as so far would decide (median, at least 1), and the
            range of people until so many are decided; None without undecided pairs.
        n_later, later_people: number of the other undecided pairs, and participants that will not decide all (in 90 %
            of the simulations); None without other pairs.
        reason: reason for a missing forecast; None also if all pairs are decided.
    """

    n_pairs: int
    n_decided: int
    n_people: int
    fewest_raters: int
    pairs: tuple[tuple[str, str, PeopleRange], ...] = ()
    n_next: int = 0
    next_people: PeopleRange | None = None
    n_later: int = 0
    later_people: int | None = None
    reason: Reason | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined ones are null."""
        return {
            "n_pairs": self.n_pairs,
            "n_decided": self.n_decided,
            "n_people": self.n_people,
            "fewest_raters": self.fewest_raters,
            "pairs": [{"a": a, "b": b, "low": people.low, "high": people.high} for a, b, people in self.pairs],
            "n_next": self.n_next,
            "next_low": None if self.next_people is None else self.next_people.low,
            "next_high": None if self.next_people is None else self.next_people.high,
            "n_later": self.n_later,
            "later_more_than": self.later_people,
            "reason": None if self.reason is None else self.reason.to_json(),
        }


def forecast_decisions(
    means: SequentialMeans,
    pairs: Sequence[Comparison],
    *,
    n_people: int,
    alpha: float,
    smallest: float | None,
    seed: int = 0,
) -> StoppingForecast:
    """Forecast when the undecided pairs will be decided.

    Args:
        means: means that the pairs compare: of bots, or one for each pair (`sequential.pair_score_means`).
        pairs: results of the anytime-valid test.
        n_people: participants so far.
        alpha: accepted probability of any wrong order among all pairs.
        smallest: smallest difference of interest; None if bots are never called equal.
    """
    tested = [pair for pair in pairs if pair.p is not None]
    is_decided = np.array([pair.ordered or bool(is_equal(pair, smallest)) for pair in tested], dtype=bool)
    place = {label: k for k, label in enumerate(means.labels)}
    first, second = _mean_indices(tested, place)
    used = sorted(set(first.tolist()) | set(second[second >= 0].tolist()))
    fewest = int(means.n_units[used].min()) if used else 0
    summary = (len(tested), int(is_decided.sum()), n_people, fewest)
    reason = NO_TEST if not tested else SHARED_ITEMS if len(means.covariances) > 1 else None
    if reason is None and fewest < FEWEST_RATERS:
        reason = FEW_RATERS
    if reason is not None or is_decided.all():
        return StoppingForecast(*summary, reason=reason)
    grid, steps = _simulate(means, (first, second), n_people, alpha, smallest, seed)
    open_pairs = [pair for pair, is_known in zip(tested, is_decided, strict=True) if not is_known]
    return _summarise(summary, open_pairs, grid, steps[:, ~is_decided])


def _mean_indices(pairs: Sequence[Comparison], place: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the two means of each pair; the second is -1 if the pair has one mean of scores."""
    indices = [
        (place[label], -1) if (label := pair_label(pair.a, pair.b)) in place else (place[pair.a], place[pair.b])
        for pair in pairs
    ]
    columns = np.array(indices, dtype=int).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _simulate(
    means: SequentialMeans,
    indices: tuple[np.ndarray, np.ndarray],
    n_people: int,
    alpha: float,
    smallest: float | None,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate the tests after more participants.

    Returns:
        Numbers of further participants, (G,), and the index of the first at which each pair is decided, (S, P); G if
        it is never decided.
    """
    rng = np.random.default_rng(seed)
    n, mean = means.n_units, means.means
    per_person = n / n_people
    grid = np.unique(np.ceil(np.geomspace(1, MOST_RATERS / per_person.min(), _STEPS))).astype(int)
    unit = means.unit_covariance()
    root, observed = _root(unit), np.diag(unit)
    # Uncertainty of each variance: n − 1 degrees of freedom.
    scale = np.sqrt((n - 1) / rng.chisquare(np.maximum(n - 1, 1), (SIMULATIONS, len(n))))
    errors = scale * (rng.standard_normal((SIMULATIONS, len(n))) @ root.T) / np.sqrt(n)
    true = _draw_means(means, unit, scale, errors, rng, is_centred=bool((indices[1] < 0).all()))
    path = np.zeros((SIMULATIONS, len(n)))
    decided_at = np.full((SIMULATIONS, len(indices[0])), len(grid))
    for k, (m, step) in enumerate(zip(grid, np.diff(grid, prepend=0), strict=True)):
        path += np.sqrt(step) * (rng.standard_normal(path.shape) @ root.T)
        further = per_person * m
        total = n + further
        now = (n * mean + further * true + np.sqrt(per_person) * scale * path) / total
        blend = np.sqrt((n + further * scale**2) / total)  # of standard deviations, observed and further ones
        variance = (observed * blend**2 + IMAGINED * means.imagined / total) / (total + IMAGINED)
        is_decided = _decide(now, variance, (unit, blend, total), indices, alpha, smallest)
        decided_at = np.where(is_decided & (decided_at == len(grid)), k, decided_at)
    return grid, decided_at


def _draw_means(
    means: SequentialMeans,
    unit: np.ndarray,
    scale: np.ndarray,
    errors: np.ndarray,
    rng: np.random.Generator,
    *,
    is_centred: bool,
) -> np.ndarray:
    """Draw the true means given the observed ones: (S, B).

    Given the prior's mean g and standard deviation t, a draw y' = mu' + error from prior and errors becomes a draw from
    the posterior as mu' + t² V⁻¹ (y − y'), with V the covariance of y (Matheron's rule).

    Args:
        unit: (B, B) covariance per rater; scale: (S, B) drawn factors of its standard deviations.
        errors: (S, B) drawn errors of the observed means.
        is_centred: True if the prior's mean is 0, as for scores of pairs.
    """
    n, observed = means.n_units, means.means
    n_bots, ones = len(n), np.ones(len(n))
    covariance = unit / np.sqrt(n[:, None] * n)
    spreads = np.linspace(0.0, np.sqrt(means.imagined), _SPREADS)
    weights = np.array([_log_likelihood(observed, covariance, spread, is_centred) for spread in spreads])
    weights = np.exp(weights - weights.max())
    spread = rng.choice(spreads, size=SIMULATIONS, p=weights / weights.sum())
    # A tenth of a standard error keeps a spread of 0 invertible where a covariance is singular.
    inverse = np.linalg.inv(
        covariance * scale[:, :, None] * scale[:, None, :]
        + (np.maximum(spread**2, 1e-2 * np.diag(covariance).mean()))[:, None, None] * np.eye(n_bots)
    )
    precision = inverse @ ones
    centre = np.zeros(SIMULATIONS)
    if not is_centred:
        total = precision.sum(axis=1)
        centre = (precision @ observed) / total + rng.standard_normal(SIMULATIONS) / np.sqrt(total)
    prior = centre[:, None] + spread[:, None] * rng.standard_normal((SIMULATIONS, n_bots))
    gain = np.einsum("sij,sj->si", inverse, observed - prior - errors)
    return np.asarray(prior + spread[:, None] ** 2 * gain)


def _log_likelihood(observed: np.ndarray, covariance: np.ndarray, spread: float, is_centred: bool) -> float:
    """Return the log restricted likelihood of the prior's standard deviation, up to a constant."""
    floor = 1e-2 * np.diag(covariance).mean()
    total = covariance + max(spread**2, floor) * np.eye(len(observed))
    inverse = np.linalg.inv(total)
    precision = inverse.sum()
    apart = observed if is_centred else observed - (inverse.sum(axis=0) @ observed) / precision
    log = np.linalg.slogdet(total)[1] + apart @ inverse @ apart
    return float(-(log if is_centred else log + np.log(precision)) / 2)


def _decide(
    mean: np.ndarray,
    variance: np.ndarray,
    covariance: tuple[np.ndarray, np.ndarray, np.ndarray],
    indices: tuple[np.ndarray, np.ndarray],
    alpha: float,
    smallest: float | None,
) -> np.ndarray:
    """Apply the test to all pairs of all simulations: (S, P), True if decided.

    Args:
        mean, variance: (S, B) of the means.
        covariance: per rater and observed, (B, B); the factor of its standard deviations, (S, B); raters, (B,).
        indices: as from `_mean_indices`.
    """
    (first, second), (unit, blend, total) = indices, covariance
    is_single = second < 0
    gap = mean[:, first] - np.where(is_single, 0.0, mean[:, second])
    shared = unit[first, second] * blend[:, first] * blend[:, second] / np.sqrt(total[first] * total[second])
    error = variance[:, first] + np.where(is_single, 0.0, variance[:, second] - 2 * shared)
    error = np.maximum(error, 1e-12)
    fewest = np.where(is_single, total[first], np.minimum(total[first], total[second]))
    spread = 1 + 1 / (fewest * MIXING)
    cost = (np.log1p(total[first] * MIXING) + np.where(is_single, 0.0, np.log1p(total[second] * MIXING))) / 2
    log_p = np.minimum(cost - gap**2 / (2 * error * spread), 0.0)
    ranked = np.sort(log_p, axis=1)
    limits = np.log(alpha / np.arange(len(first), 0, -1))
    n_rejected = np.logical_and.accumulate(ranked < limits, axis=1).sum(axis=1, keepdims=True)
    largest = np.take_along_axis(ranked, np.maximum(n_rejected - 1, 0), axis=1)
    is_decided = (n_rejected > 0) & (log_p <= largest)
    if smallest is not None:
        half = np.sqrt(error * 2 * spread * (np.log(1 / alpha) + cost))
        is_decided |= np.abs(gap) + half < smallest
    return is_decided


def _root(covariance: np.ndarray) -> np.ndarray:
    """Return the symmetric square root of a covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _summarise(
    summary: tuple[int, int, int, int], open_pairs: Sequence[Comparison], grid: np.ndarray, steps: np.ndarray
) -> StoppingForecast:
    """Return the ranges of the pairs, of the next few, and of all."""
    by_then = (steps < np.searchsorted(grid, summary[2], side="right")).sum(axis=1)
    n_next = max(1, int(np.median(by_then)))
    n_later = len(open_pairs) - n_next
    in_order = np.sort(steps, axis=1)
    return StoppingForecast(
        *summary,
        pairs=tuple((pair.a, pair.b, _range(grid, steps[:, k])) for k, pair in enumerate(open_pairs)),
        n_next=n_next,
        next_people=_range(grid, in_order[:, n_next - 1]),
        n_later=n_later,
        later_people=_range(grid, in_order[:, -1]).low if n_later else None,
    )


def _range(grid: np.ndarray, steps: np.ndarray) -> PeopleRange:
    """Return the range of the number of participants, rounded outwards to two digits."""
    ends = np.concatenate([[0], grid])
    low, high = np.quantile(steps, LOW, method="lower"), np.quantile(steps, HIGH, method="higher")
    # The test may have decided at any participant after the grid point before.
    return PeopleRange(
        round_people(int(ends[low]) + 1, up=False),
        None if high == len(grid) else round_people(int(grid[high]), up=True),
    )


def round_people(n: int, *, up: bool) -> int:
    """Round to two digits, or to a multiple of 5 from 20 to 100."""
    step = 1 if n < 20 else 5 if n < 100 else int(10 ** (len(str(n)) - 2))
    return -(-n // step) * step if up else n // step * step
