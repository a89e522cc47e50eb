"""Which of two was better: wins, ties and losses of each two bots, agreement, strengths; single turns against chats.

Ghandeharioun et al. (2019) report both: one-turn comparisons as shares of wins, losses and ties with 90 % intervals,
also without ambiguous items, whose two most frequent answers are as frequent as each other; interactive ratings as
means. One rater's judgements resemble each other, so raters are resampled whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.analysis.judged_pairs import Judgements
from evaluation.analysis.tables import plain, text_table
from evaluation.printing import share, span
from evaluation.ratings import Ratings
from evaluation.reasons import Reason
from evaluation.stats.agreement import USUAL_SHARED, Agreement, pairwise_kappa, rating_table
from evaluation.stats.bootstrap import NO_VALUE, Interval
from evaluation.stats.bradley_terry import BradleyTerry, bradley_terry
from evaluation.stats.compare import pairwise
from evaluation.stats.zscores import rater_codes
from evaluation.wording import counted

LEVEL = 0.90
MOST_PAIRS = 300
"""Pairs of raters whose kappas make the median; of more so many are drawn."""
_N_BOOTSTRAP = 1000


@dataclass(frozen=True, slots=True)
class Outcome:
    """How two bots, `a` before `b` in the alphabet, did against each other on one question.

    Attributes:
        wins, ties, losses: shares of judgements for a, for neither and for b, with intervals over raters.
        clear: wins without ambiguous items; losses and ties of them follow from `clear_ties`.
        ahead: share of wins less that of losses, with its interval.
        n_ambiguous: of the items, those whose two most frequent answers are as frequent as each other.
    """

    question: str
    a: str
    b: str
    n: int
    n_items: int
    n_raters: int
    wins: Interval
    ties: Interval
    losses: Interval
    ahead: Interval
    n_ambiguous: int
    clear: Interval
    clear_ties: Interval

    @property
    def sign(self) -> int:
        """Who is preferred beyond chance: 1 for a, -1 for b, 0 where the interval holds 0 or there is none."""
        return _sign(self.ahead.low, self.ahead.high)


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's kappa of a question: the median over pairs of raters."""

    question: str
    found: Agreement
    n_pairs: int


@dataclass(frozen=True, slots=True)
class PairResults:
    """What judgements of pairs say.

    Attributes:
        outcomes: of every two bots on every question.
        strengths: by what bots are ranked by, Bradley and Terry's model with ties.
        held: the same between bots of equal controls; None where no control differs.
    """

    n: int
    n_items: int
    n_raters: int
    outcomes: tuple[Outcome, ...]
    kappas: tuple[Kappa, ...]
    strengths: BradleyTerry
    held: BradleyTerry | None
    level: float = LEVEL

    def of(self, question: str, a: str, b: str) -> Outcome | None:
        """Return the outcome of two bots, `a` before `b` in the alphabet."""
        found = (o for o in self.outcomes if (o.question, o.a, o.b) == (question, a, b))
        return next(found, None)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined is null, with a reason."""
        found: dict[str, Any] = plain(self)
        return found

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                *(o.question, o.a, o.b),
                *(
                    share(part.mean) + " " + span(part.low, part.high, shares=True)
                    for part in (o.wins, o.ties, o.losses)
                ),
                str(o.n_ambiguous),
            ]
            for o in self.outcomes
        ]
        title = f"{counted(self.n, 'judgement')} of {counted(self.n_items, 'pair')} by {counted(self.n_raters, 'rater')}"
        headers = ["question", "a", "b", "a wins", "ties", "b wins", "ambiguous"]
        return text_table(title, headers, rows)


def judge_pairs(
    judged: Judgements, *, level: float = LEVEL, seed: int = 0, shared: int = USUAL_SHARED
) -> PairResults:
    """Return wins, ties and losses of every two bots, agreement and strengths.

    Args:
        shared: items that two raters must have in common for their kappa.
        level: of all intervals.
        seed: of the resampling.
    """
    raters = rater_codes(judged.rater.tolist()) if len(judged) else np.array([], dtype=int)
    names = np.array([sorted(pair) for pair in zip(judged.first, judged.second, strict=True)])
    names = names.reshape(-1, 2).astype(str)
    turned = np.where(judged.first.astype(str) == names[:, 0], 1.0, -1.0)
    outcomes = []
    for a, b in sorted({(str(a), str(b)) for a, b in names}):
        here = (names[:, 0] == a) & (names[:, 1] == b)
        for key, values in judged.answers.items():
            given = here & np.isfinite(values)
            scores = (values * turned)[given]
            outcomes.append(
                _outcome(key, a, b, scores, judged.item[given], raters[given], level, seed)
            )
    leading = judged.answers[judged.leading]
    controls = {name: values for name, values in judged.controls.items() if np.any(values)}

    def strengths(held: Mapping[str, np.ndarray]) -> BradleyTerry:
        return bradley_terry(
            judged.first.astype(str).tolist(),
            judged.second.astype(str).tolist(),
            (leading + 1) / 2,
            judged.rater.tolist(),
            controls=held,
            level=level,
        )

    return PairResults(
        n=len(judged),
        n_items=len(set(judged.item.astype(str).tolist())),
        n_raters=len(np.unique(raters)),
        outcomes=tuple(outcomes),
        kappas=tuple(
            _kappa(key, values * turned, judged.item, raters, shared, level, seed)
            for key, values in judged.answers.items()
        ),
        strengths=strengths({}),
        held=strengths(controls) if controls else None,
        level=level,
    )


def _outcome(
    key: str,
    a: str,
    b: str,
    scores: np.ndarray,
    items: np.ndarray,
    raters: np.ndarray,
    level: float,
    seed: int,
) -> Outcome:
    is_ambiguous = _ambiguous(scores, items)
    kinds = np.stack([scores == 1, scores == 0, scores == -1, scores], axis=1).astype(float)
    wins, ties, losses, ahead = _shares(kinds, raters, level, seed)
    clear, clear_ties, *_rest = _shares(kinds[~is_ambiguous], raters[~is_ambiguous], level, seed)
    return Outcome(
        question=key,
        a=a,
        b=b,
        n=len(scores),
        n_items=len(set(items.astype(str).tolist())),
        n_raters=len(np.unique(raters)),
        wins=wins,
        ties=ties,
        losses=losses,
        ahead=ahead,
        n_ambiguous=len(set(items[is_ambiguous].astype(str).tolist())),
        clear=clear,
        clear_ties=clear_ties,
    )


def _ambiguous(scores: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return (k,) whether the item of each judgement has two answers that are both the most frequent."""
    votes: dict[str, Counter[float]] = {}
    for item, score in zip(items.astype(str).tolist(), scores.tolist(), strict=True):
        votes.setdefault(item, Counter())[score] += 1
    tied = set()
    for item, counts in votes.items():
        (_most, n), *others = counts.most_common(2)
        if others and others[0][1] == n:
            tied.add(item)
    return np.array([item in tied for item in items.astype(str).tolist()], dtype=bool)


def _shares(kinds: np.ndarray, raters: np.ndarray, level: float, seed: int) -> list[Interval]:
    """Return the means of the columns with percentile intervals, the same raters resampled for all.

    Args:
        kinds: (k, m); raters: (k,) codes.
    """
    n = len(kinds)
    if not n:
        return [Interval(None, None, None, 0, NO_VALUE)] * kinds.shape[1]
    means = kinds.mean(axis=0)
    _, codes = np.unique(raters, return_inverse=True)
    n_raters = int(codes.max()) + 1
    if n_raters < 2:
        why = Reason("one_group", "all values of one group: no interval")
        return [Interval(float(mean), None, None, n, why) for mean in means]
    sums = np.zeros((n_raters, kinds.shape[1]))
    np.add.at(sums, codes, kinds)
    counts = np.bincount(codes).astype(float)
    rng = np.random.default_rng(seed)
    times = rng.multinomial(n_raters, np.full(n_raters, 1 / n_raters), size=_N_BOOTSTRAP)
    draws = (times @ sums) / (times @ counts)[:, None]
    low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    return [
        Interval(float(mean), float(lower), float(upper), n)
        for mean, lower, upper in zip(means, low, high, strict=True)
    ]


def _kappa(
    key: str,
    values: np.ndarray,
    items: np.ndarray,
    raters: np.ndarray,
    shared: int,
    level: float,
    seed: int,
) -> Kappa:
    given = np.isfinite(values)
    return _kappa_of(key, values[given], items[given], raters[given], shared, level, seed)


def _kappa_of(
    key: str,
    values: np.ndarray,
    items: Sequence[Any] | np.ndarray,
    raters: np.ndarray,
    shared: int,
    level: float,
    seed: int,
) -> Kappa:
    n_items = len(set(np.asarray(items, dtype=object).astype(str).tolist()))
    if not len(values):
        return Kappa(key, Agreement(None, None, None, 0, 0, reason=NO_VALUE), 0)
    found = pairwise_kappa(
        rating_table(values, list(items), raters.tolist()),
        min_items=shared,
        most_pairs=MOST_PAIRS,
        level=level,
        n_bootstrap=_N_BOOTSTRAP // 5,
        seed=seed,
    )
    about = Agreement(
        found.median, found.low, found.high, n_items, len(values), reason=found.reason
    )
    return Kappa(key, about, len(found.kappas))


@dataclass(frozen=True, slots=True)
class Beside:
    """Two bots on one question, by single turns and by whole chats.

    Attributes:
        question, asked: the question of the comparisons and that of the chats.
        one_turn: share of comparisons won less that of lost ones.
        difference, low, high: mean rating of a less that of b, with its interval over participants.
    """

    question: str
    asked: str
    a: str
    b: str
    one_turn: Interval
    difference: float | None
    low: float | None
    high: float | None
    reason: Reason | None = None

    @property
    def signs(self) -> tuple[int, int]:
        """Who is better beyond chance by either: 1 for a, -1 for b, 0 for nobody."""
        return _sign(self.one_turn.low, self.one_turn.high), _sign(self.low, self.high)

    @property
    def same_direction(self) -> bool | None:
        """Whether both lean to the same bot, however little; None where one leans to none."""
        if not self.one_turn.mean or not self.difference:
            return None
        return (self.one_turn.mean > 0) == (self.difference > 0)


@dataclass(frozen=True, slots=True)
class ProtocolsCompared:
    """One-turn against interactive evaluation of the same bots.

    Attributes:
        rows: every two bots that both have, on every question that both ask.
        one_turn: kappas of single comparisons.
        interactive: kappas of what each person's ratings of two bots say of these two.
    """

    rows: tuple[Beside, ...]
    one_turn: tuple[Kappa, ...]
    interactive: tuple[Kappa, ...]
    level: float = LEVEL

    @property
    def bots(self) -> tuple[str, ...]:
        """Those that both protocols have."""
        return tuple(sorted({name for row in self.rows for name in (row.a, row.b)}))

    def count(self, question: str | None = None) -> dict[str, int]:
        """Return how many pairs are told apart by both (`same` or `contrary`), by one alone, or by neither."""
        found = dict.fromkeys(("same", "contrary", "one_turn", "interactive", "neither"), 0)
        for row in self.rows:
            if question is not None and row.question != question:
                continue
            one, other = row.signs
            if one and other:
                found["same" if one == other else "contrary"] += 1
            else:
                found["one_turn" if one else "interactive" if other else "neither"] += 1
        return found

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined is null, with a reason."""
        return {**plain(self), "bots": list(self.bots), "counts": self.count()}

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
        headers = [
            "question",
            "a",
            "b",
            "one turn",
            f"{self.level:.0%}",
            "interactive",
            f"{self.level:.0%}",
        ]
        return text_table("One-turn and interactive evaluation: a less b", headers, rows)


def compare_protocols(
    judged: Judgements,
    ratings: Ratings,
    same: Mapping[str, str],
    *,
    results: PairResults | None = None,
    level: float = LEVEL,
    seed: int = 0,
    shared: int = USUAL_SHARED,
) -> ProtocolsCompared:
    """Set comparisons of single replies beside ratings of chats with the same bots.

    Args:
        shared: as `judge_pairs`; of chats, where what is shared is two bots that both rated, it is 2, for nobody
            meets many.
        same: the chats' question by the comparisons' one.
        results: of the judgements, where they are computed already.
        level: of all intervals.
    """
    results = results or judge_pairs(judged, level=level, seed=seed, shared=shared)
    rows, kappas = [], []
    for question, asked in same.items():
        values = ratings.values(asked)
        found = pairwise(
            values, ratings.bot.tolist(), ratings.rater.tolist(), level=level, seed=seed
        )
        by_pair = {(pair.a, pair.b): pair for pair in found}
        for outcome in results.outcomes:
            pair = by_pair.get((outcome.a, outcome.b))
            if outcome.question != question or pair is None:
                continue
            rows.append(
                Beside(
                    question=question,
                    asked=asked,
                    a=outcome.a,
                    b=outcome.b,
                    one_turn=outcome.ahead,
                    difference=pair.difference,
                    low=pair.low,
                    high=pair.high,
                    reason=pair.reason,
                )
            )
        kappas.append(_interactive_kappa(question, values, ratings, level, seed))
    return ProtocolsCompared(
        tuple(rows),
        tuple(kappa for kappa in results.kappas if kappa.question in same),
        tuple(kappas),
        level,
    )


def _interactive_kappa(
    question: str, values: np.ndarray, ratings: Ratings, level: float, seed: int
) -> Kappa:
    """Return the kappa of what each person's ratings say of every two bots that they rated: better, same, worse."""
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
    return _kappa_of(
        question, np.array(scores), items, np.array(raters, dtype=object), 2, level, seed
    )


def _sign(low: float | None, high: float | None) -> int:
    if low is None or high is None or low <= 0 <= high:
        return 0
    return 1 if low > 0 else -1
