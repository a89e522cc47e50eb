"""Models of the ratings by properties of the bots.

Three models with different assumptions: an analysis of variance by the bots' factors (ratings count as independent), a
mixed model with raters as a random effect, and proportional odds, which do not assume equal steps between the points of
the scale. All three exclude the deliberately poor controls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from evaluation.analysis.levels import MODEL_ALPHA, interval_level, model_alpha
from evaluation.data.ratings import MEAN_KEY, RatingDimension, Ratings
from evaluation.data.tables import text_table, to_plain
from evaluation.findings import Finding, Reason, finding
from evaluation.number_format import figure, probability, share, span
from evaluation.stats.anova import Anova, anova, sum_of_ratings
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.mixed import MixedModel, mixed_model
from evaluation.stats.ordinal import OrdinalModel, ordinal_model

ALPHA = MODEL_ALPHA
"""Significance level of effects in the analysis of variance, and of the test of proportional odds."""
MOST_FACTORS = 3
MOST_POINTS = 101
"""Maximum number of different answers for proportional odds; more are rounded to whole points."""
BOT = "bot"
"""Name of the only factor if the bots have no known factors."""


@dataclass(frozen=True, slots=True)
class FactorialModel:
    """Analysis of variance by the bots' factors.

    Attributes:
        of: analysed value: the sum of a rating's answers, or the leading question if there is one question or several
            scales.
        factors: analysed factors; empty if individual bots are compared.
        max_order: highest order of interactions in the table; None for all.
        table: gives a reason if it has no terms.
        factors_reason: reason why the known factors could not be analysed.
    """

    of: Literal["sum", "headline"]
    factors: tuple[str, ...]
    max_order: int | None
    table: Anova
    factors_reason: Reason | None = None
    alpha: float = ALPHA

    @property
    def significant_terms(self) -> tuple[str, ...]:
        """Terms with an effect below `alpha`."""
        return tuple(term.name for term in self.table.terms if term.p is not None and term.p < self.alpha)

    @property
    def other_terms(self) -> tuple[str, ...]:
        """Terms without a significant effect."""
        return tuple(term.name for term in self.table.terms if term.p is None or term.p >= self.alpha)


@dataclass(frozen=True, slots=True, repr=False)
class RatingModels:
    """Three models of a study's ratings.

    Attributes:
        dimension: dimension of the mixed model and the proportional odds, by which bots are ranked.
        n_questions: number of questions in a sum of ratings.
        unused: reasons for excluded factors: `factor_unknown`, `factor_constant` or `factor_beyond`.
        factorial, mixed, ordinal: None with fewer than two rated bots.
        rounded: True if answers were rounded to whole points for the proportional odds.
        n_raters: number of raters in the last two models.
        n_unnamed: conversations by unnamed raters, each counted as a separate rater there.
        level: confidence level of all intervals.
    """

    dimension: RatingDimension
    n_questions: int
    unused: tuple[Finding, ...]
    factorial: FactorialModel | None
    mixed: MixedModel | None
    ordinal: OrdinalModel | None
    rounded: bool
    n_raters: int
    n_unnamed: int
    level: float = RATING_LEVEL
    alpha: float = ALPHA

    @property
    def odds_are_proportional(self) -> bool | None:
        """True if the data are compatible with proportional odds; None if untestable."""
        if self.ordinal is None or self.ordinal.deviance_p is None:
            return None
        return self.ordinal.deviance_p >= self.alpha

    @property
    def above_best(self) -> dict[str, float]:
        """Probability that each bot is rated above the best; ties count half.

        It is computed from the proportional odds model.
        """
        if self.ordinal is None or not self.ordinal.bots:
            return {}
        best = max(self.ordinal.bots, key=lambda bot: bot.effect).bot
        rivals = [bot.bot for bot in self.ordinal.bots if bot.bot != best]
        return {bot: self.ordinal.probability_higher(bot, best) for bot in rivals}

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined is null, with a reason."""
        document: dict[str, Any] = to_plain(self)
        document["dimension"] = self.dimension.key
        document["unused"] = [finding.to_json() for finding in self.unused]
        document["odds_are_proportional"] = self.odds_are_proportional
        document["above_best"] = self.above_best
        return document

    def summary(self) -> str:
        """Return the models' tables for a terminal."""
        parts = []
        if self.factorial is not None:
            parts.append(_anova_summary(self.factorial))
        if self.mixed is not None:
            parts.append(_mixed_summary(self.mixed, self.dimension.key, self.level))
        if self.ordinal is not None:
            parts.append(_ordinal_summary(self.ordinal, self.dimension.key, self.level))
        return "\n\n".join(parts) or f"Models of {self.dimension.key}: fewer than two bots rated"

    def __repr__(self) -> str:
        return self.summary()


def rating_models(
    ratings: Ratings, factors: Mapping[str, Mapping[str, str]] | None = None, *, level: float | None = None
) -> RatingModels:
    """Fit models to the leading question and to the sum of the ratings.

    Args:
        factors: properties of the bots: level by name and bot. Up to `MOST_FACTORS` factors are analysed, if known for
            all rated bots and not constant.
        level: confidence level of the intervals.

    Raises:
        ValueError: if the ratings answer no question.
    """
    level = ratings.level if level is None else level
    alpha, level = model_alpha(level), interval_level(level)
    leading = ratings.leading
    if leading is None:
        raise ValueError("there is no dimension to model")
    ranked = ratings.select(ratings.ranked)
    known = ranked.select(np.isfinite(ranked.values()))
    values, bots, units = known.values(), known.bot.tolist(), known.unit.tolist()
    used, unused = chosen_factors(known, factors or {})
    of_rated_bots = ranked.select(np.isin(ranked.bot, known.bots))
    rounded = len(np.unique(values)) > MOST_POINTS or leading.key == MEAN_KEY
    enough = len(known.bots) > 1
    return RatingModels(
        dimension=leading,
        n_questions=len(ratings.dimensions),
        unused=unused,
        factorial=replace(_factorial(of_rated_bots, used, level), alpha=alpha) if enough else None,
        mixed=mixed_model(values, bots, units, level=level, scale=ratings.bounds()) if enough else None,
        ordinal=ordinal_model(np.round(values) if rounded else values, bots, units, level=level) if enough else None,
        rounded=rounded,
        n_raters=known.n_raters,
        n_unnamed=known.select(~known.is_named).n_conversations,
        level=level,
        alpha=alpha,
    )


def chosen_factors(
    ratings: Ratings, factors: Mapping[str, Mapping[str, str]]
) -> tuple[dict[str, Mapping[str, str]], tuple[Finding, ...]]:
    """Return up to `MOST_FACTORS` varying factors, and reasons for excluding others.

    Args:
        ratings: ratings without controls.
        factors: level by name and bot.
    """
    used: dict[str, Mapping[str, str]] = {}
    unused = []
    for name, levels in factors.items():
        lacking = [bot for bot in sorted(ratings.bots) if bot not in levels]
        if lacking:
            unused.append(finding("factor_unknown", factor=name, bots=lacking))
        elif len({levels[bot] for bot in ratings.bots}) < 2:
            unused.append(finding("factor_constant", factor=name))
        elif len(used) == MOST_FACTORS:
            unused.append(finding("factor_beyond", factor=name, most=MOST_FACTORS))
        else:
            used[name] = levels
    return used, tuple(unused)


def _factorial(ratings: Ratings, factors: Mapping[str, Mapping[str, str]], level: float) -> FactorialModel:
    """Analyse the factors with all estimable interactions, otherwise individual bots."""
    one_scale = len({(d.low, d.high) for d in ratings.dimensions}) == 1
    outcome: Literal["sum", "headline"] = "sum" if one_scale and len(ratings.dimensions) > 1 else "headline"
    values = sum_of_ratings(ratings.table()) if outcome == "sum" else ratings.values()
    scale = ratings.bounds()
    if outcome == "sum":
        ends = [ratings.bounds(d.key) for d in ratings.dimensions]
        known = [bounds for bounds in ends if bounds is not None]
        scale = None
        if len(known) == len(ends):
            scale = (sum(low for low, _ in known), sum(high for _, high in known))
    reason, raters = None, ratings.unit.tolist()
    if factors:
        levels = {name: [level_of_bot[bot] for bot in ratings.bot] for name, level_of_bot in factors.items()}
        orders = [None, *range(len(factors) - 1, 0, -1)]
        for order in orders:
            table = anova(values, levels, raters, max_order=order, level=level, scale=scale)
            if table.terms:
                return FactorialModel(outcome, tuple(factors), order, table)
        reason = table.reason
    table = anova(values, {BOT: ratings.bot.tolist()}, raters, level=level, scale=scale)
    return FactorialModel(outcome, (), None, table, reason)


def _anova_summary(model: FactorialModel) -> str:
    table = model.table
    rows = [
        [
            *(term.name, figure(term.ss, 1), str(term.df), figure(term.df2, 1), figure(term.f)),
            *(probability(term.p).removeprefix("p ").removeprefix("= "), share(term.partial_eta2)),
        ]
        for term in table.terms
    ]
    title = f"Analysis of variance of the {'sum of the ratings' if model.of == 'sum' else 'ratings'}"
    foot = f"{table.n:,} ratings, {table.n_dropped:,} without a value; type III" + (
        f"; {table.reason}" if table.reason else ""
    )
    if table.eta_reason:
        foot += "; tests with errors clustered by rater"
    headers = ["term", "SS", "df", "error df", "F", "p", "partial η²"]
    rows.append(["residual", figure(table.residual_ss, 1), str(table.residual_df), *[""] * 4])
    return text_table(title, headers, rows, foot)


def _mixed_summary(model: MixedModel, key: str, level: float) -> str:
    if model.reason is not None:
        return f"Mixed model of {key}: {model.reason}"
    rows = [
        [*(bot.bot, figure(bot.mean), span(bot.low, bot.high), figure(bot.raw_mean)), *(str(bot.n), str(bot.n_raters))]
        for bot in sorted(model.bots, key=lambda bot: -bot.mean)
    ]
    title = (
        f"Mixed model of {key}: F({model.df1}, {model.df2}) = {figure(model.f)}, "
        f"{probability(model.p)}; raters' share of the variance {share(model.rater_share)}"
    )
    headers = ["bot", "mean", f"{level:.0%}", "plain mean", "n", "raters"]
    return text_table(title, headers, rows)


def _ordinal_summary(model: OrdinalModel, key: str, level: float) -> str:
    if model.reason is not None:
        return f"Proportional odds of {key}: {model.reason}"
    rows = [
        [bot.bot, figure(bot.effect), span(bot.low, bot.high), str(bot.n)]
        for bot in sorted(model.bots, key=lambda bot: -bot.effect)
    ]
    if model.df2 is not None:
        test = f"Wald F({model.df}, {figure(model.df2, 1)}) = {figure(model.f)}, {probability(model.p)}"
    else:
        test = f"Wald χ²({model.df}) = {figure(model.chi2, 1)}, {probability(model.p)}"
    title = f"Proportional odds of {key}: {model.test_reason or test}"
    return text_table(title, ["bot", "log odds", f"{level:.0%}", "n"], rows)
