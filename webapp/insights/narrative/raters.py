"""Raters' agreement, use of the scale, and flags, in words and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from django.urls import reverse

from evaluation.analysis.agreement import AgreementCoefficient, RaterAgreement
from evaluation.analysis.answers import DimensionAnswers
from evaluation.analysis.label_quality import LabelQuality, LabelRater
from evaluation.analysis.raters import OwnScales, RaterAnalysis, Screening
from evaluation.data.ratings import RatingDimension
from evaluation.data.result_tables import Cell, NamedTable, count_cell, declared_table, number_cell, share_cell
from evaluation.number_format import figure, percent, pluralise, share, span
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.rater_filters import RaterVerdict
from webapp.insights.charts.distributions import answers_figure
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import Section, link_bots, mean_cells, reason_text, wording_of
from webapp.results.study_data import StudyFrame
from webapp.studies.protocols.base import get_protocol

_COEFFICIENTS = {
    "alpha_ordinal": "Krippendorff’s α, ordinal",
    "alpha_interval": "Krippendorff’s α, interval",
    "icc_mean": "ICC(k), their mean",
    "fleiss": "Fleiss’ κ",
    "gwet": "Gwet’s AC",
    "cohen": "Cohen’s κ, linear weights",
}


def raters_section(frame: StudyFrame, analysis: RaterAnalysis, *, names: bool = True) -> Section:
    """Return agreement, scores on each rater's own scale and rater filters.

    Args:
        names: whether to list flagged raters individually (a report has only their number).
    """
    section = Section("raters", "Raters")
    section.lead.extend(agreement_sentences(frame, analysis.agreement))
    section.tables.append(agreement_table(frame, analysis.agreement))
    _add_labels(section, frame, analysis.labels, names=names)
    if analysis.own_scales.reason is not None:
        section.missing.append(f"Scores on each rater’s own scale: {reason_text(analysis.own_scales.reason)}.")
    else:
        section.lead.append(_own_sentence(analysis.own_scales))
        section.tables.append(_linked(analysis.own_scales.table(wording_of(frame)), frame))
    if analysis.screening.reason is not None:
        section.missing.append(f"Rater filters: {reason_text(analysis.screening.reason)}.")
        return section
    section.lead.append(_screening_sentence(analysis.screening))
    section.conclusion = section.lead[-1]
    section.tables += [_linked(table, frame) for table in analysis.screening.tables(wording_of(frame))]
    if analysis.screening.flagged and names:
        section.tables.append(_flagged(frame, analysis.screening.flagged))
    return section


LOW_TITLES = {"below_others": "less accurate than the others", "at_chance": "not better than chance"}


def _add_labels(section: Section, frame: StudyFrame, questions: Sequence[LabelQuality], *, names: bool) -> None:
    """Add inferred labels next to the majority, and the raters to look at."""
    titles = {dimension.key: dimension for dimension in frame.all_dimensions}
    fitted = [labels for labels in questions if labels.reason is None]
    section.missing += [
        f"Inferred labels of {titles[labels.dimension].title}: {reason_text(labels.reason)}."
        for labels in questions
        if labels.reason is not None
    ]
    for labels in fitted:
        n_low = len(labels.low_raters)
        section.lead.append(
            f"The inferred labels of {titles[labels.dimension].title} differ from the majority on {labels.n_differ:,} "
            f"of {phrases.items_text(labels.n_items)}; {labels.n_ties:,} more have no majority. "
            f"{n_low:,} of {phrases.raters_text(len(labels.raters))} gave inaccurate labels. No result excludes them."
        )
    if not fitted:
        return
    section.tables.append(_inferred_table(fitted, titles))
    low = [(labels, rater) for labels in fitted for rater in labels.low_raters]
    if low and names:
        section.tables.append(_low_table(frame, low, titles))


def _inferred_table(questions: Sequence[LabelQuality], titles: Mapping[str, RatingDimension]) -> NamedTable:
    rows = [(labels, k) for labels in questions for k in range(len(labels.labels))]
    n_single, n_unnamed = (sum(getattr(q, name) for q in questions) for name in ("n_single", "n_unnamed"))
    return declared_table(
        "inferred_labels",
        "Labels by majority and inferred from all raters",
        rows,
        ("Question", lambda row: Cell(titles[row[0].dimension].title)),
        ("Label", lambda row: number_cell(row[0].labels[row[1]], 0)),
        ("Majority", lambda row: share_cell(row[0].votes[row[1]])),
        (("Inferred", percent(RATING_LEVEL)), lambda row: mean_cells(row[0].prior[row[1]], shares=True)),
        method=(
            "Inferred by the model of Dawid and Skene (1979), in which each rater makes each error with a probability "
            "of their own. Intervals resample items."
        ),
        note=(
            f"Not used: {phrases.items_text(n_single)} with fewer than two named raters, and "
            f"{pluralise(n_unnamed, 'label')} without a rater. Majorities without items that have none."
            + ("" if all(labels.is_converged for labels in questions) else " The fit did not converge.")
        ),
    )


def _low_table(
    frame: StudyFrame, low: Sequence[tuple[LabelQuality, LabelRater]], titles: Mapping[str, RatingDimension]
) -> NamedTable:
    def rater_cell(rater: str) -> Cell:
        is_here = not frame.study.is_imported
        return Cell(rater[:8], reverse("dashboard:study_person", args=[frame.study.key, rater]) if is_here else "")

    return declared_table(
        "low_raters",
        "Raters with inaccurate labels",
        low,
        ("Rater", lambda row: rater_cell(row[1].rater)),
        ("Question", lambda row: Cell(titles[row[0].dimension].title)),
        ("Labels", lambda row: count_cell(row[1].accuracy.n)),
        (("Accuracy", percent(RATING_LEVEL)), lambda row: mean_cells(row[1].accuracy, shares=True)),
        (("Other raters", percent(RATING_LEVEL)), lambda row: mean_cells(row[1].others, shares=True)),
        ("Chance", lambda row: share_cell(row[1].chance)),
        ("Reason", lambda row: Cell(LOW_TITLES[row[1].low])),
        method=(
            "Accuracy: expected share of the rater’s labels that equal the inferred ones. Chance: the share if the "
            "rater had given the same labels to random items."
        ),
        note=(
            "Nobody is excluded. Raters who are right against all others are listed, too: read the labels first. To "
            "compare results with and without these raters, exclude the flag “Inaccurate labels” at the top of this "
            "page."
        ),
    )


def _linked(table: NamedTable, frame: StudyFrame) -> NamedTable:
    return link_bots(table, frame.bots, partial(frame.mean_link, frame.headline))


def answers_section(
    frame: StudyFrame, answers: DimensionAnswers, dimension: RatingDimension, link: Callable[[str, str], str]
) -> Section:
    """Return the section on the answers to a question.

    It shows their distribution, and differences between raters of the same conversation.

    Args:
        link: address of the conversations of a bot with an answer.
    """
    section = Section("agreement", "Answers and agreement")
    each, shared = _thing(frame), answers.shared
    format_count = phrases.items_text if each == "item" else phrases.conversations_text
    if shared.n_conversations:
        section.lead += [
            f"Two raters of the same {each} differ by {figure(shared.difference)} points of {dimension.title.lower()} "
            f"on average, and two random ratings by {figure(shared.by_chance)}.",
            f"Rated by several raters: {format_count(shared.n_conversations)}.",
        ]
    else:
        section.missing.append(f"Every {each} has only one rater, so raters cannot be compared.")
    section.figures.append(answers_figure(answers, dimension, frame.bots, link))
    return section


def _thing(frame: StudyFrame) -> str:
    return "item" if get_protocol(frame.study).judges_items else "conversation"


def agreement_table(frame: StudyFrame, agreement: RaterAgreement) -> NamedTable:
    """Return the applicable coefficients for each dimension, and reasons for the others."""
    questions = {dimension.key: dimension for dimension in frame.all_dimensions}
    titles = {key: dimension.title for key, dimension in questions.items()}
    note = "0 is chance agreement, 1 is full agreement. Gwet’s AC does not drop when nearly all answers are equal."
    if not get_protocol(frame.study).judges_items:
        note += (
            " Each rater had a different chat with the bot, so agreement about bots is lower than agreement about "
            "the same chat would be."
        )
    return declared_table(
        "agreement",
        "Rater agreement",
        agreement.coefficients,
        (
            "Dimension",
            lambda coefficient: Cell(
                titles[coefficient.dimension],
                frame.disputed_link(questions[coefficient.dimension])
                if coefficient.about != "bot" and coefficient.found.n_items
                else "",
            ),
        ),
        ("Coefficient", lambda coefficient: Cell(_coefficient_name(coefficient))),
        (
            "Agreement about",
            lambda coefficient: Cell(f"the same {'bot' if coefficient.about == 'bot' else _thing(frame)}"),
        ),
        (("Value", "95 %"), lambda coefficient: mean_cells(coefficient.found, attribute="value", shares=True)),
        ("Items", lambda coefficient: count_cell(coefficient.found.n_items)),
        ("Ratings", lambda coefficient: count_cell(coefficient.found.n_ratings)),
        method=(
            "95 % intervals over items by the jackknife, for a median by resampling, for intraclass correlations by "
            "the F distribution."
        ),
        note=note,
    )


def _coefficient_name(coefficient: AgreementCoefficient) -> str:
    """Return the coefficient's name."""
    if coefficient.code == "icc_one":
        return f"ICC(1), one {'rater' if coefficient.about == 'bot' else 'rating'}"
    median = f"Cohen’s κ, linear weights, median of {phrases.pairs_text(coefficient.n_pairs)}"
    return _COEFFICIENTS.get(coefficient.code, median)


def agreement_sentences(frame: StudyFrame, agreement: RaterAgreement) -> list[str]:
    """Compose sentences on raters' agreement.

    On the same conversation, or otherwise on the bots.
    """
    same, name, thing = agreement.same_conversation, frame.headline.title.lower(), _thing(frame)
    if same.value is not None:
        ends = span(same.low, same.high, shares=True)
        return [f"Raters of the same {thing} agree on {name} by Krippendorff’s α = {share(same.value)} {ends}."]
    sentences = [f"Agreement on single {thing}s is undefined, because hardly any has several raters."]
    single, many = agreement.one_rater, agreement.reliability_of_bots
    if single.value is not None and many.value is not None:
        sentences.append(
            f"For the bots, a single rating of {name} has a reliability of {share(single.value)} "
            f"{span(single.low, single.high, shares=True)}. The mean over all raters of a bot has {share(many.value)}."
        )
    return sentences


def _own_sentence(own_scales: OwnScales) -> str:
    rho = own_scales.order.r if own_scales.order is not None else None
    if rho is None:
        order = "the order of the bots cannot be compared."
    elif rho > 0.9999:
        order = "the bots are in the same order."
    else:
        order = f"the bots are in {'nearly the same' if rho > 0.8 else 'a different'} order (ρ = {share(rho)})."
    return (
        f"{phrases.raters_text(own_scales.n_raters)} gave at least {own_scales.least} ratings ({own_scales.n_used:,} "
        f"of {own_scales.n_ratings:,}). On their own scales, {order}"
    )


def _screening_sentence(screening: Screening) -> str:
    n = f"{len(screening.flagged):,} of {phrases.raters_text(screening.n_raters)}"
    return f"Rater filters would flag {n}. No results on this page exclude any rater."


def _flagged(frame: StudyFrame, flagged: Sequence[RaterVerdict]) -> NamedTable:
    return declared_table(
        "flagged",
        "Raters flagged by the filters",
        flagged,
        ("Rater", lambda verdict: Cell(verdict.rater[:8], frame.mean_link(frame.headline, rater=verdict.rater))),
        ("Ratings", lambda verdict: count_cell(verdict.n)),
        ("Reason", lambda verdict: Cell("; ".join(reason_text(reason) for reason in verdict.reasons))),
    )
