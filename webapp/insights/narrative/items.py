"""Ratings of single items, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

from evaluation.analysis.agreement import ItemSets, SetAgreement
from evaluation.analysis.answers import Approval
from evaluation.analysis.criteria import CriteriaResults, CriterionAgreement
from evaluation.analysis.error_spans import SEVERITIES, ErrorResults
from evaluation.analysis.items import DimensionItems, Grades, HumanBound, ItemMeans, Label
from evaluation.analysis.reference_ratings import ReferenceRatings
from evaluation.data.ratings import RatingDimension
from evaluation.data.result_tables import (
    Cell,
    NamedTable,
    count_cell,
    declared_table,
    number_cell,
    share_cell,
    span_cell,
)
from evaluation.number_format import MINUS, digits_for, figure, percent, share, span
from evaluation.stats.agreement import AgreementEstimate
from evaluation.stats.constants import RATING_LEVEL
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import Section, mean_cells, named_cell, reason_text
from webapp.ratings.selectors import BotInfo
from webapp.results.item_results import StudyItems
from webapp.results.study_data import StudyFrame
from webapp.studies.selectors import item_chats

MOST_ITEMS = 200
"""Maximum number of items on a page. The exported table item_means has all items."""


def items_section(frame: StudyFrame, items: StudyItems) -> Section:
    """Return the items' means, and grades if the protocol has them."""
    section = Section("items", "Items")
    if items.errors is not None:
        section.title = "Errors in the replies"
        section.lead += [
            f"Agreement of two raters on the marked characters: F1 = {_format_agreement(items.errors.overlap)}.",
            f"If the kind of error must match as well, F1 is {_format_agreement(items.errors.same_category)}.",
            f"Agreement of the scores: Krippendorff’s α = {_format_agreement(items.errors.alpha)}.",
        ]
        section.tables.append(_errors_table(items.errors, frame))
        return section
    if items.means is None:
        return section
    if items.approval is not None:
        section.title = "What people chose"
        section.lead.append(f"{phrases.people_text(items.approval.n_people)} made a choice.")
        section.tables.append(_approval_table(items.approval, frame.all_dimensions))
        return section
    section.lead.append(_raters_sentence(items.means))
    titles = {dimension.key: dimension for dimension in frame.all_dimensions}
    section.lead.append(_bound_sentence(items.means.dimensions[0].bound))
    if items.criteria is not None:
        section.lead.append(_criteria_sentence(items.criteria.overall))
        section.tables.append(_criteria_table(items.criteria))
        if items.criteria.judges:
            section.tables.append(_criteria_judges_table(items.criteria))
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
    section.tables.append(_items_table(first, titles[first.dimension], frame))
    return section


def _errors_table(errors: ErrorResults, frame: StudyFrame) -> NamedTable:
    return declared_table(
        "errors",
        "Errors by bot",
        errors.bots,
        ("Bot", lambda bot: replace(named_cell(frame.bots, bot.bot), href=frame.mean_link(frame.headline, bot.bot))),
        ("Replies", lambda bot: count_cell(bot.n_replies)),
        ("Ratings", lambda bot: count_cell(bot.n_ratings)),
        ([name.capitalize() for name in SEVERITIES], lambda bot: [number_cell(bot.per_reply[n]) for n in SEVERITIES]),
        (("Score", percent(RATING_LEVEL)), lambda bot: mean_cells(bot.score)),
        (("Per 100 words", percent(RATING_LEVEL)), lambda bot: mean_cells(bot.per_100_words)),
        method=(
            "Average number of errors per rating of a reply, by severity. The score is minus the sum of the error "
            "weights (MQM); per 100 words it is a ratio of sums. 90 % intervals over raters and replies."
        ),
    )


def _criteria_sentence(overall: CriterionAgreement) -> str:
    agreement = f"Agreement of people on all criteria: Gwet’s AC1 = {_format_agreement(overall.gwet)}."
    if overall.differing is None:
        return f"{agreement} No reply has been checked by two people."
    return f"{agreement} Two people give different answers to {percent(overall.differing)} of a reply’s criteria."


def _criteria_table(results: CriteriaResults) -> NamedTable:
    disputed = results.criteria[:MOST_ITEMS]
    notes = []
    if len(disputed) < len(results.criteria):
        notes.append(
            f"The {len(disputed)} criteria with most disagreement, of {len(results.criteria):,}. The exported table "
            "criterion_ticks has all ticks."
        )
    if results.n_without_ticks:
        notes.append(f"Ratings left out because they have no ticks that fit their item: {results.n_without_ticks:,}.")
    return declared_table(
        "criteria",
        "Agreement on each criterion",
        disputed,
        ("Criterion", lambda row: Cell(row.text)),
        ("Points", lambda row: Cell(f"{row.points:+d}".replace("-", MINUS))),
        ("Items", lambda row: count_cell(row.n_items)),
        ("Raters", lambda row: count_cell(row.n_raters)),
        (("Ticked", percent(RATING_LEVEL)), lambda row: mean_cells(row.met, shares=True)),
        ("Two people differ", lambda row: share_cell(row.differing, 2, "no item has two raters")),
        (("Gwet’s AC1", "95 %"), lambda row: mean_cells(row.gwet, attribute="value", shares=True)),
        method=(
            "Criteria on which people disagree most come first. Items that share a criterion, with the same words and "
            "points, are analysed together. 90 % intervals of shares are over raters and items; 95 % intervals of "
            "agreement are over items, by the jackknife."
        ),
        note=" ".join(notes),
    )


def _criteria_judges_table(results: CriteriaResults) -> NamedTable:
    return declared_table(
        "criteria-judges",
        "Judges and people on each criterion",
        results.judges[:MOST_ITEMS],
        ("Judge", lambda row: Cell(row.judge)),
        ("Criterion", lambda row: Cell(row.text or "All criteria")),
        ("Items", lambda row: count_cell(row.n_items)),
        ("Ratings", lambda row: count_cell(row.same.n)),
        (("Same answer", "95 %"), lambda row: mean_cells(row.same, shares=True)),
        (("Cohen’s κ", "95 %"), lambda row: mean_cells(row.kappa, attribute="value", shares=True)),
        ("Ties", lambda row: count_cell(row.n_ties)),
        method=(
            "All criteria first, then each, those with least agreement first. Same answer: share of people’s "
            "answers that equal the judge’s, with intervals over raters and items. κ compares the judge with the "
            "majority; items and criteria with a tie are left out. Items without a usable answer of the judge are "
            "counted on the page of its job."
        ),
        note=f"The first {MOST_ITEMS} of {len(results.judges):,} rows." if len(results.judges) > MOST_ITEMS else "",
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
        return f"The correlation between two raters is not known: {reason_text(bound.reason)}."
    return (
        f"Two raters correlate with r = {share(bound.average)} on average and {share(bound.highest)} at most. A "
        "metric of single replies can be expected to reach the same."
    )


def _ties_sentence(grades: Grades) -> str:
    return (
        f"{grades.n_ties:,} of {len(grades.items):,} items have several most frequent grades; the lowest of them is "
        f"used. {grades.n_same_label:,} of these items get the same label from the mean rating."
    )


def _labels_table(grades: Grades, bots: Mapping[str, BotInfo]) -> NamedTable:
    labels = [title for label in get_args(Label) for title in (label.capitalize(), "90 %")]
    return declared_table(
        "labels",
        "Item labels",
        grades.bots,
        ("Model", lambda bot: named_cell(bots, bot.bot)),
        ("Items", lambda bot: count_cell(bot.n_items)),
        (labels, lambda bot: [cell for label_share in bot.labels for cell in mean_cells(label_share, shares=True)]),
        method=(
            "Share of a model’s items by majority grade. The two highest grades are entailment, the next is neutral, "
            "the lowest is contradiction. 90 % intervals over items."
        ),
    )


def _grades_table(grades: Grades, bots: Mapping[str, BotInfo]) -> NamedTable:
    return declared_table(
        "grades",
        "Items by majority grade",
        grades.bots,
        ("Model", lambda bot: named_cell(bots, bot.bot)),
        ([f"{level:g}" for level in grades.levels], lambda bot: [*map(count_cell, bot.grades)]),
    )


def _reference_sentences(ratings: ReferenceRatings) -> list[str]:
    sentences = [
        f"In {ratings.n_kept_rule:,} of {ratings.n_ratings:,} ratings the score agrees with the rater’s “better”, "
        f"“same” or “worse”. In {ratings.n_contradicting:,} it is on the opposite side of the reference reply."
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
        "Comparison with the reference replies",
        ratings.bots,
        ("Model", lambda bot: named_cell(bots, bot.bot)),
        (("Overall", "90 %"), lambda bot: mean_cells(bot.overall)),
        (("Above the reference reply", "90 %"), lambda bot: mean_cells(bot.above)),
        (directions, lambda bot: [cell for direction in bot.directions for cell in mean_cells(direction, shares=True)]),
        ("n", lambda bot: count_cell(bot.n_ratings)),
        method="Overall: weighted mean of an item’s questions. 90 % intervals over raters.",
        note="Raters saw the score of the reference reply, so these numbers cannot be compared with others.",
    )


def _weights_table(items: StudyItems, dimensions: Mapping[str, RatingDimension]) -> NamedTable:
    assert items.beside is not None
    return declared_table(
        "weights",
        "Question weights",
        items.beside.weights.items(),
        ("Dimension", lambda row: Cell(dimensions[row[0]].title)),
        ("Weight", lambda row: share_cell(row[1], 3)),
        method=f"Softmax of the shares chosen in study {items.weights_from}."
        if items.weights_from
        else "All questions have equal weight.",
    )


def _approval_table(approval: Approval, dimensions: Sequence[RatingDimension]) -> NamedTable:
    titles = {dimension.key: dimension.title for dimension in dimensions}
    alone = "a single participant, so no interval"
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
            "Share of participants who chose the option, with Wilson interval. The weights are the softmax of the "
            "shares, with intervals over participants."
        ),
    )


def _sets_table(item_sets: ItemSets, dimensions: Mapping[str, RatingDimension]) -> NamedTable:
    several = len({agreement.items for agreement in item_sets.sets}) > 1

    def title(agreement: SetAgreement) -> str:
        return dimensions[agreement.dimension].title if agreement.dimension in dimensions else agreement.dimension

    return declared_table(
        "item-sets",
        "Rater agreement by set of items" if several else "Rater agreement",
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
            "Items with at least two ratings. Krippendorff’s α is nominal for two answers, ordinal for few answers "
            "and interval for a slider. Gwet’s AC is AC1 for two answers, otherwise AC2 with linear weights. Cohen’s "
            "κ is that of the two raters, or the median over pairs if there are more, weighted by distance unless "
            "there are two answers. 95 % intervals over items by the jackknife; for a median by resampling."
        ),
        note=("A set consists of the items of one file or data set, or the items drawn from one study or run.")
        if several
        else "",
    )


def _bounds_table(means: ItemMeans, dimensions: Mapping[str, RatingDimension]) -> NamedTable:
    return declared_table(
        "human-bound",
        "Correlation between raters",
        means.dimensions,
        ("Dimension", lambda row: Cell(dimensions[row.dimension].title)),
        ("Average r", lambda row: share_cell(row.bound.average, 2, reason_text(row.bound.reason))),
        ("Highest r", lambda row: share_cell(row.bound.highest, 2, reason_text(row.bound.reason))),
        ("Pairs of raters", lambda row: count_cell(row.bound.n_pairs)),
        method=(
            f"Pearson’s r of two raters over the items that both rated (at least {means.dimensions[0].bound.least})."
        ),
    )


def _items_table(dimension_items: DimensionItems, dimension: RatingDimension, frame: StudyFrame) -> NamedTable:
    digits = digits_for(dimension.low, dimension.high)
    shown_items = dimension_items.items
    if len(shown_items) > MOST_ITEMS:
        half = MOST_ITEMS // 2
        shown_items = (*shown_items[:half], *shown_items[-half:])
    note = ""
    if len(shown_items) < len(dimension_items.items):
        note = (
            f"The {len(shown_items)} best and worst of {len(dimension_items.items):,} items. The exported table "
            "item_means has all items."
        )
    chats = item_chats(frame.study, [item_mean.item for item_mean in shown_items])
    links = {item: frame.chat_link(chat) for item, chat in chats.items()}
    return declared_table(
        "item-means",
        f"Item means of {dimension.title.lower()}",
        shown_items,
        ("Item", lambda item_mean: Cell(item_mean.item, links.get(item_mean.item, ""))),
        ("Model", lambda item_mean: named_cell(frame.bots, item_mean.bot)),
        (
            ("Mean", percent(RATING_LEVEL)),
            lambda item_mean: mean_cells(item_mean, digits, reason="only one rating, or equal ratings"),
        ),
        ("n", lambda item_mean: count_cell(item_mean.n)),
        method="On the rating scale, with 90 % intervals over the raters of an item.",
        note=note,
    )
