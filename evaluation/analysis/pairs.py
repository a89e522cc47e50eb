"""Which of two was better: wins, ties and losses of each two bots, agreement, strengths; single turns against chats.

Ghandeharioun et al. (2019) report both: one-turn comparisons as shares of wins, losses and ties with 90 % intervals,
also without ambiguous items, whose two most frequent answers are as frequent as each other; interactive ratings as
means. One rater's judgements resemble each other, and so do judgements of one item, so intervals are over both.

While a study collects (`is_collecting` of what is read), people look at the numbers again and again: then the shares
have the always-valid intervals of `evaluation.stats.sequential`, and who is preferred is what its test says of each
question, corrected by Holm, as `evaluation.analysis.settling` says it of the same judgements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.analysis.judged_pairs import Judgements
from evaluation.analysis.tables import plain, text_table
from evaluation.printing import share, span
from evaluation.stats.agreement import USUAL_SHARED, Agreement, pairwise_kappa, rating_table
from evaluation.stats.bradley_terry import BradleyTerry, bradley_terry
from evaluation.stats.intervals import NO_VALUE, SHARE, Interval, mean_interval
from evaluation.stats.sequential import ONE_JUDGEMENT, mean_always, preferences_always
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
        sign: who is preferred beyond chance: 1 for a, -1 for b, 0 for nobody. While the study collects that is what
            the always-valid test says, corrected by Holm; afterwards, on which side of 0 the interval lies.
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
    sign: int
    n_ambiguous: int
    clear: Interval
    clear_ties: Interval


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's kappa of a question: the median over pairs of raters.

    Attributes:
        n_pairs: of raters; shared: items that a pair must have in common to count.
    """

    question: str
    found: Agreement
    n_pairs: int
    shared: int


@dataclass(frozen=True, slots=True)
class PairResults:
    """What judgements of pairs say.

    Attributes:
        outcomes: of every two bots on every question.
        strengths: by what bots are ranked by, Bradley and Terry's model with ties.
        held: the same between bots of equal controls; None where no control differs.
        is_collecting: whether intervals of outcomes hold at all looks together; those of the rest hold at one.
    """

    n: int
    n_items: int
    n_raters: int
    outcomes: tuple[Outcome, ...]
    kappas: tuple[Kappa, ...]
    strengths: BradleyTerry
    held: BradleyTerry | None
    level: float = LEVEL
    is_collecting: bool = False

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
            read = (scores, judged.item[given], raters[given])
            outcomes.append(_outcome(key, a, b, *read, level, judged.is_collecting))
    if judged.is_collecting:
        outcomes = _at_any_look(outcomes, judged, level)
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
        is_collecting=judged.is_collecting,
    )


def _at_any_look(outcomes: Sequence[Outcome], judged: Judgements, level: float) -> list[Outcome]:
    """Return the outcomes with what the always-valid test says of each question."""
    found = {
        (key, one.pair.a, one.pair.b): one.pair
        for key, values in judged.answers.items()
        for one in preferences_always(
            values,
            judged.first.tolist(),
            judged.second.tolist(),
            judged.rater.tolist(),
            judged.item.tolist(),
            level=level,
        )
    }
    told = []
    for one in outcomes:
        pair = found[one.question, one.a, one.b]
        ahead = Interval(pair.difference, pair.low, pair.high, one.n, pair.reason)
        sign = int(np.sign(pair.difference or 0)) if pair.ordered else 0
        told.append(replace(one, ahead=ahead, sign=sign))
    return told


def _outcome(
    key: str,
    a: str,
    b: str,
    scores: np.ndarray,
    items: np.ndarray,
    raters: np.ndarray,
    level: float,
    is_collecting: bool,
) -> Outcome:
    is_ambiguous = _ambiguous(scores, items)
    kinds = np.stack([scores == 1, scores == 0, scores == -1, scores], axis=1).astype(float)

    def shares(among: np.ndarray) -> list[Interval]:
        if is_collecting:
            return _shares_always(kinds[among], raters[among], items[among], level)
        return _shares(kinds[among], raters[among], items[among], level)

    wins, ties, losses, ahead = shares(np.ones(len(scores), dtype=bool))
    clear, clear_ties, *_rest = shares(~is_ambiguous)
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
        sign=sign_of(ahead.low, ahead.high),
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


def _shares(
    kinds: np.ndarray, raters: np.ndarray, items: np.ndarray, level: float
) -> list[Interval]:
    """Return the means of the columns, shares and a difference of two, with intervals over raters and items.

    Args:
        kinds: (k, 4); raters, items: (k,) whose judgements of what they are.
    """
    things = items if len(set(items.astype(str).tolist())) < len(items) else None
    return [
        mean_interval(column, raters, level, scale=scale, things=things)
        for column, scale in zip(kinds.T, (SHARE, SHARE, SHARE, (-1.0, 1.0)), strict=True)
    ]


def _shares_always(
    kinds: np.ndarray, raters: np.ndarray, items: np.ndarray, level: float
) -> list[Interval]:
    """Return the means of the columns, shares and a difference of two, with intervals that hold at all looks together."""
    if len(kinds) < 2:
        why = ONE_JUDGEMENT if len(kinds) else NO_VALUE
        means = kinds.mean(axis=0).tolist() if len(kinds) else [None] * kinds.shape[1]
        return [Interval(mean, None, None, len(kinds), why) for mean in means]
    things = items.tolist()
    return [
        mean_always(column, raters.tolist(), things, low=low, high=1, level=level)
        for column, low in zip(kinds.T, (0, 0, 0, -1), strict=True)
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
    return kappa_of(key, values[given], items[given], raters[given], shared, level, seed)


def kappa_of(
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
        return Kappa(key, Agreement(None, None, None, 0, 0, reason=NO_VALUE), 0, shared)
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
    return Kappa(key, about, len(found.kappas), shared)


def sign_of(low: float | None, high: float | None) -> int:
    """Return on which side of 0 an interval lies: 1 above, -1 below, 0 where it holds 0 or there is none."""
    if low is None or high is None or low <= 0 <= high:
        return 0
    return 1 if low > 0 else -1
