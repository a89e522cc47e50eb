"""The numbers above a report, each with its interval, and those that a later report is compared by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.analysis.agreement import RaterAgreement
from evaluation.analysis.comparisons import BotMeans
from evaluation.analysis.pairs import PairResults
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.printing import digits_for, figure, percent, span
from evaluation.stats.agreement import Agreement
from evaluation.stats.proportion import share_interval
from webapp.dashboard import counts
from webapp.dashboard.reporting.document import Headline, count_headline, share_headline
from webapp.dashboard.selectors import study_cards
from webapp.dashboard.wording.hybrid import target_in_words
from webapp.dashboard.wording.hybrid_tables import intercept_in_words
from webapp.dashboard.wording.reasons import said
from webapp.results.study_data import StudyFrame
from webapp.runs.selectors.fits import fit_leading
from webapp.studies.selectors import judges_items

_LEVEL = 0.95


def headlines_of(
    frame: StudyFrame, agreement: RaterAgreement, means: BotMeans
) -> tuple[Headline, ...]:
    """Return four numbers to stand above the report, then the bots' means."""
    cards = study_cards(
        frame.study, include_synthetic=frame.include_synthetic, without=frame.without
    )
    rated = "items rated" if judges_items(frame.study) else "conversations rated"
    shown = [
        count_headline("n", frame.facts.n_conversations, rated),
        _agreement(agreement),
        _hybrid(frame),
    ]
    left = share_interval(cards.n_left, cards.n_over) if cards.n_over else None
    if cards.left_early is None or left is None:
        n = frame.facts.n_raters
        shown.append(count_headline("raters", n, "raters", why="not named"))
    else:
        ends = f"{percent(_LEVEL)}: [{percent(left[0])}, {percent(left[1])}]"
        shown.append(
            Headline(
                "left_early",
                percent(cards.left_early),
                "left before rating",
                cards.left_early,
                *left,
                ends,
            )
        )
    return (*shown, *_means(frame, means))


def headlines_of_pairs(results: PairResults) -> tuple[Headline, ...]:
    """Return the numbers above a report of judgements of pairs."""
    kappa = results.kappas[0].found if results.kappas else None
    what = "agreement, Cohen’s κ"
    return (
        count_headline("judgements", results.n, "judgements"),
        count_headline("n", results.n_items, "pairs judged"),
        Headline("kappa", "–", what, why="nobody judged the same pairs")
        if kappa is None
        else _of_agreement("kappa", kappa, what, results.level),
        count_headline("raters", results.n_raters, "raters", why="not named"),
    )


def _agreement(found: RaterAgreement) -> Headline:
    if found.same_conversation.value is not None:
        what = "agreement, Krippendorff’s α"
        return _of_agreement("alpha", found.same_conversation, what, _LEVEL)
    what = "reliability of the bots’ means, ICC(k)"
    return _of_agreement("icc", found.reliability_of_bots, what, _LEVEL)


def _of_agreement(key: str, found: Agreement, what: str, level: float) -> Headline:
    return share_headline(key, found.value, what, found.low, found.high, level, said(found.reason))


def _hybrid(frame: StudyFrame) -> Headline:
    fit = fit_leading(frame.study, frame.without)
    found: Mapping[str, Any] = (fit.result or {}) if fit is not None else {}
    if not found:
        return Headline("hybrid", "–", "hybrid metric", why="not fitted")
    pearson = found.get("bot_level", {}).get("pearson") or {}
    if pearson.get("r") is None or found["n_bots"] < FEW_BOTS:
        why = "no r over {bots}".format(bots=counts.bots(found["n_bots"]))
        return Headline("hybrid", "–", "hybrid metric", why=why)
    what = "hybrid metric of {target}, r over {bots}, {intercept}".format(
        target=target_in_words(found["target"], [d.key for d in frame.dimensions]),
        bots=counts.bots(found["n_bots"]),
        intercept=intercept_in_words(found),
    )
    low, high = pearson.get("ci95") or (None, None)
    why = "" if low is not None else said(pearson.get("reason")) or "no interval"
    return share_headline("hybrid", pearson["r"], what, low, high, _LEVEL, why)


def _means(frame: StudyFrame, means: BotMeans) -> list[Headline]:
    """Return the bots' means of what they are ranked by, best first; they stand in the first figure."""
    headline = frame.headline
    digits = digits_for(headline.low, headline.high)
    found = []
    for bot in frame.rated_bots:
        row = means.rows.get((bot, headline.key))
        if row is None:
            continue
        mean, low, high = row.interval.mean, row.interval.low, row.interval.high
        ends = "" if low is None else f"{percent(means.level)}: {span(low, high, digits)}"
        what = f"{frame.title(bot)}, mean {headline.title.lower()}"
        why = said(row.interval.reason)
        text = figure(mean, digits)
        found.append(
            Headline(f"mean:{bot}", text, what, mean, low, high, ends, why, is_shown=False)
        )
    return found
