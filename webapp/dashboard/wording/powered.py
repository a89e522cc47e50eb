"""Gain in the bots' means from unrated conversations (prediction-powered), in words and a table."""

from __future__ import annotations

from evaluation.analysis.powered import PoweredMeans
from evaluation.printing import digits_for, percent
from webapp.dashboard import counts
from webapp.dashboard.plots.figure import Cell, Header, Table
from webapp.dashboard.wording.reasons import said
from webapp.dashboard.wording.sections import (
    NamedTable,
    Section,
    count_cell,
    listed,
    number_cell,
    share_cell,
    span_cell,
)
from webapp.dashboard.wording.verdicts import one_look
from webapp.results.powered import HYBRID, StudyPowered
from webapp.results.study_data import StudyFrame
from webapp.runs.selectors.metrics import metric_titles
from webapp.studies.places import is_collecting


def predictor_title(name: str) -> str:
    """Return the title of a predictor."""
    return "the hybrid metric" if name == HYBRID else metric_titles().get(name, name)


def powered_section(frame: StudyFrame, found: StudyPowered, by: str = "") -> Section:
    """Return the section on the gain by predictions, with a table if there is a gain.

    Args:
        by: name of the predictor; "" for the first.
    """
    section = Section("powered", "What unrated conversations add")
    means = found.by.get(by) or found.by.get(found.first or "")
    if not found.n_unrated:
        section.missing.append("No finished conversation is without a rating.")
    elif means is None:
        section.missing.append(
            f"No metric of the {counts.conversations(found.n_unrated)} without a rating is computed yet."
        )
    if means is None:
        return section
    section.lead.append(_gained(means))
    if means.gains:
        if means.unlike:
            section.caution = (
                f"Rated and unrated conversations of {listed([frame.title(bot) for bot in means.unlike])} differ "
                "beyond chance in what predicts. Where people chose what to rate, or left before they rated, report "
                "the means of the ratings alone."
            )
        section.tables.append(_table(frame, means))
    return section


def _named(by: str) -> str:
    """Return the title of a predictor as a part of a sentence."""
    return predictor_title(by) if by == HYBRID else f"“{predictor_title(by)}”"


def _gained(means: PoweredMeans) -> str:
    by = _named(means.by)
    if means.saved is None:
        reasons = dict.fromkeys(said(one.reason) for one in means.bots.values() if one.reason)
        return "Predictions by {by} cannot be used: {why}.".format(
            by=by, why="; ".join(reasons) or "no bot is rated"
        )
    if not means.gains:
        return f"Predictions by {by} gain nothing here: report the means of the ratings alone."
    return (
        f"Predictions by {by} of conversations that nobody rated make the variances of the bots’ means "
        f"{percent(means.saved)} smaller, as {percent(1 / (1 - means.saved) - 1)} more ratings would."
    )


def _table(frame: StudyFrame, means: PoweredMeans) -> NamedTable:
    digits = digits_for(frame.headline.low, frame.headline.high)
    ends = percent(means.level)
    alone = {
        "raters": "one rater only",
        "conversations": "one conversation only",
        "raters_and_conversations": "one rater or unnamed conversation only",
    }[means.units]
    clusters = {
        "raters": "clustered by rater",
        "conversations": "clustered by conversation, for raters are not named",
        "raters_and_conversations": "clustered by rater, or conversation where nobody is named",
    }[means.units]
    headers = [Header("Bot")]
    headers += [
        Header(text, numeric=True)
        for text in (
            *("Ratings", "Unrated", "Mean of the ratings", ends),
            *("With predictions", ends, "Ratings saved"),
        )
    ]
    rows = []
    for bot in frame.rated_bots:
        one = means.bots.get(bot)
        if one is None:
            continue
        info, why = frame.bots[bot], said(one.reason)
        rows.append(
            [
                Cell(info.title, slot=info.slot, hollow=info.is_control),
                count_cell(one.n),
                count_cell(one.n_unrated),
                number_cell(one.ratings, digits),
                span_cell(one.ratings_low, one.ratings_high, digits, why=alone),
                number_cell(one.mean, digits, why),
                span_cell(one.low, one.high, digits, why=why),
                share_cell(one.saved, why=why or "the ratings do not vary"),
            ]
        )
    return NamedTable(
        "powered",
        f"{frame.headline.title} with and without predictions of unrated conversations",
        Table(headers, rows),
        method=(
            f"Prediction-powered means (PPI++; Angelopoulos, Duchi and Zrnic, 2023) by {_named(means.by)}, weighted "
            f"anew for each bot. Both intervals by Student’s t, {clusters}. Ratings saved: the share of the ratings "
            "that the same precision would do without; below 0 where predictions cost precision."
        ),
        note=(
            "True where rated and unrated conversations were drawn alike. Choose what predicts before you look: the "
            "best of many looks better than it is."
        )
        + (f" {one_look()}" if is_collecting(frame.study) else ""),
    )
