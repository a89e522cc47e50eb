"""Tables of a hybrid fit by bot: expected means, influence diagnostics, and differences in self-play."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.hybrid.summary import ranks_only
from evaluation.number_format import figure, percent, share
from webapp.dashboard.charts.figure import Cell, Header, PageTable
from webapp.dashboard.charts.scatter import Ends, beyond_words
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import NamedTable, reason_text, span_cell
from webapp.ratings.selectors import BotInfo


def _bot_cell(bot: str, bots: Mapping[str, BotInfo]) -> Cell:
    info = bots.get(bot)
    return Cell(info.title if info else bot, slot=info.slot if info else 0)


def expected_table(result: Mapping[str, Any], bots: Mapping[str, BotInfo], scale: Ends = None) -> NamedTable | None:
    """Tabulate where each bot's mean is expected, from people and from self-play; None for fits that do not know.

    Args:
        scale: of the ratings, to say which predictions lie beyond its ends.
    """
    rows, notes = [], []
    for bot, one in result["bots"].items():
        human = one.get("adjusted_mean", one["human_mean"])
        sources = [("people", one)] if one.get("interval95_new") else []
        refused = [
            reason
            for reason in one.get("reasons", [])
            if isinstance(reason, Mapping) and reason["code"] == "selfplay_unchecked"
        ]
        if one.get("selfplay") or refused:
            sources.append(("itself", one.get("selfplay") or {}))
        notes += [f"{_bot_cell(bot, bots).text}: {reason_text(reason)}." for reason in refused]
        for source, found in sources:
            why = "" if found else reason_text(refused[0])
            unstated = "this preset states none"
            rows.append(
                [
                    _bot_cell(bot, bots),
                    Cell(source),
                    Cell(figure(human), raw=(human,)),
                    Cell(
                        figure(found.get("predicted_fold")),
                        why=why or beyond_words(found.get("predicted_fold"), scale),
                        raw=(found.get("predicted_fold"),),
                    ),
                    span_cell(*(found.get("interval95") or (None, None)), why=why or unstated),
                    span_cell(*(found.get("interval95_new") or (None, None)), why=why),
                    Cell(str(found.get("n_new", "–"))),
                ]
            )
    if not rows:
        return None
    headers = [
        Header("Bot"),
        Header("Talking to"),
        Header("Human mean", numeric=True),
        Header("Predicted", numeric=True),
        Header("95 %, true mean", numeric=True),
        Header("95 %, further ratings", numeric=True),
        Header("Further ratings", numeric=True),
    ]
    return NamedTable(
        "hybrid-expected",
        "Where each bot’s mean is expected",
        PageTable(headers, rows),
        method=_expected_method(result),
        note=" ".join(notes),
    )


def _expected_method(result: Mapping[str, Any]) -> str:
    """Describe the intervals, and any adjustment of human means for raters' habits."""
    found = result["bots"].values()
    if any(one.get("interval95") or one.get("selfplay") for one in found):
        told = (
            "Each bot without its own ratings, by the intercept of its fold. The first interval is of the bot’s true "
            "mean, the second of the mean of so many further ratings."
        )
    else:
        told = (
            "Each bot without its own ratings, by the intercept of its fold. The interval is of the mean of as many "
            "ratings as the bot has, by how far the predictions of the other bots are off."
        )
    habits = raters_in_words(result)
    return f"{told} {habits}" if habits else told


def raters_in_words(result: Mapping[str, Any]) -> str:
    """Say that human means are less the habits of their raters; empty where they are not, or nobody is named."""
    if not any("adjusted_mean" in bot for bot in result["bots"].values()):
        return ""
    if (result.get("pairs") or {}).get("clusters") == "conversations":
        return ""
    return "Human means less the habits of their raters."


def ranks_table(result: Mapping[str, Any], bots: Mapping[str, BotInfo]) -> NamedTable | None:
    """Tabulate the bots' predicted ranks by a fit of another study; None for a fit that predicts values."""
    if not ranks_only(result):
        return None
    played = any(one.get("rank_selfplay") is not None for one in result["bots"].values())
    keys = ["rank", *(["rank_selfplay"] if played else [])]
    last = len(result["bots"]) + 1
    rows = []
    for bot, one in sorted(result["bots"].items(), key=lambda pair: [pair[1].get(key) or last for key in keys]):
        human = one["human_mean"]
        rows.append(
            [
                _bot_cell(bot, bots),
                Cell(figure(human), why="it has no ratings" if human is None else "", raw=(human,)),
                *(
                    Cell(
                        "–" if one.get(key) is None else str(one[key]),
                        why="it could not be predicted" if one.get(key) is None else "",
                        raw=(one.get(key),),
                    )
                    for key in keys
                ),
            ]
        )
    headers = [
        Header("Bot"),
        Header("Human mean", numeric=True),
        Header("Rank, from people’s chats", numeric=True),
        *([Header("Rank, from self-play", numeric=True)] if played else []),
    ]
    return NamedTable(
        "hybrid-ranks",
        "The order of the predictions",
        PageTable(headers, rows),
        method=(
            "Places by the predictions, 1 is best. The fit is of another study, so the values that it predicts mean "
            "nothing here and are not shown."
        ),
    )


def carrying_table(result: Mapping[str, Any], bots: Mapping[str, BotInfo]) -> NamedTable | None:
    """Tabulate which bots carry a fit by least squares; None for other fits."""
    found = result.get("carrying")
    if not found:
        return None
    rows = [
        [
            _bot_cell(bot, bots),
            Cell(figure(one["cooks_distance"]), raw=(one["cooks_distance"],)),
            Cell(percent(one["leverage"]), raw=(one["leverage"],)),
            Cell(percent(one["n"] / found["n"]), raw=(one["n"] / found["n"],)),
        ]
        for bot, one in sorted(found["bots"].items(), key=lambda pair: -(pair[1]["cooks_distance"] or 0.0))
    ]
    headers = [
        Header("Bot"),
        Header("Cook’s distance", numeric=True),
        Header("Of the leverage", numeric=True),
        Header("Of the conversations", numeric=True),
    ]
    notes = []
    if found["condition"] is not None:
        notes.append(
            "Condition number of the standardised features: {condition}.".format(condition=f"{found['condition']:.1f}")
        )
    if found["conversations"]:
        first = found["conversations"][0]
        notes.append(
            "The single conversation that moves the fit most is {conversation}, of {bot}: Cook’s distance "
            "{distance}.".format(
                conversation=first["conversation"],
                bot=bots[first["bot"]].title if first["bot"] in bots else first["bot"],
                distance=figure(first["cooks_distance"]),
            )
        )
    return NamedTable(
        "hybrid-carrying",
        "Which bots carry the fit",
        PageTable(headers, rows),
        method=(
            "Of the fit on all rated conversations, by statsmodels. Leverage: how much the features alone give a "
            "bot’s ratings to say; above its share of conversations, it is unlike the others. Cook’s distance: how "
            "far predictions move without the bot, in squared standard errors for each coefficient."
        ),
        note=" ".join(notes),
    )


def selfplay_table(result: Mapping[str, Any]) -> NamedTable | None:
    """Tabulate how far self-play lies from conversations with people, block by block; None where nothing is known."""
    shifts = result.get("selfplay_shifts")
    if not shifts:
        return None
    rows = [[Cell(name), Cell(share(one["shift"])), Cell(share(one["widest"]))] for name, one in shifts.items()]
    headers = [
        Header("Block"),
        Header("Self-play differs by", numeric=True),
        Header("Furthest rated bot", numeric=True),
    ]
    return NamedTable(
        "hybrid-shifts",
        "How self-play differs from conversations with people",
        PageTable(headers, rows),
        method=(
            "Standard deviations within bots, root mean square over a block’s columns; the furthest rated bot from "
            "the centre of all, with people. There is no participant in self-play: turns of both sides are averaged."
        ),
        note=_values_note(result.get("values_selfplay")),
    )


def _values_note(values: Mapping[str, Any] | None) -> str:
    """Describe the accuracy of values predicted from self-play, and its effect on the intervals."""
    if not values:
        return ""
    told = []
    if values["q2"]["value"] is not None:
        told.append(
            "From self-play Q² is {q2}, and the mean absolute error {error}.".format(
                q2=share(values["q2"]["value"]), error=figure(values["mae"])
            )
        )
    if values["coverage95"]:
        told.append("{inside} of {of} bots lie in their 95 % intervals.".format(**values["coverage95"]))
    if values["added_variance"] is None:
        told.append("Too few bots have ratings and self-play to see how far such predictions err.")
    else:
        told.append(
            (
                "Intervals are widened by what the errors of the other rated bots on self-play show: a standard "
                "deviation of {added} over all."
            ).format(added=figure(values["added_variance"] ** 0.5))
        )
    return " ".join(told)


def worth_in_words(found: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """Return a prediction's effective number of ratings and the estimate by its errors, or None."""
    if not found:
        return None
    low, high = found["ci95"]
    if found["by_error"] is None:
        why = "Its errors are no larger than the noise of the human means."
    elif low is not None and high is not None:
        why = "By its errors {n} (95 %: {low} to {high}).".format(
            n=f"{found['by_error']:.0f}", low=f"{low:.0f}", high=f"{high:.0f}"
        )
    elif low is not None:
        why = "By its errors {n} (95 %: at least {low}).".format(n=f"{found['by_error']:.0f}", low=f"{low:.0f}")
    else:
        why = "By its errors {n}.".format(n=f"{found['by_error']:.0f}")
    return phrases.ratings_text(round(found["stated"])), why
