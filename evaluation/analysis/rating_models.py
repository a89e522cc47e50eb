"""Models of the ratings by properties of the bots.

Three models with different assumptions: an analysis of variance by the bots' factors (ratings count as independent), a
mixed model with raters as a random effect, and proportional odds, which do not assume equal steps between the points of
the scale. All three exclude the deliberately poor controls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from evaluation.analysis.formula_model import term_title
from evaluation.analysis.levels import MODEL_ALPHA, interval_level, model_alpha
from evaluation.data.ratings import MEAN_KEY, RatingDimension, Ratings
from evaluation.data.result_tables import (
    IN_TERMINAL,
    Cell,
    NamedTable,
    Wording,
    count_cell,
    declared_table,
    number_cell,
    p_cell,
    share_cell,
    span_cell,
)
from evaluation.data.tables import SummarisedResult, to_plain
from evaluation.findings import Finding, Reason, finding
from evaluation.number_format import figure, percent, pluralise, probability, share
from evaluation.stats.anova import Anova, AnovaTerm, anova, sum_of_ratings
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
        levels: level by analysed factor and rated bot; empty in results of earlier versions.
    """

    of: Literal["sum", "headline"]
    factors: tuple[str, ...]
    max_order: int | None
    table: Anova
    factors_reason: Reason | None = None
    alpha: float = ALPHA
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def significant_terms(self) -> tuple[str, ...]:
        """Terms with an effect below `alpha`."""
        return tuple(term.name for term in self.table.terms if term.p is not None and term.p < self.alpha)

    @property
    def other_terms(self) -> tuple[str, ...]:
        """Terms without a significant effect."""
        return tuple(term.name for term in self.table.terms if term.p is None or term.p >= self.alpha)


@dataclass(frozen=True, slots=True, repr=False)
class RatingModels(SummarisedResult):
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
        if self.factorial is None or self.mixed is None or self.ordinal is None:
            return f"Models of {self.dimension.key}: fewer than two bots rated"
        test = f"F({self.mixed.df1}, {self.mixed.df2}) = {figure(self.mixed.f)}, {probability(self.mixed.p)}."
        parts = [
            table.printed(f"{test} {table.method}" if table.id == "mixed" else table.method)
            for table in self.tables(self.dimension.key)
        ]
        reasons = {
            "Analysis of variance": None if self.factorial.table.terms else self.factorial.table.reason,
            "Mixed model": self.mixed.reason,
            "Ordinal model": self.ordinal.reason,
        }
        parts += [f"{model} of {self.dimension.key}: {reason}" for model, reason in reasons.items() if reason]
        return "\n\n".join(parts)

    def outcome(self, title: str) -> str:
        """Return the outcome of the analysis of variance, from the title of the leading question."""
        is_sum = self.factorial is not None and self.factorial.of == "sum"
        return f"sum of the {self.n_questions} ratings" if is_sum else title.lower()

    def tables(self, title: str, wording: Wording = IN_TERMINAL) -> list[NamedTable]:
        """Return a table of each model that could be fitted.

        Args:
            title: title of the leading question.
        """
        tables = []
        if self.factorial is not None and self.factorial.table.terms:
            tables.append(_anova_table(self.factorial, self, self.outcome(title), wording))
            if self.factorial.factors:
                tables.append(_marginals(self.factorial.table, self.level, wording))
        if self.mixed is not None and self.mixed.reason is None:
            tables.append(_mixed_table(self.mixed, self, title, wording))
        if self.ordinal is not None and self.ordinal.reason is None:
            tables.append(_ordinal_table(self.ordinal, self, title, wording))
        return tables


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
                levels_of_bots = {name: {bot: of_bot[bot] for bot in ratings.bots} for name, of_bot in factors.items()}
                return FactorialModel(outcome, tuple(factors), order, table, levels=levels_of_bots)
        reason = table.reason
    table = anova(values, {BOT: ratings.bot.tolist()}, raters, level=level, scale=scale)
    return FactorialModel(outcome, (), None, table, reason)


def df_digits(df: float | None) -> int:
    """Return the digits for degrees of freedom, which are fractional with clustered errors."""
    return 0 if df is not None and abs(df - round(df)) < 0.05 else 1


def _anova_table(factorial: FactorialModel, models: RatingModels, outcome: str, wording: Wording) -> NamedTable:
    table = factorial.table
    reason = wording.reason(table.reason)

    def no_test(term: AnovaTerm) -> str:
        return reason or wording.reason(term.reason)

    named_table = declared_table(
        "anova",
        f"Analysis of variance of the {outcome}",
        table.terms,
        ("Term", lambda term: Cell(term_title(term.name))),
        ("SS", lambda term: number_cell(term.ss, 1)),
        ("df", lambda term: count_cell(term.df)),
        ("error df", lambda term: number_cell(term.df2, df_digits(term.df2), no_test(term))),
        ("F", lambda term: number_cell(term.f, 2, no_test(term))),
        ("p", lambda term: p_cell(term.p, no_test(term))),
        ("partial η²", lambda term: share_cell(term.partial_eta2, 3, reason)),
        (
            percent(models.level),
            lambda term: span_cell(
                term.low, term.high, 3, shares=True, reason=reason or wording.reason(table.eta_reason)
            ),
        ),
        method=(
            f"Type III sums of squares, sum-to-zero contrasts. {_interactions(factorial)} "
            f"{pluralise(table.n, 'rating')}, {table.n_dropped} excluded because of a missing value."
        ),
        note=_anova_note(models) if table.eta_reason else "Ratings count as independent.",
    )
    residual = [Cell("Residual"), number_cell(table.residual_ss, 1), count_cell(table.residual_df)]
    named_table.table.rows.append([*residual, *[Cell("–", reason="not explained by the terms")] * 5])
    return named_table


def _anova_note(models: RatingModels) -> str:
    """Describe the tests of terms for ratings that are not independent."""
    whose = "Raters gave several ratings each"
    if models.n_unnamed:
        whose = "Some raters, or chats without a rater ID, have several ratings"
    return (
        f"{whose}, so every term is tested on the bots’ means by generalised least squares with clustered errors. "
        "Sums of squares and partial η² are descriptive only."
    )


def _interactions(factorial: FactorialModel) -> str:
    """Name the interactions in the table."""
    if factorial.max_order is None:
        return "All interactions."
    if factorial.max_order == 1:
        return "Main effects only, because some combinations of levels have no ratings."
    return f"Interactions of up to {factorial.max_order} factors, because some combinations of levels have no ratings."


def _marginals(table: Anova, level: float, wording: Wording) -> NamedTable:
    return declared_table(
        "marginals",
        "Means of the levels, with equal weight for all cells",
        table.marginals,
        ("Factor", lambda marginal: Cell(marginal.factor)),
        ("Level", lambda marginal: Cell(marginal.level)),
        (("Mean", percent(level)), lambda marginal: wording.estimate(marginal, 1)),
        ("n", lambda marginal: count_cell(marginal.n)),
        method="Computed from the bots’ means by generalised least squares, which also underlie the comparisons.",
    )


def _mixed_table(model: MixedModel, models: RatingModels, title: str, wording: Wording) -> NamedTable:
    digits = wording.digits
    # Without rater IDs, each conversation counts as a rater.
    raters = "Raters or chats" if models.n_unnamed else "Raters"
    return declared_table(
        "mixed",
        f"{title} for the average rater",
        sorted(model.bots, key=lambda bot: -bot.mean),
        ("Bot", lambda bot: wording.level(BOT, bot.bot)),
        (("Mean", percent(models.level)), lambda bot: wording.estimate(bot, digits)),
        ("Plain mean", lambda bot: number_cell(bot.raw_mean, digits)),
        ("n", lambda bot: count_cell(bot.n)),
        (raters, lambda bot: count_cell(bot.n_raters)),
        method=(
            "Fixed effects of bots, random effects of raters, restricted maximum likelihood; "
            f"{pluralise(model.n, 'rating')} by {' and '.join(_by_whom(models))}; SD of raters "
            f"{figure(model.rater_sd, digits)}, residual SD {figure(model.residual_sd, digits)}; share of raters "
            f"{share(model.rater_share)} [{share(model.share_low)}, {share(model.share_high)}]."
        ),
        note="The variance between raters is estimated as 0, which does not prove that raters are equal."
        if model.raters_are_alike
        else "",
    )


def _by_whom(models: RatingModels) -> Iterator[str]:
    """Yield the sources of the ratings: raters, and conversations counted as raters."""
    if models.n_raters:
        yield pluralise(models.n_raters, "rater")
    if models.n_unnamed:
        n = models.n_unnamed
        which = "counted" if n == 1 else "each counted"
        yield f"{pluralise(n, 'conversation')} without a rater ID, {which} as a rater"


def _ordinal_table(model: OrdinalModel, models: RatingModels, title: str, wording: Wording) -> NamedTable:
    order = sorted(model.bots, key=lambda bot: -bot.effect)
    above_best = models.above_best
    return declared_table(
        "ordinal",
        "Ordinal model, without equal steps on the scale",
        order,
        ("Bot", lambda bot: wording.level(BOT, bot.bot)),
        ("Log odds", lambda bot: number_cell(bot.effect)),
        (percent(models.level), lambda bot: span_cell(bot.low, bot.high)),
        (
            f"Chance of a rating above {wording.level(BOT, order[0].bot).text}",
            lambda bot: share_cell(above_best.get(bot.bot), 2, "the reference bot"),
        ),
        ("n", lambda bot: count_cell(bot.n)),
        method=" ".join(_ordinal_method(model, models, title, wording)),
        note=_odds_note(model, models),
    )


def _ordinal_method(model: OrdinalModel, models: RatingModels, title: str, wording: Wording) -> Iterator[str]:
    yield f"Proportional odds of {title.lower()}; log odds relative to the average bot; {_wald_test(model, wording)}."
    if models.rounded:
        yield "Answers are rounded to whole points."
    if model.n_raters is not None:
        yield f"Errors are clustered by rater ({pluralise(model.n_raters, 'rater')})."


def _wald_test(model: OrdinalModel, wording: Wording) -> str:
    """Return the test of no difference between the bots.

    If it is missing, the reason.
    """
    if model.test_reason is not None:
        return wording.reason(model.test_reason)
    if model.df2 is None:
        chi2, p = figure(model.chi2, 1), probability(model.p)
        return f"Wald χ²({model.df}) = {chi2}, {p}"
    return (
        f"Wald’s test as Hotelling’s T², F({model.df}, {figure(model.df2, df_digits(model.df2))}) = "
        f"{figure(model.f)}, {probability(model.p)}"
    )


def _odds_note(model: OrdinalModel, models: RatingModels) -> str:
    """Report the test of proportional odds; "" if it cannot be tested."""
    if models.odds_are_proportional is None:
        return ""
    verdict = "no evidence against proportional odds"
    if not models.odds_are_proportional:
        verdict = "the odds are not proportional, so interpret the log odds as averages"
    p = probability(model.deviance_p)
    return f"Deviance {figure(model.deviance, 1)} on {model.deviance_df} df, {p}: {verdict}."
