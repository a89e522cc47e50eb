"""Results of pairwise comparisons: wins, ties, agreement and strengths.

As in Ghandeharioun et al. (2019), one-turn comparisons are shares of wins, losses and ties with 90 % intervals, with
and without ambiguous items, whose two most frequent answers are equally frequent. Judgements by the same rater or of
the same item are correlated, so intervals are clustered by both.

The preferred bot and the interval of the difference come from `evaluation.analysis.pairwise_preference`. While a study
collects data (`is_collecting`), researchers look at the numbers repeatedly, so the shares also have the anytime-valid
intervals of `evaluation.stats.sequential`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.analysis.comparisons import Test
from evaluation.analysis.levels import interval_level
from evaluation.analysis.ordered_choices import ChoiceResults
from evaluation.analysis.pairwise_preference import PairJudgements, preferred, sign_of
from evaluation.data.ratings import SMALLEST_SHARE
from evaluation.data.tables import text_table, to_plain
from evaluation.number_format import pluralise, probability, share, span
from evaluation.stats.agreement import USUAL_SHARED, AgreementEstimate, pairwise_kappa, rating_table
from evaluation.stats.bradley_terry import BradleyTerry, bradley_terry
from evaluation.stats.comparisons import ONE_JUDGEMENT, Comparison, is_equal
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.means import NO_VALUE, SHARE, Interval, mean_interval
from evaluation.stats.sequential import mean_always
from evaluation.stats.zscores import rater_codes

MOST_PAIRS = 300
"""Maximum number of rater pairs for the median kappa; a sample is drawn if there are more."""
_N_BOOTSTRAP = 1000


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """Result of two bots on one question, in alphabetical order.

    Attributes:
        wins, ties, losses: shares of judgements for a, for neither and for b, with intervals over raters.
        clear: wins without ambiguous items; losses and ties of them follow from `clear_ties`.
        ahead: share of wins minus share of losses, with its uncorrected interval.
        sign: the significantly preferred bot: 1 for a, -1 for b, 0 for neither; by `p_holm`, at 1 − level.
        equal: True if the two are equal for practical purposes; None if this cannot be tested.
        p, p_holm: p-value of no difference, uncorrected and corrected for all pairs of the question; None if untested.
        n_ambiguous: number of items whose two most frequent answers are equally frequent.
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
    p: float | None
    p_holm: float | None
    n_ambiguous: int
    clear: Interval
    clear_ties: Interval
    equal: bool | None = None


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's kappa of a question: the median over rater pairs.

    Attributes:
        n_pairs: number of rater pairs.
        shared: minimum number of items that a pair must share.
    """

    question: str
    found: AgreementEstimate
    n_pairs: int
    shared: int


MOST_EXCHANGES = 10
"""Number of exchanges with their own share; later ones are pooled."""


@dataclass(frozen=True, slots=True)
class PickShare:
    """Share of comparisons that a bot won, with its interval over raters.

    Ties count half.

    Attributes:
        exchange: exchange of the chat, from 1; one above `MOST_EXCHANGES` for all later ones; None for all.
    """

    bot: str
    exchange: int | None
    share: Interval


@dataclass(frozen=True, slots=True)
class PairResults:
    """Results of pairwise judgements.

    Attributes:
        outcomes: of every two bots on every question.
        strengths: Bradley-Terry strengths with ties, by the leading question.
        held: strengths at equal controls; None if no control varies.
        is_collecting: True if the intervals of outcomes are anytime-valid; all others are valid for a single look.
        test: test that decides which bot is preferred.
        picks: if replies of chats were compared one by one, each bot's share of wins, overall and by exchange.
        choices: their own results, if the judgements are implied by choices among several replies.
        smallest_difference: smallest difference of interest, between the shares of judgements preferring either bot.
    """

    n: int
    n_items: int
    n_raters: int
    outcomes: tuple[PairOutcome, ...]
    kappas: tuple[Kappa, ...]
    strengths: BradleyTerry
    held: BradleyTerry | None
    level: float = RATING_LEVEL
    is_collecting: bool = False
    test: Test = "fixed"
    smallest_difference: float = 2 * SMALLEST_SHARE
    picks: tuple[PickShare, ...] = ()
    choices: ChoiceResults | None = None

    def get_outcome(self, question: str, a: str, b: str) -> PairOutcome | None:
        """Return the outcome of two bots, `a` before `b` in alphabetical order."""
        outcomes = (o for o in self.outcomes if (o.question, o.a, o.b) == (question, a, b))
        return next(outcomes, None)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined ones are null, with a reason.

        Includes the counts of pairs by question.
        """
        document: dict[str, Any] = to_plain(self)
        choices = document.pop("choices")
        return {
            **document,
            "best_worst": None,  # the field of the first kind of choices is always there
            **({} if self.choices is None else {self.choices.key: choices}),
            "counts": {key: self.counts(key) for key in dict.fromkeys(o.question for o in self.outcomes)},
        }

    def counts(self, question: str) -> dict[str, int]:
        """Count pairs that are clearly different, equal, and not yet known."""
        outcomes = [outcome for outcome in self.outcomes if outcome.question == question]
        return {
            "n_pairs": len(outcomes),
            "n_told_apart": sum(bool(outcome.sign) for outcome in outcomes),
            "n_equal": sum(bool(outcome.equal) for outcome in outcomes),
            "n_not_yet_known": sum(not outcome.sign and not outcome.equal for outcome in outcomes),
        }

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
                probability(o.p_holm).removeprefix("p ").removeprefix("= "),
                ("equal" if o.equal and not o.sign else ("neither", o.a, o.b)[o.sign]),
            ]
            for o in self.outcomes
        ]
        title = (
            f"{pluralise(self.n, 'judgement')} of {pluralise(self.n_items, 'pair')} by "
            f"{pluralise(self.n_raters, 'rater')} "
            f"({'Holm' if self.test == 'fixed' else 'always valid, Holm'}, p < {1 - self.level:.2g})"
        )
        headers = ["question", "a", "b", "a wins", "ties", "b wins", "ambiguous"]
        headers += ["p (Holm)", "preferred"]
        return text_table(title, headers, rows)


def judge_pairs(
    judged: PairJudgements, *, level: float | None = None, seed: int = 0, shared: int = USUAL_SHARED
) -> PairResults:
    """Return wins, ties and losses of every two bots, agreement and strengths.

    Args:
        shared: minimum number of items that two raters must share for their kappa.
        level: confidence level of all intervals.
        seed: seed of the resampling.
    """
    level = interval_level(judged.level if level is None else level)
    raters = rater_codes(judged.rater.tolist()) if len(judged) else np.array([], dtype=int)
    names = np.array([sorted(pair) for pair in zip(judged.first, judged.second, strict=True)])
    names = names.reshape(-1, 2).astype(str)
    turned = np.where(judged.first.astype(str) == names[:, 0], 1.0, -1.0)
    preferences = {key: preferred(judged, key, alpha=1 - level) for key in judged.answers}
    outcomes = []
    for a, b in sorted({(str(a), str(b)) for a, b in names}):
        here = (names[:, 0] == a) & (names[:, 1] == b)
        for key, values in judged.answers.items():
            is_answered = here & np.isfinite(values)
            scores = (values * turned)[is_answered]
            read = (scores, judged.item[is_answered], raters[is_answered])
            pair = preferences[key].get_comparison(a, b) if is_answered.any() else _make_undefined(a, b)
            outcome = _outcome(key, pair, *read, level, judged.is_collecting)
            outcomes.append(replace(outcome, equal=is_equal(pair, preferences[key].smallest)))
    leading = judged.answers[judged.leading]
    controls = {name: values for name, values in judged.controls.items() if np.any(values)}

    def strengths(controls: Mapping[str, np.ndarray]) -> BradleyTerry:
        return bradley_terry(
            judged.first.astype(str).tolist(),
            judged.second.astype(str).tolist(),
            (leading + 1) / 2,
            judged.rater.tolist(),
            controls=controls,
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
        test="always" if judged.is_collecting else "fixed",
        smallest_difference=2 * judged.smallest_share,
        picks=_pick_shares(judged, raters, level),
        choices=None if judged.choices is None else judged.choices.results(level=level, seed=seed),
    )


def _pick_shares(judged: PairJudgements, raters: np.ndarray, level: float) -> tuple[PickShare, ...]:
    if judged.exchange is None or not len(judged):
        return ()
    won = (judged.answers[judged.leading] + 1) / 2
    exchange = np.minimum(judged.exchange, MOST_EXCHANGES + 1)
    shares = []
    for number in (None, *sorted(set(exchange.tolist()))):
        here = np.ones(len(won), dtype=bool) if number is None else exchange == number
        for bot in sorted({*judged.first.tolist(), *judged.second.tolist()}):
            scores = np.where(judged.first == bot, won, np.where(judged.second == bot, 1 - won, np.nan))
            shares.append(PickShare(bot, number, mean_interval(scores[here], raters[here], level, scale=SHARE)))
    return tuple(shares)


def _make_undefined(a: str, b: str) -> Comparison:
    return Comparison(a, b, None, None, None, None, None, ordered=False, reason=NO_VALUE)


def _outcome(
    key: str,
    pair: Comparison,
    scores: np.ndarray,
    items: np.ndarray,
    raters: np.ndarray,
    level: float,
    is_collecting: bool,
) -> PairOutcome:
    is_ambiguous = _find_ambiguous(scores, items)
    kinds = np.stack([scores == 1, scores == 0, scores == -1], axis=1).astype(float)

    def shares(among: np.ndarray) -> list[Interval]:
        if is_collecting:
            return _shares_always(kinds[among], raters[among], items[among], level)
        return _shares(kinds[among], raters[among], items[among], level)

    wins, ties, losses = shares(np.ones(len(scores), dtype=bool))
    clear, clear_ties, _clear_losses = shares(~is_ambiguous)
    return PairOutcome(
        question=key,
        a=pair.a,
        b=pair.b,
        n=len(scores),
        n_items=len(set(items.astype(str).tolist())),
        n_raters=len(np.unique(raters)),
        wins=wins,
        ties=ties,
        losses=losses,
        ahead=Interval(pair.difference, pair.low, pair.high, len(scores), pair.reason),
        sign=sign_of(pair),
        p=pair.p,
        p_holm=pair.p_holm,
        n_ambiguous=len(set(items[is_ambiguous].astype(str).tolist())),
        clear=clear,
        clear_ties=clear_ties,
    )


def _find_ambiguous(scores: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return a (k,) mask of judgements of ambiguous items."""
    votes: dict[str, Counter[float]] = {}
    for item, score in zip(items.astype(str).tolist(), scores.tolist(), strict=True):
        votes.setdefault(item, Counter())[score] += 1
    tied = set()
    for item, counts in votes.items():
        (_answer, n), *runners_up = counts.most_common(2)
        if runners_up and runners_up[0][1] == n:
            tied.add(item)
    return np.array([item in tied for item in items.astype(str).tolist()], dtype=bool)


def _shares(kinds: np.ndarray, raters: np.ndarray, items: np.ndarray, level: float) -> list[Interval]:
    """Return the means of the columns, with intervals over raters and items.

    Args:
        kinds: (k, 3) indicators of each judgement's kind.
        raters, items: (k,) rater and item of each judgement.
    """
    things = items if len(set(items.astype(str).tolist())) < len(items) else None
    return [mean_interval(column, raters, level, scale=SHARE, things=things) for column in kinds.T]


def _shares_always(kinds: np.ndarray, raters: np.ndarray, items: np.ndarray, level: float) -> list[Interval]:
    """Return the means of the columns, with anytime-valid intervals."""
    if len(kinds) < 2:
        reason = ONE_JUDGEMENT if len(kinds) else NO_VALUE
        means = kinds.mean(axis=0).tolist() if len(kinds) else [None] * kinds.shape[1]
        return [Interval(mean, None, None, len(kinds), reason) for mean in means]
    things = items.tolist()
    return [mean_always(column, raters.tolist(), things, low=0, high=1, level=level) for column in kinds.T]


def _kappa(
    key: str, values: np.ndarray, items: np.ndarray, raters: np.ndarray, shared: int, level: float, seed: int
) -> Kappa:
    is_answered = np.isfinite(values)
    return kappa_of(key, values[is_answered], items[is_answered], raters[is_answered], shared, level, seed)


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
        return Kappa(key, AgreementEstimate(None, None, None, 0, 0, reason=NO_VALUE), 0, shared)
    kappa = pairwise_kappa(
        rating_table(values, list(items), raters.tolist()),
        min_items=shared,
        most_pairs=MOST_PAIRS,
        level=level,
        n_bootstrap=_N_BOOTSTRAP // 5,
        seed=seed,
    )
    about = AgreementEstimate(kappa.median, kappa.low, kappa.high, n_items, len(values), reason=kappa.reason)
    return Kappa(key, about, len(kappa.kappas), shared)
