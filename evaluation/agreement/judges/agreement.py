"""Agreement of a judge with people, its biases, and self-consistency.

docs/background/judges.md defines each measure. Intervals use the jackknife. The interval of the agreement is clustered
by contexts and raters together, adding the variances of crossed clusters as in Cameron, Gelbach and Miller (2011).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.agreement.judges.gold import GoldSet, bot_text
from evaluation.agreement.judges.scoring import MOST_REPEATED, JudgeScores, model_family
from evaluation.analysis.agreement import OwnAgreement, own_agreement
from evaluation.stats.constants import SCORE_LEVEL
from evaluation.stats.correlation import effective_units, few_carry, is_constant, ranks
from evaluation.stats.resampling import FEWEST_UNITS, freedom_of

Over = Literal["contexts and raters", "contexts"]
_MOST_GROUPS = 200
_MARKS = re.compile(r"^\s{0,3}(#{1,6}\s|[-*+]\s|\d+[.)]\s|>\s|```)|\*\*\S|__\S|`\S|\[[^\]]+\]\(|^\|.*\|", re.MULTILINE)
NO_INTERVAL = "no interval: the contexts are too few or too similar to estimate the error"
NO_PLACE = "whole conversations are scored individually, so there is no position"
NO_PAIRS = "no two different replies to one context were compared"
NO_FAMILY = "no registered bot has a model of the judge's family, or all known ones do"
FIXED = "a local model computes probabilities, so repeated scores are equal"


@dataclass(frozen=True, slots=True)
class JudgeEstimate:
    """An estimate with its 95 % interval.

    Attributes:
        value, low, high: None if undefined, with the reason.
        n: number of instances.
        over: unit that other samples would vary.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    over: Over = "contexts"
    reason: str = ""


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Compute Spearman's coefficient; NaN for a constant side."""
    if len(x) < 3 or is_constant(x) or is_constant(y):
        return float("nan")
    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def binary_alpha(x: np.ndarray, y: np.ndarray) -> float:
    """Compute Krippendorff's nominal alpha of two complete raters.

    NaN if all answers are equal.
    """
    answers = np.concatenate([x, y])
    counts = np.unique(answers, return_counts=True)[1]
    chance = 1 - float((counts * (counts - 1)).sum()) / (len(answers) * (len(answers) - 1)) if len(answers) > 1 else 0.0
    return 1 - float((x != y).mean()) / chance if chance > 0 else float("nan")


def agreement_of(gold: GoldSet, scores: np.ndarray) -> JudgeEstimate:
    """Compute the agreement of scores with people's ratings."""
    return _agreement(gold, [scores])


def agreement_difference(gold: GoldSet, first: np.ndarray, second: np.ndarray) -> JudgeEstimate:
    """Compute the agreement of the first scores minus that of the second, on instances that both have scored.

    The interval is that of the paired difference, over the units of `agreement_of`.
    """
    is_scored = np.isfinite(first + second)
    return _agreement(gold, [np.where(is_scored, scores, np.nan) for scores in (first, second)])


def _agreement(gold: GoldSet, sides: Sequence[np.ndarray]) -> JudgeEstimate:
    """Compute the agreement of one side, or the first side's minus the second's."""
    is_binary = len(gold.points) == 2
    all_answers = [gold.nearest(scores) if is_binary else scores for scores in sides]
    middle = gold.dimension.low + gold.width / 2

    def coefficient(answers: np.ndarray, means: np.ndarray, mask: np.ndarray) -> float:
        known = mask & np.isfinite(means + answers)
        if not is_binary:
            return rank_correlation(answers[known], means[known])
        known &= means != middle  # no majority
        return binary_alpha(answers[known], np.where(means[known] > middle, gold.points[1], gold.points[0]))

    def statistic(means: np.ndarray, mask: np.ndarray) -> float:
        values = [coefficient(answers, means, mask) for answers in all_answers]
        return values[0] - values[1] if len(values) == 2 else values[0]

    known = np.isfinite(gold.means + all_answers[0])
    n, everything = int(known.sum()), np.ones(len(gold), dtype=bool)
    value = statistic(gold.means, everything)
    if not np.isfinite(value):
        few = f"only {n} instances have both a rating and a score; 3 are needed"
        return JudgeEstimate(None, n=n, reason=few if n < 3 else "all scores or all ratings are equal")
    codes = np.unique(gold.context_codes[known], return_inverse=True)[1].reshape(-1)
    carried = min(effective_units(ranks(side[known]), codes) for side in (*all_answers, gold.means))
    if few_units := few_carry(carried, int(codes.max()) + 1):
        return JudgeEstimate(value, n=n, reason=str(few_units))
    parts = [_compute_leave_one_out(lambda mask: statistic(gold.means, mask), gold.context_codes, known)]
    used = known[gold.item]
    is_named = used & np.array([rater is not None for rater in gold.rater], dtype=bool)
    over: Over = "contexts"
    if is_named.sum() == used.sum() and len(set(gold.rater[is_named].tolist())) >= FEWEST_UNITS:
        over = "contexts and raters"
        for groups in (gold.rater.astype(str), np.random.default_rng(0).permutation(len(gold.item))):
            parts.append(
                _compute_leave_one_out(lambda mask: statistic(gold.means_of(mask * 1.0), everything), groups, used)
            )
    return _interval(value, parts, n, over, fisher=len(sides) == 1)


def _compute_leave_one_out(statistic: Callable[[np.ndarray], float], codes: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Return leave-one-group-out values of a statistic.

    Many groups are pooled.
    """
    numbers = np.full(len(codes), -1)
    numbers[used] = np.unique(codes[used], return_inverse=True)[1].reshape(-1)
    n_groups = min(int(numbers.max()) + 1, _MOST_GROUPS)
    return np.array([statistic((numbers % n_groups != group) | ~used) for group in range(n_groups)])


def _interval(
    value: float, parts: list[np.ndarray], n: int, over: Over = "contexts", *, fisher: bool = True
) -> JudgeEstimate:
    """Return an estimate with its jackknife interval.

    Args:
        parts: values without each context, then without each rater and without each single rating.
        fisher: True to use Fisher's z scale.
    """
    from scipy.special import stdtrit

    parts = [np.arctanh(np.clip(part, -1 + 1e-9, 1 - 1e-9)) if fisher else part for part in parts]
    if (fisher and abs(value) > 1 - 1e-9) or any(len(part) < FEWEST_UNITS or np.isnan(part).any() for part in parts):
        return JudgeEstimate(value, n=n, over=over, reason=NO_INTERVAL)
    squares = [(len(part) - 1) * float(part.var()) for part in parts]
    variance = max(squares[0], *((squares[1], squares[0] + squares[1] - squares[2]) if len(parts) == 3 else (0.0,)))
    if variance <= 1e-24:
        return JudgeEstimate(value, n=n, over=over, reason=NO_INTERVAL)
    varied = [(part, square) for part, square in zip(parts[:2], squares, strict=False) if square > 0]
    terms = [(square, freedom_of(part - part.mean())) for part, square in varied]
    free = sum(square for square, _df in terms) ** 2 / sum(square**2 / df for square, df in terms)
    half = float(stdtrit(free, 0.5 + SCORE_LEVEL / 2)) * variance**0.5
    ends = np.tanh(np.arctanh(value) + np.array([-half, half])) if fisher else value + np.array([-half, half])
    return JudgeEstimate(value, float(ends[0]), float(ends[1]), n, over)


def partial_rank(x: np.ndarray, y: np.ndarray, control: np.ndarray) -> float:
    """Compute the rank correlation of x and y given a control variable.

    NaN if undefined.
    """
    xy, xz, yz = rank_correlation(x, y), rank_correlation(x, control), rank_correlation(y, control)
    rest = (1 - xz**2) * (1 - yz**2)
    return (xy - xz * yz) / rest**0.5 if rest > 1e-9 else float("nan")


def biases_of(gold: GoldSet, judge_scores: JudgeScores, families: Mapping[str, str]) -> dict[str, JudgeEstimate]:
    """Compute biases by position, length, markup and model family.

    Args:
        families: model families in the gold set, as far as known.
    """
    scores, means, codes = judge_scores.first, gold.means, gold.context_codes
    known = np.isfinite(scores + means)
    replies = [bot_text(text) for text in gold.texts]
    lengths = np.array([len(text.split()) for text in replies], dtype=float)
    marks = np.array([bool(_MARKS.search(text)) for text in replies], dtype=float)

    def partial(values: np.ndarray, label: str) -> JudgeEstimate:
        n = int(known.sum())
        value = partial_rank(scores[known], values[known], means[known]) if n > 3 else float("nan")
        if not np.isfinite(value):
            return JudgeEstimate(None, n=n, reason=f"scores, ratings or {label} do not vary enough")
        parts = _compute_leave_one_out(
            lambda mask: partial_rank(*(side[known & mask] for side in (scores, values, means))), codes, known
        )
        return _interval(value, [parts], n)

    place = JudgeEstimate(None, reason=NO_PLACE if gold.unit == "chat" else NO_PAIRS)
    if judge_scores.pairs is not None and judge_scores.pairs.pairs:
        bias = judge_scores.pairs.position_bias
        reason = "" if bias.low is not None else NO_INTERVAL
        place = JudgeEstimate(bias.mean, bias.low, bias.high, len(judge_scores.pairs.pairs), reason=reason)
    return {
        "place": place,
        "length": partial(lengths, "lengths"),
        "markup": partial(marks, "markup"),
        "family": _family(gold, judge_scores, known, families),
    }


def _family(gold: GoldSet, judge_scores: JudgeScores, known: np.ndarray, families: Mapping[str, str]) -> JudgeEstimate:
    """Compare score minus rating by model family.

    Replies of the judge's family are compared with those of other known families.
    """
    model_families = np.array([families.get(model, "") for model in gold.models], dtype=object)
    own_families = {model_family(model) for model in judge_scores.model.split(", ")}  # of a panel: several models
    family = own_families.pop() if len(own_families) == 1 else ""
    of_family = known & (model_families == family) & (family != "")
    of_others = known & (model_families != family) & (model_families != "")
    if not of_family.any() or not of_others.any():
        return JudgeEstimate(None, n=int(of_family.sum()), reason=NO_FAMILY)
    above = judge_scores.first - gold.means

    def gap(mask: np.ndarray) -> float:
        sides = [above[side & mask] for side in (of_family, of_others)]
        return float(sides[0].mean() - sides[1].mean()) if all(map(len, sides)) else float("nan")

    used = of_family | of_others
    parts = _compute_leave_one_out(gap, gold.context_codes, used)
    return _interval(gap(np.ones(len(gold), dtype=bool)), [parts], int(used.sum()), fisher=False)


def consistency_of(gold: GoldSet, judge_scores: JudgeScores) -> tuple[OwnAgreement | None, str]:
    """Compare repeated scores of the same instances; without repeats, return the reason."""
    first, second = judge_scores.scores[0, :MOST_REPEATED], judge_scores.scores[-1, :MOST_REPEATED]
    if len(judge_scores.scores) < 2 or not np.isfinite(first + second).any():
        return None, FIXED if judge_scores.is_fixed else "no instance was scored twice"
    return own_agreement(first, second, gold.contexts[:MOST_REPEATED], level=SCORE_LEVEL, width=gold.width), ""


def confusion_of(gold: GoldSet, scores: np.ndarray) -> dict[str, Any]:
    """Cross-tabulate ratings and the judge's nearest scale points.

    Empty for a slider.
    """
    if not gold.points:
        return {"points": [], "counts": []}
    answers, points = gold.nearest(scores)[gold.item], gold.points
    counts = [[int(((gold.value == rated) & (answers == judged)).sum()) for judged in points] for rated in points]
    return {"points": list(points), "counts": counts}
