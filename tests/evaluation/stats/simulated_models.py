"""Simulated studies of the models of ratings: how often their intervals hold. For the suite in small, for
`tests.validation.models` in full.

Four bots, whose ratings spread alike or differently, by raters of whom half of the variance within bots is, who rate
everything, or unequally often, or one bot alone, or two, or once.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from evaluation.stats.anova import anova
from evaluation.stats.mixed import mixed_model
from evaluation.stats.ordinal import ordinal_model

LEVEL = 0.90
SCALE = (1.0, 5.0)
TRUE = np.array([0.0, 0.3, 0.6, 0.9])
ALIKE, DIFFERENT = (1.0, 1.0, 1.0, 1.0), (0.4, 0.8, 1.6, 2.4)
FACTORS = {"corpus": np.array(list("xxyy")), "EI": np.array(list("uvuv"))}
BOTS = np.array(list("abcd"))
Columns = tuple[np.ndarray, np.ndarray]
Ends = tuple[float, float | None, float | None]
"""The truth and the ends of its interval."""


@dataclass
class Held:
    """How often an interval held what it is about, added up over studies.

    Attributes:
        inside, of: in so many of so many studies that have one.
        widths: of each.
    """

    inside: int = 0
    of: int = 0
    widths: list[float] = field(default_factory=list)

    def add(self, truth: float, low: float | None, high: float | None) -> None:
        """Count one interval, if there is one."""
        if low is None or high is None:
            return
        self.inside, self.of = self.inside + (low <= truth <= high), self.of + 1
        self.widths.append(high - low)


def everything(rng: np.random.Generator, n_raters: int) -> Columns:
    """Return the bot and the rater of every rating where everybody rates all bots once."""
    rater, bot = np.divmod(np.arange(4 * n_raters), 4)
    return bot, rater


def uneven(rng: np.random.Generator, n_raters: int) -> Columns:
    """Return the same where raters give one to eight ratings, of bots by chance."""
    rater = np.repeat(np.arange(n_raters), rng.integers(1, 9, n_raters))
    return rng.integers(0, 4, len(rater)), rater


def apart(rng: np.random.Generator, n_raters: int) -> Columns:
    """Return the same where each rater rates one bot three times."""
    rater = np.repeat(np.arange(n_raters), 3)
    return rater % 4, rater


def two(rng: np.random.Generator, n_raters: int) -> Columns:
    """Return the same where each rater rates two bots once."""
    rater = np.repeat(np.arange(n_raters), 2)
    return (rater + np.tile([0, 1], n_raters)) % 4, rater


def once(rng: np.random.Generator, n_raters: int) -> Columns:
    """Return the same where everybody rates once, each bot as often as there are `n_raters`."""
    rater = np.arange(4 * n_raters)
    return rater % 4, rater


DESIGNS = (everything, uneven, apart, two)
Design = Callable[[np.random.Generator, int], Columns]
Study = tuple[np.ndarray, np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, Design, int], Study]


def free(spreads: tuple[float, ...]) -> Draw:
    """Return what draws ratings without ends: (k,) values, bots and raters."""

    def drawn(rng: np.random.Generator, design: Design, n_raters: int) -> Study:
        bot, rater = design(rng, n_raters)
        values = TRUE[bot] + rng.normal(size=int(rater.max()) + 1)[rater]
        return values + np.array(spreads)[bot] * rng.normal(size=len(bot)), bot, rater

    return drawn


def points(middle: float, apart: np.ndarray = TRUE) -> Draw:
    """Return what draws whole points of 1 to 5, the bots so far above this one, a third of whose variance is the
    raters'.
    """

    def drawn(rng: np.random.Generator, design: Design, n_raters: int) -> Study:
        bot, rater = design(rng, n_raters)
        inner = middle + apart[bot] + 0.6 * rng.normal(size=int(rater.max()) + 1)[rater]
        return np.clip(np.round(inner + 0.8 * rng.normal(size=len(bot))), *SCALE), bot, rater

    return drawn


DRAWN: dict[str, Draw] = {
    "bots spread alike": free(ALIKE),
    "bots spread by .4 to 2.4": free(DIFFERENT),
    "points around 3": points(2.55),
    "points around 4.3": points(3.9),
    "points of equal bots": points(3.0, np.zeros(4)),
}


@cache
def true_means(drawn: str) -> np.ndarray:
    """Return the bots' means over very many raters."""
    if "points" not in drawn:
        return TRUE
    values, bot, _rater = DRAWN[drawn](np.random.default_rng(0), once, 500_000)
    return np.bincount(bot, weights=values) / np.bincount(bot)


def of_mixed(study: Study, drawn: str) -> Iterable[tuple[str, Ends]]:
    """Yield the intervals of the mixed model: of the bots' means, and of the raters' share of the variance."""
    values, bot, rater = study
    scale = SCALE if "points" in drawn else None
    result = mixed_model(values, BOTS[bot], rater, level=LEVEL, scale=scale)
    for one in result.bots:
        truth = true_means(drawn)[list(BOTS).index(one.bot)]
        yield f"mean of {one.bot}", (truth, one.low, one.high)
    if drawn == "bots spread alike":
        yield "raters' share", (0.5, result.share_low, result.share_high)


def of_anova(study: Study, drawn: str) -> Iterable[tuple[str, Ends]]:
    """Yield the intervals of the analysis of variance by two factors: of levels' means and of their differences."""
    values, bot, rater = study
    levels = {name: labels[bot] for name, labels in FACTORS.items()}
    scale = SCALE if "points" in drawn else None
    result = anova(values, levels, rater, level=LEVEL, scale=scale)
    means = {
        label: float(true_means(drawn)[labels == label].mean())
        for labels in FACTORS.values()
        for label in labels.tolist()
    }
    for marginal in result.marginals:
        yield f"mean of level {marginal.level}", (means[marginal.level], marginal.low, marginal.high)
    for pair in result.contrasts:
        yield f"{pair.a} − {pair.b}", (means[pair.a] - means[pair.b], pair.low, pair.high)


def of_tests(study: Study, drawn: str) -> Iterable[tuple[str, Ends]]:
    """Yield the tests of all terms, and of the bots at once, where no bot differs: one holds whose p is at least 1 −
    `LEVEL`.
    """
    values, bot, rater = study
    values = values - true_means(drawn)[bot]
    if drawn == "points of equal bots":
        odds = ordinal_model(study[0], BOTS[bot], rater)
        if odds.p is not None:
            yield "test of the odds", (odds.p, 1 - LEVEL, 1.0)
    for levels in ({name: labels[bot] for name, labels in FACTORS.items()}, {"bot": BOTS[bot]}):
        for term in anova(values, levels, rater).terms:
            if term.p is not None:
                yield f"test of {term.name}", (term.p, 1 - LEVEL, 1.0)


@cache
def true_odds(drawn: str, design: Design) -> Mapping[str, float]:
    """Return what proportional odds of very many raters come to, by the name of the interval."""
    values, bot, _rater = DRAWN[drawn](np.random.default_rng(0), design, 100_000)
    return {what: truth for what, truth, *_ends in _odds(ordinal_model(values, BOTS[bot]))}


def _odds(result: Any) -> Iterable[tuple[str, float, float, float]]:
    for bot in result.bots:
        yield f"log odds of {bot.bot}", bot.effect, bot.low, bot.high
    for pair in result.comparisons:
        yield f"{pair.a} − {pair.b}", pair.difference, pair.low, pair.high


def held(
    of: Callable[[Study, str], Iterable[tuple[str, Ends]]],
    drawn: str,
    design: Design,
    n_raters: int,
    n_studies: int,
    seed: int = 5,
) -> dict[str, Held]:
    """Return by interval how often it held in so many studies."""
    rng = np.random.default_rng(seed)
    results: dict[str, Held] = {}
    for _ in range(n_studies):
        study = DRAWN[drawn](rng, design, n_raters)
        if len(np.unique(study[1])) < len(TRUE):
            continue
        for what, ends in of(study, drawn):
            results.setdefault(what, Held()).add(*ends)
    return results


def of_odds(design: Design) -> Callable[[Study, str], Iterable[tuple[str, Ends]]]:
    """Return what yields the intervals of proportional odds: of each bot against the average one, and of pairs."""

    def intervals(study: Study, drawn: str) -> Iterable[tuple[str, Ends]]:
        values, bot, rater = study
        truth = true_odds(drawn, design)
        for what, _value, low, high in _odds(ordinal_model(values, BOTS[bot], rater, level=LEVEL)):
            yield what, (truth[what], low, high)

    return intervals
