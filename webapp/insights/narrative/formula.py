"""Model by a formula: effects, differences, and variance components."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evaluation.analysis.formula_model import RESPONSE, FormulaModel, LevelDifference, TermTest
from evaluation.analysis.levels import model_alpha
from evaluation.number_format import digits_for, figure, percent, probability
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
from webapp.insights.narrative.verdicts import NOT_YET_KNOWN, one_look, pair_counts_sentence, smallest_sentences
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
    section.tables += _tables(frame, model, outcome)
    return section


def _outcome(frame: StudyFrame, model: FormulaModel) -> str:
    key = model.formula.partition("~")[0].strip()
    question = next(
        (dimension for dimension in frame.dimensions if dimension.key == key),
        frame.headline if key == RESPONSE else None,
    )
    return question.title if question is not None else key


def _effects_sentence(model: FormulaModel, outcome: str, alpha: float) -> str:
    """Compose the sentence on the significant terms."""
    significant_tests = [test for test in model.tests if test.p is not None and test.p < alpha]
    other_terms = [_term(test.term) for test in model.tests if test not in significant_tests]
    if not significant_tests:
        return f"No effect on “{outcome}” is significant, which does not prove that there is none."
    effects_text = listed([f"{_term(test.term)} ({_format_test(test)})" for test in significant_tests])
    return f"“{outcome}” depends on {effects_text}{'; not shown: ' + listed(other_terms) if other_terms else ''}."


def _term(name: str) -> str:
    return name.replace(":", " × ")


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
    n_unknown = sum(_describe_difference(model, difference) == NOT_YET_KNOWN for difference in pairs)
    n_clear = sum(difference.pair.ordered for difference in pairs)
    return pair_counts_sentence(f"“{outcome}”", n_clear, equal, n_unknown, len(pairs), figure(model.smallest))


def _describe_difference(model: FormulaModel, difference: LevelDifference) -> str:
    words = [
        ("clearly different", difference.pair.ordered),
        ("equal for practical purposes", model.is_equal(difference)),
    ]
    return ", yet ".join(word for word, holds in words if holds) or NOT_YET_KNOWN


def _tables(frame: StudyFrame, model: FormulaModel, outcome: str) -> Iterator[NamedTable]:
    """Yield tests, differences, means, effects and variance components."""
    digits = digits_for(frame.headline.low, frame.headline.high)
    level, is_ordinal = percent(model.level), model.kind == "ordinal"
    unit = "Log odds" if is_ordinal else "Mean"

    def cell_of(term: str, levels: Sequence[str]) -> Cell:
        names = term.split(":")
        if names == ["bot"] and levels:
            return named_cell(frame.bots, levels[0])
        return Cell(
            ", ".join(_level(frame, *factor_level) for factor_level in zip(names, levels, strict=False)) or "per unit"
        )

    def pair_of(difference: LevelDifference) -> Cell:
        keys = (difference.pair.a, difference.pair.b)
        return Cell(f"{difference.factor}: {' − '.join(_level(frame, difference.factor, key) for key in keys)}")

    yield declared_table(
        "formula-tests",
        f"Tests of the terms for {outcome}",
        model.tests,
        ("Term", lambda test: Cell(_term(test.term))),
        ("F", lambda test: number_cell(test.f)),
        ("df", lambda test: count_cell(test.df1)),
        ("error df", lambda test: number_cell(test.df2, 1, "variances are treated as known")),
        ("p", lambda test: p_cell(test.p, reason_text(test.reason))),
        method=_method(model),
    )
    if model.differences:
        yield declared_table(
            "formula-differences",
            "Differences between levels",
            model.differences,
            ("Pair", pair_of),
            (
                ("Log odds" if is_ordinal else "Difference", level),
                lambda difference: mean_cells(difference.pair, digits, attribute="difference"),
            ),
            ("p (Holm)", lambda difference: p_cell(difference.pair.p_holm)),
            ("Conclusion", lambda difference: Cell(_describe_difference(model, difference))),
            method="Differences of marginal means. p is corrected by Holm for all pairs of a factor.",
        )
        yield declared_table(
            "formula-sizes",
            "Effect sizes of the differences",
            model.differences,
            ("Pair", pair_of),
            (
                ("Standard deviations", level),
                lambda difference: mean_cells(difference.effects.standardised, attribute="value"),
            ),
            (("Share of the scale", level), lambda difference: mean_cells(difference.effects.share, attribute="value")),
            (
                ("Chance of a higher rating", level),
                lambda difference: mean_cells(difference.effects.superiority, attribute="value"),
            ),
            method=(
                "Standard deviations: the difference divided by the standard deviation of one rating, including all "
                "random effects. Chance of a higher rating: for normally distributed answers with this standard "
                "deviation; 0.50 means no difference."
            ),
        )
    yield declared_table(
        "formula-means",
        "Marginal means" + (", in log odds relative to their average" if is_ordinal else ""),
        model.means,
        ("Term", lambda mean: Cell(_term(mean.term))),
        ("Level", lambda mean: cell_of(mean.term, mean.cell)),
        ((unit, level), lambda mean: mean_cells(mean, digits, attribute="estimate")),
        ("n", lambda mean: count_cell(mean.n)),
        method="The levels of all other factors have equal weight; numeric variables are at their mean.",
    )
    yield declared_table(
        "formula-effects",
        "Coefficients",
        model.effects,
        ("Term", lambda effect: Cell(_term(effect.term))),
        ("Level", lambda effect: cell_of(effect.term, effect.cell)),
        (("Effect", level), lambda effect: mean_cells(effect, attribute="estimate")),
        method=(
            "Sum contrasts: the deviation of a cell from the prediction of lower-order terms. For numeric variables: "
            "the slope."
        ),
    )
    yield declared_table(
        "formula-variance",
        "Variance components",
        model.components,
        ("Part", lambda component: Cell(component.group or "Residual")),
        ("Levels", lambda component: count_cell(component.n if component.group else None, "single ratings")),
        ("Standard deviation", lambda component: number_cell(component.sd)),
        (level, lambda component: span_cell(component.low, component.high, reason=reason_text(component.reason))),
        ("Share", lambda component: share_cell(component.share)),
        method="Intervals are computed on the logarithm of the standard deviation.",
    )
    if model.thresholds:
        yield declared_table(
            "formula-thresholds",
            "Thresholds between adjacent answers",
            list(zip(model.points, model.points[1:], model.thresholds, strict=False)),
            ("Between", lambda row: Cell(f"{row[0]:g} and {row[1]:g}")),
            ("Log odds", lambda row: number_cell(row[2])),
        )


def _level(frame: StudyFrame, column: str, level: str) -> str:
    """Return the title of a bot or of a condition's level."""
    if column == "bot":
        return frame.title(level)
    factor = next((factor for factor in frame.study.values.conditions.factors if factor.key == column), None)
    known = factor.level(level) if factor is not None else None
    return known.title if known is not None else level


def _method(model: FormulaModel) -> str:
    if model.kind == "ordinal":
        return "Cumulative logit model with crossed random effects (Laplace approximation); Wald tests."
    return "Linear mixed model (restricted maximum likelihood, sum contrasts); Satterthwaite degrees of freedom."
