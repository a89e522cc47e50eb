"""Model by a formula: effects, differences, and variance components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.analysis.formula_model import RESPONSE, FormulaModel, TermTest, term_title
from evaluation.analysis.levels import model_alpha
from evaluation.data.ratings import RatingDimension
from evaluation.data.result_tables import NamedTable, linked
from evaluation.number_format import figure, probability
from evaluation.stats.comparisons import NOT_YET_KNOWN
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import Section, controls_sentence, listed, reason_text, wording_of
from webapp.insights.narrative.verdicts import one_look, pair_counts_sentence, smallest_sentences
from webapp.results.study_data import StudyFrame
from webapp.studies.assignment.capacity import keeps_always_valid


def formula_section(frame: StudyFrame, model: FormulaModel) -> Section:
    """Return the model in words and tables.

    If there is no fit, the reason.
    """
    section = Section("formula", f"Model by formula: {model.formula}")
    section.methods.append(f"The model is {model.kind}, for {phrases.ratings_text(model.n)}.")
    if model.n_dropped:
        section.methods.append(f"{phrases.ratings_text(model.n_dropped)} excluded because of a missing value.")
    if model.reason is not None:
        section.missing.append(f"No model was fitted: {reason_text(model.reason)}.")
        return section
    if model.caution is not None:
        section.caution = f"Caution: {reason_text(model.caution)}."
    outcome = _outcome(frame, model)
    section.conclusion = _effects_sentence(model, outcome, model_alpha(frame.study.values.quotas.level))
    section.lead.append(section.conclusion)
    if model.get_differences("bot"):
        section.lead.append(_bot_pairs_sentence(frame, model, outcome))
    if frame.controls:
        section.lead.append(controls_sentence(frame, left_out=True))
    if model.kind == "linear":
        section.methods += smallest_sentences(frame.study, model.smallest)
    if keeps_always_valid(frame.study):
        section.methods.append(one_look())
    section.methods += [
        f"Every rating has a different {name}, so effects of {name} are part of the residual." for name in model.merged
    ]
    section.tables += model.tables(outcome, wording_of(frame))
    if (question := _question(frame, model)) is not None:
        _link_rows(section.tables, frame, model, question)
    return section


def _outcome(frame: StudyFrame, model: FormulaModel) -> str:
    question = _question(frame, model)
    return question.title if question is not None else model.formula.partition("~")[0].strip()


def _question(frame: StudyFrame, model: FormulaModel) -> RatingDimension | None:
    """Return the question that the model explains; None for another column."""
    key = model.formula.partition("~")[0].strip()
    return next(
        (dimension for dimension in frame.dimensions if dimension.key == key),
        frame.headline if key == RESPONSE else None,
    )


def _link_rows(tables: Sequence[NamedTable], frame: StudyFrame, model: FormulaModel, question: RatingDimension) -> None:
    """Link the rows to the conversations behind them, if a search can select these."""
    differences = [
        _cells_link(frame, question, {diff.factor: (diff.pair.a, diff.pair.b)}) for diff in model.differences
    ]
    links = {
        "formula-tests": [_cells_link(frame, question, {}) for _test in model.tests],
        "formula-differences": differences,
        "formula-sizes": differences,
        "formula-means": [_cells_link(frame, question, _levels(mean.term, mean.cell)) for mean in model.means],
        "formula-effects": [
            _cells_link(frame, question, _levels(effect.term, effect.cell)) for effect in model.effects
        ],
    }
    for table in tables:
        for row, href in zip(table.table.rows, links.get(table.id, ()), strict=False):
            row[:1] = linked(row[:1], href)


def _levels(term: str, cell: Sequence[str]) -> Mapping[str, Sequence[str]]:
    return {factor: (level,) for factor, level in zip(term.split(":"), cell, strict=False)}


def _cells_link(frame: StudyFrame, question: RatingDimension, levels: Mapping[str, Sequence[str]]) -> str:
    """Return the address of the rated conversations at these levels.

    "" if a factor is neither the bot nor a condition of the study, such as a rater's property.
    """
    factors = {factor.key for factor in frame.study.values.conditions.factors}
    if not levels.keys() <= {"bot", *factors}:
        return ""
    bots = levels.get("bot") or frame.compared_bots
    conditions = [tuple(f"{factor}={level}" for level in levels[factor]) for factor in levels.keys() & factors]
    if len(conditions) > 1:  # alternatives of one filter
        return ""
    return frame.mean_link(question, *bots, condition=conditions[0] if conditions else ())


def _effects_sentence(model: FormulaModel, outcome: str, alpha: float) -> str:
    """Compose the sentence on the significant terms."""
    significant_tests = [test for test in model.tests if test.p is not None and test.p < alpha]
    other_terms = [term_title(test.term) for test in model.tests if test not in significant_tests]
    if not significant_tests:
        return f"No effect on “{outcome}” is significant, which does not prove that there is none."
    effects_text = listed([f"{term_title(test.term)} ({_format_test(test)})" for test in significant_tests])
    return f"“{outcome}” depends on {effects_text}{'; not shown: ' + listed(other_terms) if other_terms else ''}."


def _format_test(test: TermTest) -> str:
    if test.df2 is None:
        return f"χ²({test.df1}) = {figure(test.f * test.df1)}, {probability(test.p)}"
    return f"F({test.df1}, {figure(test.df2, 1)}) = {figure(test.f)}, {probability(test.p)}"


def _bot_pairs_sentence(frame: StudyFrame, model: FormulaModel, outcome: str) -> str:
    """Count the pairs of bots by the three possible conclusions."""
    pairs = model.get_differences("bot")
    equal = [
        f"{frame.title(difference.pair.a)} and {frame.title(difference.pair.b)}"
        for difference in pairs
        if model.is_equal(difference)
    ]
    n_unknown = sum(model.describe(difference) == NOT_YET_KNOWN for difference in pairs)
    n_clear = sum(difference.pair.ordered for difference in pairs)
    return pair_counts_sentence(f"“{outcome}”", n_clear, equal, n_unknown, len(pairs), figure(model.smallest))
