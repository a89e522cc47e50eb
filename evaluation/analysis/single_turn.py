"""Comparison of single-turn and interactive evaluation of the same bots.

Judgements of single replies are compared with ratings of whole chats. Both protocols are analysed as in
`evaluation.analysis.pairs`; for chats, the difference of mean ratings replaces the share of comparisons. While a study
collects data, its intervals are anytime-valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.analysis.comparisons import Test, compare
from evaluation.analysis.pairs import Kappa, PairResults, judge_pairs, kappa_of
from evaluation.analysis.pairwise_preference import PairJudgements, sign_of
from evaluation.data.ratings import Ratings
from evaluation.data.tables import text_table, to_plain
from evaluation.findings import Reason
from evaluation.number_format import share, span
from evaluation.stats.agreement import USUAL_SHARED
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.means import Interval


@dataclass(frozen=True, slots=True)
class ProtocolPair:
    """Results for two bots on one question under both protocols.

    Attributes:
        question, asked: question of the comparisons and of the chats.
        one_turn: share of comparisons won minus share lost.
        difference, low, high: mean rating of a minus that of b, with its interval over participants.
        signs: significantly better bot under each protocol (`evaluation.analysis.pairwise_preference` and
            `evaluation.analysis.comparisons`): 1 for a, -1 for b, 0 for neither. These tests are corrected for multiple
            comparisons, the intervals are not.
    """

    question: str
    asked: str
    a: str
    b: str
    one_turn: Interval
    difference: float | None
    low: float | None
    high: float | None
    signs: tuple[int, int]
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class ProtocolComparison:
    """Results of both protocols for the same bots.

    Attributes:
        rows: every pair of shared bots on every shared question.
        one_turn: kappas of single comparisons.
        interactive: kappas of the preferences implied by each person's ratings of two bots.
        tests: tests of the comparisons and of the chats.
    """

    rows: tuple[ProtocolPair, ...]
    one_turn: tuple[Kappa, ...]
    interactive: tuple[Kappa, ...]
    level: float = RATING_LEVEL
    tests: tuple[Test, Test] = ("fixed", "fixed")

    @property
    def bots(self) -> tuple[str, ...]:
        """Bots evaluated under both protocols."""
        return tuple(sorted({name for row in self.rows for name in (row.a, row.b)}))

    def count(self, question: str | None = None) -> dict[str, int]:
        """Return the number of pairs by significance under the two protocols.

        Pairs may be significant in one, in neither, or in both; then they count as `same` or `contrary`, by their
        directions.
        """
        counts = dict.fromkeys(("same", "contrary", "one_turn", "interactive", "neither"), 0)
        for row in self.rows:
            if question is not None and row.question != question:
                continue
            turn_sign, chat_sign = row.signs
            if turn_sign and chat_sign:
                counts["same" if turn_sign == chat_sign else "contrary"] += 1
            else:
                counts["one_turn" if turn_sign else "interactive" if chat_sign else "neither"] += 1
        return counts

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined is null, with a reason."""
        return {**to_plain(self), "bots": list(self.bots), "counts": self.count()}

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                *(row.question, row.a, row.b),
                share(row.one_turn.mean),
                span(row.one_turn.low, row.one_turn.high, shares=True),
                "–" if row.difference is None else f"{row.difference:.2f}",
                span(row.low, row.high),
            ]
            for row in self.rows
        ]
        headers = ["question", "a", "b", "one turn", f"{self.level:.0%}", "interactive", f"{self.level:.0%}"]
        return text_table("One-turn and interactive evaluation: a less b", headers, rows)


def compare_protocols(
    judged: PairJudgements,
    ratings: Ratings,
    same: Mapping[str, str],
    *,
    results: PairResults | None = None,
    level: float = RATING_LEVEL,
    seed: int = 0,
    shared: int = USUAL_SHARED,
) -> ProtocolComparison:
    """Compare judgements of single replies with ratings of chats.

    Both concern the same bots.

    Args:
        shared: as in `judge_pairs`; 2 for chats, where raters share pairs of bots, because each participant meets few
            bots.
        same: chat question by comparison question.
        results: results of the judgements, if already computed.
        level: confidence level of all intervals.
    """
    results = results or judge_pairs(judged, level=level, seed=seed, shared=shared)
    rows, kappas = [], []
    for question, dimension in same.items():
        values = ratings.values(dimension)
        comparisons = compare(ratings, dimension, alpha=1 - level, plans=False)
        by_pair = {(pair.a, pair.b): pair for pair in comparisons.pairs}
        for outcome in results.outcomes:
            pair = by_pair.get((outcome.a, outcome.b))
            if outcome.question != question or pair is None:
                continue
            rows.append(
                ProtocolPair(
                    question=question,
                    asked=dimension,
                    a=outcome.a,
                    b=outcome.b,
                    one_turn=outcome.ahead,
                    difference=pair.difference,
                    low=pair.low,
                    high=pair.high,
                    signs=(outcome.sign, sign_of(pair)),
                    reason=pair.reason,
                )
            )
        kappas.append(_interactive_kappa(question, values, ratings, level, seed))
    return ProtocolComparison(
        tuple(rows),
        tuple(kappa for kappa in results.kappas if kappa.question in same),
        tuple(kappas),
        level,
        (results.test, "always" if ratings.is_collecting else "fixed"),
    )


def _interactive_kappa(question: str, values: np.ndarray, ratings: Ratings, level: float, seed: int) -> Kappa:
    """Return the kappa of preferences implied by raters' ratings.

    Each rater's ratings of two bots imply better, same or worse.
    """
    means: dict[str, dict[str, list[float]]] = {}
    for rater, bot, value in zip(ratings.rater, ratings.bot, values, strict=True):
        if rater is not None and np.isfinite(value):
            means.setdefault(rater, {}).setdefault(bot, []).append(float(value))
    items, raters, scores = [], [], []
    for rater, by_bot in means.items():
        for a, b in combinations(sorted(by_bot), 2):
            items.append(f"{a}\0{b}")
            raters.append(rater)
            scores.append(float(np.sign(np.mean(by_bot[a]) - np.mean(by_bot[b]))))
    return kappa_of(question, np.array(scores), items, np.array(raters, dtype=object), 2, level, seed)
