"""The alternative-annotator test: may a judge replace one of several people?

Calderon, Reichart and Dror (2025, ACL); docs/background/judges.md has the definition. Instances that share a context
are not independent, so the variance is over contexts; where each has a context of its own, it is the paper's test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evaluation.judges.gold import GoldSet

Expertise = Literal["expert", "skilled", "crowd"]
EPSILON: Mapping[Expertise, float] = {"expert": 0.2, "skilled": 0.15, "crowd": 0.1}
FEWEST_INSTANCES, FEWEST_CONTEXTS, FEWEST_ANNOTATORS = 30, 10, 3
ALPHA, PASSING, _TIED = 0.05, 0.5, 1e-9


@dataclass(frozen=True, slots=True)
class AnnotatorComparison:
    """A judge compared with one annotator.

    Attributes:
        n: instances rated together with others, of n_contexts contexts; advantage: ρ^f; own: ρ^h.
        p: of the hypothesis that the judge is worse by ε or more; q: corrected over annotators.
        wins: whether q is at most .05; None where untested, with the reason.
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


@dataclass(frozen=True, slots=True)
class AlternativeTest:
    """Result of the alternative-annotator test.

    Attributes:
        epsilon: ε; winning_rate: ω; advantage: mean of ρ^f over the tested annotators.
        passes: None where undefined, with the reason.
        n_tested: annotators with enough instances.
    """

    epsilon: float
    annotators: tuple[AnnotatorComparison, ...]
    winning_rate: float | None
    advantage: float | None
    passes: bool | None
    n_tested: int
    reason: str = ""


def alternative_test(gold: GoldSet, scores: Sequence[float] | np.ndarray, epsilon: float) -> AlternativeTest:
    """Test whether a judge may replace one of the annotators of a gold set.

    Args:
        scores: (N,) on the gold set's scale, NaN where the judge gave none.
        epsilon: what a person's ratings are worth more.
    """
    judge = np.asarray(scores, dtype=float)
    found: list[AnnotatorComparison] = []
    named = sorted({rater for rater in gold.rater.tolist() if rater is not None})
    at, difference, by_judge, by_person = _advantages(gold, judge)
    for k, rater in enumerate(named):
        mine = gold.rater[at] == rater
        codes = gold.context_codes[gold.item[at[mine]]]
        n, n_contexts = int(mine.sum()), len(set(codes.tolist()))
        if not n:
            continue
        one = AnnotatorComparison(
            f"rater {k + 1}", n, n_contexts, float(by_judge[mine].mean()), float(by_person[mine].mean())
        )
        if n < FEWEST_INSTANCES or n_contexts < FEWEST_CONTEXTS:
            needed = f"{FEWEST_INSTANCES} of {FEWEST_CONTEXTS} are needed"
            found.append(replace(one, reason=f"{n} instances of {n_contexts} contexts shared with others; {needed}"))
        else:
            found.append(replace(one, p=clustered_p_below(difference[mine], codes, epsilon)))
    tested = [one for one in found if one.p is not None]
    if len(tested) < FEWEST_ANNOTATORS:
        why = f"{len(tested)} of {len(named)} raters rated {FEWEST_INSTANCES} instances together with others"
        why = f"{why}; {FEWEST_ANNOTATORS} are needed" if named else "the raters have no names"
        untested = tuple(replace(one, p=None) for one in found)
        return AlternativeTest(epsilon, untested, None, None, None, len(tested), why)

    from scipy.stats import false_discovery_control

    rates = false_discovery_control([one.p for one in tested], method="by").tolist()
    tested = [replace(one, q=q, wins=q <= ALPHA) for one, q in zip(tested, rates, strict=True)]
    done = {one.annotator: one for one in [*found, *tested]}
    winning, advantage = (float(np.mean([getattr(one, name) for one in tested])) for name in ("wins", "advantage"))
    return AlternativeTest(epsilon, tuple(done.values()), winning, advantage, winning >= PASSING, len(tested))


def _advantages(gold: GoldSet, judge: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the ratings that can be compared, by place, with W^h − W^f, W^f and W^h of each."""
    n = np.bincount(gold.item, minlength=len(gold))
    at = np.flatnonzero((n[gold.item] > 1) & np.isfinite(judge[gold.item]))
    item, own = gold.item[at], gold.value[at]
    others = n[item] - 1
    if len(gold.points) == 2:
        answer = gold.nearest(judge)[item]
        top = np.bincount(gold.item, gold.value == gold.points[1], minlength=len(gold))[item]
        high = top - (own == gold.points[1])  # of the others
        of_judge = np.where(answer == gold.points[1], high, others - high) / others
        of_person = np.where(own == gold.points[1], high, others - high) / others
    else:
        total = np.bincount(gold.item, gold.value, minlength=len(gold))[item] - own
        squares = np.bincount(gold.item, gold.value**2, minlength=len(gold))[item] - own**2
        mean, square = total / others, squares / others
        of_judge, of_person = (-(side**2 - 2 * side * mean + square) for side in (judge[item], own))
    tolerance = _TIED * max(1.0, float(np.abs(gold.value).max(initial=0.0)) ** 2)
    by_judge = (of_judge >= of_person - tolerance) * 1.0
    by_person = (of_person >= of_judge - tolerance) * 1.0
    return at, by_person - by_judge, by_judge, by_person


def clustered_p_below(values: np.ndarray, groups: np.ndarray, at: float) -> float:
    """Return the one-sided p-value of a mean of `at` or more, by a t-test with the variance over groups."""
    from scipy.special import stdtr

    codes = np.unique(groups, return_inverse=True)[1].reshape(-1)
    sums = np.bincount(codes, values - values.mean())
    n_groups = len(sums)
    variance = float((sums**2).sum()) / len(values) ** 2 * n_groups / (n_groups - 1)
    gap = float(values.mean()) - at
    if variance <= 1e-24:
        return float(gap >= 0)
    return float(stdtr(n_groups - 1, gap / variance**0.5))
