"""Models of the ratings, in words, a plot and tables."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from evaluation.analysis.formula_model import term_title
from evaluation.analysis.rating_models import FactorialModel, RatingModels, df_digits
from evaluation.data.ratings import RatingDimension
from evaluation.data.result_tables import linked
from evaluation.findings import Finding
from evaluation.number_format import digits_for, figure, percent, probability, span
from evaluation.plots.rows import Column, RowName, drawn_column, interval_cell, marked_cell, rating_window, rows_drawing
from evaluation.stats.mixed import MixedModel, ModelBotMean
from webapp.insights.charts.figure import NARROW, TEXT_WIDE, PageFigure, for_widths
from webapp.insights.narrative.phrases import NamedTable, Section, controls_sentence, listed, reason_text, wording_of
from webapp.results.study_data import StudyFrame


def models_section(frame: StudyFrame, models: RatingModels) -> Section:
    """Return the three models in words, a plot and tables, without controls."""
    section = Section("models", "Effects on the ratings")
    section.missing.extend(_unused(finding, frame) for finding in models.unused)
    if models.factorial is None or models.mixed is None or models.ordinal is None:
        section.missing.append("A model needs at least two rated bots.")
        return section
    _add_factorial(section, models.factorial, models, frame.headline)
    if models.mixed.reason is not None:
        section.missing.append(f"Mixed model: {reason_text(models.mixed.reason)}.")
    else:
        section.lead.append(_raters_sentence(models.mixed))
        section.methods.append(_mixed_sentence(models.mixed, frame.headline))
    if models.ordinal.reason is not None:
        section.missing.append(f"Ordinal model: {reason_text(models.ordinal.reason)}.")
    for table in models.tables(frame.headline.title, wording_of(frame)):
        if table.id == "mixed":
            means = sorted(models.mixed.bots, key=lambda bot: -bot.mean)
            _link_rows(table, frame, [bot.bot for bot in means])
            section.figures.append(_mixed_figure(means, table, models, frame))
            continue
        if table.id == "anova":
            _link_terms(table, frame, models.factorial)
        if table.id == "marginals":
            for row, marginal in zip(table.table.rows, models.factorial.table.marginals, strict=True):
                of_bots = models.factorial.levels.get(marginal.factor, {})
                bots = [bot for bot, level in of_bots.items() if level == marginal.level]
                row[2:3] = linked(row[2:3], _outcome_link(frame, models.factorial, bots) if bots else "")
        if table.id == "ordinal":
            _link_rows(table, frame, [bot.bot for bot in sorted(models.ordinal.bots, key=lambda bot: -bot.effect)])
        section.tables.append(table)
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
    section.conclusion = _effects_sentence(factorial, models.outcome(headline.title))
    section.lead.append(section.conclusion)


def _effects_sentence(factorial: FactorialModel, outcome: str) -> str:
    """Compose the sentence on the terms with a significant effect."""
    table = factorial.table
    effect_texts = [
        f"{term_title(term.name)} (F({term.df}, {figure(term.df2, df_digits(term.df2))}) = {figure(term.f)}, "
        f"{probability(term.p)})"
        for term in map(table.term, factorial.significant_terms)
    ]
    other_terms = [term_title(name) for name in factorial.other_terms]
    if not effect_texts:
        return f"No effect on the {outcome} is significant, which does not prove that there is none."
    if not other_terms:
        return f"The {outcome} depends on {listed(effect_texts)}."
    return f"The {outcome} depends on {listed(effect_texts)}; not shown: {listed(other_terms)}."


def _mixed_sentence(model: MixedModel, headline: RatingDimension) -> str:
    return (
        f"The plot is of a model with raters as a random effect, whose test of differences between bots in "
        f"{headline.title.lower()} has F({model.df1}, {model.df2}) = {figure(model.f)}, {probability(model.p)}."
    )


def _raters_sentence(model: MixedModel) -> str:
    """Compose the sentence on the variance between raters."""
    return f"{percent(model.rater_share)} of the variance around the bots’ means is between raters."


def _link_rows(table: NamedTable, frame: StudyFrame, bots: Sequence[str]) -> None:
    """Link the estimate in each bot's row to the bot's conversations."""
    for row, bot in zip(table.table.rows, bots, strict=True):
        row[1:2] = linked(row[1:2], frame.mean_link(frame.headline, bot))


def _link_terms(table: NamedTable, frame: StudyFrame, factorial: FactorialModel) -> None:
    """Link every term, which is about all rated conversations, to them; the residual is of none."""
    for row in table.table.rows[: len(factorial.table.terms)]:
        row[:1] = linked(row[:1], _outcome_link(frame, factorial, frame.compared_bots))


def _outcome_link(frame: StudyFrame, factorial: FactorialModel, bots: Sequence[str]) -> str:
    """Return the address of the conversations that the analysis of variance uses."""
    if factorial.of == "headline":
        return frame.mean_link(frame.headline, *bots)
    keys = dict.fromkeys(dimension.key for dimension in (frame.headline, *frame.dimensions))
    return frame.ratings_link(*keys, bots=bots)


def _mixed_figure(
    means: Sequence[ModelBotMean], table: NamedTable, models: RatingModels, frame: StudyFrame
) -> PageFigure:
    """Draw the bots' means for the average rater, highest first."""
    headline = frame.headline
    digits = digits_for(headline.low, headline.high)

    def draw(width: float, css: str) -> Markup:
        spans = [(bot.mean, bot.low, bot.high) for bot in means]
        n_ticks = 7 if width > NARROW else 5
        window = rating_window(spans, headline.low, headline.high, n_ticks, is_open=headline.inferred)
        cells = [
            marked_cell(
                frame.mean_link(headline, bot.bot),
                f"{frame.title(bot.bot)}\n{figure(bot.mean, digits)} {span(bot.low, bot.high, digits)}",
                interval_cell(window, bot.mean, bot.low, bot.high),
            )
            for bot in means
        ]
        columns = [
            Column("Bot", [RowName(frame.title(bot.bot), frame.bots[bot.bot].slot) for bot in means]),
            drawn_column(f"Mean with {percent(models.level)} interval", cells, window),
            Column("Mean", [figure(bot.mean, digits) for bot in means], align="end"),
        ]
        return rows_drawing([columns], width, name=table.title, css=css)

    wide, narrow = for_widths(draw, TEXT_WIDE)
    return PageFigure(
        id=table.id,
        title=table.title,
        method=table.method,
        wide=wide,
        narrow=narrow,
        table=table.table,
        note=table.note,
    )
