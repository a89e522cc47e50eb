"""Tables of a hybrid fit: predictors, checks, bots, blocks and dimensions. One line names what one number is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.analysis.correlations import correlation_read, selfplay_bots
from evaluation.hybrid.bot_level import most_influential
from evaluation.hybrid.calibration import CONFLICT
from evaluation.hybrid.summary import ranks_only
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import figure, percent, share, span
from webapp.dashboard.charts.figure import Cell, PageTable, headers_of
from webapp.dashboard.charts.scatter import Ends, beyond_words
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.hybrid_verdict import INTERCEPTS
from webapp.dashboard.narrative.phrases import NamedTable, number_cell, reason_text, share_cell, span_cell
from webapp.ratings.selectors import BotInfo

Bots = Mapping[str, BotInfo]
Result = Mapping[str, Any]
"""`HybridResult.to_json()`."""

METHODS = {"pearson": "Pearson r", "spearman": "Spearman ρ", "kendall": "Kendall τ"}
_BASELINES = {
    "mean_of_the_other_bots": "Mean of the other bots",
    "words_per_human_turn": "Words per message",
    "log_words_per_human_turn": "Words per message, as logarithm",
    "number_of_turns": "Number of turns",
    "log_number_of_turns": "Number of turns, as logarithm",
    "group": "Which group the bot is of",
}
LENGTHS = tuple(_BASELINES)[1:5]
"""Baselines that count words or turns."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """One line of the table of predictors."""

    name: str
    title: str
    r: str
    interval: str
    chance: str
    why: str
    value: float | None = None
    null95: float | None = None


def named_table(
    id: str, title: str, columns: Sequence[str], rows: list[list[Cell]], method: str = "", note: str = ""
) -> NamedTable:
    """Make a table.

    Args:
        columns: titles; those of columns of numbers end in `#`.
    """
    return NamedTable(id, title, PageTable(headers_of(*columns), rows), method, note)


def bot_cell(bot: str, bots: Bots) -> Cell:
    """Make a cell of a bot with its mark."""
    info = bots.get(bot)
    return Cell(info.title, slot=info.slot, hollow=info.is_control) if info else Cell(bot)


def intercept_in_words(result: Result) -> str:
    """Say by which intercept a result's numbers are, to stand next to them."""
    return str(INTERCEPTS.get(result["intercept"], result["intercept"]))


def predictor(name: str, title: str, found: Result) -> Predictor:
    """Return a line of a correlation as the document holds it."""
    ci, null95, r = found.get("ci95"), found.get("null95"), found.get("r")
    interval = span(*ci, shares=True) if ci else "–"
    return Predictor(name, title, share(r), interval, share(null95), reason_text(found.get("reason")), r, null95)


def predictors_of(result: Result) -> list[Predictor]:
    """Return the metric and its rivals on conversations with people."""
    return _predictors("Hybrid metric", result["bot_level"], result.get("baselines"))


def predictors_selfplay(result: Result) -> list[Predictor]:
    """Return the metric and its rivals on self-play, where the fit was applied to some."""
    if not result.get("bot_level_selfplay"):
        return []
    title, n = "Hybrid metric on self-play", selfplay_bots(result)
    if n < FEW_BOTS:
        return [predictor("", title, {"reason": f"too few: {phrases.bots_text(n)}"})]
    return _predictors(title, result["bot_level_selfplay"], result.get("baselines_selfplay"))


def _predictors(title: str, levels: Result, baselines: Result | None) -> list[Predictor]:
    rivals = [
        predictor(
            name, _BASELINES.get(name, name.replace("_", " ").capitalize()), found["bot_level"].get("pearson", {})
        )
        for name, found in (baselines or {}).items()
    ]
    return [predictor("", title, levels.get("pearson", {})), *rivals]


def predictors_table(result: Result) -> NamedTable | None:
    """Tabulate the metric beside trivial predictors, over bots, on self-play, and over conversations."""
    enough = result["n_bots"] >= FEW_BOTS
    over = {
        "bots": predictors_of(result) if enough else [],
        "bots, from self-play": predictors_selfplay(result) if enough else [],
        "conversations": [
            predictor(name, METHODS.get(name, name), found)
            for name, found in result["conversation_level"].items()
            if result["n_conversations"]
        ],
    }
    rows = [
        [
            Cell(one.title),
            Cell(unit),
            Cell(one.r, why=one.why if one.value is None else "", raw=(one.value,)),
            Cell(one.interval),
            Cell(one.chance),
        ]
        for unit, found in over.items()
        for one in found
    ]
    if not rows:
        return None
    return named_table(
        "predictors",
        "Against trivial predictors",
        ("Predictor", "Over", "r#", "95 %#", "null, 95 %#"),
        rows,
        f"Pearson’s r, {intercept_in_words(result)}; each bot predicted without its own ratings. Null: what permuted "
        "ratings pass once in twenty fits. In self-play there is no participant, so the bot’s own turns count.",
    )


def checks_table(result: Result, bots: Bots) -> NamedTable | None:
    """Tabulate what the correlation over bots depends on; None for fits of earlier versions without such numbers."""
    found = [*(_checks(result, bots) if result["n_bots"] >= FEW_BOTS else ()), *_penalties(result)]
    if not found:
        return None
    rows = [[Cell(title), Cell(value), Cell(why)] for title, value, why in found]
    columns = ("Check", "Found#", "Meaning")
    return named_table("checks", "Checks", columns, rows, "What the correlation over bots hangs on.")


Check = tuple[str, str, str]
"""A number: its title, its value in words, and what it says."""


def _checks(result: Result, bots: Bots) -> Iterator[Check]:
    for kind, found in result.get("intercepts", {}).items():
        if kind != result["intercept"]:  # the fit's own stands among the predictors
            pearson = found["bot_level"]["pearson"]
            yield f"r, {INTERCEPTS[kind]}", share(pearson.get("r")), _chance(pearson.get("null95"))
    if ceiling := result.get("ceiling"):
        why = reason_text(ceiling.get("reason")) or "People’s means agree with themselves that well."
        yield "r that perfect predictions would reach", share(ceiling["best_r"]), why
    if over := result.get("bot_level_ci95_over_conversations"):
        yield "r, other conversations of these bots", span(*over, shares=True), "95 % interval, of the same bots."
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
            yield title, share(r + changes[bot]), "The bot whose leaving changes r most."
    if (result.get("q2") or {}).get("value") is not None:  # fits of earlier versions predict no values
        yield from _value_checks(result)


def _value_checks(result: Result) -> Iterator[Check]:
    """Yield checks of the predicted values."""
    q2, slope = result["q2"], result["slope"]
    yield "Q², values predicted against the mean of the other bots", share(q2["value"]), _chance(q2["null95"])
    mean_error = f"The mean of the other bots is off by {figure(result['mae_of_mean'])}."
    yield "Mean absolute error", figure(result["mae"]), mean_error
    if slope["value"] is not None:
        above = "Above 1, differences are predicted too small."
        yield "Slope of human on predicted means", share(slope["value"]), _with_ends(above, slope)
    if inside := result["coverage95"]:
        found = f"{inside['inside']} of {inside['of']}"
        yield "Bots inside their own 95 % interval", found, "Each predicted without its ratings."
    for name, title, why in (
        (
            "partial_r",
            "r given the length of conversations",
            "What is left when turns and words, as logarithms, are taken into account.",
        ),
        (
            "within_bots",
            "r of conversations within bots",
            "Of single conversations with their ratings, each less its bot’s mean.",
        ),
    ):
        partial = result[name] or {}
        if partial.get("r") is not None:
            yield title, share(partial["r"]), _with_ends(why, partial)
    if worth := result.get("ratings_worth"):
        yield "What a prediction is worth, median over bots", *_worth(worth)
    for name, found in result["block_shares"].items():
        title = f"Share of the block “{name}” in what differs between bots"
        told = f"By another prior {percent(found['share_flat_prior'])}: with few bots it depends on the prior."
        yield title, percent(found["share"]), told


def _chance(null95: float | None) -> str:
    return "" if null95 is None else f"Chance passes {share(null95)} once in twenty."


def _with_ends(why: str, found: Result) -> str:
    """Return the words with the interval of a number before them, or why it has none."""
    if found.get("ci95"):
        return f"95 %: {span(*found['ci95'], shares=True)}. {why}"
    if found.get("reason"):
        return f"No interval: {reason_text(found['reason']).removeprefix('no interval: ')}. {why}"
    return why


def _worth(found: Result) -> tuple[str, str]:
    """Return a prediction's effective number of ratings, and the estimate by its errors."""
    low, high = found["ci95"]
    if found["by_error"] is None:
        why = "Its errors are no larger than the noise of the human means."
    else:
        ends = "" if low is None else f" (95 %: at least {low:.0f})"
        if low is not None and high is not None:
            ends = f" (95 %: {low:.0f} to {high:.0f})"
        why = f"By its errors {found['by_error']:.0f}{ends}."
    return phrases.ratings_text(round(found["stated"])), why


def _penalties(result: Result) -> Iterator[Check]:
    """Yield the penalties that nested leave-bot-out chose, over the folds."""
    penalties = [fold["penalty"] for fold in result.get("folds", []) if "penalty" in fold]
    if penalties:
        low, high = min(penalties), max(penalties)
        found = f"{low:g}" if low == high else f"{low:g} – {high:g}"
        yield "Penalty", found, "Per conversation; chosen in each fold without its bot."


def combined_table(result: Result, bots: Bots) -> NamedTable | None:
    """Tabulate each bot's mean by its ratings alone, and by ratings and prediction together; None for other fits."""
    known = {bot: found["combined"] for bot, found in result["bots"].items() if found.get("combined")}
    if not known:
        return None
    rows = [
        [
            bot_cell(bot, bots),
            number_cell(found["ratings_mean"]),
            span_cell(*found["ratings_ci95"]),
            number_cell(found["mean"]),
            span_cell(*found["ci95"]),
            number_cell(found["ratings_worth"], 0),
        ]
        for bot, found in sorted(known.items(), key=lambda one: -one[1]["mean"])
    ]
    note = (
        "It holds for bots like the others. Such a mean never stands alone behind “A is better than B”: that needs the "
        "ratings of both."
    )
    if contradicted := [bot_cell(bot, bots).text for bot, found in known.items() if found["conflict"]]:
        note += (
            f" Ratings and prediction contradict each other for {', '.join(contradicted)}, by more than {CONFLICT} "
            "standard errors: neither interval can be trusted there; collect more ratings."
        )
    return named_table(
        "hybrid-combined",
        "Ratings and prediction together",
        ("Bot", "Ratings alone#", "95 %#", "With the prediction#", "95 %#", "Worth, in ratings#"),
        rows,
        "Empirical Bayes: each bot predicted by the others, weighed with its own ratings by their precision. Worth: "
        "how many further ratings would narrow the interval as much.",
        note,
    )


def expected_table(result: Result, bots: Bots, scale: Ends = None) -> NamedTable | None:
    """Tabulate where each bot's mean is expected, from people and from self-play; None for fits that do not know.

    Args:
        scale: of the ratings, to say which predictions lie beyond its ends.
    """
    rows, notes = [], []
    for bot, one in result["bots"].items():
        human = one.get("adjusted_mean", one["human_mean"])
        sources = [("people", one)] if one.get("interval95_new") else []
        refused = [reason_text(reason) for reason in one.get("reasons", []) if is_unchecked(reason)]
        if one.get("selfplay") or refused:
            sources.append(("itself", one.get("selfplay") or {}))
        notes += [f"{bot_cell(bot, bots).text}: {reason}." for reason in refused]
        for source, found in sources:
            why, predicted = "" if found else refused[0], found.get("predicted_fold")
            rows.append(
                [
                    bot_cell(bot, bots),
                    Cell(source),
                    number_cell(human),
                    Cell(figure(predicted), why=why or beyond_words(predicted, scale), raw=(predicted,)),
                    span_cell(*(found.get("interval95") or (None, None)), why=why or "this preset states none"),
                    span_cell(*(found.get("interval95_new") or (None, None)), why=why),
                    Cell(str(found.get("n_new", "–"))),
                ]
            )
    if not rows:
        return None
    is_of_true_mean = any(one.get("interval95") or one.get("selfplay") for one in result["bots"].values())
    interval = (
        "The first interval is of the bot’s true mean, the second of the mean of so many further ratings."
        if is_of_true_mean
        else "The interval is of the mean of as many ratings as the bot has, by how far the predictions of the other "
        "bots are off."
    )
    method = f"Each bot without its own ratings, by the intercept of its fold. {interval} {raters_in_words(result)}"
    columns = ["Bot", "Talking to", "Human mean#", "Predicted#", "95 %, true mean#", "95 %, further ratings#"]
    columns.append("Further ratings#")
    title = "Where each bot’s mean is expected"
    return named_table("hybrid-expected", title, columns, rows, method.strip(), " ".join(notes))


def is_unchecked(reason: Mapping[str, Any] | str) -> bool:
    """Return True if too few rated bots have self-play to check predictions from it."""
    return isinstance(reason, Mapping) and reason["code"] == "selfplay_unchecked"


def raters_in_words(result: Result) -> str:
    """Say that human means are less the habits of their raters; empty where they are not, or nobody is named."""
    is_adjusted = any("adjusted_mean" in bot for bot in result["bots"].values())
    if not is_adjusted or (result.get("pairs") or {}).get("clusters") == "conversations":
        return ""
    return "Human means less the habits of their raters."


def ranks_table(result: Result, bots: Bots) -> NamedTable | None:
    """Tabulate the bots' predicted ranks by a fit of another study; None for a fit that predicts values."""
    if not ranks_only(result):
        return None
    titles = {"rank": "Rank, from people’s chats#", "rank_selfplay": "Rank, from self-play#"}
    if all(one.get("rank_selfplay") is None for one in result["bots"].values()):
        del titles["rank_selfplay"]
    last = len(result["bots"]) + 1
    rows = [
        [
            bot_cell(bot, bots),
            number_cell(one["human_mean"], why="it has no ratings"),
            *(phrases.count_cell(one.get(key), "it could not be predicted") for key in titles),
        ]
        for bot, one in sorted(result["bots"].items(), key=lambda pair: [pair[1].get(key) or last for key in titles])
    ]
    return named_table(
        "hybrid-ranks",
        "The order of the predictions",
        ("Bot", "Human mean#", *titles.values()),
        rows,
        "Places by the predictions, 1 is best. The fit is of another study, so the values that it predicts mean "
        "nothing here and are not shown.",
    )


def carrying_table(result: Result, bots: Bots) -> NamedTable | None:
    """Tabulate which bots carry a fit by least squares; None for other fits."""
    found = result.get("carrying")
    if not found:
        return None

    def percent_cell(value: float) -> Cell:
        return Cell(percent(value), raw=(value,))

    rows = [
        [
            bot_cell(bot, bots),
            number_cell(one["cooks_distance"]),
            percent_cell(one["leverage"]),
            percent_cell(one["n"] / found["n"]),
        ]
        for bot, one in sorted(found["bots"].items(), key=lambda pair: -(pair[1]["cooks_distance"] or 0.0))
    ]
    notes = []
    if found["condition"] is not None:
        notes.append(f"Condition number of the standardised features: {found['condition']:.1f}.")
    if found["conversations"]:
        first = found["conversations"][0]
        notes.append(
            f"The single conversation that moves the fit most is {first['conversation']}, of "
            f"{bot_cell(first['bot'], bots).text}: Cook’s distance {figure(first['cooks_distance'])}."
        )
    return named_table(
        "hybrid-carrying",
        "Which bots carry the fit",
        ("Bot", "Cook’s distance#", "Of the leverage#", "Of the conversations#"),
        rows,
        "Of the fit on all rated conversations, by statsmodels. Leverage: how much the features alone give a bot’s "
        "ratings to say; above its share of conversations, it is unlike the others. Cook’s distance: how far "
        "predictions move without the bot, in squared standard errors for each coefficient.",
        " ".join(notes),
    )


def selfplay_table(result: Result) -> NamedTable | None:
    """Tabulate how far self-play lies from conversations with people, block by block; None where nothing is known."""
    shifts = result.get("selfplay_shifts")
    if not shifts:
        return None
    return named_table(
        "hybrid-shifts",
        "How self-play differs from conversations with people",
        ("Block", "Self-play differs by#", "Furthest rated bot#"),
        [[Cell(name), Cell(share(one["shift"])), Cell(share(one["widest"]))] for name, one in shifts.items()],
        "Standard deviations within bots, root mean square over a block’s columns; the furthest rated bot from the "
        "centre of all, with people. There is no participant in self-play: turns of both sides are averaged.",
        " ".join(_selfplay_values(result.get("values_selfplay"))),
    )


def _selfplay_values(values: Result | None) -> Iterator[str]:
    """Describe the accuracy of values predicted from self-play, and its effect on the intervals."""
    if not values:
        return
    if values["q2"]["value"] is not None:
        q2, error = share(values["q2"]["value"]), figure(values["mae"])
        yield f"From self-play Q² is {q2}, and the mean absolute error {error}."
    if values["coverage95"]:
        yield "{inside} of {of} bots lie in their 95 % intervals.".format(**values["coverage95"])
    if values["added_variance"] is None:
        yield "Too few bots have ratings and self-play to see how far such predictions err."
    else:
        yield (
            "Intervals are widened by what the errors of the other rated bots on self-play show: a standard deviation "
            f"of {figure(values['added_variance'] ** 0.5)} over all."
        )


def dimensions_table(result: Result, titles: Mapping[str, str]) -> NamedTable | None:
    """Tabulate r of the metric with every rating dimension, from rated conversations and from self-play.

    Args:
        titles: the dimensions' titles by key.
    """
    found = result.get("dimensions") or {}
    if not found or result["n_bots"] < FEW_BOTS:
        return None
    chats = result.get("dimensions_conversation_level") or {}
    is_played = result.get("bot_level_selfplay") and selfplay_bots(result) >= FEW_BOTS
    columns = {"predicted": ("r, bots#", "95 %#"), "predicted_selfplay": ("r, bots, self-play#", "95 %#")}
    if not is_played:
        del columns["predicted_selfplay"]
    rows = []
    for name in found:
        cells = [Cell(titles.get(name, name.replace("_", " ").capitalize()))]
        for source in columns:
            value = correlation_read((found[name].get(source) or {}).get("pearson"))
            why = reason_text(value.reason)
            cells += [share_cell(value.r, 2, why), span_cell(value.low, value.high, shares=True, why=why)]
        for method in ("spearman", "within_bots"):
            value = correlation_read((chats.get(name) or {}).get(method))
            cells.append(share_cell(value.r, 2, reason_text(value.reason)))
        rows.append(cells)
    target = result["target"].replace(",", ", ").replace("_", " ")
    return named_table(
        "hybrid-dimensions",
        "With every rating",
        ("Dimension", *sum(columns.values(), ()), "ρ, conversations#", "r, within bots#"),
        rows,
        f"Predictions of {target} against each rating, {intercept_in_words(result)}.",
    )
