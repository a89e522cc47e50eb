"""One paragraph in plain words: what the numbers of a fit support, and what they do not."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.hybrid.frame import Frame
from evaluation.hybrid.results import BotLevel

FEW_BOTS = 5
NAMES = {
    "mean_of_the_other_bots": "the mean of the other bots",
    "words_per_human_turn": "the number of words people write",
    "number_of_turns": "the number of turns",
    "group": "the group a bot belongs to",
}


def verdict_of(frame: Frame, baselines: Mapping[str, Mapping[str, BotLevel]], n_bots: int) -> str:
    """The paragraph.

    It argues from the common intercept: with an intercept per fold even chance is far from 0.

    Args:
        baselines: by the common intercept too.
    """
    level, pairs = frame.intercepts["common"]
    r = level.correlation.r
    if r is None:
        why = level.correlation.reason
        return f"There is no correlation over bots to judge{f': {why}' if why else ''}."
    if n_bots < FEW_BOTS:
        return (
            f"{n_bots} bots are rated. So few points can lie on a line by chance, whatever r is; nothing about "
            "other bots follows from this fit."
        )
    said = [f"Over {n_bots} bots, each predicted without its own ratings, r is {_two(r)}"]
    found = level.correlation
    if found.low is not None and found.high is not None:
        said[0] += f" (95 % interval over bots {_two(found.low)} to {_two(found.high)}"
        if frame.over_conversations is not None:
            low, high = frame.over_conversations
            said[0] += f", over conversations {_two(low)} to {_two(high)}"
        said[0] += ")"
    beats_chance = level.null95 is None or r > level.null95
    if level.null95 is not None:
        said.append(
            f"Ratings dealt out to the bots at random pass {_two(level.null95)} once in twenty times, "
            + ("so this is more than chance" if beats_chance else "so this could be chance")
        )
    rivals = {
        name: found["pearson"].correlation.r
        for name, found in baselines.items()
        if "pearson" in found and found["pearson"].correlation.r is not None
    }
    best = max(rivals, key=lambda name: rivals[name] or 0.0, default=None)
    beats_rivals = True
    if best is not None and (rivals[best] or 0.0) > 0:
        value = rivals[best] or 0.0
        beats_rivals = r > value
        said.append(
            f"Predicting from {NAMES.get(best, best)} alone gives {_two(value)}, "
            + ("which is less" if beats_rivals else "which is no less: the fit adds nothing to it")
        )
    if pairs.resolvable:
        said.append(
            f"Of {pairs.resolvable} pairs of bots that people can tell apart, {pairs.resolvable_ordered} are "
            "in the order people gave"
        )
    said += _limits(frame, r)
    if r <= 0 or not beats_chance:
        end = "The numbers do not support using this prediction in place of people's ratings"
    elif not beats_rivals:
        end = "The numbers support no more than the simple count does"
    else:
        end = (
            "The numbers support ranking further bots of the same kind, with the same task and the same sort of "
            "participants; they do not support judging single conversations, other kinds of bots, or bots "
            "trained to please the metric"
        )
    return ". ".join([*said, end]) + "."


def _limits(frame: Frame, r: float) -> list[str]:
    said = []
    if frame.ceiling.best_r is not None:
        said.append(
            f"The human means themselves are so reliable that a perfect prediction would reach about "
            f"{_two(frame.ceiling.best_r)}"
        )
    elif frame.ceiling.reliability is not None:
        said.append("The human means of two halves of the conversations do not agree")
    changes = {bot: change for bot, change in frame.influence.items() if change is not None}
    if changes:
        bot = min(changes, key=lambda name: changes[name])
        if changes[bot] < -0.1:
            said.append(f"Much hangs on one bot: without {bot}, r is {_two(r + changes[bot])}")
    if frame.within_group is not None and frame.within_group.r is not None:
        within = frame.within_group.r
        said.append(
            f"Within groups of bots r is {_two(within)}"
            + (": most of it is the difference between groups" if within < r / 2 else "")
        )
    return said


def _two(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")
