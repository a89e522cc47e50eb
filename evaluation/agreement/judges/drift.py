"""Drift of a judge, measured on a stored sample of its gold set.

Drift is the mean absolute difference between the stored and the new scores, minus that between repeated scores at the
time. It is reported if its interval over contexts is above 0 and it exceeds what rounding explains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.agreement.judges.gold import GoldSet
from evaluation.agreement.judges.scoring import MOST_REPEATED, judge_identity, score_gold
from evaluation.metrics.judge import JudgeMetric
from evaluation.number_format import figure
from evaluation.stats.constants import SCORE_LEVEL
from evaluation.stats.means import mean_interval

ROUNDING, FEWEST = 0.005, 10


@dataclass(frozen=True, slots=True)
class JudgeDrift:
    """Change of a judge's scores since they were stored.

    Attributes:
        change, before: mean absolute differences in points, now and between repeats.
        drift: their difference.
        has_drifted: None if undefined, with the reason.
    """

    judge: str
    n: int
    change: float | None = None
    before: float | None = None
    drift: float | None = None
    low: float | None = None
    high: float | None = None
    has_drifted: bool | None = None
    reason: str = ""

    @property
    def sentence(self) -> str:
        """The result as text."""
        if self.has_drifted is None:
            return f"It is not known whether {self.judge} has drifted: {self.reason}."
        start = f"{self.judge} has drifted" if self.has_drifted else f"There is no evidence of drift of {self.judge}"
        ends = f" (95 %: {figure(self.low)} to {figure(self.high)})" if self.low is not None else ""
        moved = (
            f"scores of {self.n} stored instances moved by {figure(self.drift)} points more than between repeats{ends}."
        )
        return f"{start}: {moved}{' Compare it with people again before using it.' if self.has_drifted else ''}"


def measure_drift(judge: JudgeMetric, gold: GoldSet, stored: Mapping[str, Any], digests: Sequence[str]) -> JudgeDrift:
    """Score a stored sample again and compare.

    Args:
        gold: the current gold set.
        stored: the judge's part of a comparison's JSON.
        digests: of its instances.
    """
    name, then = judge.title, np.array(stored["scores"], dtype=float)
    place = {digest: k for k, digest in enumerate(digests[:MOST_REPEATED])}
    sample = gold.take([k for k, digest in enumerate(gold.digests) if digest in place])
    n, problem = len(sample), ""
    if judge_identity(judge, gold.unit)[0] != stored["identity"]:
        problem = "its prompt, options or declared model has changed, so it must be compared again"
    elif n < FEWEST:
        problem = f"only {n} stored instances still exist with the same text; {FEWEST} are needed"
    elif len(then) < 2 and not stored["is_fixed"]:
        problem = "each instance was scored only once, so its self-consistency is unknown"
    if problem:
        return JudgeDrift(name, n, reason=problem)
    then = then[:, [place[digest] for digest in sample.digests]]
    changed = np.abs(score_gold(judge, sample, repeats=1, n_pairs=0).first - then[0])
    repeated = np.zeros(n) if stored["is_fixed"] else np.abs(then[1] - then[0])
    known = np.isfinite(changed + repeated)
    if (n := int(known.sum())) < FEWEST:
        return JudgeDrift(name, n, reason=f"only {n} instances have all scores; {FEWEST} are needed")
    beyond = (changed - repeated)[known]
    ends = mean_interval(beyond, sample.context_codes[known], SCORE_LEVEL)
    is_above = ends.low > 0 if ends.low is not None else bool(np.ptp(beyond) == 0)
    drift, means = float(beyond.mean()), (float(changed[known].mean()), float(repeated[known].mean()))
    return JudgeDrift(name, n, *means, drift, ends.low, ends.high, is_above and drift > ROUNDING * gold.width)
