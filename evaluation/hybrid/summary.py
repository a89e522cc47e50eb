"""A fit in lines of text, in the manner of statsmodels' `summary()`: for the terminal and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.analysis.findings import findings_printed
from evaluation.hybrid.bot_level import INTERCEPT_NAMES
from evaluation.hybrid.plotting import RANKS, human_mean
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.printing import figure, percent, share, span
from evaluation.wording import counted

LEVELS = {
    "conversation_level": "over conversations",
    "bot_level": "over bots",
    "bot_level_selfplay": "over bots, from self-play",
}
STANDINGS = {
    "undefined": "nothing: there is no correlation over bots",
    "few_bots": "nothing: too few bots",
    "chance": "nothing: not above chance",
    "baseline": "no more than a trivial predictor",
    "ranking": "ranking further bots of the same kind, task and participants",
}


def summary_of(result: Mapping[str, Any]) -> str:
    """Return the numbers of a fit, its cautions, its findings and what they support, line by line.

    Args:
        result: the document of a fit (`HybridResult.to_json`).
    """
    lines = [
        f"Hybrid metric, preset {result['preset']}, target {result['target']}: "
        f"{counted(result['n_conversations'], 'conversation')} of {counted(result['n_bots'], 'bot')}, "
        f"{INTERCEPT_NAMES[result['intercept']]}",
        *_held_against(result),
        "",
        f"  {'':28} {'r':>6} {'95 %':>14} {'chance':>7}",
        *_levels(result),
        "",
        *_values(result),
        "",
        f"  {'bot':24} {'human':>8} {'predicted':>10} {'self-play':>10}",
        *_bots(result["bots"]),
        *_combined_note(result["bots"]),
        *_selfplay(result),
        *_carrying(result.get("carrying")),
    ]
    if result["cautions"]:
        lines += ["", "Cautions", *_indented(findings_printed(result["cautions"]))]
    verdict = result["verdict"]
    lines += [
        "",
        "Findings, from conversations with people",
        *_indented(findings_printed(verdict["findings"])),
    ]
    if verdict["findings_selfplay"]:
        lines += ["Findings, from self-play"]
        lines += _indented(findings_printed(verdict["findings_selfplay"]))
    lines += ["", f"Supports, from conversations with people: {STANDINGS[verdict['standing']]}"]
    if verdict["standing_selfplay"]:
        lines.append(f"Supports, from self-play: {STANDINGS[verdict['standing_selfplay']]}")
    return "\n".join(lines)


def _held_against(result: Mapping[str, Any]) -> list[str]:
    """Name the ratings that a kept fit is compared with; nothing where they are its own."""
    if result.get("held_against") != "given":
        return []
    return [
        "Human values, intervals and pairs are of the ratings given now, not of those fitted to; weights and folds "
        "are of the fit."
    ]


def _levels(result: Mapping[str, Any]) -> list[str]:
    """Return a line for each correlation; none over few bots, where any order can look like a line."""
    lines = []
    for level, title in LEVELS.items():
        pearson = (result.get(level) or {}).get("pearson") or {}
        told = level == "conversation_level" or result["n_bots"] >= FEW_BOTS
        if told and pearson.get("r") is not None:
            ends = span(*(pearson.get("ci95") or (None, None)), shares=True)
            chance = share(pearson.get("null95"))
            lines.append(f"  {title:28} {share(pearson['r']):>6} {ends:>14} {chance:>7}")
    return lines


def _values(result: Mapping[str, Any]) -> list[str]:
    """Return a line for each measure of the accuracy of values, by the intercept of each fold."""
    q2, slope = result["q2"], result["slope"]
    lines = [
        ("Q² over bots", share(q2["value"]), f"chance {share(q2['null95'])}"),
        (
            "mean absolute error",
            figure(result["mae"]),
            f"of the mean of the others {figure(result['mae_of_mean'])}",
        ),
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
        stated = counted(round(worth["stated"]), "rating")
        lines.append(("a prediction is worth", stated, by_error))
    told = [f"  {title:32} {value:>8}  {beside}".rstrip() for title, value, beside in lines]
    shares = [
        f"{name} {percent(found['share'])} ({percent(found['share_flat_prior'])})"
        for name, found in result["block_shares"].items()
    ]
    if shares:
        told.append(f"  of the variance between bots: {', '.join(shares)}; in brackets")
        told.append("  by another prior: with few bots these shares depend on it")
    return told


def _ends(ends: list[float] | None) -> str:
    return span(ends[0], ends[1], shares=True) if ends else ""


def _bots(bots: Mapping[str, Any]) -> list[str]:
    lines = []
    for bot, found in bots.items():
        means = [figure(human_mean(found)), *(_predicted(found, source) for source in RANKS)]
        cells = " ".join(f"{mean:>{width}}" for mean, width in zip(means, (8, 10, 10), strict=True))
        ends = found.get("predicted_selfplay_ci90")
        beside = f" {span(*ends)}" if ends else ""
        if found.get("interval95_new"):
            beside += f"  by its fold's intercept {figure(found.get('predicted_fold'))}, 95 % "
            if found["interval95"]:
                beside += f"{span(*found['interval95'])}, "
            beside += f"of {found['n_new']} further ratings {span(*found['interval95_new'])}"
        for reason in found.get("reasons", []):
            if reason["code"] == "selfplay_unchecked":
                beside += (
                    f"  no interval: {reason['n_bots']} of {reason['needed']} other bots "
                    "with ratings and self-play"
                )
        if found.get("combined"):
            beside += _combined(found["combined"])
        lines.append(f"  {bot:24} {cells}{beside}")
    return lines


def _predicted(found: Mapping[str, Any], source: str) -> str:
    """Return a predicted value, or the place by it where a fit of another study gives no values."""
    rank = found.get(RANKS[source])
    return figure(found[source]) if rank is None else f"rank {rank}"


def _selfplay(result: Mapping[str, Any]) -> list[str]:
    """Return lines on the accuracy of self-play predictions and the distance of self-play from people's chats."""
    values, lines = result.get("values_selfplay"), []
    if values is not None and values["q2"]["value"] is not None:
        told = f"  from self-play: Q² {share(values['q2']['value'])}, mean absolute error {figure(values['mae'])}"
        if values["coverage95"]:
            told += ", {inside} of {of} in their 95 % interval".format(**values["coverage95"])
        lines.append(told)
    shifts = [
        f"{name} {share(one['shift'])} ({share(one['widest'])})"
        for name, one in (result.get("selfplay_shifts") or {}).items()
    ]
    if shifts:
        lines.append(
            f"  self-play less people, in standard deviations: {', '.join(shifts)}; in brackets the furthest rated bot"
        )
    return ["", *lines] if lines else []


def _carrying(found: Mapping[str, Any] | None) -> list[str]:
    """Return lines on the influence of each bot and of one conversation on a fit by least squares."""
    if not found:
        return []
    bots = sorted(found["bots"].items(), key=lambda one: -(one[1]["cooks_distance"] or 0.0))
    told = [f"{bot} {figure(one['cooks_distance'])}" for bot, one in bots]
    lines = ["", f"  Cook's distance of leaving a bot out: {', '.join(told)}"]
    if found["conversations"]:
        first = found["conversations"][0]
        lines.append(
            f"  the conversation that moves the fit most: {first['conversation']} of {first['bot']}, "
            f"{figure(first['cooks_distance'])}"
        )
    return lines


def _combined(found: Mapping[str, Any]) -> str:
    told = f"; with its ratings {figure(found['mean'])} {span(*found['ci95'])}"
    return told + (" (they contradict each other)" if found["conflict"] else "")


def _combined_note(bots: Mapping[str, Any]) -> list[str]:
    """Return a warning about means by ratings and prediction together, if there are any."""
    if not any(found.get("combined") for found in bots.values()):
        return []
    return [
        '  a mean with its ratings (empirical Bayes) never stands alone behind "A is better than B": that needs the '
        "ratings of both"
    ]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
