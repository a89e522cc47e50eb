"""Tables of a hybrid fit: predictors, checks, bots, blocks and dimensions.

Each row is one number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from evaluation.analysis.correlations import selfplay_bots
from evaluation.data.result_tables import (
    Cell,
    NamedTable,
    count_cell,
    declared_table,
    number_cell,
    share_cell,
    span_cell,
)
from evaluation.hybrid.bot_level import most_influential
from evaluation.hybrid.calibration import CONFLICT
from evaluation.hybrid.summary import ranks_only
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import figure, percent, share, span
from webapp.insights.charts.scatter import Ends, beyond_words
from webapp.insights.narrative import phrases
from webapp.insights.narrative.hybrid_verdict import INTERCEPTS, RIVALS
from webapp.insights.narrative.phrases import reason_text
from webapp.ratings.selectors import BotInfo

Bots = Mapping[str, BotInfo]
Result = Mapping[str, Any]
"""`HybridResult.to_json()`."""

METHODS = {"pearson": "Pearson r", "spearman": "Spearman ρ", "kendall": "Kendall τ"}


def bot_cell(bot: str, bots: Bots) -> Cell:
    """Make a cell of a bot with its mark."""
    info = bots.get(bot)
    return Cell(info.title, slot=info.slot, hollow=info.is_control) if info else Cell(bot)


def intercept_in_words(result: Result) -> str:
    """Describe the intercept of a result's numbers."""
    return str(INTERCEPTS.get(result["intercept"], result["intercept"]))


def metric_level(result: Result, level: str = "bot_level") -> Result:
    """Return Pearson's r over bots of a fit.

    If it is missing, the reason.

    Args:
        level: part of a fit's document, `bot_level` or `bot_level_selfplay`.
    """
    if not result.get(level):
        return {"reason": "not applied to self-play"}
    n = result["n_bots"] if level == "bot_level" else selfplay_bots(result)
    if n < FEW_BOTS:
        return {"reason": f"too few: {phrases.bots_text(n)}"}
    return result[level].get("pearson") or {}


def rival_of(result: Result) -> Result | None:
    """Return the finding of a fit's verdict on the strongest rival."""
    verdict = result.get("verdict")
    findings = verdict["findings"] if isinstance(verdict, Mapping) else []
    return next((finding for finding in findings if finding["code"] == "rival"), None)


def rival_cell(name: str) -> Cell:
    """Make a cell with the name of a rival, or of the metric."""
    words = RIVALS.get(name, name)
    return Cell(words[:1].upper() + words[1:])


def correlation_cells(correlation: Result) -> list[Cell]:
    """Make the cells of r, its interval, and its chance level."""
    reason = reason_text(correlation.get("reason"))
    return [
        share_cell(correlation.get("r"), reason=reason),
        ends_cell(correlation.get("ci95"), reason or "not reported by this fit", shares=True),
        share_cell(correlation.get("null95"), reason=reason or "not reported by this fit"),
    ]


def predictors_table(result: Result) -> NamedTable | None:
    """Tabulate the metric and its rivals.

    Over bots and on self-play; the metric also over conversations.
    """
    sources: dict[str, tuple[str, Any, str]] = {"bots": ("bot_level", result, "rivals")}
    if result.get("bot_level_selfplay"):
        sources["bots, from self-play"] = ("bot_level_selfplay", result.get("values_selfplay"), "rivals_selfplay")
    rows: list[tuple[str, str, Result, Result]] = []
    for over, (level, values, rivals) in sources.items():
        if result["n_bots"] < FEW_BOTS:
            break
        correlation = metric_level(result, level)
        accuracy = {"q2": ((values or {}).get("q2") or {}).get("value"), "mae": (values or {}).get("mae")}
        rows.append(("Hybrid metric", over, correlation, accuracy if correlation.get("r") is not None else {}))
        if "reason" not in correlation:
            rows += [(name, over, rival, rival) for name, rival in (result.get(rivals) or {}).items()]
    if result["n_conversations"]:
        rows += [
            (METHODS[name], "conversations", method_correlation, {})
            for name, method_correlation in result["conversation_level"].items()
        ]
    if not rows:
        return None
    return declared_table(
        "predictors",
        "Comparison with conversation length",
        rows,
        ("Predictor", lambda row: rival_cell(row[0])),
        ("Over", lambda row: Cell(row[1])),
        ("r", lambda row: correlation_cells(row[2])[0]),
        ("95 %", lambda row: correlation_cells(row[2])[1]),
        ("null, 95 %", lambda row: correlation_cells(row[2])[2]),
        ("Q²", lambda row: share_cell(row[3].get("q2"))),
        ("Mean error", lambda row: number_cell(row[3].get("mae"))),
        ("Error ratio", lambda row: number_cell((row[3].get("error_ratio") or {}).get("value"))),
        ("95 %", lambda row: ends_cell((row[3].get("error_ratio") or {}).get("ci95"))),
        method=(
            f"{'Compared with the current ratings. ' if is_given(result) else ''}Each bot is predicted without its "
            f"own ratings. r of the metric uses {intercept_in_words(result)}, r of the others one intercept for all "
            "folds. Null: the value exceeded by permuted ratings in one fit of twenty. Error ratio: root mean square "
            "error of the metric divided by that of this predictor. The metric is clearly better if the whole "
            "interval is below 1. Self-play has no participant, so the bot’s own turns count."
        ),
    )


def checks_table(result: Result, bots: Bots) -> NamedTable | None:
    """Tabulate checks of the correlation over bots.

    None for fits of earlier versions without them.
    """
    checks = [*(_checks(result, bots) if result["n_bots"] >= FEW_BOTS else ()), *_penalties(result)]
    if not checks:
        return None
    return declared_table(
        "checks",
        "Checks",
        checks,
        ("Check", lambda check: Cell(check[0])),
        ("Value", lambda check: Cell(check[1])),
        ("Meaning", lambda check: Cell(check[2])),
        method="Checks of the correlation over bots.",
    )


Check = tuple[str, str, str]
"""Check of a fit: title, formatted value, and meaning."""


def _checks(result: Result, bots: Bots) -> Iterator[Check]:
    for kind, fit_levels in result.get("intercepts", {}).items():
        if kind != result["intercept"]:  # the fit's own intercept is one of the predictors
            pearson = fit_levels["bot_level"]["pearson"]
            yield f"r, {INTERCEPTS[kind]}", share(pearson.get("r")), _chance(pearson.get("null95"))
    if ceiling := result.get("ceiling"):
        reason = reason_text(ceiling.get("reason")) or "Limited by the reliability of the human means."
        yield "Highest possible r (perfect predictions)", share(ceiling["best_r"]), reason
    if over := result.get("bot_level_ci95_over_conversations"):
        yield "r for other conversations of these bots", span(*over, shares=True), "95 % interval for the same bots."
    if within := result.get("within_group"):
        yield "r within groups of bots", share(within.get("r")), reason_text(within.get("reason"))
    for level, influence, title in (
        ("bot_level", "influence", "r without {bot}"),
        ("bot_level_selfplay", "influence_selfplay", "r on self-play without {bot}"),
    ):
        changes = result.get(influence) or {}
        r = ((result.get(level) or {}).get("pearson") or {}).get("r")
        bot = most_influential(changes)
        if bot is not None and r is not None:
            title = title.format(bot=bots[bot].title if bot in bots else bot)
            yield title, share(r + changes[bot]), "The bot whose exclusion changes r most."
    if (result.get("q2") or {}).get("value") is not None:  # fits of earlier versions predict no values
        yield from _value_checks(result)


def _value_checks(result: Result) -> Iterator[Check]:
    """Yield checks of the predicted values."""
    q2, slope = result["q2"], result["slope"]
    yield (
        "Q², predicted values compared with the mean of the other bots",
        share(q2["value"]),
        _chance(q2["null95"]) or NO_Q2_CHANCE,
    )
    mean_error = f"Predicting the mean of the other bots has an error of {figure(result['mae_of_mean'])}."
    yield "Mean absolute error", figure(result["mae"]), mean_error
    if slope["value"] is not None:
        above = "Above 1, the predicted differences are too small."
        yield "Slope of human means on predicted means", share(slope["value"]), _with_ends(above, slope)
    if inside := result["coverage95"]:
        n_inside = f"{inside['inside']} of {inside['of']}"
        yield "Bots inside their own 95 % interval", n_inside, "Each bot is predicted without its own ratings."
    for name, title, meaning in (
        (
            "partial_r",
            "Partial r, controlling for conversation length",
            "Controls for the logarithms of turns and words.",
        ),
        (
            "within_bots",
            "r of single conversations within bots",
            "Predictions and ratings of single conversations, each minus the bot’s mean.",
        ),
    ):
        partial = result[name] or {}
        if partial.get("r") is not None:
            yield title, share(partial["r"]), _with_ends(meaning, partial)
    if worth := result.get("ratings_worth"):
        yield "Worth of a prediction in ratings, median over bots", *_describe_worth(worth)
    for name, block in result["block_shares"].items():
        title = f"Share of block “{name}” in the variance between bots"
        meaning = (
            f"With another prior {percent(block['share_flat_prior'])}: with few bots the share depends on the prior."
        )
        yield title, percent(block["share"]), meaning


NO_Q2_CHANCE = (
    "There is no chance level, because the ratings of an applied fit cannot be permuted. Any Q² above 0 is a gain."
)


def _chance(null95: float | None) -> str:
    return "" if null95 is None else f"By chance, the value exceeds {share(null95)} once in twenty."


def _with_ends(text: str, estimate: Result) -> str:
    """Return the text after the interval, or after the reason for none."""
    if estimate.get("ci95"):
        return f"95 %: {span(*estimate['ci95'], shares=True)}. {text}"
    if estimate.get("reason"):
        return f"No interval: {reason_text(estimate['reason']).removeprefix('no interval: ')}. {text}"
    return text


def _describe_worth(worth: Result) -> tuple[str, str]:
    """Return a prediction's effective number of ratings.

    It comes with the estimate by its errors.
    """
    low, high = worth["ci95"]
    if worth["by_error"] is None:
        by_error_text = "Its errors are no larger than the noise of the human means."
    else:
        ends = "" if low is None else f" (95 %: at least {low:.0f})"
        if low is not None and high is not None:
            ends = f" (95 %: {low:.0f} to {high:.0f})"
        by_error_text = f"Estimated from its errors: {worth['by_error']:.0f}{ends}."
    return phrases.ratings_text(round(worth["stated"])), by_error_text


def _penalties(result: Result) -> Iterator[Check]:
    """Yield the penalties that nested leave-bot-out chose, over the folds."""
    penalties = [fold["penalty"] for fold in result.get("folds", []) if "penalty" in fold]
    if penalties:
        low, high = min(penalties), max(penalties)
        penalty_text = f"{low:g}" if low == high else f"{low:g} – {high:g}"
        yield "Penalty", penalty_text, "Per conversation, selected in each fold without the left-out bot."


def combined_table(result: Result, bots: Bots) -> NamedTable | None:
    """Tabulate means by ratings alone and combined with predictions.

    None for other fits.
    """
    known = {bot: prediction["combined"] for bot, prediction in result["bots"].items() if prediction.get("combined")}
    if not known:
        return None
    note = (
        "Valid for bots similar to the others. Such a mean alone never supports “A is better than B”, which needs "
        "ratings of both bots."
    )
    if contradicted := [bot_cell(bot, bots).text for bot, combined_mean in known.items() if combined_mean["conflict"]]:
        note += (
            f" Ratings and prediction contradict each other for {', '.join(contradicted)}, by more than {CONFLICT} "
            "standard errors. Neither of these intervals can be trusted; collect more ratings."
        )
    return declared_table(
        "hybrid-combined",
        "Ratings and prediction together",
        sorted(known.items(), key=lambda row: -row[1]["mean"]),
        ("Bot", lambda row: bot_cell(row[0], bots)),
        ("Ratings alone", lambda row: number_cell(row[1]["ratings_mean"])),
        ("95 %", lambda row: span_cell(*row[1]["ratings_ci95"])),
        ("With the prediction", lambda row: number_cell(row[1]["mean"])),
        ("95 %", lambda row: span_cell(*row[1]["ci95"])),
        ("Worth, in ratings", lambda row: number_cell(row[1]["ratings_worth"], 0)),
        method=(
            "Empirical Bayes: the prediction from the other bots and the bot’s own ratings, weighted by their "
            "precision. Worth: number of additional ratings that would narrow the interval by the same amount."
        ),
        note=note,
    )


def expected_table(result: Result, bots: Bots, scale: Ends = None) -> NamedTable | None:
    """Tabulate each bot's expected mean, from people and self-play.

    None if unknown.

    Args:
        scale: scale of the ratings, to mark predictions outside it.
    """
    rows: list[tuple[str, str, float | None, Result, str]] = []
    notes = []
    for bot, prediction in result["bots"].items():
        human = prediction.get("adjusted_mean", prediction["human_mean"])
        refused = [reason_text(reason) for reason in prediction.get("reasons", []) if is_unchecked(reason)]
        notes += [f"{bot_cell(bot, bots).text}: {reason}." for reason in refused]
        if prediction.get("interval95_new"):
            rows.append((bot, "people", human, prediction, ""))
        if prediction.get("selfplay") or refused:
            selfplay = prediction.get("selfplay") or {}
            rows.append((bot, "itself", human, selfplay, "" if selfplay else refused[0]))
    if not rows:
        return None
    is_of_true_mean = any(
        prediction.get("interval95") or prediction.get("selfplay") for prediction in result["bots"].values()
    )
    interval = (
        (
            "The first interval is for the bot’s true mean, the second for the mean of the given number of "
            "additional ratings."
        )
        if is_of_true_mean
        else (
            "The interval is for the mean of as many ratings as the bot has. It is estimated from the prediction "
            "errors of the other bots."
        )
    )
    method = (
        f"Each bot is predicted without its own ratings, with the intercept of its fold. {interval} "
        f"{raters_in_words(result)}"
    )
    return declared_table(
        "hybrid-expected",
        "Expected mean of each bot",
        rows,
        ("Bot", lambda row: bot_cell(row[0], bots)),
        ("Talking to", lambda row: Cell(row[1])),
        ("Human mean", lambda row: number_cell(row[2])),
        ("Predicted", lambda row: _predicted_cell(row[3].get("predicted_fold"), row[4], scale)),
        (
            "95 %, true mean",
            lambda row: ends_cell(row[3].get("interval95"), row[4] or ("this preset gives no such interval")),
        ),
        ("95 %, additional ratings", lambda row: ends_cell(row[3].get("interval95_new"), row[4])),
        ("Additional ratings", lambda row: count_cell(row[3].get("n_new"), row[4])),
        method=method.strip(),
        note=" ".join(notes),
    )


def _predicted_cell(value: float | None, reason: str, scale: Ends) -> Cell:
    return Cell(figure(value), reason=reason or beyond_words(value, scale), raw=(value,))


def ends_cell(ends: Sequence[float] | None, reason: str = "", *, shares: bool = False) -> Cell:
    """Make a cell of a stored interval."""
    return span_cell(*(ends or (None, None)), shares=shares, reason=reason)


def is_unchecked(reason: Mapping[str, Any] | str) -> bool:
    """Return True if too few bots can check predictions from self-play.

    They need both ratings and self-play.
    """
    return isinstance(reason, Mapping) and reason["code"] == "selfplay_unchecked"


def raters_in_words(result: Result) -> str:
    """Describe the ratings and the adjustment of human means.

    Empty for ordinary means.
    """
    given_note = "Human means use the current ratings, not those of the fit." if is_given(result) else ""
    is_adjusted = any("adjusted_mean" in bot for bot in result["bots"].values())
    if not is_adjusted or (result.get("pairs") or {}).get("clusters") == "conversations":
        return given_note
    return f"{given_note} Human means are adjusted for rater effects.".strip()


def is_given(result: Result) -> bool:
    """Return True if a fit is compared with ratings other than its own."""
    return result.get("held_against") == "given"


def ranks_table(result: Result, bots: Bots) -> NamedTable | None:
    """Tabulate the bots' ranks predicted by another study's fit.

    None for a fit that predicts values.
    """
    if not ranks_only(result):
        return None
    titles = {"rank": "Rank, from people’s chats", "rank_selfplay": "Rank, from self-play"}
    keys = [
        key for key in titles if key == "rank" or any(prediction.get(key) for prediction in result["bots"].values())
    ]
    last = len(result["bots"]) + 1
    return declared_table(
        "hybrid-ranks",
        "Ranks of the predictions",
        sorted(result["bots"].items(), key=lambda row: [row[1].get(key) or last for key in keys]),
        ("Bot", lambda row: bot_cell(row[0], bots)),
        ("Human mean", lambda row: number_cell(row[1]["human_mean"], reason="no ratings")),
        *((titles[key], partial(_rank_cell, key)) for key in keys),
        method=(
            "Ranks of the predictions; 1 is best. The fit comes from another study, so its predicted values are "
            "meaningless here and are not shown."
        ),
    )


def _rank_cell(key: str, row: tuple[str, Result]) -> Cell:
    return count_cell(row[1].get(key), "no prediction possible")


def influence_table(result: Result, bots: Bots) -> NamedTable | None:
    """Tabulate each bot's influence on a least-squares fit.

    None for other fits.
    """
    influence = result.get("carrying")
    if not influence:
        return None

    notes = []
    if influence["condition"] is not None:
        notes.append(f"Condition number of the standardised features: {influence['condition']:.1f}.")
    if influence["conversations"]:
        first = influence["conversations"][0]
        notes.append(
            f"The most influential single conversation is {first['conversation']}, of "
            f"{bot_cell(first['bot'], bots).text}: Cook’s distance {figure(first['cooks_distance'])}."
        )
    return declared_table(
        "hybrid-carrying",
        "Influence of each bot on the fit",
        sorted(influence["bots"].items(), key=lambda row: -(row[1]["cooks_distance"] or 0.0)),
        ("Bot", lambda row: bot_cell(row[0], bots)),
        ("Cook’s distance", lambda row: number_cell(row[1]["cooks_distance"])),
        ("Share of leverage", lambda row: _percent_cell(row[1]["leverage"])),
        ("Share of conversations", lambda row: _percent_cell(row[1]["n"] / influence["n"])),
        method=(
            "For the fit on all rated conversations, by statsmodels. Leverage: potential influence of a bot’s "
            "ratings, given its features alone. A leverage above the share of conversations means that the bot is "
            "unlike the others. Cook’s distance: change of the predictions without the bot, in squared standard "
            "errors per coefficient."
        ),
        note=" ".join(notes),
    )


def _percent_cell(value: float) -> Cell:
    return Cell(percent(value), raw=(value,))


def selfplay_table(result: Result) -> NamedTable | None:
    """Tabulate the distance of self-play from human conversations by block.

    None if unknown.
    """
    shifts = result.get("selfplay_shifts")
    if not shifts:
        return None
    return declared_table(
        "hybrid-shifts",
        "Differences between self-play and conversations with people",
        shifts.items(),
        ("Block", lambda row: Cell(row[0])),
        ("Difference of self-play", lambda row: share_cell(row[1]["shift"])),
        ("Most distant rated bot", lambda row: share_cell(row[1]["widest"])),
        method=(
            "In standard deviations within bots, root mean square over the columns of a block. Most distant rated "
            "bot: distance from the centre of all bots, in conversations with people. Self-play has no participant, "
            "so the turns of both sides are averaged."
        ),
        note=" ".join(_selfplay_values(result.get("values_selfplay"))),
    )


def _selfplay_values(values: Result | None) -> Iterator[str]:
    """Describe the accuracy of values predicted from self-play.

    It also states the effect on the intervals.
    """
    if not values:
        return
    if values["q2"]["value"] is not None:
        q2, error = share(values["q2"]["value"]), figure(values["mae"])
        yield f"From self-play, Q² is {q2} and the mean absolute error is {error}."
    if values["coverage95"]:
        yield "{inside} of {of} bots are within their 95 % intervals.".format(**values["coverage95"])
    if values["added_variance"] is None:
        yield "Too few bots have both ratings and self-play to estimate the errors of these predictions."
    else:
        yield (
            "Intervals are widened by the errors of the other rated bots on self-play, an overall standard deviation "
            f"of {figure(values['added_variance'] ** 0.5)}."
        )


def dimensions_table(result: Result, titles: Mapping[str, str]) -> NamedTable | None:
    """Tabulate r of the metric with every rating dimension.

    From rated conversations and from self-play.

    Args:
        titles: the dimensions' titles by key.
    """
    dimensions = result.get("dimensions") or {}
    if not dimensions or result["n_bots"] < FEW_BOTS:
        return None
    chats = result.get("dimensions_conversation_level") or {}
    is_played = result.get("bot_level_selfplay") and selfplay_bots(result) >= FEW_BOTS
    columns = {"predicted": "r, bots", **({"predicted_selfplay": "r, bots, self-play"} if is_played else {})}
    target = result["target"].replace(",", ", ").replace("_", " ")

    def level(source: str, name: str) -> Result:
        return (dimensions[name].get(source) or {}).get("pearson") or {}

    return declared_table(
        "hybrid-dimensions",
        "Correlation with each rating dimension",
        dimensions,
        ("Dimension", lambda name: Cell(titles.get(name, name.replace("_", " ").capitalize()))),
        *(
            column
            for source, title in columns.items()
            for column in (
                (title, lambda name, source=source: correlation_cells(level(source, name))[0]),
                ("95 %", lambda name, source=source: correlation_cells(level(source, name))[1]),
            )
        ),
        ("ρ, conversations", lambda name: correlation_cells((chats.get(name) or {}).get("spearman") or {})[0]),
        ("r, within bots", lambda name: correlation_cells((chats.get(name) or {}).get("within_bots") or {})[0]),
        method=f"Predictions of {target} correlated with each rating dimension, {intercept_in_words(result)}.",
    )
