"""Ratings of single items, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.analysis.agreement import ItemSets
from evaluation.analysis.answers import Approval
from evaluation.analysis.items import LEVEL, DimensionItems, Grades, HumanBound, ItemMeans, Label
from evaluation.analysis.reference_ratings import ReferenceRatings
from evaluation.number_format import digits_for, figure, percent, share
from evaluation.ratings import RatingDimension
from webapp.core.language import plural
from webapp.dashboard.charts.figure import Cell, PageTable
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import (
    NamedTable,
    Section,
    count_cell,
    headers,
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
LABELS: dict[Label, object] = {"contradiction": "Contradiction", "neutral": "Neutral", "entailment": "Entailment"}


def items_section(frame: StudyFrame, found: StudyItems) -> Section:
    """Return the items' means, and grades where the protocol has them."""
    section = Section("items", "The items")
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


def _raters_sentence(found: ItemMeans) -> str:
    if found.fewest == found.most:
        words = plural(
            found.n_items, "%(n)s item, rated by %(most)s people.", "%(n)s items, each rated by %(most)s people."
        )
    else:
        words = plural(
            found.n_items,
            "%(n)s item, rated by %(fewest)s to %(most)s people.",
            "%(n)s items, each rated by %(fewest)s to %(most)s people.",
        )
    return words % {"n": f"{found.n_items:,}", "fewest": found.fewest, "most": found.most}


def _bound_sentence(bound: HumanBound) -> str:
    if bound.average is None:
        return f"How well one rater’s answers predict another’s is not known: {reason_text(bound.reason)}."
    return (
        f"One rater’s answers predict another’s with r = {share(bound.average)} on average, and "
        f"{share(bound.highest)} at best: what a metric of single replies can be expected to reach."
    )


def _ties_sentence(found: Grades) -> str:
    n = len(found.items)
    return (
        "{ties} of {n} items have no single most frequent grade; the lowest of the most frequent counts. By the mean "
        "rating {same} of them get the same label."
    ).format(ties=f"{found.n_ties:,}", n=f"{n:,}", same=f"{found.n_same_label:,}")


def _labels_table(found: Grades, bots: Mapping[str, BotInfo]) -> NamedTable:
    numeric = ["Items"]
    for label in LABELS.values():
        numeric += [str(label), "90 %"]
    rows = []
    for bot in found.bots:
        labels = [cell for one in bot.labels for cell in mean_cells(one, shares=True)]
        rows.append([named_cell(bots, bot.bot), count_cell(bot.n_items), *labels])
    return NamedTable(
        "labels",
        "Labels of the items",
        PageTable(headers("Model", numeric=numeric), rows),
        method=(
            "Share of a model’s items by the majority’s grade: the two highest grades are entailment, the one below "
            "them neutral, the lowest contradiction. 90 % intervals over items."
        ),
    )


def _grades_table(found: Grades, bots: Mapping[str, BotInfo]) -> NamedTable:
    rows = [[named_cell(bots, bot.bot), *map(count_cell, bot.grades)] for bot in found.bots]
    table = PageTable(headers("Model", numeric=[f"{level:g}" for level in found.levels]), rows)
    return NamedTable("grades", "Items by the majority’s grade", table)


def _reference_sentences(found: ReferenceRatings) -> list[str]:
    told = [
        (
            "In {kept} of {n} ratings the score stands where the rater’s “better”, “same” or “worse” says, and in "
            "{contradicting} on the other side of the reference reply."
        ).format(kept=f"{found.n_kept_rule:,}", n=f"{found.n_ratings:,}", contradicting=f"{found.n_contradicting:,}")
    ]
    if found.revised_by is not None:
        told.append(
            f"The reference reply’s score was changed in {phrases.ratings_text(found.n_revised)}, by "
            f"{figure(found.revised_by)} on average."
        )
    return told


def _reference_table(found: ReferenceRatings, bots: Mapping[str, BotInfo]) -> NamedTable:
    numeric = ["Overall", "Above the reference reply", "Worse", "Same", "Better"]
    rows = []
    for bot in found.bots:
        cells = [cell for one in (bot.overall, bot.above) for cell in mean_cells(one)]
        cells += [cell for one in bot.directions for cell in mean_cells(one, shares=True)]
        rows.append([named_cell(bots, bot.bot), *cells, count_cell(bot.n_ratings)])
    return NamedTable(
        "beside-reference",
        "Compared with the reference replies",
        PageTable(headers("Model", numeric=[*(title for one in numeric for title in (one, "90 %")), "n"]), rows),
        method="Overall is the weighted mean of the questions that an item is asked. 90 % intervals over raters.",
        note="Raters saw the reference reply’s score, so do not compare these numbers with others.",
    )


def _weights_table(found: StudyItems, dimensions: Mapping[str, RatingDimension]) -> NamedTable:
    assert found.beside is not None
    rows = [[Cell(dimensions[key].title), share_cell(weight, 3)] for key, weight in found.beside.weights.items()]
    return NamedTable(
        "weights",
        "How much each question counts",
        PageTable(headers("Dimension", numeric=["Weight"]), rows),
        method=f"By what people chose in the study {found.weights_from}: softmax of the shares."
        if found.weights_from
        else "All count alike.",
    )


def _approval_table(found: Approval, dimensions: Sequence[RatingDimension]) -> NamedTable:
    titles = {dimension.key: dimension.title for dimension in dimensions}
    rows = [
        [
            Cell(titles.get(one.option, one.option)),
            share_cell(one.approval, 2),
            span_cell(one.low, one.high, shares=True),
            share_cell(one.weight, 3),
            span_cell(one.weight_low, one.weight_high, 3, shares=True, why="one person: no interval"),
            count_cell(one.n),
        ]
        for one in found.options
    ]
    return NamedTable(
        "approval",
        "What people chose",
        PageTable(headers("What", numeric=["Chosen by", "95 %", "Weight", "95 %", "n"]), rows),
        method=(
            "Share of people who chose it, with Wilson’s interval; the weights are the softmax of the shares, their "
            "intervals over people."
        ),
    )


def _sets_table(found: ItemSets, dimensions: Mapping[str, RatingDimension]) -> NamedTable:
    several = len({one.items for one in found.sets}) > 1
    first = ["Set", "Dimension"] if several else ["Dimension"]
    numeric = [
        "Items",
        "Raters",
        "Krippendorff’s α",
        "95 %",
        "Fleiss’ κ",
        "95 %",
        "Gwet’s AC",
        "95 %",
        "Cohen’s κ",
        "95 %",
    ]
    rows = []
    for one in found.sets:
        cells = [Cell(one.items or "no name")] if several else []
        title = dimensions[one.dimension].title if one.dimension in dimensions else one.dimension
        cells += [Cell(title), count_cell(one.n_shared), count_cell(one.n_raters or None)]
        for coefficient in (one.alpha, one.fleiss, one.gwet, one.cohen):
            why = reason_text(coefficient.reason)
            cells.append(share_cell(coefficient.value, 2, why))
            cells.append(span_cell(coefficient.low, coefficient.high, shares=True, why=why))
        rows.append(cells)
    return NamedTable(
        "item-sets",
        "How far raters agree on each set of items" if several else "How far raters agree",
        PageTable(headers(*first, numeric=numeric), rows),
        method=(
            "Items with two ratings or more. Krippendorff’s α is nominal for two answers, ordinal for few and of "
            "intervals for a slider. Gwet’s AC is AC1 for two answers, else AC2 by linear weights. Cohen’s κ is that "
            "of the two raters, or the median over pairs of more, weighted by distance unless there are two answers. "
            "95 % intervals over items by the jackknife, of a median by resampling."
        ),
        note="A set is what one file or data set brought, or what was drawn from one study or run." if several else "",
    )


def _bounds_table(found: ItemMeans, dimensions: Mapping[str, RatingDimension]) -> NamedTable:
    rows = [
        [
            Cell(dimensions[one.dimension].title),
            share_cell(one.bound.average, 2, reason_text(one.bound.reason)),
            share_cell(one.bound.highest, 2, reason_text(one.bound.reason)),
            count_cell(one.bound.n_pairs),
        ]
        for one in found.dimensions
    ]
    return NamedTable(
        "human-bound",
        "What one rater’s answers predict of another’s",
        PageTable(headers("Dimension", numeric=["Average r", "Highest r", "Pairs of raters"]), rows),
        method=f"Pearson’s r of two raters over the items that both rated, {found.dimensions[0].bound.least} at least.",
    )


def _items_table(found: DimensionItems, dimension: RatingDimension, bots: Mapping[str, BotInfo]) -> NamedTable:
    digits = digits_for(dimension.low, dimension.high)
    shown = found.items
    if len(shown) > MOST_ITEMS:
        half = MOST_ITEMS // 2
        shown = (*shown[:half], *shown[-half:])
    rows = [
        [
            Cell(one.item),
            named_cell(bots, one.bot),
            number_cell(one.mean, digits),
            span_cell(one.low, one.high, digits, why="one rating, or all the same"),
            count_cell(one.n),
        ]
        for one in shown
    ]
    note = ""
    if len(shown) < len(found.items):
        note = "The best and the worst {n} of {all}; all of them are in the exported table item_means.".format(
            n=len(shown), all=f"{len(found.items):,}"
        )
    return NamedTable(
        "item-means",
        f"Means of the items on {dimension.title.lower()}",
        PageTable(headers("Item", "Model", numeric=["Mean", percent(LEVEL), "n"]), rows),
        method="90 % intervals over the raters of an item, on the scale.",
        note=note,
    )
