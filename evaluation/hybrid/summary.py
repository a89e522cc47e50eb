"""Summary of a fit: its lines of text and its drawings.

Both are rendered from the fit's document (`HybridResult.to_json`); the lines follow statsmodels' `summary()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from chatbots.text import quote
from evaluation.findings import findings_printed
from evaluation.hybrid.bot_level import INTERCEPT_NAMES
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import figure, percent, pluralise, share, span
from evaluation.plots.charts import ScatterPoint, Weight, scatter_drawing, weights_drawing
from evaluation.plots.marks import slots_of
from evaluation.plots.svg import Plot

SOURCES = {"conversations": "predicted", "selfplay": "predicted_selfplay"}
"""Sources of predictions, with the key of the prediction."""
RANKS = {"predicted": "rank", "predicted_selfplay": "rank_selfplay"}
"""Key of a bot's rank by source, for fits of another study, which give no values."""
LEVEL_OF = {"conversations": "bot_level", "selfplay": "bot_level_selfplay"}
"""Key of the correlation over bots by source."""


def points_of(result: Mapping[str, Any], source: str) -> list[ScatterPoint]:
    """Return the predicted bots, highest rated first, unrated ones last.

    Args:
        result: the document of a fit.
        source: `predicted` or `predicted_selfplay`.
    """
    if ranks_only(result):
        return _points_of_ranks(result, source)
    points = []
    for slot, (bot, row) in zip(slots_of(len(result["bots"])), result["bots"].items(), strict=True):
        if row[source] is None:
            continue
        points.append(
            ScatterPoint(
                title=bot,
                slot=slot,
                is_control=False,
                human=human_mean(row),
                human_span=_human_span(row),
                predicted=row[source],
                predicted_span=_predicted_span(row, source),
                n=row["n"] if source == "predicted" else row.get("n_selfplay", 0),
                says=f"{bot}\nhuman mean {figure(human_mean(row))}\npredicted {figure(row[source])}",
            )
        )
    return sorted(points, key=lambda point: (point.human is None, -(point.human or 0)))


def ranks_only(result: Mapping[str, Any]) -> bool:
    """Return True if bots only have ranks (fit of another study)."""
    return any("rank" in row for row in result["bots"].values())


def _points_of_ranks(result: Mapping[str, Any], source: str) -> list[ScatterPoint]:
    """Return the rated bots' ranks by ratings and by predictions.

    1 is the best.
    """
    key = RANKS[source]
    rated = {
        bot: (mean, row[key])
        for bot, row in result["bots"].items()
        if row.get(key) is not None and (mean := human_mean(row)) is not None
    }
    slots = dict(zip(result["bots"], slots_of(len(result["bots"])), strict=True))
    points = []
    for bot, (mean, rank) in rated.items():
        by_people = 1 + sum(other_mean > mean for other_mean, _ in rated.values())
        predicted = 1 + sum(other_rank < rank for _, other_rank in rated.values())
        row = result["bots"][bot]
        points.append(
            ScatterPoint(
                title=bot,
                slot=slots[bot],
                is_control=False,
                human=by_people,
                human_span=None,
                predicted=predicted,
                predicted_span=None,
                n=row["n"] if source == "predicted" else row.get("n_selfplay", 0),
                says=f"{bot}\nby people {by_people}\npredicted {predicted}",
            )
        )
    return sorted(points, key=lambda point: point.human or 0)


def human_mean(row: Mapping[str, Any]) -> float | None:
    """Return the human mean to compare with, adjusted for raters if available."""
    adjusted: float | None = row.get("adjusted_mean", row["human_mean"])
    return adjusted


def _predicted_span(row: Mapping[str, Any], source: str) -> tuple[float, float] | None:
    """Return the 90 % interval of the bot's true mean, or None.

    Such fits have an interval of the mean prediction instead, which could be mistaken for it; it is shown only for
    unrated bots, with its name.
    """
    expected = row if source == "predicted" else row.get("selfplay") or {}
    if human_mean(row) is not None and not expected.get("interval95"):
        return None
    return _pair(row.get(f"{source}_ci90"))


def _human_span(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the human mean's 90 % interval, from its 95 % interval."""
    # In fits of earlier versions this interval exists only with the combined mean.
    ends = row.get("adjusted_ci95") or (row.get("combined") or {}).get("ratings_ci95")
    if not ends or row.get("adjusted_mean") is None:
        return _pair(row.get("human_ci90"))
    normal = NormalDist()
    half = (ends[1] - ends[0]) / 2 * normal.inv_cdf(0.95) / normal.inv_cdf(0.975)
    return row["adjusted_mean"] - half, row["adjusted_mean"] + half


WEIGHT_UNIT = "Points of the rating per standard deviation of the feature"


def weights_of(result: Mapping[str, Any]) -> list[Weight]:
    """Return the features' titled weights per standard deviation, largest first."""
    weights = [
        Weight(name, coefficient["scaled_mean"], *(coefficient.get("scaled_ci90") or (None, None)))
        for name, coefficient in result["coefficients"].items()
        if coefficient.get("scaled_mean") is not None
    ]
    return sorted(weights, key=lambda weight: -weight.mean)


def predictions_plot(result: Mapping[str, Any], source: str = "conversations") -> Plot:
    """Draw predicted against human means, one point per rated bot.

    Args:
        result: the document of a fit.
        source: `conversations` (with people) or `selfplay`.

    Raises:
        ValueError: if the source is unknown or the fit has no prediction from it.
    """
    if source not in SOURCES:
        raise ValueError(f"source is {quote(source)}; it must be one of {', '.join(SOURCES)}")
    points = [point for point in points_of(result, SOURCES[source]) if point.human is not None]
    if not points:
        raise ValueError(f"no rated bot is predicted from {source}, so there is nothing to draw")
    r = ((result.get(LEVEL_OF[source]) or {}).get("pearson") or {}).get("r")
    x_title, y_title = f"human mean of {result['target']}", "predicted, bot left out"
    if source == "selfplay":
        y_title = "predicted from self-play"
    if ranks_only(result):
        x_title, y_title = f"rank by people, 1 is best, {result['target']}", "rank predicted"
    return Plot.from_drawing(
        scatter_drawing(
            points,
            515,
            390,
            x_title=x_title,
            y_title=y_title,
            name=f"Predicted against human means of {pluralise(len(points), 'bot')}, r = {share(r)}",
        )
    )


def weights_plot(result: Mapping[str, Any]) -> Plot:
    """Draw the features' weights per standard deviation, with intervals.

    Raises:
        ValueError: if no feature has a weight.
    """
    weights = weights_of(result)
    if not weights:
        raise ValueError("no feature has a weight, so there is nothing to draw")
    widest = weights[0]
    return Plot.from_drawing(
        weights_drawing(
            weights,
            380,
            unit=WEIGHT_UNIT,
            name=f"Weights of {pluralise(len(weights), 'feature')}; the largest is {widest.title}, "
            f"{share(widest.mean)} {span(widest.low, widest.high, shares=True)}",
        )
    )


def _pair(value: Any) -> tuple[float, float] | None:
    return (value[0], value[1]) if value else None


LEVELS = {
    "conversation_level": "over conversations",
    "bot_level": "over bots",
    "bot_level_selfplay": "over bots, from self-play",
}
STANDINGS = {
    "undefined": "nothing: there is no correlation over bots",
    "few_bots": "nothing: too few bots",
    "chance": "nothing: not above chance",
    "baseline": "nothing: clearly worse than conversation length",
    "unsettled": "no ranking yet: above chance, but not known to be better than conversation length",
    "ranking": "ranking further bots of the same kind, task and participants",
}


def summary_of(result: Mapping[str, Any]) -> str:
    """Return a fit's numbers, cautions, findings and conclusions as lines.

    Args:
        result: the document of a fit (`HybridResult.to_json`).
    """
    lines = [
        f"Hybrid metric, preset {result['preset']}, target {result['target']}: "
        f"{pluralise(result['n_conversations'], 'conversation')} of {pluralise(result['n_bots'], 'bot')}, "
        f"{INTERCEPT_NAMES[result['intercept']]}",
        *_held_against(result),
        "",
        f"  {'':28} {'r':>6} {'95 %':>14} {'chance':>7}",
        *_levels(result),
        "",
        *_values(result),
        *_rivals(result),
        "",
        f"  {'bot':24} {'human':>8} {'predicted':>10} {'self-play':>10}",
        *_bots(result["bots"]),
        *_combined_note(result["bots"]),
        *_selfplay(result),
        *_influence(result.get("carrying")),
    ]
    if result["cautions"]:
        lines += ["", "Cautions", *_indented(findings_printed(result["cautions"]))]
    verdict = result["verdict"]
    lines += ["", "Findings, from conversations with people", *_indented(findings_printed(verdict["findings"]))]
    if verdict["findings_selfplay"]:
        lines += ["Findings, from self-play"]
        lines += _indented(findings_printed(verdict["findings_selfplay"]))
    lines += ["", f"Supports, from conversations with people: {STANDINGS[verdict['standing']]}"]
    if verdict["standing_selfplay"]:
        lines.append(f"Supports, from self-play: {STANDINGS[verdict['standing_selfplay']]}")
    return "\n".join(lines)


def _held_against(result: Mapping[str, Any]) -> list[str]:
    """Name the ratings a stored fit is compared with; may be empty."""
    if result.get("held_against") != "given":
        return []
    return [
        "Human values, intervals and pairs come from the current ratings, not those of the fit; weights and folds "
        "come from the fit."
    ]


def _levels(result: Mapping[str, Any]) -> list[str]:
    """Return a line for each correlation.

    With few bots there is none over bots, because any order can look linear.
    """
    lines = []
    for level, title in LEVELS.items():
        pearson = (result.get(level) or {}).get("pearson") or {}
        is_listed = level == "conversation_level" or result["n_bots"] >= FEW_BOTS
        if is_listed and pearson.get("r") is not None:
            ends = span(*(pearson.get("ci95") or (None, None)), shares=True)
            chance = share(pearson.get("null95"))
            lines.append(f"  {title:28} {share(pearson['r']):>6} {ends:>14} {chance:>7}")
    return lines


def _values(result: Mapping[str, Any]) -> list[str]:
    """Return a line for each accuracy measure, using each fold's intercept."""
    q2, slope = result["q2"], result["slope"]
    lines = [
        (
            "Q² over bots",
            share(q2["value"]),
            "chance not computed" if q2["null95"] is None else f"chance {share(q2['null95'])}",
        ),
        ("mean absolute error", figure(result["mae"]), f"of the mean of the others {figure(result['mae_of_mean'])}"),
        ("slope, human on predicted", share(slope["value"]), _ends(slope["ci95"])),
    ]
    inside = result["coverage95"]
    if inside is not None:
        lines.append(
            (
                "in their 95 % interval",
                f"{inside['inside']} of {inside['of']}",
                f"interval score {figure(result['interval_score95'])}",
            )
        )
    partial = result["partial_r"]
    if partial is not None:
        lines.append(("r given log turns and words", share(partial["r"]), _ends(partial["ci95"])))
    within = result["within_bots"]
    if within is not None:
        lines.append(("r of conversations within bots", share(within["r"]), _ends(within["ci95"])))
    worth = result.get("ratings_worth")
    if worth is not None:
        by_error = "" if worth["by_error"] is None else f"by its errors {worth['by_error']:.0f}"
        stated = pluralise(round(worth["stated"]), "rating")
        lines.append(("a prediction is worth", stated, by_error))
    text_lines = [f"  {title:32} {value:>8}  {note}".rstrip() for title, value, note in lines]
    shares = [
        f"{name} {percent(block_shares['share'])} ({percent(block_shares['share_flat_prior'])})"
        for name, block_shares in result["block_shares"].items()
    ]
    if shares:
        text_lines.append(f"  of the variance between bots: {', '.join(shares)}; in brackets")
        text_lines.append("  with another prior: with few bots these shares depend on it")
    return text_lines


def _rivals(result: Mapping[str, Any]) -> list[str]:
    """Return a line for each rival; fits of earlier versions have none."""
    lines = []
    for name, rival in (result.get("rivals") or {}).items():
        ratio = rival["error_ratio"]
        accuracy = (
            f"r {share(rival['r'])}, Q² {share(rival['q2'])}, the fit errs {figure(ratio['value'])} times as much"
        )
        ends = f" {span(*ratio['ci95'])}" if ratio["ci95"] else ""
        lines.append(f"  {name.replace('_', ' '):28} {accuracy}{ends}")
    return lines


def _ends(ends: list[float] | None) -> str:
    return span(ends[0], ends[1], shares=True) if ends else ""


def _bots(bots: Mapping[str, Any]) -> list[str]:
    lines = []
    for bot, row in bots.items():
        means = [figure(human_mean(row)), *(_predicted(row, source) for source in RANKS)]
        cells = " ".join(f"{mean:>{width}}" for mean, width in zip(means, (8, 10, 10), strict=True))
        ends = row.get("predicted_selfplay_ci90")
        notes = f" {span(*ends)}" if ends else ""
        if row.get("interval95_new"):
            notes += f"  by its fold's intercept {figure(row.get('predicted_fold'))}, 95 % "
            if row["interval95"]:
                notes += f"{span(*row['interval95'])}, "
            notes += f"of {row['n_new']} further ratings {span(*row['interval95_new'])}"
        for reason in row.get("reasons", []):
            if reason["code"] == "selfplay_unchecked":
                notes += (
                    f"  no interval: {reason['n_bots']} of {reason['needed']} other bots with ratings and self-play"
                )
        if row.get("combined"):
            notes += _combined(row["combined"])
        lines.append(f"  {bot:24} {cells}{notes}")
    return lines


def _predicted(row: Mapping[str, Any], source: str) -> str:
    """Return a predicted value, or a rank if there are no values."""
    rank = row.get(RANKS[source])
    return figure(row[source]) if rank is None else f"rank {rank}"


def _selfplay(result: Mapping[str, Any]) -> list[str]:
    """Return lines on self-play: prediction accuracy and distance from human chats."""
    values, lines = result.get("values_selfplay"), []
    if values is not None and values["q2"]["value"] is not None:
        accuracy = f"  from self-play: Q² {share(values['q2']['value'])}, mean absolute error {figure(values['mae'])}"
        if values["coverage95"]:
            accuracy += ", {inside} of {of} in their 95 % interval".format(**values["coverage95"])
        lines.append(accuracy)
    shifts = [
        f"{name} {share(shift['shift'])} ({share(shift['widest'])})"
        for name, shift in (result.get("selfplay_shifts") or {}).items()
    ]
    if shifts:
        lines.append(
            f"  self-play minus people, in standard deviations: {', '.join(shifts)}; in brackets the most extreme "
            "rated bot"
        )
    return ["", *lines] if lines else []


def _influence(influence: Mapping[str, Any] | None) -> list[str]:
    """Return lines on influential bots and conversations of a least-squares fit."""
    if not influence:
        return []
    bots = sorted(influence["bots"].items(), key=lambda pair: -(pair[1]["cooks_distance"] or 0.0))
    distances = [f"{bot} {figure(bot_influence['cooks_distance'])}" for bot, bot_influence in bots]
    lines = ["", f"  Cook's distance of leaving a bot out: {', '.join(distances)}"]
    if influence["conversations"]:
        first = influence["conversations"][0]
        lines.append(
            f"  the most influential conversation: {first['conversation']} of {first['bot']}, "
            f"{figure(first['cooks_distance'])}"
        )
    return lines


def _combined(combined: Mapping[str, Any]) -> str:
    text = f"; with its ratings {figure(combined['mean'])} {span(*combined['ci95'])}"
    return text + (" (they conflict)" if combined["conflict"] else "")


def _combined_note(bots: Mapping[str, Any]) -> list[str]:
    """Return a warning about combined means, if there are any."""
    if not any(row.get("combined") for row in bots.values()):
        return []
    return [
        '  a mean combined with ratings (empirical Bayes) alone does not support "A is better than B": that needs '
        "ratings of both"
    ]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
