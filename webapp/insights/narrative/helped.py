"""Means of items drawn with the help of a judge or metric, in words and tables."""

from __future__ import annotations

from evaluation.data.result_tables import (
    NamedTable,
    count_cell,
    declared_table,
    number_cell,
    p_cell,
    share_cell,
    span_cell,
)
from evaluation.number_format import digits_for, figure, percent
from evaluation.stats.active_inference import MIN_RATERS, ActiveMeans
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import Section, mean_cells, named_cell, reason_text
from webapp.insights.narrative.verdicts import one_look
from webapp.insights.study_plan import cost_of
from webapp.results.helped_means import StudyHelped
from webapp.results.study_data import StudyFrame
from webapp.studies.assignment.capacity import keeps_always_valid
from webapp.studies.recruitment.completion import money_text

NOTHING = 0.01
"""Minimum share of the variance that counts as a saving."""


def helped_section(frame: StudyFrame, helped: StudyHelped) -> Section:
    """Return the weighted means with and without a judge's scores, and the saving."""
    section = Section("helped", "With the help of a judge")
    means = helped.means
    if means is None:
        section.missing.append("No judge helps in this study.")
        return section
    section.lead.append(_saving_sentence(frame, helped, means))
    section.conclusion = section.lead[0]
    section.lead += _count_sentences(helped)
    if helped.n_helped:
        section.lead.insert(
            1,
            "Report the means below: the leaderboard counts all ratings equally, although items on which the judge is "
            "less certain were drawn more often.",
        )
    section.tables.append(_means_table(frame, helped, means))
    if means.differences:
        section.tables.append(_pairs_table(frame, means))
    return section


def _saving_sentence(frame: StudyFrame, helped: StudyHelped, means: ActiveMeans) -> str:
    if means.n_raters < MIN_RATERS:
        return f"Helper not used: {means.n_raters} of {MIN_RATERS} raters."
    if means.reason is not None:
        return f"The scores by “{_helper_title(helped)}” are not used: {reason_text(means.reason)}."
    effective = means.effective_ratings
    if means.saved is None or effective is None:
        return f"The saving by “{_helper_title(helped)}” is not known: the ratings of the bots do not vary enough."
    worth = (
        f"{phrases.ratings_text(means.n_ratings)} with “{helped.helper}” are worth about {effective:,.0f} without it"
    )
    n_saved = effective - means.n_ratings
    if abs(means.saved) < NOTHING:
        return f"The judge saves nothing here: {worth}."
    if n_saved < 0:
        return f"The judge costs precision: {worth}."
    money = _money_saved(frame, n_saved)
    return f"{worth}: {phrases.ratings_text(round(n_saved))} saved{money}."


def _helper_title(helped: StudyHelped) -> str:
    return phrases.short_title(phrases.feature_titles([helped.helper])[0])


def _money_saved(frame: StudyFrame, n_ratings: float) -> str:
    """Return the price of these ratings with the platform's fee, after a comma; empty if it is not known."""
    cost = cost_of(frame.study, 1)
    if not cost.in_all:
        return ""
    return f", or {money_text(cost.in_all * n_ratings / frame.study.values.judging.n_items, cost.currency)}"


def _count_sentences(helped: StudyHelped) -> list[str]:
    sentences = []
    if helped.n_added:
        sentences.append(
            f"{phrases.items_text(helped.n_added)} added after the first participants had started: these could not get "
            "them, so the means give the added items too little weight."
        )
    if helped.n_unscored:
        sentences.append(
            f"{helped.n_unscored:,} of {phrases.items_text(helped.n_items)} have no score. Their ratings count "
            "without a prediction."
        )
    if helped.n_unknown:
        sentences.append(
            f"{phrases.ratings_text(helped.n_unknown)} without a known probability left out: the items were not drawn "
            "with the judge, or their participants had left an earlier task."
        )
    if helped.n_unrated:
        sentences.append(
            f"{phrases.items_text(helped.n_unrated)} drawn but not rated: their participants left or are still rating. "
            "The means are valid if participants do not leave because of single items."
        )
    return sentences


def _means_table(frame: StudyFrame, helped: StudyHelped, means: ActiveMeans) -> NamedTable:
    digits, ends = digits_for(frame.headline.low, frame.headline.high), percent(means.level)
    return declared_table(
        "helped",
        f"{frame.headline.title} with and without the scores by “{_helper_title(helped)}”",
        sorted(means.bots.items(), key=lambda row: (-(row[1].mean or 0.0), row[0])),
        ("Bot", lambda row: named_cell(frame.bots, row[0])),
        ("Ratings", lambda row: count_cell(row[1].n)),
        ("Without scores", lambda row: number_cell(row[1].plain_mean, digits)),
        (ends, lambda row: span_cell(row[1].plain_low, row[1].plain_high, digits, reason=reason_text(row[1].reason))),
        (("With scores", ends), lambda row: mean_cells(row[1], digits)),
        ("Variance saved", lambda row: share_cell(row[1].saved, reason=reason_text(row[1].reason))),
        method=(
            "Means over the study’s items, weighted by the probabilities of the items (active inference; Zrnic and "
            f"Candès, 2024), with the slope {figure(means.slope)} of ratings on scores. {percent(means.level)} "
            "intervals, clustered by rater. Variance saved: compared with the same number of ratings without a judge; "
            "negative if the judge costs precision."
        ),
        note=one_look() if keeps_always_valid(frame.study) else "",
    )


def _pairs_table(frame: StudyFrame, means: ActiveMeans) -> NamedTable:
    digits, ends = digits_for(frame.headline.low, frame.headline.high), percent(means.level)
    return declared_table(
        "helped-pairs",
        "Differences between bots with the scores",
        means.differences.items(),
        ("Bot", lambda row: named_cell(frame.bots, row[0][0])),
        ("Compared with", lambda row: named_cell(frame.bots, row[0][1])),
        ("Difference", lambda row: number_cell(row[1].difference, digits)),
        (ends, lambda row: span_cell(row[1].low, row[1].high, digits, reason="too few ratings")),
        ("p, Holm", lambda row: p_cell(row[1].p_holm, reason="too few ratings")),
    )
