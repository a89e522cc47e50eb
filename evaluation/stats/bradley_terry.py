"""Bradley-Terry strengths of bots from pairwise preferences, with ties.

Bradley and Terry (1952); ties by Davidson (1970), Journal of the American Statistical Association 65: P(i better) : P(j
better) : P(tie) = π_i : π_j : ν √(π_i π_j). The model can also estimate an advantage of the first position, as in
Davidson and Beaver (1977), and effects of controls: other differences between the two, such as the length of their
replies. The log-likelihood is that of a multinomial logit with strengths log π, so Newton's method finds its unique
optimum. If raters are given, standard errors come from a sandwich estimator clustered by rater.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.number_format import pluralise
from evaluation.stats.comparisons import Comparison, rank_ranges
from evaluation.stats.mixed import wald_comparisons
from evaluation.stats.zscores import rater_codes

_MAX_STEPS = 100
_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Strength:
    """Strength of a bot relative to the others.

    Attributes:
        strength, low, high: log π relative to the average bot (strengths sum to 0), with the interval.
        worth: π, normalised to sum to 1.
        wins, losses, ties: counts over its comparisons.
    """

    bot: str
    strength: float
    low: float
    high: float
    worth: float
    wins: int
    losses: int
    ties: int


@dataclass(frozen=True, slots=True)
class Effect:
    """Change in the log odds of preference per unit of a control."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BradleyTerry:
    """The fit.

    Attributes:
        bots: sorted by name; empty without a fit.
        comparisons: difference of log π for every pair, with p-values also corrected by Holm.
        tie, tie_low, tie_high: ν; 0 without ties. Two equal bots tie in ν / (2 + ν) of cases.
        first, first_low, first_high: log odds added by the first position; None if not requested.
        n, n_raters: number of comparisons used, and of raters. None if comparisons count as independent; otherwise
            errors are clustered by rater.
        controls: in the order given.
        reason: reason for a missing fit.
    """

    bots: tuple[Strength, ...]
    comparisons: tuple[Comparison, ...]
    tie: float | None
    tie_low: float | None
    tie_high: float | None
    first: float | None
    first_low: float | None
    first_high: float | None
    n: int
    n_raters: int | None
    reason: Reason | None = None
    controls: tuple[Effect, ...] = ()

    def rank_ranges(self) -> dict[str, tuple[int, int]]:
        """Return each bot's best and worst rank compatible with the comparisons.

        Ranks count from 1; comparisons are corrected by Holm.
        """
        return rank_ranges([bot.bot for bot in self.bots], self.comparisons)

    def probabilities(self, a: str, b: str) -> tuple[float, float, float]:
        """Return P(a better), P(b better) and P(tie), without a position effect.

        Raises:
            KeyError: if one of the bots is not in the fit.
        """
        worth = {bot.bot: bot.worth for bot in self.bots}
        for name in (a, b):
            if name not in worth:
                raise KeyError(f"no bot {name!r} in the fit; available: {sorted(worth)}")
        even = (self.tie or 0.0) * float(np.sqrt(worth[a] * worth[b]))
        total = worth[a] + worth[b] + even
        return worth[a] / total, worth[b] / total, even / total


def bradley_terry(
    first: Sequence[str],
    second: Sequence[str],
    outcomes: Sequence[float] | np.ndarray,
    raters: Sequence[Any] | None = None,
    *,
    place: bool = False,
    controls: Mapping[str, Sequence[float] | np.ndarray] | None = None,
    level: float = 0.95,
) -> BradleyTerry:
    """Fit strengths to pairwise judgements.

    Args:
        first, second: (k,) the bots compared, in the order shown.
        outcomes: (k,) 1: the first is better, 0: the second, .5: a tie; NaN: excluded.
        raters: (k,) rater of each comparison, None for a rater with this one only. Without raters, comparisons count as
            independent.
        place: True to estimate the advantage of the first position.
        controls: by name, (k,) differences (first minus second) in something unrelated to the bot's merit. Strengths
            are estimated for equal values. Comparisons with NaN are excluded.
        level: confidence level of all intervals.

    Raises:
        ValueError: if lengths differ, an outcome is invalid or a bot is compared with itself.
    """
    result = np.asarray(outcomes, dtype=float)
    lengths = {len(first), len(second), len(result), len(result if raters is None else raters)}
    if len(lengths) != 1:
        raise ValueError(
            f"lengths {sorted(lengths)} differ; there must be one bot pair, outcome and rater per comparison"
        )
    extra = _make_covariates(controls or {}, len(result), place=place)
    keep = np.isfinite(result) & np.isfinite(extra).all(axis=1)
    odd = set(result[keep].tolist()) - {0.0, 0.5, 1.0}
    if odd:
        raise ValueError(f"outcome {min(odd):g}; it must be 1 (first), 0 (second) or 0.5 (tie)")
    pairs = np.array([[str(a), str(b)] for a, b in zip(first, second, strict=True)], dtype=object)
    pairs = pairs.reshape(-1, 2)[keep]
    same = [a for a, b in pairs if a == b]
    if same:
        raise ValueError(f"{same[0]!r} is compared with itself")
    labels, codes = np.unique(pairs.astype(str), return_inverse=True)
    codes = codes.reshape(-1, 2)
    choice = np.select([result[keep] == 1, result[keep] == 0], [0, 1], 2)  # chosen alternative
    rater = None if raters is None else np.unique(rater_codes(raters)[keep], return_inverse=True)[1]
    n, n_bots = len(choice), len(labels)
    n_raters = None if rater is None else int(rater.max(initial=-1)) + 1

    def nothing(reason: Reason) -> BradleyTerry:
        return BradleyTerry((), (), *(None,) * 6, n, n_raters, reason)

    problem = _find_fit_problem(labels.tolist(), codes, choice)
    if problem is None and n_raters is not None and n_raters <= n_bots:
        text = f"{pluralise(n_raters, 'rater')}: too few to compare {pluralise(n_bots, 'bot')}"
        problem = Reason("too_few_for_bots", text, n_raters=n_raters, n_bots=n_bots)
    if problem is not None:
        return nothing(problem)
    ties = bool((choice == 2).any())
    # Aggregate identical judgements, so that the cost does not depend on their number.
    rows, which = np.unique(np.column_stack([codes, extra[keep]]), axis=0, return_inverse=True)
    design = _design(rows[:, :2].astype(int), rows[:, 2:], n_bots, ties=ties)
    counts = np.zeros(design.shape[:2])
    np.add.at(counts, (which, choice), 1.0)
    problem = _find_separation(labels.tolist(), design, counts)
    if problem is not None:
        return nothing(problem)
    fit = _fit_newton(design, counts)
    if fit is None:
        return nothing(Reason("no_strengths_found", "no optimum found"))
    parameters, covariance, scores = fit
    if rater is not None and n_raters is not None:
        by_rater = np.zeros((n_raters, len(parameters)))
        np.add.at(by_rater, rater, scores[which, choice])
        covariance = covariance @ (by_rater.T @ by_rater) @ covariance * n_raters / (n_raters - 1)
    return _result(
        labels.tolist(),
        codes,
        choice,
        parameters,
        covariance,
        n_raters,
        level,
        ties=ties,
        place=place,
        controls=list(controls or {}),
    )


def _make_covariates(controls: Mapping[str, Sequence[float] | np.ndarray], n: int, *, place: bool) -> np.ndarray:
    """Return the covariates of the first bot's log odds, (k, m).

    Position first, then controls.
    """
    columns = [np.ones(n)] if place else []
    for name, values in controls.items():
        if len(values) != n:
            raise ValueError(f"control {name!r} has {len(values)} values for {n} judgements")
        columns.append(np.asarray(values, dtype=float))
    return np.stack(columns, axis=1) if columns else np.zeros((n, 0))


def _find_fit_problem(labels: Sequence[str], codes: np.ndarray, choice: np.ndarray) -> Reason | None:
    """Return the reason why no strengths can be estimated, or None."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    if len(labels) < 2:
        return Reason("no_pair_judged", "no two bots were compared")
    if (choice == 2).all():
        text = "every comparison is a tie, so the bots cannot be distinguished"
        return Reason("only_ties", text)
    graph = coo_matrix((np.ones(len(codes)), codes.T), shape=(len(labels),) * 2)
    _, part = connected_components(graph, directed=False)
    if part.max() > 0:
        apart = [label for label, component in zip(labels, part, strict=True) if component != part[0]]
        names = ", ".join(apart)
        text = f"{names} never met {labels[0]}, directly or through others"
        return Reason("never_met", text, bots=names, bot=str(labels[0]))
    return None


def _find_separation(labels: Sequence[str], design: np.ndarray, counts: np.ndarray) -> Reason | None:
    """Return the reason if the likelihood has no maximum, else None.

    It names the direction and its bots.

    This happens if every choice was an alternative that the direction never makes less likely (Albert and Anderson,
    1984, Biometrika 71). A linear programme searches for such a direction.
    """
    from scipy.optimize import linprog

    pair, choice = np.nonzero(counts)
    rows = (design[pair, choice][:, None] - design[pair]).reshape(-1, design.shape[2])
    solution = linprog(-rows.sum(axis=0), A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1, 1))
    if solution.status != 0 or -solution.fun < 1e-7:
        return None
    moved = np.concatenate([[0.0], solution.x[: len(labels) - 1]])
    if np.ptp(moved) < 1e-7:
        text = "position, ties or a control determine every comparison, so the effect is infinite"
        return Reason("place_decides", text)
    best = [label for label, shift in zip(labels, moved, strict=True) if shift > moved.max() - 1e-7]
    beaten = [label for label in labels if label not in best]
    winners, losers = ", ".join(best), ", ".join(beaten)
    text = (
        f"{winners} never lost against {losers} (or there are too few comparisons), so the difference of their "
        "strengths is infinite"
    )
    return Reason("never_lost", text, best=winners, others=losers)


def _design(codes: np.ndarray, extra: np.ndarray, n_bots: int, *, ties: bool) -> np.ndarray:
    """Return the design matrix, (rows, alternatives, parameters).

    Parameters are strengths of all bots but the first, log ν, position and controls.

    Args:
        codes: (rows, 2) bots.
        extra: (rows, m) covariates of the first one's log odds.
    """
    n_alternatives = 3 if ties else 2
    n_extra = extra.shape[1]
    x = np.zeros((len(codes), n_alternatives, n_bots + 1 + n_extra))
    rows = np.arange(len(codes))
    for side in (0, 1):
        x[rows, side, codes[:, side]] = 1.0
        if ties:
            x[rows, 2, codes[:, side]] = 0.5
    if ties:
        x[:, 2, n_bots] = 1.0
    x[:, 0, n_bots + 1 :] = extra
    if ties:
        x[:, 2, n_bots + 1 :] = extra / 2
    used = [*range(1, n_bots), *([n_bots] if ties else []), *range(n_bots + 1, x.shape[2])]
    return x[:, :, used]


def _fit_newton(x: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return parameters, covariance, and scores of alternatives at the optimum.

    Args:
        x: (pairs, alternatives, parameters).
        counts: (pairs, alternatives) number of times each was chosen.
    """
    total = counts.sum(axis=1)

    def shares(parameters: np.ndarray) -> np.ndarray:
        utility = x @ parameters
        odds = np.exp(utility - utility.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def log_likelihood(parameters: np.ndarray) -> float:
        p = shares(parameters)
        return float((counts[counts > 0] * np.log(np.maximum(p[counts > 0], 1e-300))).sum())

    parameters = np.zeros(x.shape[2])
    now = log_likelihood(parameters)
    for _ in range(_MAX_STEPS):
        p = shares(parameters)
        around = x - np.einsum("ka,kap->kp", p, x)[:, None]
        gradient = np.einsum("ka,kap->p", counts, around)
        information = np.einsum("ka,kap,kaq->pq", p * total[:, None], around, around)
        if np.linalg.cond(information) > 1e13:
            return None
        step = np.linalg.solve(information, gradient)
        if gradient @ step < _TOLERANCE:
            return parameters, np.linalg.inv(information), around
        size = 1.0
        while log_likelihood(parameters + size * step) < now and size > 1e-8:
            size /= 2
        parameters = parameters + size * step
        now = log_likelihood(parameters)
    return None


def _result(
    labels: Sequence[str],
    codes: np.ndarray,
    choice: np.ndarray,
    parameters: np.ndarray,
    covariance: np.ndarray,
    n_raters: int | None,
    level: float,
    *,
    ties: bool,
    place: bool,
    controls: Sequence[str],
) -> BradleyTerry:
    from scipy import stats

    n_bots = len(labels)
    strengths = np.concatenate([[0.0], parameters[: n_bots - 1]])
    full_covariance = np.zeros((n_bots, n_bots))
    full_covariance[1:, 1:] = covariance[: n_bots - 1, : n_bots - 1]
    centring = np.eye(n_bots) - 1 / n_bots
    centred, around = centring @ strengths, centring @ full_covariance @ centring.T
    df = np.inf if n_raters is None else n_raters - 1
    quantile = float(stats.t.ppf(0.5 + level / 2, df))
    # Rounding can make a variance of 0 slightly negative.
    half = quantile * np.sqrt(np.maximum(np.diag(around), 0.0))
    worth = np.exp(strengths - strengths.max())
    worth /= worth.sum()
    decided = codes[choice < 2]
    better = choice[choice < 2]
    rows = np.arange(len(better))
    won = np.bincount(decided[rows, better], minlength=n_bots)
    lost = np.bincount(decided[rows, 1 - better], minlength=n_bots)
    tied = np.bincount(codes[choice == 2].ravel(), minlength=n_bots)

    def estimate(i: int) -> tuple[float, float, float]:
        value, reach = float(parameters[i]), quantile * float(np.sqrt(covariance[i, i]))
        return value, value - reach, value + reach

    tie: tuple[float, float | None, float | None] = (0.0, None, None)
    if ties:
        value, low, high = np.exp(estimate(n_bots - 1)).tolist()
        tie = (value, low, high)
    side: tuple[float | None, float | None, float | None] = (None, None, None)
    n_before = n_bots - 1 + ties
    if place:
        side = estimate(n_before)
    return BradleyTerry(
        tuple(
            Strength(
                label,
                float(centred[i]),
                float(centred[i] - half[i]),
                float(centred[i] + half[i]),
                float(worth[i]),
                int(won[i]),
                int(lost[i]),
                int(tied[i]),
            )
            for i, label in enumerate(labels)
        ),
        wald_comparisons(labels, strengths, full_covariance, df, level),
        tie=tie[0],
        tie_low=tie[1],
        tie_high=tie[2],
        first=side[0],
        first_low=side[1],
        first_high=side[2],
        n=len(choice),
        n_raters=n_raters,
        controls=tuple(Effect(name, *estimate(n_before + place + i)) for i, name in enumerate(controls)),
    )
