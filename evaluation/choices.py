"""How far the choices of a judge or a metric between two replies agree with people's, ties told apart.

People say of a pair that the first is better, the second, or that they are the same; so does a judge, and so does a metric by
its scores. Each answer of a person is one comparison with the chooser. Pairs of one context resemble each other, and so do
the answers of one person: both are resampled whole, one after the other, and the wider interval counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from evaluation.analysis.judged_pairs import Judgements
from evaluation.reasons import Reason
from evaluation.stats.agreement import N_BOOTSTRAP, resample_items
from evaluation.stats.intervals import NO_VALUE, Interval
from evaluation.stats.proportion import share_interval
from evaluation.stats.resampling import interval_of_draws
from evaluation.stats.zscores import rater_codes

LEVEL = 0.95
NOT_CHOSEN = "nothing was chosen of the pair"
NOBODY_SAID = "nobody answered this question about the pair"
ALWAYS_TIED = Reason("always_tied", "one of the two always called them the same")
CERTAIN = Reason("all_the_same", "all answers are the same: agreement is certain")
_ANSWERS = (1.0, 0.0, -1.0)
_SAME, _OTHER = (0, 8), (2, 6)


class Chosen(NamedTuple):
    """What a judge or a metric chose of a pair.

    Attributes:
        answer: 1 for the first, 0 for the same, -1 for the second; NaN where nothing was chosen.
        first: the bot of the first, as people may have been shown the pair the other way round.
        context: what pairs belong together by; empty: the pair stands alone.
        why: nothing was chosen.
    """

    answer: float
    first: str = ""
    context: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceAgreement:
    """Choices of a judge or a metric beside people's.

    Attributes:
        question: that people answered.
        n_pairs: pairs with both; n: people's answers about them; n_raters: who gave them.
        counts: of the answers: `same` reply chosen by both, the `other` one, `people_tied` alone, `chooser_tied` alone,
            `both_tied`.
        agreed: share of the same reply among the answers that chose one where the chooser chose one, too; half by chance.
        kappa: Cohen's, of the three answers, so that ties count.
        people: the first share of two people who judged the same pair, beside which the chooser's is to be read.
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


def choices_beside(
    people: Judgements, chosen: Mapping[str, Chosen], question: str = "", *, seed: int = 0
) -> ChoiceAgreement:
    """Set a chooser's choices beside people's.

    Args:
        chosen: by the pair's name.
        question: that people answered; without one the leading one.
        seed: of the resampling.

    Raises:
        ValueError: nobody was asked the question, with those there are.
    """
    question = question or people.leading
    if question not in people.answers:
        raise ValueError(
            f"nobody was asked {question!r} about pairs; there is {', '.join(people.answers)}"
        )
    said = people.answers[question]
    names = people.item.astype(str)
    nothing = Chosen(float("nan"))
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
    units = [
        f"context {found[k].context}" if found[k].context else f"pair {names[k]}"
        for k in np.flatnonzero(used)
    ]
    over = [np.unique(some, return_inverse=True)[1] for some in (np.array(units), raters)]
    tables = np.zeros((len(pairs), 9))
    place = {answer: k for k, answer in enumerate(_ANSWERS)}
    for k, (one, other) in enumerate(zip(said[used].tolist(), own[used].tolist(), strict=True)):
        tables[k, 3 * place[one] + place[other]] = 1
    total = tables.sum(axis=0)
    both = _two_people(pairs, said[used])
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
        agreed=_share(tables[:, list(_SAME)].sum(1), tables[:, list(_OTHER)].sum(1), over, seed),
        kappa=_widest(tables, over, _kappas, len(pairs), CERTAIN, seed),
        people=_share(*both, over[:1], seed),
        skipped=dict(skipped),
    )


def _two_people(pairs: np.ndarray, said: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count of each answer, how many others of its pair chose the same reply, and how many the other one; halved."""
    votes: dict[str, Counter[float]] = {}
    for name, answer in zip(pairs.tolist(), said.tolist(), strict=True):
        votes.setdefault(name, Counter())[answer] += 1
    same, other = np.zeros(len(pairs)), np.zeros(len(pairs))
    for k, (name, answer) in enumerate(zip(pairs.tolist(), said.tolist(), strict=True)):
        if answer:
            same[k] = (votes[name][answer] - 1) / 2
            other[k] = votes[name][-answer] / 2
    return same, other


def _share(same: np.ndarray, other: np.ndarray, over: Sequence[np.ndarray], seed: int) -> Interval:
    """Return the share of `same`; where all or none are, by Wilson's formula of the units, which are fewer than answers."""
    counts = np.stack([same, other], axis=1)
    n, n_same = round(float(counts.sum())), float(same.sum())
    if n and n_same in (0.0, float(counts.sum())):
        asked = counts.sum(axis=1) > 0
        n_units = min((len(set(units[asked].tolist())) for units in over), default=n)
        low, high = share_interval(n_units if n_same else 0, n_units) or (None, None)
        return Interval(float(n_same > 0), low, high, n)

    def shares(counted: np.ndarray) -> np.ndarray:
        decided = counted.sum(axis=1)
        return np.where(decided > 0, counted[:, 0] / np.maximum(decided, 1e-12), np.nan)

    return _widest(counts, over, shares, n, ALWAYS_TIED, seed)


def _kappas(tables: np.ndarray) -> np.ndarray:
    """Return Cohen's kappa of tables of people's answers by the chooser's, (B, 9); NaN where chance agreement is certain."""
    square = tables.reshape(-1, 3, 3)
    n = np.maximum(square.sum(axis=(1, 2)), 1e-12)
    observed = np.trace(square, axis1=1, axis2=2) / n
    expected = (square.sum(axis=2) * square.sum(axis=1)).sum(axis=1) / n**2
    certain = expected > 1 - 1e-12
    return np.where(certain, np.nan, (observed - expected) / np.where(certain, 1, 1 - expected))


def _widest(
    counts: np.ndarray,
    over: Sequence[np.ndarray],
    statistic: Callable[[np.ndarray], np.ndarray],
    n: int,
    undefined: Reason,
    seed: int,
) -> Interval:
    """Return a statistic of summed counts, with the widest of its intervals over each kind of units.

    Args:
        counts: (K, m) of the answers; over: of each kind of units their numbers, (K,).
        statistic: (B, m) to (B,).
    """
    if not len(counts):
        return Interval(None, None, None, 0, NO_VALUE)
    value = float(statistic(counts.sum(axis=0, keepdims=True))[0])
    if not np.isfinite(value):
        return Interval(None, None, None, n, undefined)
    ends: list[tuple[float, float]] = []
    for units in over:
        summed = np.zeros((int(units.max()) + 1, counts.shape[1]))
        np.add.at(summed, units, counts)
        if len(summed) > 1:
            draws = resample_items(
                lambda times, summed=summed: statistic(times @ summed),  # type: ignore[misc]
                len(summed),
                N_BOOTSTRAP,
                seed,
            )
            found = interval_of_draws(draws, len(summed), LEVEL)
            if found is not None:
                ends.append(found)
    if not ends:
        why = Reason("one_group", "all values of one group: no interval")
        return Interval(value, None, None, n, why)
    low, high = max(ends, key=lambda one: one[1] - one[0])
    return Interval(value, low, high, n)
