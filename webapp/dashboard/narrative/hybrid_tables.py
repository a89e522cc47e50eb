"""The tables beside a hybrid fit's figures: rivals, checks, and every dimension. One line names what one number is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.analysis.correlations import correlation_read, selfplay_bots
from evaluation.hybrid.bot_level import most_influential
from evaluation.hybrid.calibration import CONFLICT
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import figure, percent, share, span
from webapp.dashboard.charts.figure import Cell, Header, PageTable
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.hybrid_bots import worth_in_words
from webapp.dashboard.narrative.hybrid_verdict import INTERCEPTS
from webapp.dashboard.narrative.phrases import NamedTable, reason_text, share_cell, span_cell
from webapp.ratings.selectors import BotInfo

METHODS = {"pearson": "Pearson r", "spearman": "Spearman ρ", "kendall": "Kendall τ"}
_BASELINES = {
    "mean_of_the_other_bots": "Mean of the other bots",
    "words_per_human_turn": "Words per message",
    "log_words_per_human_turn": "Words per message, as logarithm",
    "number_of_turns": "Number of turns",
    "log_number_of_turns": "Number of turns, as logarithm",
    "group": "Which group the bot is of",
}


@dataclass(frozen=True, slots=True)
class Predictor:
    """One line of the table of predictors."""

    title: str
    r: str
    interval: str
    chance: str
    why: str
    is_metric: bool
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the table of checks: what was looked at, and what was found."""

    title: str
    found: str
    why: str = ""


def intercept_in_words(result: Mapping[str, Any]) -> str:
    """Say by which intercept a result's numbers are, to stand next to them."""
    return str(INTERCEPTS.get(result["intercept"], result["intercept"]))


def predictor(title: str, found: Mapping[str, Any], is_metric: bool) -> Predictor:
    """Return a line of a correlation as the document holds it."""
    ci = found.get("ci95")
    null95 = found.get("null95")
    return Predictor(
        title,
        share(found.get("r")),
        span(*ci, shares=True) if ci else "–",
        share(null95) if null95 is not None else "–",
        reason_text(found.get("reason")),
        is_metric,
        found.get("r"),
    )


def predictors_of(result: Mapping[str, Any]) -> list[Predictor]:
    """Return the metric and its rivals on conversations with people."""
    rows = [predictor("Hybrid metric", result["bot_level"].get("pearson", {}), True)]
    return rows + _rivals(result.get("baselines"))


def predictors_selfplay(result: Mapping[str, Any]) -> list[Predictor]:
    """Return the metric and its rivals on self-play, where the fit was applied to some."""
    selfplay = result.get("bot_level_selfplay")
    if not selfplay:
        return []
    n = selfplay_bots(result)
    if n < FEW_BOTS:
        few = {"reason": f"too few: {phrases.bots_text(n)}"}
        return [predictor("Hybrid metric on self-play", few, True)]
    rows = [predictor("Hybrid metric on self-play", selfplay.get("pearson", {}), True)]
    return rows + _rivals(result.get("baselines_selfplay"))


def _rivals(baselines: Mapping[str, Any] | None) -> list[Predictor]:
    return [
        predictor(
            str(_BASELINES.get(name, name.replace("_", " ").capitalize())),
            found["bot_level"].get("pearson", {}),
            False,
        )
        for name, found in (baselines or {}).items()
    ]


def checks_of(result: Mapping[str, Any], bots: Mapping[str, BotInfo]) -> list[Check]:
    """Return the checks: both intercepts, the ceiling, the bot on which most hangs, and what was chosen."""
    rows = []
    for kind, found in result.get("intercepts", {}).items():
        pearson = found["bot_level"]["pearson"]
        why = ["This fit’s own."] if kind == result["intercept"] else []
        if pearson.get("null95") is not None:
            why.append("Chance passes {r} once in twenty.".format(r=share(pearson.get("null95"))))
        title = f"r, {INTERCEPTS[kind]}"
        rows.append(Check(title, share(pearson.get("r")), " ".join(why)))
    ceiling = result.get("ceiling") or {}
    if ceiling:
        why_ceiling = reason_text(ceiling.get("reason")) or "People’s means agree with themselves that well."
        title = "r that perfect predictions would reach"
        rows.append(Check(title, share(ceiling["best_r"]), why_ceiling))
    over = result.get("bot_level_ci95_over_conversations")
    if over:
        told = "95 % interval. The one over other bots stands above."
        rows.append(Check("r, other conversations of these bots", span(*over, shares=True), told))
    within = result.get("within_group")
    if within:
        rows.append(Check("r within groups of bots", share(within.get("r")), reason_text(within.get("reason"))))
    for level, influence, title in (
        ("bot_level", "influence", "r without {bot}"),
        ("bot_level_selfplay", "influence_selfplay", "r on self-play without {bot}"),
    ):
        changes = result.get(influence) or {}
        r, bot = _r(result.get(level)), most_influential(changes)
        if bot is not None and r is not None:
            name = bots[bot].title if bot in bots else bot
            why_bot = "The bot whose leaving changes r most."
            rows.append(Check(title.format(bot=name), share(r + changes[bot]), why_bot))
    return [*rows, *_values_of(result), *choices_of(result)]


def _values_of(result: Mapping[str, Any]) -> list[Check]:
    """Return checks of the predicted values; empty for fits of earlier versions without them."""
    q2 = result.get("q2") or {}
    if q2.get("value") is None:
        return []
    rows = [
        Check(
            "Q², values predicted against the mean of the other bots",
            share(q2["value"]),
            "Chance passes {r} once in twenty.".format(r=share(q2["null95"])) if q2["null95"] is not None else "",
        ),
        Check(
            "Mean absolute error",
            figure(result["mae"]),
            "The mean of the other bots is off by {error}.".format(error=figure(result["mae_of_mean"])),
        ),
    ]
    slope = result["slope"]
    if slope["value"] is not None:
        words = (
            "95 %: {ends}. Above 1, differences are predicted too small.".format(ends=span(*slope["ci95"], shares=True))
            if slope["ci95"]
            else "Above 1, differences are predicted too small; {why}.".format(why=reason_text(slope.get("reason")))
        )
        rows.append(Check("Slope of human on predicted means", share(slope["value"]), words))
    inside = result["coverage95"]
    if inside:
        rows.append(
            Check(
                "Bots inside their own 95 % interval",
                "{n} of {all}".format(n=inside["inside"], all=inside["of"]),
                "Each predicted without its ratings.",
            )
        )
    partial = result["partial_r"] or {}
    if partial.get("r") is not None:
        why = _with_ends("What is left when turns and words, as logarithms, are taken into account.", partial)
        rows.append(Check("r given the length of conversations", share(partial["r"]), why))
    within = result["within_bots"] or {}
    if within.get("r") is not None:
        why = _with_ends(
            "Of single conversations with their ratings, each less its bot’s mean.",
            within,
        )
        rows.append(Check("r of conversations within bots", share(within["r"]), why))
    worth = worth_in_words(result.get("ratings_worth"))
    if worth is not None:
        rows.append(Check("What a prediction is worth, median over bots", *worth))
    for name, found in result["block_shares"].items():
        title = "Share of the block “{name}” in what differs between bots"
        why = "By another prior {share}: with few bots it depends on the prior."
        told = why.format(share=percent(found["share_flat_prior"]))
        rows.append(Check(title.format(name=name), percent(found["share"]), told))
    return rows


def _with_ends(why: str, found: Mapping[str, Any]) -> str:
    """Return the words with the interval of a correlation before them, or why it has none."""
    if found.get("ci95"):
        ends = "95 %: {ends}.".format(ends=span(*found["ci95"], shares=True))
    elif found.get("reason"):
        ends = "No interval: {why}.".format(why=reason_text(found["reason"]))
    else:
        return why
    return f"{ends} {why}"


def _r(levels: Mapping[str, Any] | None) -> float | None:
    return ((levels or {}).get("pearson") or {}).get("r")


def choices_of(result: Mapping[str, Any]) -> list[Check]:
    """Return the penalties that nested leave-bot-out chose, over the folds."""
    penalties = [fold["penalty"] for fold in result.get("folds", []) if "penalty" in fold]
    if not penalties:
        return []
    low, high = min(penalties), max(penalties)
    found = f"{low:g}" if low == high else f"{low:g} – {high:g}"
    why = "Per conversation; chosen in each fold without its bot."
    return [Check("Penalty", found, why)]


def combined_table(result: Mapping[str, Any], bots: Mapping[str, BotInfo]) -> NamedTable | None:
    """Tabulate each bot's mean by its ratings alone, and by ratings and prediction together; None for other fits."""
    known = {bot: found["combined"] for bot, found in result["bots"].items() if found.get("combined")}
    if not known:
        return None
    rows = []
    for bot, found in sorted(known.items(), key=lambda one: -one[1]["mean"]):
        info = bots.get(bot)
        rows.append(
            [
                Cell(info.title if info else bot, slot=info.slot if info else 0),
                Cell(figure(found["ratings_mean"]), raw=(found["ratings_mean"],)),
                span_cell(*found["ratings_ci95"]),
                Cell(figure(found["mean"]), raw=(found["mean"],)),
                span_cell(*found["ci95"]),
                Cell(f"{found['ratings_worth']:.0f}", raw=(found["ratings_worth"],)),
            ]
        )
    headers = [
        Header("Bot"),
        Header("Ratings alone", numeric=True),
        Header("95 %", numeric=True),
        Header("With the prediction", numeric=True),
        Header("95 %", numeric=True),
        Header("Worth, in ratings", numeric=True),
    ]
    return NamedTable(
        "hybrid-combined",
        "Ratings and prediction together",
        PageTable(headers, rows),
        method=(
            "Empirical Bayes: each bot predicted by the others, weighed with its own ratings by their precision. "
            "Worth: how many further ratings would narrow the interval as much."
        ),
        note=_note([bots[bot].title if bot in bots else bot for bot, found in known.items() if found["conflict"]]),
    )


def _note(contradicted: list[str]) -> str:
    """Describe the use of means that combine ratings and prediction, and the bots to exclude."""
    told = (
        "It holds for bots like the others. Such a mean never stands alone behind “A is better than B”: that needs the "
        "ratings of both."
    )
    if not contradicted:
        return told
    return f"{told} " + (
        "Ratings and prediction contradict each other for {bots}, by more than {n} standard errors: neither interval "
        "can be trusted there; collect more ratings."
    ).format(bots=", ".join(contradicted), n=CONFLICT)


def dimensions_table(result: Mapping[str, Any], titles: Mapping[str, str]) -> NamedTable | None:
    """Tabulate r of the metric with every rating dimension, from rated conversations and from self-play.

    Args:
        titles: the dimensions' titles by key.
    """
    found = result.get("dimensions") or {}
    if not found or result["n_bots"] < FEW_BOTS:
        return None
    chats = result.get("dimensions_conversation_level") or {}
    played = result.get("bot_level_selfplay") and selfplay_bots(result) >= FEW_BOTS
    headers = [Header("Dimension"), Header("r, bots", numeric=True)]
    headers.append(Header("95 %", numeric=True))
    if played:
        headers += [Header("r, bots, self-play", numeric=True), Header("95 %", numeric=True)]
    headers += [Header("ρ, conversations", numeric=True), Header("r, within bots", True)]
    rows = []
    for name in found:
        cells = [Cell(titles.get(name, name.replace("_", " ").capitalize()))]
        for source in ("predicted", *(["predicted_selfplay"] if played else [])):
            value = correlation_read((found[name].get(source) or {}).get("pearson"))
            cells.append(share_cell(value.r, 2, reason_text(value.reason)))
            cells.append(span_cell(value.low, value.high, shares=True, why=reason_text(value.reason)))
        for method in ("spearman", "within_bots"):
            value = correlation_read((chats.get(name) or {}).get(method))
            cells.append(share_cell(value.r, 2, reason_text(value.reason)))
        rows.append(cells)
    return NamedTable(
        "hybrid-dimensions",
        "With every rating",
        PageTable(headers, rows),
        method="Predictions of {target} against each rating, {intercept}.".format(
            target=result["target"].replace(",", ", ").replace("_", " "),
            intercept=intercept_in_words(result),
        ),
    )
