"""Simulated conversations of people who have one or several: how often the intervals of courses over turns hold.

For the suite in small, for `tests.validation.held` in full. People differ, conversations differ, and what is measured
at an exchange is the words of a message, whether somebody laughs, a vote or a sentiment. Groups are the better and
the worse half of the conversations, or those with two kinds of bots, of which everybody may meet both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtr

from evaluation.analysis.trajectories import Grouping, TrajectoryGroup, trajectories
from tests.evaluation.stats.simulated_models import Held

N_TURNS = 12
AT = (0, 4, 9)
"""Exchanges that are looked at, from 0: later ones are reached by fewer."""
FEWEST = 5
"""Points of fewer conversations are not counted here."""
MANY = 30_000


def _words(inner: np.ndarray) -> np.ndarray:
    """Return whole numbers from 1 on whose logarithm varies by .75."""
    return np.maximum(1.0, np.round(np.exp(2 + 0.75 * inner)))


def _laughter(inner: np.ndarray) -> np.ndarray:
    return (inner > 1.4).astype(float)


def _votes(inner: np.ndarray) -> np.ndarray:
    return np.where(inner > 0.9, 1.0, np.where(inner < -1.5, -1.0, 0.0))


def _sentiment(inner: np.ndarray) -> np.ndarray:
    return 2 * ndtr(inner) - 1


MEASURES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], tuple[float, float]]] = {
    "words": (_words, (0.0, np.inf)),
    "laughter": (_laughter, (0.0, np.inf)),
    "votes": (_votes, (-1.0, 1.0)),
    "sentiment": (_sentiment, (-1.0, 1.0)),
}
DESIGNS: dict[str, tuple[str, int, int]] = {
    "halves, 20 people": ("halves", 20, 1),
    "halves, 60 people": ("halves", 60, 1),
    "halves, 200 people": ("halves", 200, 1),
    "halves, 10 people, 4 each": ("halves", 10, 4),
    "halves, 40 people, 5 each": ("halves", 40, 5),
    "kinds, 50 people": ("kinds", 50, 1),
    "kinds, 10 people, 4 each": ("kinds", 10, 4),
    "kinds, 40 people, 5 each": ("kinds", 40, 5),
}
"""How conversations are grouped, how many people there are and how many conversations each has."""


@dataclass(frozen=True, slots=True)
class _Study:
    """Simulated conversations.

    Attributes:
        inner: (n, turns) what lies behind a measure.
        length: (n,) exchanges.
        score: (n,) conversations below `border` are of the second group.
        person: (n,) who had it.
    """

    inner: np.ndarray
    length: np.ndarray
    score: np.ndarray
    border: float
    person: np.ndarray


def _drawn(rng: np.random.Generator, how: str, n_people: int, n_each: int) -> _Study:
    """Return the conversations of one study."""
    person = np.repeat(np.arange(n_people), n_each)
    n = len(person)
    own, chat = rng.normal(size=n_people)[person], rng.normal(size=n)
    if how == "halves":
        score = 0.4 * own + 0.4 * chat + 0.8 * rng.normal(size=n)
        border, added = float(np.median(score)), np.zeros(n)
    else:
        score, border = (rng.random(n) < 0.25).astype(float), 0.5  # a quarter of the first kind
        added = 0.4 * (score < border)
    inner = 0.55 * own + 0.45 * chat + added
    values = inner[:, None] + 0.7 * rng.normal(size=(n, N_TURNS))
    length = np.clip(rng.geometric(0.12, size=n) + (own + chat > 0), 1, N_TURNS)
    return _Study(values, length, score, border, person)


@dataclass(frozen=True, slots=True)
class _Many:
    """A measure in a great many conversations, sorted by score: sums of it up to each of them.

    Attributes:
        score: (n,)
        sums, counts: (n, turns) of the measure at every exchange, and of conversations that reach it.
        means: (n,) sums of conversations' means.
    """

    score: np.ndarray
    sums: np.ndarray
    counts: np.ndarray
    means: np.ndarray

    def beyond(self, border: float) -> tuple[np.ndarray, float]:
        """Return the means of both sides of a border by exchange, (2, turns), and the difference of the means of
        conversations.

        An interval is held to the means of conversations beyond the border that its study has: who rates ten
        conversations finds other ones best than who rates a thousand.
        """
        at, n = int(np.searchsorted(self.score, border)), len(self.score)
        low = self.sums[at - 1] / self.counts[at - 1]
        high = (self.sums[-1] - self.sums[at - 1]) / (self.counts[-1] - self.counts[at - 1])
        gap = (self.means[-1] - self.means[at - 1]) / (n - at) - self.means[at - 1] / at
        return np.array([high, low]), float(gap)


@cache
def _truth(how: str) -> Mapping[str, _Many]:
    """Return every measure in a great many conversations."""
    study = _drawn(np.random.default_rng(0), how, MANY, 4)
    order = np.argsort(study.score)
    there = (np.arange(N_TURNS) < study.length[:, None])[order]
    results = {}
    for name, (of, _scale) in MEASURES.items():
        values = np.where(there, of(study.inner)[order], 0.0)
        means = values.sum(axis=1) / there.sum(axis=1)
        parts = (np.cumsum(one, axis=0) for one in (values, there, means))
        results[name] = _Many(study.score[order], *parts)
    return results


def held(design: str, n_studies: int, seed: int = 0) -> dict[str, Held]:
    """Return by interval how often it held in so many studies."""
    how, n_people, n_each = DESIGNS[design]
    rng = np.random.default_rng(seed)
    results: dict[str, Held] = {}
    scales = {name: scale for name, (_of, scale) in MEASURES.items()}
    for _ in range(n_studies):
        study = _drawn(rng, how, n_people, n_each)
        names = [f"c{i}" for i in range(len(study.person))]
        group = (study.score < study.border).astype(int)
        groups = tuple(
            TrajectoryGroup(label, tuple(names[i] for i in np.flatnonzero(group == g)))
            for g, label in enumerate(("first", "second"))
        )
        values = {
            name: {pk: row[:n].tolist() for pk, row, n in zip(names, of(study.inner), study.length, strict=True)}
            for name, (of, _scale) in MEASURES.items()
        }
        people = dict(zip(names, (f"p{one}" for one in study.person), strict=True))
        told = trajectories(Grouping("by-trait", groups, trait="kind"), values, list(MEASURES), people, scales)
        for measure in told.measures:
            by_turn, gap = _truth(how)[measure.name].beyond(study.border)
            for g, course in enumerate(measure.courses):
                for turn in AT:
                    if turn < len(course.n) and course.n[turn] >= FEWEST:
                        ends = (course.low[turn], course.high[turn])
                        low, high = (float(end) if np.isfinite(end) else None for end in ends)
                        what = f"{measure.name} at {turn + 1}"
                        results.setdefault(what, Held()).add(by_turn[g, turn], low, high)
            contrast = measure.contrast
            if contrast is not None:
                one = results.setdefault(f"{measure.name}, difference", Held())
                one.add(gap, contrast.low, contrast.high)
    return results
