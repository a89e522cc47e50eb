"""Alternative-annotator test: whether a judge can replace one of several people.

Calderon, Reichart and Dror (2025, ACL); docs/background/judges.md has the definition. Instances that share a context
are not independent, so the variance is clustered by context. If each instance has its own context, this is the paper's
test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evaluation.agreement.judges.gold import GoldSet

Expertise = Literal["expert", "skilled", "crowd"]
EPSILON: Mapping[Expertise, float] = {"expert": 0.2, "skilled": 0.15, "crowd": 0.1}
FEWEST_INSTANCES, FEWEST_CONTEXTS, FEWEST_ANNOTATORS = 30, 10, 3
ALPHA, PASSING, _TIED = 0.05, 0.5, 1e-9
POWER, MOST_ITEMS = 0.8, 100_000
"""Power and maximum number of items in plans."""


@dataclass(frozen=True, slots=True)
class AnnotatorComparison:
    """A judge compared with one annotator.

    Attributes:
        n: number of instances rated together with others, from n_contexts contexts.
        advantage: ρ^f.
        own: ρ^h.
        p: for the hypothesis that the judge is worse by ε or more.
        q: corrected over annotators.
        p_worse, q_worse: the same for the hypothesis that the judge is not worse by ε.
        wins, loses: True if q or q_worse is at most .05; None if untested, with the reason.
    """

    annotator: str
    n: int
    n_contexts: int
    advantage: float | None
    own: float | None
    p: float | None = None
    q: float | None = None
    wins: bool | None = None
    reason: str = ""
    p_worse: float | None = None
    q_worse: float | None = None
    loses: bool | None = None


@dataclass(frozen=True, slots=True)
class AlternativeTest:
    """Result of the alternative-annotator test.

    Attributes:
        epsilon: ε.
        winning_rate: ω.
        advantage: mean of ρ^f over the tested annotators.
        passes, fails: True if the judge wins against, or loses to, half of the annotators; None if undefined, with the
            reason.
        n_tested: number of annotators with enough instances.
        n_needed: number of rated items needed to decide with a power of .8: with the observed differences if there are
            enough data (`is_as_observed`), otherwise for a judge as good as the annotators. None: no plan.
    """

    epsilon: float
    annotators: tuple[AnnotatorComparison, ...]
    winning_rate: float | None
    advantage: float | None
    passes: bool | None
    n_tested: int
    reason: str = ""
    fails: bool | None = None
    n_needed: int | None = None
    is_as_observed: bool = False


def alternative_test(gold: GoldSet, scores: Sequence[float] | np.ndarray, epsilon: float) -> AlternativeTest:
    """Test whether a judge can replace one of the annotators of a gold set.

    Args:
        scores: (N,) on the gold set's scale, NaN for missing scores.
        epsilon: additional value of a human rating.
    """
    judge = np.asarray(scores, dtype=float)
    annotators: list[AnnotatorComparison] = []
    differences: list[ClusteredMean] = []
    rater_names = sorted({rater for rater in gold.rater.tolist() if rater is not None})
    rating_rows, difference, by_judge, by_person = _advantages(gold, judge)
    for k, rater in enumerate(rater_names):
        of_rater = gold.rater[rating_rows] == rater
        codes = gold.context_codes[gold.item[rating_rows[of_rater]]]
        n, n_contexts = int(of_rater.sum()), len(set(codes.tolist()))
        if not n:
            continue
        row = AnnotatorComparison(
            f"rater {k + 1}", n, n_contexts, float(by_judge[of_rater].mean()), float(by_person[of_rater].mean())
        )
        if n < FEWEST_INSTANCES or n_contexts < FEWEST_CONTEXTS:
            needed = f"{FEWEST_INSTANCES} of {FEWEST_CONTEXTS} are needed"
            row = replace(row, reason=f"{n} instances from {n_contexts} contexts shared with others; {needed}")
        else:
            differences.append(ClusteredMean.from_groups(difference[of_rater], codes))
            row = replace(row, p=differences[-1].p_below(epsilon), p_worse=differences[-1].p_above(epsilon))
        annotators.append(row)
    tested = [row for row in annotators if row.p is not None]
    if len(tested) < FEWEST_ANNOTATORS:
        reason = (
            f"only {len(tested)} of {len(rater_names)} raters rated {FEWEST_INSTANCES} instances together with others"
        )
        reason = f"{reason}; {FEWEST_ANNOTATORS} are needed" if rater_names else "the raters are not identified"
        untested = tuple(replace(row, p=None, p_worse=None) for row in annotators)
        return AlternativeTest(epsilon, untested, None, None, None, len(tested), reason)

    from scipy.stats import false_discovery_control

    q, q_worse = (
        false_discovery_control([getattr(row, name) for row in tested], method="by").tolist()
        for name in ("p", "p_worse")
    )
    tested = [
        replace(row, q=better, wins=better <= ALPHA, q_worse=worse, loses=worse <= ALPHA)
        for row, better, worse in zip(tested, q, q_worse, strict=True)
    ]
    rows = {row.annotator: row for row in [*annotators, *tested]}
    winning, losing, advantage = (
        float(np.mean([getattr(row, name) for row in tested])) for name in ("wins", "loses", "advantage")
    )
    n_needed, is_as_observed = _plan_items(differences, epsilon, int(np.isfinite(gold.means).sum()))
    return AlternativeTest(
        epsilon,
        tuple(rows.values()),
        winning,
        advantage,
        winning >= PASSING,
        len(tested),
        fails=losing >= PASSING,
        n_needed=n_needed,
        is_as_observed=is_as_observed,
    )


def _plan_items(differences: Sequence[ClusteredMean], epsilon: float, n_items: int) -> tuple[int | None, bool]:
    """Return the number of rated items needed to decide the test.

    The second value is True if it uses the observed differences.

    Half of the annotators must win. By Benjamini and Yekutieli all of them do if their largest p is at most α k / (m Σ
    1/i), where k is half of the m annotators.
    """
    from scipy.special import ndtri

    m = len(differences)
    k = int(np.ceil(m * PASSING))
    alpha = ALPHA * k / (m * sum(1 / i for i in range(1, m + 1)))
    reach = float(ndtri(1 - alpha) + ndtri(POWER)) * float(np.median([difference.error for difference in differences]))
    gap = abs(epsilon - float(np.median([difference.mean for difference in differences])))
    needed = n_items * (reach / epsilon) ** 2
    is_as_observed = needed <= n_items
    if is_as_observed:
        needed = n_items * (reach / gap) ** 2 if gap else float("inf")
    if needed > MOST_ITEMS:
        return None, is_as_observed
    return int(10 * np.ceil(needed / 10)), is_as_observed


def _advantages(gold: GoldSet, judge: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return positions of comparable ratings, with W^h − W^f, W^f and W^h."""
    n = np.bincount(gold.item, minlength=len(gold))
    rows = np.flatnonzero((n[gold.item] > 1) & np.isfinite(judge[gold.item]))
    item, values = gold.item[rows], gold.value[rows]
    n_others = n[item] - 1
    if len(gold.points) == 2:
        answer = gold.nearest(judge)[item]
        top = np.bincount(gold.item, gold.value == gold.points[1], minlength=len(gold))[item]
        high = top - (values == gold.points[1])  # of the other raters
        of_judge = np.where(answer == gold.points[1], high, n_others - high) / n_others
        of_person = np.where(values == gold.points[1], high, n_others - high) / n_others
    else:
        total = np.bincount(gold.item, gold.value, minlength=len(gold))[item] - values
        squares = np.bincount(gold.item, gold.value**2, minlength=len(gold))[item] - values**2
        mean, square = total / n_others, squares / n_others
        of_judge, of_person = (-(side**2 - 2 * side * mean + square) for side in (judge[item], values))
    tolerance = _TIED * max(1.0, float(np.abs(gold.value).max(initial=0.0)) ** 2)
    by_judge = (of_judge >= of_person - tolerance) * 1.0
    by_person = (of_person >= of_judge - tolerance) * 1.0
    return rows, by_person - by_judge, by_judge, by_person


@dataclass(frozen=True, slots=True)
class ClusteredMean:
    """Mean of values with clustered standard error and degrees of freedom."""

    mean: float
    error: float
    df: int

    @classmethod
    def from_groups(cls, values: np.ndarray, groups: np.ndarray) -> ClusteredMean:
        """Compute the mean of (n,) values; groups: (n,) codes."""
        codes = np.unique(groups, return_inverse=True)[1].reshape(-1)
        sums = np.bincount(codes, values - values.mean())
        n_groups = len(sums)
        variance = float((sums**2).sum()) / len(values) ** 2 * n_groups / (n_groups - 1)
        return cls(float(values.mean()), variance**0.5 if variance > 1e-24 else 0.0, n_groups - 1)

    def p_below(self, null_mean: float) -> float:
        """Return the one-sided p-value of a mean of at least `null_mean`.

        A t-test.
        """
        from scipy.special import stdtr

        gap = self.mean - null_mean
        return float(stdtr(self.df, gap / self.error)) if self.error else float(gap >= 0)

    def p_above(self, null_mean: float) -> float:
        """Return the one-sided p-value of a mean of at most `null_mean`."""
        return ClusteredMean(-self.mean, self.error, self.df).p_below(-null_mean)
