"""Models of the ratings, in words and tables."""

from __future__ import annotations

from evaluation.analysis.formula_model import term_title
from evaluation.analysis.rating_models import FactorialModel, RatingModels, df_digits
from evaluation.data.ratings import RatingDimension
from evaluation.findings import Finding
from evaluation.number_format import figure, percent, probability
from evaluation.stats.mixed import MixedModel
from webapp.insights.narrative.phrases import Section, controls_sentence, listed, reason_text, wording_of
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
    if models.ordinal.reason is not None:
        section.missing.append(f"Ordinal model: {reason_text(models.ordinal.reason)}.")
    section.tables += models.tables(frame.headline.title, wording_of(frame))
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
        f"With raters as a random effect the test of differences between bots in {headline.title.lower()} has "
        f"F({model.df1}, {model.df2}) = {figure(model.f)}, {probability(model.p)}; {percent(model.rater_share)} of "
        "the variance around the bots’ means is between raters."
    )
