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


def items_section(frame: StudyFrame, found: StudyItems) -> Section:
    """Return the items' means, and grades where the protocol has them."""
    section = Section("items", "The items")
    if found.errors is not None:
        section.title = "Errors in the replies"
        section.lead += [
            f"Two raters of a reply mark the same characters with F1 = {_agreement(found.errors.overlap)}.",
            f"With regard to the kind of error it is {_agreement(found.errors.same_category)}.",
            f"Their scores agree with Krippendorff’s α = {_agreement(found.errors.alpha)}.",
        ]
        section.tables.append(_errors_table(found.errors, frame.bots))
        return section
    if found.means is None:
        return section
    if found.approval is not None:
        section.title = "What people chose"
        section.lead.append(f"{phrases.people_text(found.approval.n_people)} chose.")
        section.tables.append(_approval_table(found.approval, frame.all_dimensions))
        return section
    section.lead.append(_raters_sentence(found.means))
    titles = {dimension.key: dimension for dimension in frame.all_dimensions}
    section.lead.append(_bound_sentence(found.means.dimensions[0].bound))
    if found.grades is not None:
        section.lead.append(_ties_sentence(found.grades))
        section.tables.append(_labels_table(found.grades, frame.bots))
        section.tables.append(_grades_table(found.grades, frame.bots))
    if found.beside is not None:
        section.lead.extend(_reference_sentences(found.beside))
        section.tables.append(_reference_table(found.beside, frame.bots))
        section.tables.append(_weights_table(found, titles))
    if found.sets is not None:
        section.tables.append(_sets_table(found.sets, titles))
    section.tables.append(_bounds_table(found.means, titles))
    first = found.means.dimensions[0]
    section.tables.append(_items_table(first, titles[first.dimension], frame.bots))
    return section


def _errors_table(found: ErrorResults, bots: Mapping[str, BotInfo]) -> NamedTable:
    return declared_table(
        "errors",
        "Errors of each bot",
        found.bots,
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


def _agreement(found: AgreementEstimate) -> str:
    if found.value is None:
        return f"– ({reason_text(found.reason)})"
    return f"{share(found.value)} {span(found.low, found.high, shares=True)}"


def _raters_sentence(found: ItemMeans) -> str:
    n = " to ".join(map(str, dict.fromkeys((found.fewest, found.most))))
    return f"{phrases.items_text(found.n_items)}, {'each ' if found.n_items != 1 else ''}rated by {n} people."


def _bound_sentence(bound: HumanBound) -> str:
    if bound.average is None:
        return f"How well one rater’s answers predict another’s is not known: {reason_text(bound.reason)}."
    return (
        f"One rater’s answers predict another’s with r = {share(bound.average)} on average, and "
        f"{share(bound.highest)} at best: what a metric of single replies can be expected to reach."
    )


def _ties_sentence(found: Grades) -> str:
    return (
        f"{found.n_ties:,} of {len(found.items):,} items have no single most frequent grade; the lowest of the most "
        f"frequent counts. By the mean rating {found.n_same_label:,} of them get the same label."
    )


def _labels_table(found: Grades, bots: Mapping[str, BotInfo]) -> NamedTable:
    labels = [title for label in get_args(Label) for title in (label.capitalize(), "90 %")]
    return declared_table(
        "labels",
        "Labels of the items",
        found.bots,
        ("Model", lambda bot: named_cell(bots, bot.bot)),
        ("Items", lambda bot: count_cell(bot.n_items)),
        (labels, lambda bot: [cell for one in bot.labels for cell in mean_cells(one, shares=True)]),
        method=(
            "Share of a model’s items by the majority’s grade: the two highest grades are entailment, the one below "
            "them neutral, the lowest contradiction. 90 % intervals over items."
        ),
    )


def _grades_table(found: Grades, bots: Mapping[str, BotInfo]) -> NamedTable:
    return declared_table(
        "grades",
        "Items by the majority’s grade",
        found.bots,
        ("Model", lambda bot: named_cell(bots, bot.bot)),
        ([f"{level:g}" for level in found.levels], lambda bot: [*map(count_cell, bot.grades)]),
    )


def _reference_sentences(found: ReferenceRatings) -> list[str]:
    told = [
        f"In {found.n_kept_rule:,} of {found.n_ratings:,} ratings the score stands where the rater’s “better”, “same” "
        f"or “worse” says, and in {found.n_contradicting:,} on the other side of the reference reply."
    ]
    if found.revised_by is not None:
        told.append(
            f"The reference reply’s score was changed in {phrases.ratings_text(found.n_revised)}, by "
            f"{figure(found.revised_by)} on average."
        )
    return told


def _reference_table(found: ReferenceRatings, bots: Mapping[str, BotInfo]) -> NamedTable:
    directions = ("Worse", "90 %", "Same", "90 %", "Better", "90 %")
    return declared_table(
        "beside-reference",
        "Compared with the reference replies",
        found.bots,
        ("Model", lambda bot: named_cell(bots, bot.bot)),
        (("Overall", "90 %"), lambda bot: mean_cells(bot.overall)),
        (("Above the reference reply", "90 %"), lambda bot: mean_cells(bot.above)),
        (directions, lambda bot: [cell for one in bot.directions for cell in mean_cells(one, shares=True)]),
        ("n", lambda bot: count_cell(bot.n_ratings)),
        method="Overall is the weighted mean of the questions that an item is asked. 90 % intervals over raters.",
        note="Raters saw the reference reply’s score, so do not compare these numbers with others.",
    )


def _weights_table(found: StudyItems, dimensions: Mapping[str, RatingDimension]) -> NamedTable:
    assert found.beside is not None
    return declared_table(
        "weights",
        "How much each question counts",
        found.beside.weights.items(),
        ("Dimension", lambda one: Cell(dimensions[one[0]].title)),
        ("Weight", lambda one: share_cell(one[1], 3)),
        method=f"By what people chose in the study {found.weights_from}: softmax of the shares."
        if found.weights_from
        else "All count alike.",
    )


def _approval_table(found: Approval, dimensions: Sequence[RatingDimension]) -> NamedTable:
    titles = {dimension.key: dimension.title for dimension in dimensions}
    alone = "one person: no interval"
    return declared_table(
        "approval",
        "What people chose",
        found.options,
        ("What", lambda one: Cell(titles.get(one.option, one.option))),
        (("Chosen by", "95 %"), lambda one: mean_cells(one, of="approval", shares=True, reason="")),
        ("Weight", lambda one: share_cell(one.weight, 3)),
        ("95 %", lambda one: span_cell(one.weight_low, one.weight_high, 3, shares=True, reason=alone)),
        ("n", lambda one: count_cell(one.n)),
        method=(
            "Share of people who chose it, with Wilson’s interval; the weights are the softmax of the shares, their "
            "intervals over people."
        ),
    )


def _sets_table(found: ItemSets, dimensions: Mapping[str, RatingDimension]) -> NamedTable:
    several = len({one.items for one in found.sets}) > 1

    def title(one: SetAgreement) -> str:
        return dimensions[one.dimension].title if one.dimension in dimensions else one.dimension

    return declared_table(
        "item-sets",
        "How far raters agree on each set of items" if several else "How far raters agree",
        found.sets,
        *([("Set", lambda one: Cell(one.items or "no name"))] if several else []),
        ("Dimension", lambda one: Cell(title(one))),
        ("Items", lambda one: count_cell(one.n_shared)),
        ("Raters", lambda one: count_cell(one.n_raters or None)),
        (("Krippendorff’s α", "95 %"), lambda one: mean_cells(one.alpha, of="value", shares=True)),
        (("Fleiss’ κ", "95 %"), lambda one: mean_cells(one.fleiss, of="value", shares=True)),
        (("Gwet’s AC", "95 %"), lambda one: mean_cells(one.gwet, of="value", shares=True)),
        (("Cohen’s κ", "95 %"), lambda one: mean_cells(one.cohen, of="value", shares=True)),
        method=(
            "Items with two ratings or more. Krippendorff’s α is nominal for two answers, ordinal for few and of "
            "intervals for a slider. Gwet’s AC is AC1 for two answers, else AC2 by linear weights. Cohen’s κ is that "
            "of the two raters, or the median over pairs of more, weighted by distance unless there are two answers. "
            "95 % intervals over items by the jackknife, of a median by resampling."
        ),
        note="A set is what one file or data set brought, or what was drawn from one study or run." if several else "",
    )


def _bounds_table(found: ItemMeans, dimensions: Mapping[str, RatingDimension]) -> NamedTable:
    return declared_table(
        "human-bound",
        "What one rater’s answers predict of another’s",
        found.dimensions,
        ("Dimension", lambda one: Cell(dimensions[one.dimension].title)),
        ("Average r", lambda one: share_cell(one.bound.average, 2, reason_text(one.bound.reason))),
        ("Highest r", lambda one: share_cell(one.bound.highest, 2, reason_text(one.bound.reason))),
        ("Pairs of raters", lambda one: count_cell(one.bound.n_pairs)),
        method=f"Pearson’s r of two raters over the items that both rated, {found.dimensions[0].bound.least} at least.",
    )


def _items_table(found: DimensionItems, dimension: RatingDimension, bots: Mapping[str, BotInfo]) -> NamedTable:
    digits = digits_for(dimension.low, dimension.high)
    shown = found.items
    if len(shown) > MOST_ITEMS:
        half = MOST_ITEMS // 2
        shown = (*shown[:half], *shown[-half:])
    note = ""
    if len(shown) < len(found.items):
        note = (
            f"The best and the worst {len(shown)} of {len(found.items):,}; all of them are in the exported table "
            "item_means."
        )
    return declared_table(
        "item-means",
        f"Means of the items on {dimension.title.lower()}",
        shown,
        ("Item", lambda one: Cell(one.item)),
        ("Model", lambda one: named_cell(bots, one.bot)),
        (("Mean", percent(LEVEL)), lambda one: mean_cells(one, digits, reason="one rating, or all the same")),
        ("n", lambda one: count_cell(one.n)),
        method="90 % intervals over the raters of an item, on the scale.",
        note=note,
    )
