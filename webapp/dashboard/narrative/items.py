"""Ratings of single items, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from evaluation.analysis.agreement import ItemSets, SetAgreement
from evaluation.analysis.answers import Approval
from evaluation.analysis.error_spans import SEVERITIES, ErrorResults
from evaluation.analysis.items import LEVEL, DimensionItems, Grades, HumanBound, ItemMeans, Label
from evaluation.analysis.reference_ratings import ReferenceRatings
from evaluation.number_format import digits_for, figure, percent, share, span
from evaluation.ratings import RatingDimension
from evaluation.stats.agreement import AgreementEstimate
from webapp.dashboard.charts.figure import Cell
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import (
    NamedTable,
    Section,
    count_cell,
    declared_table,
    mean_cells,
    named_cell,
    number_cell,
    reason_text,
    share_cell,
    span_cell,
)
from webapp.ratings.selectors import BotInfo
from webapp.results.item_results import StudyItems
from webapp.results.study_data import StudyFrame

MOST_ITEMS = 200
"""A page lists so many items; all of them are in the exported table item_means."""


def items_section(frame: StudyFrame, items: StudyItems) -> Section:
    """Return the items' means, and grades where the protocol has them."""
    section = Section("items", "The items")
    if items.errors is not None:
        section.title = "Errors in the replies"
        section.lead += [
            f"Two raters of a reply mark the same characters with F1 = {_format_agreement(items.errors.overlap)}.",
            f"With regard to the kind of error it is {_format_agreement(items.errors.same_category)}.",
            f"Their scores agree with Krippendorff’s α = {_format_agreement(items.errors.alpha)}.",
        ]
        section.tables.append(_errors_table(items.errors, frame.bots))
        return section
    if items.means is None:
        return section
    if items.approval is not None:
        section.title = "What people chose"
        section.lead.append(f"{phrases.people_text(items.approval.n_people)} chose.")
        section.tables.append(_approval_table(items.approval, frame.all_dimensions))
        return section
    section.lead.append(_raters_sentence(items.means))
    titles = {dimension.key: dimension for dimension in frame.all_dimensions}
    section.lead.append(_bound_sentence(items.means.dimensions[0].bound))
    if items.grades is not None:
        section.lead.append(_ties_sentence(items.grades))
        section.tables.append(_labels_table(items.grades, frame.bots))
        section.tables.append(_grades_table(items.grades, frame.bots))
    if items.beside is not None:
        section.lead.extend(_reference_sentences(items.beside))
        section.tables.append(_reference_table(items.beside, frame.bots))
        section.tables.append(_weights_table(items, titles))
    if items.sets is not None:
        section.tables.append(_sets_table(items.sets, titles))
    section.tables.append(_bounds_table(items.means, titles))
    first = items.means.dimensions[0]
    section.tables.append(_items_table(first, titles[first.dimension], frame.bots))
    return section


def _errors_table(errors: ErrorResults, bots: Mapping[str, BotInfo]) -> NamedTable:
    return declared_table(
        "errors",
        "Errors of each bot",
        errors.bots,
        ("Bot", lambda bot: named_cell(bots, bot.bot)),
        ("Replies", lambda bot: count_cell(bot.n_replies)),
        ("Ratings", lambda bot: count_cell(bot.n_ratings)),
        ([name.capitalize() for name in SEVERITIES], lambda bot: [number_cell(bot.per_reply[n]) for n in SEVERITIES]),
        (("Score", percent(LEVEL)), lambda bot: mean_cells(bot.score)),
        (("In 100 words", percent(LEVEL)), lambda bot: mean_cells(bot.per_100_words)),
        method=(
            "Errors of each severity in a rating of a reply, on average. The score is minus the sum of their weights "
            "(MQM); in 100 words it is the ratio of the sums. 90 % intervals over raters and replies."
        ),
    )


def _format_agreement(estimate: AgreementEstimate) -> str:
    if estimate.value is None:
        return f"– ({reason_text(estimate.reason)})"
    return f"{share(estimate.value)} {span(estimate.low, estimate.high, shares=True)}"


def _raters_sentence(means: ItemMeans) -> str:
    n = " to ".join(map(str, dict.fromkeys((means.fewest, means.most))))
    return f"{phrases.items_text(means.n_items)}, {'each ' if means.n_items != 1 else ''}rated by {n} people."


def _bound_sentence(bound: HumanBound) -> str:
    if bound.average is None:
        return f"How well one rater’s answers predict another’s is not known: {reason_text(bound.reason)}."
    return (
        f"One rater’s answers predict another’s with r = {share(bound.average)} on average, and "
        f"{share(bound.highest)} at best: what a metric of single replies can be expected to reach."
    )


def _ties_sentence(grades: Grades) -> str:
    return (
        f"{grades.n_ties:,} of {len(grades.items):,} items have no single most frequent grade; the lowest of the most "
        f"frequent counts. By the mean rating {grades.n_same_label:,} of them get the same label."
    )


def _labels_table(grades: Grades, bots: Mapping[str, BotInfo]) -> NamedTable:
    labels = [title for label in get_args(Label) for title in (label.capitalize(), "90 %")]
    return declared_table(
        "labels",
        "Labels of the items",
        grades.bots,
        ("Model", lambda bot: named_cell(bots, bot.bot)),
        ("Items", lambda bot: count_cell(bot.n_items)),
        (labels, lambda bot: [cell for label_share in bot.labels for cell in mean_cells(label_share, shares=True)]),
        method=(
            "Share of a model’s items by the majority’s grade: the two highest grades are entailment, the one below "
            "them neutral, the lowest contradiction. 90 % intervals over items."
        ),
    )


def _grades_table(grades: Grades, bots: Mapping[str, BotInfo]) -> NamedTable:
    return declared_table(
        "grades",
        "Items by the majority’s grade",
        grades.bots,
        ("Model", lambda bot: named_cell(bots, bot.bot)),
        ([f"{level:g}" for level in grades.levels], lambda bot: [*map(count_cell, bot.grades)]),
    )


def _reference_sentences(ratings: ReferenceRatings) -> list[str]:
    sentences = [
        f"In {ratings.n_kept_rule:,} of {ratings.n_ratings:,} ratings the score stands where the rater’s “better”, "
        f"“same” or “worse” says, and in {ratings.n_contradicting:,} on the other side of the reference reply."
    ]
    if ratings.revised_by is not None:
        sentences.append(
            f"The reference reply’s score was changed in {phrases.ratings_text(ratings.n_revised)}, by "
            f"{figure(ratings.revised_by)} on average."
        )
    return sentences


def _reference_table(ratings: ReferenceRatings, bots: Mapping[str, BotInfo]) -> NamedTable:
    directions = ("Worse", "90 %", "Same", "90 %", "Better", "90 %")
    return declared_table(
        "beside-reference",
        "Compared with the reference replies",
        ratings.bots,
        ("Model", lambda bot: named_cell(bots, bot.bot)),
        (("Overall", "90 %"), lambda bot: mean_cells(bot.overall)),
        (("Above the reference reply", "90 %"), lambda bot: mean_cells(bot.above)),
        (directions, lambda bot: [cell for direction in bot.directions for cell in mean_cells(direction, shares=True)]),
        ("n", lambda bot: count_cell(bot.n_ratings)),
        method="Overall is the weighted mean of the questions that an item is asked. 90 % intervals over raters.",
        note="Raters saw the reference reply’s score, so do not compare these numbers with others.",
    )


def _weights_table(items: StudyItems, dimensions: Mapping[str, RatingDimension]) -> NamedTable:
    assert items.beside is not None
    return declared_table(
        "weights",
        "How much each question counts",
        items.beside.weights.items(),
        ("Dimension", lambda row: Cell(dimensions[row[0]].title)),
        ("Weight", lambda row: share_cell(row[1], 3)),
        method=f"By what people chose in the study {items.weights_from}: softmax of the shares."
        if items.weights_from
        else "All count alike.",
    )


def _approval_table(approval: Approval, dimensions: Sequence[RatingDimension]) -> NamedTable:
    titles = {dimension.key: dimension.title for dimension in dimensions}
    alone = "one person: no interval"
    return declared_table(
        "approval",
        "What people chose",
        approval.options,
        ("What", lambda option: Cell(titles.get(option.option, option.option))),
        (("Chosen by", "95 %"), lambda option: mean_cells(option, attribute="approval", shares=True, reason="")),
        ("Weight", lambda option: share_cell(option.weight, 3)),
        ("95 %", lambda option: span_cell(option.weight_low, option.weight_high, 3, shares=True, reason=alone)),
        ("n", lambda option: count_cell(option.n)),
        method=(
            "Share of people who chose it, with Wilson’s interval; the weights are the softmax of the shares, their "
            "intervals over people."
        ),
    )


def _sets_table(item_sets: ItemSets, dimensions: Mapping[str, RatingDimension]) -> NamedTable:
    several = len({agreement.items for agreement in item_sets.sets}) > 1

    def title(agreement: SetAgreement) -> str:
        return dimensions[agreement.dimension].title if agreement.dimension in dimensions else agreement.dimension

    return declared_table(
        "item-sets",
        "How far raters agree on each set of items" if several else "How far raters agree",
        item_sets.sets,
        *([("Set", lambda agreement: Cell(agreement.items or "no name"))] if several else []),
        ("Dimension", lambda agreement: Cell(title(agreement))),
        ("Items", lambda agreement: count_cell(agreement.n_shared)),
        ("Raters", lambda agreement: count_cell(agreement.n_raters or None)),
        (("Krippendorff’s α", "95 %"), lambda agreement: mean_cells(agreement.alpha, attribute="value", shares=True)),
        (("Fleiss’ κ", "95 %"), lambda agreement: mean_cells(agreement.fleiss, attribute="value", shares=True)),
        (("Gwet’s AC", "95 %"), lambda agreement: mean_cells(agreement.gwet, attribute="value", shares=True)),
        (("Cohen’s κ", "95 %"), lambda agreement: mean_cells(agreement.cohen, attribute="value", shares=True)),
        method=(
            "Items with two ratings or more. Krippendorff’s α is nominal for two answers, ordinal for few and of "
            "intervals for a slider. Gwet’s AC is AC1 for two answers, else AC2 by linear weights. Cohen’s κ is that "
            "of the two raters, or the median over pairs of more, weighted by distance unless there are two answers. "
            "95 % intervals over items by the jackknife, of a median by resampling."
        ),
        note="A set is what one file or data set brought, or what was drawn from one study or run." if several else "",
    )


def _bounds_table(means: ItemMeans, dimensions: Mapping[str, RatingDimension]) -> NamedTable:
    return declared_table(
        "human-bound",
        "What one rater’s answers predict of another’s",
        means.dimensions,
        ("Dimension", lambda row: Cell(dimensions[row.dimension].title)),
        ("Average r", lambda row: share_cell(row.bound.average, 2, reason_text(row.bound.reason))),
        ("Highest r", lambda row: share_cell(row.bound.highest, 2, reason_text(row.bound.reason))),
        ("Pairs of raters", lambda row: count_cell(row.bound.n_pairs)),
        method=f"Pearson’s r of two raters over the items that both rated, {means.dimensions[0].bound.least} at least.",
    )


def _items_table(
    dimension_items: DimensionItems, dimension: RatingDimension, bots: Mapping[str, BotInfo]
) -> NamedTable:
    digits = digits_for(dimension.low, dimension.high)
    shown_items = dimension_items.items
    if len(shown_items) > MOST_ITEMS:
        half = MOST_ITEMS // 2
        shown_items = (*shown_items[:half], *shown_items[-half:])
    note = ""
    if len(shown_items) < len(dimension_items.items):
        note = (
            f"The best and the worst {len(shown_items)} of {len(dimension_items.items):,}; all of them are in the "
            "exported table item_means."
        )
    return declared_table(
        "item-means",
        f"Means of the items on {dimension.title.lower()}",
        shown_items,
        ("Item", lambda item_mean: Cell(item_mean.item)),
        ("Model", lambda item_mean: named_cell(bots, item_mean.bot)),
        (
            ("Mean", percent(LEVEL)),
            lambda item_mean: mean_cells(item_mean, digits, reason="one rating, or all the same"),
        ),
        ("n", lambda item_mean: count_cell(item_mean.n)),
        method="90 % intervals over the raters of an item, on the scale.",
        note=note,
    )
