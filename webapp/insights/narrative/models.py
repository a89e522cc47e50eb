"""Models of the ratings, in words and tables."""

from __future__ import annotations

from collections.abc import Iterator

from evaluation.analysis.rating_models import BOT, FactorialModel, RatingModels
from evaluation.data.ratings import RatingDimension
from evaluation.findings import Finding
from evaluation.number_format import digits_for, figure, percent, probability, share
from evaluation.stats.anova import Anova, AnovaTerm
from evaluation.stats.mixed import MixedModel
from evaluation.stats.ordinal import OrdinalModel
from webapp.core.language import plural
from webapp.insights.charts.figure import Cell
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import (
    NamedTable,
    Section,
    controls_sentence,
    count_cell,
    declared_table,
    listed,
    mean_cells,
    named_cell,
    number_cell,
    p_cell,
    reason_text,
    share_cell,
    span_cell,
)
from webapp.results.study_data import StudyFrame


def models_section(frame: StudyFrame, models: RatingModels) -> Section:
    """Return the three models in words and tables, without controls."""
    section = Section("models", "Effects on the ratings")
    section.missing.extend(_unused(finding, frame) for finding in models.unused)
    if models.factorial is None or models.mixed is None or models.ordinal is None:
        section.missing.append("A model needs at least two rated bots.")
        return section
    _add_factorial(section, models.factorial, models, frame.headline)
    if models.mixed.reason is not None:
        section.missing.append(f"Mixed model: {reason_text(models.mixed.reason)}.")
    else:
        section.lead.append(_mixed_sentence(models.mixed, frame.headline))
        section.tables.append(_mixed_table(models.mixed, models, frame))
    if models.ordinal.reason is not None:
        section.missing.append(f"Ordinal model: {reason_text(models.ordinal.reason)}.")
    else:
        section.tables.append(_ordinal_table(models.ordinal, models, frame))
    if frame.controls:
        section.lead.append(controls_sentence(frame, left_out=True))
    return section


def _unused(finding: Finding, frame: StudyFrame) -> str:
    if finding.code == "factor_unknown":
        reason = f"its value is unknown for {listed([frame.title(bot) for bot in finding.values['bots']])}"
    elif finding.code == "factor_constant":
        reason = "all bots have the same value"
    else:
        reason = f"at most {finding.values['most']} factors are analysed"
    return f"Factor “{finding.values['factor']}” is not used: {reason}."


def _add_factorial(
    section: Section, factorial: FactorialModel, models: RatingModels, headline: RatingDimension
) -> None:
    if factorial.factors_reason is not None:
        section.missing.append(f"Analysis of variance by the factors: {reason_text(factorial.factors_reason)}.")
    elif not factorial.factors:
        section.missing.append(
            "There are no known factors of the bots, so bots are compared individually. To analyse factors, upload a "
            "table of bots with text columns (architecture, corpus, EI)."
        )
    if not factorial.table.terms:
        reason = reason_text(factorial.table.reason)
        section.missing.append(f"Analysis of variance: {reason}.")
        return
    outcome = headline.title.lower()
    if factorial.of == "sum":
        outcome = f"sum of the {models.n_questions} ratings"
    section.conclusion = _effects_sentence(factorial, outcome)
    section.lead.append(section.conclusion)
    section.tables.append(_anova_table(factorial, models, outcome))
    if factorial.factors:
        section.tables.append(_marginals(factorial.table, models.level))


def _effects_sentence(factorial: FactorialModel, outcome: str) -> str:
    """Compose the sentence on the terms with a significant effect."""
    table = factorial.table
    effect_texts = [
        f"{_term(term)} (F({term.df}, {figure(term.df2, _digits(term.df2))}) = {figure(term.f)}, {probability(term.p)})"
        for term in map(table.term, factorial.significant_terms)
    ]
    other_terms = [_term(table.term(name)) for name in factorial.other_terms]
    if not effect_texts:
        return f"No effect on the {outcome} is significant, which does not prove that there is none."
    if not other_terms:
        return f"The {outcome} depends on {listed(effect_texts)}."
    return f"The {outcome} depends on {listed(effect_texts)}; not shown: {listed(other_terms)}."


def _term(term: AnovaTerm) -> str:
    return "bot" if term.name == BOT else term.name.replace(":", " × ")


def _digits(df: float | None) -> int:
    """Return the digits for degrees of freedom.

    With clustered errors these are fractional.
    """
    return 0 if df is not None and abs(df - round(df)) < 0.05 else 1


def _anova_table(factorial: FactorialModel, models: RatingModels, outcome: str) -> NamedTable:
    table = factorial.table
    reason = reason_text(table.reason)

    def no_test(term: AnovaTerm) -> str:
        return reason or reason_text(term.reason)

    named_table = declared_table(
        "anova",
        f"Analysis of variance of the {outcome}",
        table.terms,
        ("Term", lambda term: Cell(_term(term))),
        ("SS", lambda term: number_cell(term.ss, 1)),
        ("df", lambda term: count_cell(term.df)),
        ("error df", lambda term: number_cell(term.df2, _digits(term.df2), no_test(term))),
        ("F", lambda term: number_cell(term.f, 2, no_test(term))),
        ("p", lambda term: p_cell(term.p, no_test(term))),
        ("partial η²", lambda term: share_cell(term.partial_eta2, 3, reason)),
        (
            percent(models.level),
            lambda term: span_cell(term.low, term.high, 3, shares=True, reason=reason or reason_text(table.eta_reason)),
        ),
        method=(
            f"Type III sums of squares, sum-to-zero contrasts. {_interactions(factorial)} "
            f"{phrases.ratings_text(table.n)}, {table.n_dropped} excluded because of a missing value."
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


def _marginals(table: Anova, level: float) -> NamedTable:
    return declared_table(
        "marginals",
        "Means of the levels, with equal weight for all cells",
        table.marginals,
        ("Factor", lambda marginal: Cell(marginal.factor)),
        ("Level", lambda marginal: Cell(marginal.level)),
        (("Mean", percent(level)), lambda marginal: mean_cells(marginal, 1)),
        ("n", lambda marginal: count_cell(marginal.n)),
        method="Computed from the bots’ means by generalised least squares, which also underlie the comparisons.",
    )


def _mixed_sentence(model: MixedModel, headline: RatingDimension) -> str:
    return (
        f"With raters as a random effect the test of differences between bots in {headline.title.lower()} has "
        f"F({model.df1}, {model.df2}) = {figure(model.f)}, {probability(model.p)}; {percent(model.rater_share)} of "
        "the variance around the bots’ means is between raters."
    )


def _mixed_table(model: MixedModel, models: RatingModels, frame: StudyFrame) -> NamedTable:
    digits = digits_for(frame.headline.low, frame.headline.high)
    # Without rater IDs, each conversation counts as a rater.
    raters = "Raters or chats" if models.n_unnamed else "Raters"
    return declared_table(
        "mixed",
        f"{frame.headline.title} for the average rater",
        sorted(model.bots, key=lambda bot: -bot.mean),
        ("Bot", lambda bot: named_cell(frame.bots, bot.bot)),
        (("Mean", percent(models.level)), lambda bot: mean_cells(bot, digits)),
        ("Plain mean", lambda bot: number_cell(bot.raw_mean, digits)),
        ("n", lambda bot: count_cell(bot.n)),
        (raters, lambda bot: count_cell(bot.n_raters)),
        method=(
            "Fixed effects of bots, random effects of raters, restricted maximum likelihood; "
            f"{phrases.ratings_text(model.n)} by {listed(list(_by_whom(models)))}; SD of raters "
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
        yield phrases.raters_text(models.n_raters)
    if models.n_unnamed:
        n = models.n_unnamed
        which = plural(n, "counted", "each counted")
        yield f"{phrases.conversations_text(n)} without a rater ID, {which} as a rater"


def _ordinal_table(model: OrdinalModel, models: RatingModels, frame: StudyFrame) -> NamedTable:
    order = sorted(model.bots, key=lambda bot: -bot.effect)
    above_best = models.above_best
    return declared_table(
        "ordinal",
        "Ordinal model, without equal steps on the scale",
        order,
        ("Bot", lambda bot: named_cell(frame.bots, bot.bot)),
        ("Log odds", lambda bot: number_cell(bot.effect)),
        (percent(models.level), lambda bot: span_cell(bot.low, bot.high)),
        (
            f"Chance of a rating above {frame.title(order[0].bot)}",
            lambda bot: share_cell(above_best.get(bot.bot), 2, "the reference bot"),
        ),
        ("n", lambda bot: count_cell(bot.n)),
        method=" ".join(_ordinal_method(model, models, frame.headline)),
        note=_odds_note(model, models),
    )


def _ordinal_method(model: OrdinalModel, models: RatingModels, headline: RatingDimension) -> Iterator[str]:
    yield f"Proportional odds of {headline.title.lower()}; log odds relative to the average bot; {_wald_test(model)}."
    if models.rounded:
        yield "Answers are rounded to whole points."
    if model.n_raters is not None:
        yield f"Errors are clustered by rater ({phrases.raters_text(model.n_raters)})."


def _wald_test(model: OrdinalModel) -> str:
    """Return the test of no difference between the bots.

    If it is missing, the reason.
    """
    if model.test_reason is not None:
        return reason_text(model.test_reason)
    if model.df2 is None:
        chi2, p = figure(model.chi2, 1), probability(model.p)
        return f"Wald χ²({model.df}) = {chi2}, {p}"
    return (
        f"Wald’s test as Hotelling’s T², F({model.df}, {figure(model.df2, _digits(model.df2))}) = "
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
