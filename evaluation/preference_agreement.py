"""Agreement of a judge's or a metric's preferences with people's, ties included.

People say of a pair that the first is better, the second, or that they are the same; so does a judge, and so does a
metric by its scores. Each answer of a person is one comparison with the chooser. Pairs of one context resemble each
other, and so do the answers of one person: the largest variance over raters, contexts and both counts, as for every
mean (`evaluation.stats.means`). Kappa is linear in the answers but for its chance agreement; so its variance is
that of the mean of its influences (Fleiss, Cohen and Everitt 1969), and its interval is made on Fisher's scale of
z.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from chatbots.text import quote
from evaluation.analysis.pairwise_preference import PairJudgements
from evaluation.findings import Reason
from evaluation.stats.means import NO_VALUE, ONE_GROUP, SHARE, Interval, mean_interval, mean_spread
from evaluation.stats.resampling import NO_DISAGREEMENT
from evaluation.stats.zscores import rater_codes

LEVEL = 0.95
NOT_CHOSEN = "nothing was chosen of the pair"
NOBODY_SAID = "no participant answered this question about the pair"
ALWAYS_TIED = Reason("always_tied", "one of the two always called them the same")
CERTAIN = Reason("all_the_same", "all answers are the same: agreement is certain")
_ANSWERS = (1.0, 0.0, -1.0)
_SAME, _OTHER = (0, 8), (2, 6)


class PairChoice(NamedTuple):
    """Choice of a judge or a metric for one pair.

    Attributes:
        answer: 1 for the first, 0 for the same, -1 for the second; NaN where nothing was chosen.
        first: the bot of the first, as people may have been shown the pair the other way round.
        context: name that groups pairs; empty: the pair stands alone.
        why: the reason where nothing was chosen.
    """

    answer: float
    first: str = ""
    context: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceAgreement:
    """Choices of a judge or a metric compared with people's.

    Attributes:
        question: that people answered.
        n_pairs: pairs with both; n: people's answers about them; n_raters: who gave them.
        counts: of the answers: `same` reply chosen by both, the `other` one, `people_tied` alone, `chooser_tied` alone,
            `both_tied`.
        agreed: share of the same reply among the answers that chose one where the chooser chose one, too; half by
            chance.
        kappa: Cohen's, of the three answers, so that ties count.
        people: the first share of two people who judged the same pair, next to which the chooser's is to be read.
        skipped: pairs that lack one of the two, and why.
    """

    question: str
    n_pairs: int
    n: int
    n_raters: int
    counts: dict[str, int]
    agreed: Interval
    kappa: Interval
    people: Interval
    skipped: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, each estimate as `value`, `ci95` and, where something is missing, `reason`."""
        found = asdict(self)
        for name in ("agreed", "kappa", "people"):
            one: Interval = getattr(self, name)
            found[name] = {
                "value": one.mean,
                "ci95": None if one.low is None else [one.low, one.high],
                "n": one.n,
                "reason": one.reason,
            }
        return found


def compare_choices(people: PairJudgements, chosen: Mapping[str, PairChoice], question: str = "") -> ChoiceAgreement:
    """Compare a chooser's choices with people's.

    Args:
        chosen: by the pair's name.
        question: that people answered; without one the leading one.

    Raises:
        ValueError: the question has no answers; the message names the known questions.
    """
    question = question or people.leading
    if question not in people.answers:
        raise ValueError(
            f"no participant was asked {quote(question)} about pairs; there is {', '.join(people.answers)}"
        )
    said = people.answers[question]
    names = people.item.astype(str)
    nothing = PairChoice(float("nan"))
    found = [chosen.get(name, nothing) for name in names.tolist()]
    own = np.array(
        [
            -one.answer if one.first and one.first == second else one.answer
            for one, second in zip(found, people.second.tolist(), strict=True)
        ],
        dtype=float,
    )
    answered, used = np.isfinite(said), np.isfinite(said) & np.isfinite(own)
    lacking = {names[k]: found[k].why or NOT_CHOSEN for k in np.flatnonzero(answered & ~used)}
    skipped = Counter(lacking.values())
    silent = set(chosen) - set(names[answered].tolist())
    skipped.update({NOBODY_SAID: len(silent)} if silent else {})
    pairs, raters = names[used], rater_codes(people.rater.tolist())[used]
    units = [f"context {found[k].context}" if found[k].context else f"pair {names[k]}" for k in np.flatnonzero(used)]
    contexts = np.unique(np.array(units), return_inverse=True)[1]
    tables = np.zeros((len(pairs), 9))
    place = {answer: k for k, answer in enumerate(_ANSWERS)}
    for k, (one, other) in enumerate(zip(said[used].tolist(), own[used].tolist(), strict=True)):
        tables[k, 3 * place[one] + place[other]] = 1
    total = tables.sum(axis=0)
    decided = tables[:, [*_SAME, *_OTHER]].any(axis=1)
    agreeing = tables[:, list(_SAME)].sum(axis=1)
    return ChoiceAgreement(
        question=question,
        n_pairs=len(set(pairs.tolist())),
        n=len(pairs),
        n_raters=len(set(raters.tolist())),
        counts={
            name: int(total[list(places)].sum())
            for name, places in {
                "same": _SAME,
                "other": _OTHER,
                "people_tied": (3, 5),
                "chooser_tied": (1, 7),
                "both_tied": (4,),
            }.items()
        },
        agreed=_share(agreeing[decided], raters[decided], contexts[decided]),
        kappa=_kappa(tables, raters, contexts),
        people=_share(*_two_people(pairs, said[used], contexts)),
        skipped=dict(skipped),
    )


def _two_people(pairs: np.ndarray, said: np.ndarray, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compare every two people who chose a reply of the same pair.

    Returns (c,) 1 for the same reply, else 0, and the context of each.
    """
    votes: dict[str, Counter[float]] = {}
    of: dict[str, int] = {}
    for name, answer, context in zip(pairs.tolist(), said.tolist(), contexts.tolist(), strict=True):
        votes.setdefault(name, Counter())[answer] += 1
        of[name] = context
    values, groups = [], []
    for name, found in votes.items():
        first, second = found[1.0], found[-1.0]
        same, other = (first * (first - 1) + second * (second - 1)) // 2, first * second
        values += [np.ones(same), np.zeros(other)]
        groups.append(np.full(same + other, of[name]))
    if not values:
        return np.zeros(0), np.zeros(0, dtype=int)
    return np.concatenate(values), np.concatenate(groups)


def _share(values: np.ndarray, groups: np.ndarray, things: np.ndarray | None = None) -> Interval:
    """Return the share of ones with its interval; without any, that one of the two chose no reply."""
    if not len(values):
        return Interval(None, None, None, 0, ALWAYS_TIED)
    return mean_interval(values, groups, LEVEL, scale=SHARE, things=things)


def _kappa(tables: np.ndarray, raters: np.ndarray, contexts: np.ndarray) -> Interval:
    """Return Cohen's kappa with its interval.

    Args:
        tables: (k, 9) 1 in the cell of each answer; raters, contexts: (k,) of each.
    """
    n = len(tables)
    if not n:
        return Interval(None, None, None, 0, NO_VALUE)
    shares = tables.mean(axis=0).reshape(3, 3)
    people, chooser = shares.sum(axis=1), shares.sum(axis=0)
    observed, by_chance = float(np.trace(shares)), float(people @ chooser)
    if by_chance > 1 - 1e-12:
        return Interval(None, None, None, n, CERTAIN)
    value = (observed - by_chance) / (1 - by_chance)
    chance_moves = chooser[:, None] + people[None] - 2 * by_chance
    moves = (np.eye(3) - observed) - (1 - value) * chance_moves
    influence = tables @ moves.ravel() / (1 - by_chance)
    spread = mean_spread(influence, raters, contexts)
    if spread is None:
        return Interval(value, None, None, n, ONE_GROUP)
    from scipy.special import stdtrit

    half = float(stdtrit(spread.df, 0.5 + LEVEL / 2)) * float(np.sqrt(spread.variance))
    if not half or not -1 < value < 1:
        return Interval(value, None, None, n, NO_DISAGREEMENT)
    ends = np.tanh(np.arctanh(value) + np.array([-1, 1]) * half / (1 - value**2))
    return Interval(value, float(ends[0]), float(ends[1]), n)
