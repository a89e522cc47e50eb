"""Model by a formula: what the ratings depend on, differences between levels, and parts of the variance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evaluation.analysis.formula_model import RESPONSE, FormulaModel, LevelDifference, TermTest
from evaluation.analysis.levels import model_alpha
from evaluation.number_format import digits_for, figure, percent, probability
from webapp.dashboard.charts.figure import Cell
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import (
    NamedTable,
    Section,
    controls_said,
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
from webapp.dashboard.narrative.verdicts import NOT_YET_KNOWN, one_look, pairs_standing, smallest_sentences
from webapp.results.study_data import StudyFrame
from webapp.studies.assignment.capacity import keeps_always_valid


def formula_section(frame: StudyFrame, found: FormulaModel) -> Section:
    """Return the model in words and tables; without a fit the reason."""
    section = Section("formula", f"Model by formula: {found.formula}")
    section.how.append(f"The model is {found.kind}, for {phrases.ratings_text(found.n)}.")
    if found.n_dropped:
        section.how.append(f"{phrases.ratings_text(found.n_dropped)} left out for a missing value.")
    if found.reason is not None:
        section.missing.append(f"No model is fitted: {reason_text(found.reason)}.")
        return section
    if found.caution is not None:
        section.caution = f"Caution: {reason_text(found.caution)}."
    what = _outcome(frame, found)
    section.conclusion = _depends(found, what, model_alpha(frame.study.values.quotas.level))
    section.lead.append(section.conclusion)
    if found.get_differences("bot"):
        section.lead.append(_bots_standing(frame, found, what))
    if frame.controls:
        section.lead.append(controls_said(frame, left_out=True))
    if found.kind == "linear":
        section.how += smallest_sentences(frame.study, found.smallest)
    if keeps_always_valid(frame.study):
        section.how.append(one_look())
    section.how += [
        f"Every rating has a {name} of its own, so that effects of {name} are part of what is left."
        for name in found.merged
    ]
    section.tables += _tables(frame, found, what)
    return section


def _outcome(frame: StudyFrame, found: FormulaModel) -> str:
    key = found.formula.partition("~")[0].strip()
    question = next((one for one in frame.dimensions if one.key == key), frame.headline if key == RESPONSE else None)
    return question.title if question is not None else key


def _depends(found: FormulaModel, what: str, alpha: float) -> str:
    """Compose the sentence on the terms with a significant effect at this level."""
    shown = [one for one in found.tests if one.p is not None and one.p < alpha]
    others = [_term(one.term) for one in found.tests if one not in shown]
    if not shown:
        return f"No effect on “{what}” is significant, which does not show that there is none."
    told = listed([f"{_term(one.term)} ({_test(one)})" for one in shown])
    return f"“{what}” depends on {told}{'; not shown: ' + listed(others) if others else ''}."


def _term(name: str) -> str:
    return name.replace(":", " × ")


def _test(one: TermTest) -> str:
    if one.df2 is None:
        return f"χ²({one.df1}) = {figure(one.f * one.df1)}, {probability(one.p)}"
    return f"F({one.df1}, {figure(one.df2, 1)}) = {figure(one.f)}, {probability(one.p)}"


def _bots_standing(frame: StudyFrame, found: FormulaModel, what: str) -> str:
    """Count the pairs of bots in the three words of every conclusion."""
    pairs = found.get_differences("bot")
    equal = [f"{frame.title(one.pair.a)} and {frame.title(one.pair.b)}" for one in pairs if found.is_equal(one)]
    n_unknown = sum(_standing(found, one) == NOT_YET_KNOWN for one in pairs)
    n_clear = sum(one.pair.ordered for one in pairs)
    return pairs_standing(f"“{what}”", n_clear, equal, n_unknown, len(pairs), figure(found.smallest))


def _standing(found: FormulaModel, one: LevelDifference) -> str:
    words = [("clearly different", one.pair.ordered), ("equal for practical purposes", found.is_equal(one))]
    return ", yet ".join(word for word, holds in words if holds) or NOT_YET_KNOWN


def _tables(frame: StudyFrame, found: FormulaModel, what: str) -> Iterator[NamedTable]:
    """Yield tests, differences, means, effects and parts of the variance."""
    digits = digits_for(frame.headline.low, frame.headline.high)
    level, is_ordinal = percent(found.level), found.kind == "ordinal"
    unit = "Log odds" if is_ordinal else "Mean"

    def cell_of(term: str, levels: Sequence[str]) -> Cell:
        names = term.split(":")
        if names == ["bot"] and levels:
            return named_cell(frame.bots, levels[0])
        return Cell(", ".join(_level(frame, *one) for one in zip(names, levels, strict=False)) or "by one more")

    def pair_of(one: LevelDifference) -> Cell:
        return Cell(f"{one.factor}: {' − '.join(_level(frame, one.factor, at) for at in (one.pair.a, one.pair.b))}")

    yield declared_table(
        "formula-tests",
        f"Tests of the terms for {what}",
        found.tests,
        ("Term", lambda one: Cell(_term(one.term))),
        ("F", lambda one: number_cell(one.f)),
        ("df", lambda one: count_cell(one.df1)),
        ("error df", lambda one: number_cell(one.df2, 1, "variances are taken as known")),
        ("p", lambda one: p_cell(one.p, reason_text(one.reason))),
        method=_method(found),
    )
    if found.differences:
        yield declared_table(
            "formula-differences",
            "Differences between levels",
            found.differences,
            ("Pair", pair_of),
            (
                ("Log odds" if is_ordinal else "Difference", level),
                lambda one: mean_cells(one.pair, digits, of="difference"),
            ),
            ("p (Holm)", lambda one: p_cell(one.pair.p_holm)),
            ("Conclusion", lambda one: Cell(_standing(found, one))),
            method="Differences of the marginal means; p is corrected by Holm for the pairs of a factor.",
        )
        yield declared_table(
            "formula-sizes",
            "Effect sizes of the differences",
            found.differences,
            ("Pair", pair_of),
            (("Standard deviations", level), lambda one: mean_cells(one.effects.standardised, of="value")),
            (("Share of the scale", level), lambda one: mean_cells(one.effects.share, of="value")),
            (("Chance to be rated higher", level), lambda one: mean_cells(one.effects.superiority, of="value")),
            method=(
                "Standard deviations: those of one rating, all random effects in it. Chance to be rated higher: of "
                "normal answers with this standard deviation; no difference is 0.50."
            ),
        )
    yield declared_table(
        "formula-means",
        "Marginal means" + (", in log odds against their average" if is_ordinal else ""),
        found.means,
        ("Term", lambda one: Cell(_term(one.term))),
        ("Level", lambda one: cell_of(one.term, one.cell)),
        ((unit, level), lambda one: mean_cells(one, digits, of="estimate")),
        ("n", lambda one: count_cell(one.n)),
        method="The levels of all other factors weigh the same; numbers are at their mean.",
    )
    yield declared_table(
        "formula-effects",
        "Coefficients",
        found.effects,
        ("Term", lambda one: Cell(_term(one.term))),
        ("Level", lambda one: cell_of(one.term, one.cell)),
        (("Effect", level), lambda one: mean_cells(one, of="estimate")),
        method="Sum contrasts: how far a term moves its cell from what smaller terms say. Of a number, the slope.",
    )
    yield declared_table(
        "formula-variance",
        "Parts of the variance",
        found.components,
        ("Part", lambda one: Cell(one.group or "What is left")),
        ("Levels", lambda one: count_cell(one.n if one.group else None, "of single ratings")),
        ("Standard deviation", lambda one: number_cell(one.sd)),
        (level, lambda one: span_cell(one.low, one.high, reason=reason_text(one.reason))),
        ("Share", lambda one: share_cell(one.share)),
        method="Intervals are made on the logarithm of the standard deviation.",
    )
    if found.thresholds:
        yield declared_table(
            "formula-thresholds",
            "Thresholds between neighbouring answers",
            list(zip(found.points, found.points[1:], found.thresholds, strict=False)),
            ("Between", lambda row: Cell(f"{row[0]:g} and {row[1]:g}")),
            ("Log odds", lambda row: number_cell(row[2])),
        )


def _level(frame: StudyFrame, column: str, level: str) -> str:
    """Return the title of a level: a bot's, or that of a condition."""
    if column == "bot":
        return frame.title(level)
    factor = next((one for one in frame.study.values.conditions.factors if one.key == column), None)
    known = factor.level(level) if factor is not None else None
    return known.title if known is not None else level


def _method(found: FormulaModel) -> str:
    if found.kind == "ordinal":
        return "Cumulative logit with crossed random effects by Laplace’s approximation; Wald’s tests."
    return "Linear mixed model by restricted maximum likelihood, sum contrasts; Satterthwaite’s degrees of freedom."
