"""Drift of a judge: a stored sample of its gold set, scored again.

A provider can change the model behind a name. Drift is the mean absolute difference of the scores then and now, less
that of the scores which the judge gave twice then, over contexts. It is reported where its interval lies above 0 and
the difference above what rounding explains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.judges.agreement import LEVEL
from evaluation.judges.gold import GoldSet
from evaluation.judges.scoring import MOST_REPEATED, judge_identity, score_gold
from evaluation.metrics.judge import JudgeMetric
from evaluation.stats.means import mean_interval

ROUNDING = 0.005
"""Share of the scale below which a difference is one of computing."""
FEWEST = 10


@dataclass(frozen=True, slots=True)
class JudgeDrift:
    """Change of a judge's scores since they were stored.

    Attributes:
        change: mean absolute difference in points; before: the same of scores that were repeated then, 0 of a local
            model; None where none was.
        drift: change less before, with its interval; has_drifted: None where undefined, with the reason.
        n: instances scored again.
    """

    judge: str
    n: int
    change: float | None
    before: float | None
    drift: float | None
    low: float | None
    high: float | None
    has_drifted: bool | None
    reason: str = ""

    @property
    def sentence(self) -> str:
        """The result in words."""
        if self.has_drifted is None:
            return f"Whether {self.judge} has drifted is not known: {self.reason}."
        moved = (
            f"its scores of {self.n} stored instances differ by {self.drift:.2f} points beyond what repeats differ by"
        )
        ends = f" (95 %: {self.low:.2f} to {self.high:.2f})" if self.low is not None and self.high is not None else ""
        if self.has_drifted:
            return f"{self.judge} has drifted: {moved}{ends}. Compare it with people again before you use it."
        return f"No drift of {self.judge} is shown: {moved}{ends}."


def measure_drift(judge: JudgeMetric, gold: GoldSet, stored: Mapping[str, Any], digests: Sequence[str]) -> JudgeDrift:
    """Score a stored sample again and compare.

    Args:
        gold: the gold set as it is now; stored: the judge's part of a comparison's JSON; digests: of its instances.

    Raises:
        ValueError: the judge cannot be used here.
    """
    name, then = str(stored["title"]), np.array(stored["scores"], dtype=float)
    place = {digest: k for k, digest in enumerate(digests[:MOST_REPEATED])}
    sample = gold.take([k for k, digest in enumerate(gold.digests) if digest in place])
    n, why = len(sample), ""
    if judge_identity(judge, gold.unit)[0] != stored["identity"]:
        why = "its prompt, options or declared model were changed here, so it must be compared again"
    elif n < FEWEST:
        why = f"{n} stored instances are still here with the same text; {FEWEST} are needed"
    elif len(then) < 2 and not stored["is_fixed"]:
        why = "each instance was scored once, so that its self-consistency is not known"
    if why:
        return JudgeDrift(name, n, None, None, None, None, None, None, why)
    then = then[:, [place[digest] for digest in sample.digests]]
    changed = np.abs(score_gold(judge, sample, repeats=1, n_pairs=0).first - then[0])
    repeated = np.zeros(n) if stored["is_fixed"] else np.abs(then[1] - then[0])
    known = np.isfinite(changed + repeated)
    if (n := int(known.sum())) < FEWEST:
        why = f"{n} instances have all scores; {FEWEST} are needed"
        return JudgeDrift(name, n, None, None, None, None, None, None, why)
    beyond = (changed - repeated)[known]
    ends = mean_interval(beyond, sample.context_codes[known], LEVEL)
    is_above = ends.low > 0 if ends.low is not None else bool(np.ptp(beyond) == 0)
    drift, means = float(beyond.mean()), (float(changed[known].mean()), float(repeated[known].mean()))
    return JudgeDrift(name, n, *means, drift, ends.low, ends.high, is_above and drift > ROUNDING * gold.width)
