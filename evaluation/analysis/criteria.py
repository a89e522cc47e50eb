"""Criteria with points: the score of a reply, and agreement on each criterion.

Each item has criteria of its own, as in HealthBench (Arora et al. 2025). A rater ticks those that the reply meets; the
score is the sum of the ticked points, divided by the sum of the positive points and clipped to 0 and 1. A criterion is
identified by its text and points, so that the replies of several bots to one context share it.

Agreement is Gwet's AC1, over the items that have the criterion; alpha falls towards 0 for criteria that nearly every
reply meets. Over all criteria, whole items are left out by the jackknife, because the criteria of one item are about
one reply. A judge is compared with each rater (agreement, with an interval over raters and items) and with the raters'
majority (Cohen's kappa).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.stats.agreement import AgreementEstimate, cohen_kappa, gwet_ac, rating_table
from evaluation.stats.constants import RATING_LEVEL, SCORE_LEVEL
from evaluation.stats.means import SHARE, Interval, mean_interval

POSSIBLE = (0, 1)
"""Answers to a criterion: not met, met."""


def criteria_score(ticks: Sequence[int], points: Sequence[int]) -> float:
    """Return the share of the possible points that a reply gets, from 0 to 1.

    Args:
        ticks: (k,) 1 for each criterion that is met, otherwise 0.
        points: (k,) points of the criteria; at least one is positive.
    """
    achieved = sum(point for tick, point in zip(ticks, points, strict=True) if tick)
    return min(max(achieved / sum(point for point in points if point > 0), 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class CriterionAnswer:
    """Answer of a rater to one criterion of an item; `rater` of a judge is its name."""

    item: str
    rater: str
    text: str
    points: int
    is_met: bool

    @property
    def key(self) -> tuple[str, str, int]:
        """The criterion of the item that it is about."""
        return self.item, self.text, self.points


@dataclass(frozen=True, slots=True)
class CriterionAgreement:
    """Agreement of raters on one criterion, or on all.

    Attributes:
        text, points: the criterion; empty and 0 for all together.
        n_items: number of items that have it; n_raters: number of its raters.
        met: share of ratings in which it is ticked, with its interval over raters and items.
        differing: share of pairs of raters of one item who differ; None if no item has two raters.
        gwet: chance-corrected agreement.
    """

    text: str
    points: int
    n_items: int
    n_raters: int
    met: Interval
    differing: float | None
    gwet: AgreementEstimate


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """Agreement of a judge with raters on one criterion, or on all.

    Attributes:
        text, points: the criterion; empty and 0 for all together.
        same: share of ratings with the judge's answer, with its interval over raters and items.
        kappa: Cohen's kappa of the judge and the raters' majority.
        n_ties: number of items and criteria without a majority, which kappa leaves out.
    """

    judge: str
    text: str
    points: int
    n_items: int
    same: Interval
    kappa: AgreementEstimate
    n_ties: int


@dataclass(frozen=True, slots=True)
class CriteriaResults:
    """Agreement on all criteria together and on each, the most disputed ones first.

    Attributes:
        judges: every judge on all criteria, then on each, those with least agreement first.
        n_without_ticks: number of ratings without ticks that fit their item; they are left out.
    """

    overall: CriterionAgreement
    criteria: tuple[CriterionAgreement, ...]
    judges: tuple[JudgeAgreement, ...] = ()
    n_without_ticks: int = 0


def criteria_results(
    answers: Sequence[CriterionAnswer], judged: Iterable[CriterionAnswer] = (), *, n_without_ticks: int = 0
) -> CriteriaResults:
    """Return the agreement of raters, and of judges with them.

    Args:
        answers: one answer of each rater to each criterion of an item.
        judged: answers of judges; those about items without raters are ignored.
    """
    by_criterion: dict[tuple[str, int], list[CriterionAnswer]] = {}
    for answer in answers:
        by_criterion.setdefault((answer.text, answer.points), []).append(answer)
    rows = [_agreement(text, points, group) for (text, points), group in by_criterion.items()]
    rows.sort(key=lambda row: (row.differing is None, -(row.differing or 0.0), row.text, row.points))
    judges: dict[str, list[CriterionAnswer]] = {}
    for answer in judged:
        judges.setdefault(answer.rater, []).append(answer)
    overall_rows, criterion_rows = [], []
    for judge, judge_answers in sorted(judges.items()):
        known = {answer.key: answer.is_met for answer in judge_answers}
        overall_rows.append(_judge_agreement(judge, "", 0, answers, known))
        criterion_rows += [_judge_agreement(judge, *key, group, known) for key, group in by_criterion.items()]
    criterion_rows = [row for row in criterion_rows if row.n_items]
    criterion_rows.sort(key=lambda row: (row.same.mean or 0.0, row.text, row.points, row.judge))
    return CriteriaResults(_agreement("", 0, answers), tuple(rows), (*overall_rows, *criterion_rows), n_without_ticks)


def _agreement(text: str, points: int, answers: Sequence[CriterionAnswer]) -> CriterionAgreement:
    met = np.array([float(answer.is_met) for answer in answers])
    items, raters = [answer.item for answer in answers], [answer.rater for answer in answers]
    numbers: dict[tuple[str, str, int], int] = {}
    places = [numbers.setdefault(answer.key, len(numbers)) for answer in answers]
    table = rating_table(met, [f"{place:09}" for place in places], raters)  # numbers: texts take much memory
    n_met, size = np.nansum(table, axis=1), np.isfinite(table).sum(axis=1)
    n_pairs = float((size * (size - 1)).sum())
    units = [item for item, _text, _points in numbers]  # in the order of the table's rows
    return CriterionAgreement(
        text,
        points,
        len(set(items)),
        len(set(raters)),
        mean_interval(met, raters, RATING_LEVEL, scale=SHARE, things=items),
        float((2 * n_met * (size - n_met)).sum() / n_pairs) if n_pairs else None,
        gwet_ac(table, categories=POSSIBLE, level=SCORE_LEVEL, units=units),
    )


def _judge_agreement(
    judge: str, text: str, points: int, answers: Sequence[CriterionAnswer], known: Mapping[tuple[str, str, int], bool]
) -> JudgeAgreement:
    judged = [answer for answer in answers if answer.key in known]
    same = [float(answer.is_met == known[answer.key]) for answer in judged]
    raters, items = [answer.rater for answer in judged], [answer.item for answer in judged]
    margins: Counter[tuple[str, str, int]] = Counter()
    for answer in judged:
        margins[answer.key] += 1 if answer.is_met else -1
    majority = {key: margin > 0 for key, margin in margins.items() if margin}
    kappa = cohen_kappa(
        [int(known[key]) for key in majority],
        [int(is_met) for is_met in majority.values()],
        level=SCORE_LEVEL,
        units=[item for item, _text, _points in majority],
    )
    return JudgeAgreement(
        judge,
        text,
        points,
        len(set(items)),
        mean_interval(same, raters, SCORE_LEVEL, scale=SHARE, things=items),
        kappa,
        len(margins) - len(majority),
    )
