"""One paragraph in plain words: what the numbers of a fit support, and what they do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evaluation.hybrid.frame import Frame, most_influential
from evaluation.hybrid.results import BotLevel, Intercept, Pairs
from evaluation.printing import share
from evaluation.stats.compare import ORDER_ALPHA
from evaluation.wording import counted

FEW_BOTS = 5
"""Below so many bots no correlation over bots is told."""
MUCH = 0.1
"""From such a change of r on something is said of the bot that makes it."""
NAMES = {
    "mean_of_the_other_bots": "the mean of the other bots",
    "words_per_human_turn": "the number of words people write",
    "number_of_turns": "the number of turns",
    "group": "the group a bot belongs to",
}
INTERCEPT_WORDS = {
    "common": "with one intercept for all folds",
    "fold": "with an intercept for each fold, as in the paper",
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one way to predict the bots' ratings came to.

    Attributes:
        level: Pearson's r over bots.
        baselines: trivial predictors by name and method, fitted and applied alike.
        influence: by bot, r over the other bots minus r over all.
    """

    level: BotLevel
    pairs: Pairs
    baselines: Mapping[str, Mapping[str, BotLevel]]
    influence: Mapping[str, float | None]

    @property
    def r(self) -> float | None:
        """Pearson's r over bots."""
        return self.level.correlation.r

    @property
    def beats_chance(self) -> bool:
        """Whether r is above 0 and above what chance passes once in twenty."""
        null95 = self.level.null95
        return self.r is not None and self.r > 0 and (null95 is None or self.r > null95)

    @property
    def rival(self) -> tuple[str, float] | None:
        """The best trivial predictor and its r; None where none is above 0."""
        found = {
            name: r
            for name, levels in self.baselines.items()
            if "pearson" in levels and (r := levels["pearson"].correlation.r) is not None and r > 0
        }
        best = max(found, key=lambda name: found[name], default=None)
        return None if best is None else (best, found[best])

    @property
    def beats_rivals(self) -> bool:
        """Whether r is above that of every trivial predictor."""
        return self.rival is None or (self.r is not None and self.r > self.rival[1])


def verdict_of(
    frame: Frame,
    left_out: Evidence,
    n_bots: int,
    *,
    intercept: Intercept,
    selfplay: Evidence | None = None,
    n_selfplay: int = 0,
) -> str:
    """The paragraph. Every number is by the intercept of the fit unless another one is named beside it.

    Args:
        left_out: bots predicted from their conversations with people, without their own ratings.
        n_bots: rated bots.
        selfplay: the same bots predicted from their conversations with themselves.
        n_selfplay: rated bots that have some.
    """
    r = left_out.r
    if r is None:
        why = left_out.level.correlation.reason
        return f"There is no correlation over bots to judge{f': {why}' if why else ''}."
    if n_bots < FEW_BOTS:
        return (
            f"Only {counted(n_bots, 'bot')} rated. So few points can lie on a line by chance, whatever r is; nothing about "
            "other bots follows from this fit."
        )
    lead = (
        f"Over {n_bots} bots, each predicted without its own ratings and {INTERCEPT_WORDS[intercept]}, "
        f"r is {share(r)}"
    )
    said = _told(left_out, lead, frame.over_conversations)
    if intercept == "fold":
        other = frame.intercepts["common"][0]
        if other.correlation.r is not None:
            said.append(
                f"{INTERCEPT_WORDS['common'].capitalize()} r is {share(other.correlation.r)} and chance passes "
                f"{share(other.null95)}"
            )
    said += _limits(frame, r)
    if selfplay is not None:
        said += _of_selfplay(selfplay, n_selfplay)
        if n_selfplay < FEW_BOTS or selfplay.r is None:
            selfplay = None
    return ". ".join([*said, _end(left_out, selfplay)]) + "."


def _told(found: Evidence, lead: str, over_conversations: tuple[float, float] | None) -> list[str]:
    """r with its intervals, against chance and rivals, the pairs, and the bot on which most hangs."""
    r, level = found.r or 0.0, found.level
    said = [lead]
    if level.correlation.low is not None and level.correlation.high is not None:
        said[0] += (
            f" (95 % interval over bots {share(level.correlation.low)} to {share(level.correlation.high)}"
        )
        if over_conversations is not None:
            low, high = over_conversations
            said[0] += f", over conversations {share(low)} to {share(high)}"
        said[0] += ")"
    if r < 0:
        said.append("Below 0 it puts the bots in the wrong order")
    if level.null95 is not None:
        said.append(
            f"Ratings dealt out to the bots at random pass {share(level.null95)} once in twenty times"
            + (
                ", so this is more than chance"
                if r > level.null95
                else ", so this could be chance"
                if r >= 0
                else ""
            )
        )
    if found.rival is not None:
        name, value = found.rival
        said.append(
            f"Predicting from {NAMES.get(name, name)} alone gives {share(value)}, "
            + ("which is less" if r > value else "which is no less: the fit adds nothing to it")
        )
    if found.pairs.resolvable:
        said.append(
            f"Of {found.pairs.resolvable} pairs of bots that people can tell apart (p < {share(ORDER_ALPHA)} by "
            f"Holm’s correction), {found.pairs.resolvable_ordered} are in the order people gave"
        )
    bot = most_influential(found.influence)
    change = None if bot is None else found.influence[bot]
    if change is not None and abs(change) > MUCH:
        said.append(f"Much hangs on one bot: without {bot}, r is {share(r + change)}")
    return said


def _limits(frame: Frame, r: float) -> list[str]:
    said = []
    if frame.ceiling.best_r is not None:
        said.append(
            f"The human means themselves are so reliable that a perfect prediction would reach about "
            f"{share(frame.ceiling.best_r)}"
        )
    elif frame.ceiling.reliability is not None:
        said.append("The human means of two halves of the conversations do not agree")
    if frame.within_group is not None and frame.within_group.r is not None:
        within = frame.within_group.r
        said.append(
            f"Within groups of bots r is {share(within)}"
            + (": most of it is the difference between groups" if within < r / 2 else "")
        )
    return said


def _of_selfplay(found: Evidence, n_bots: int) -> list[str]:
    if n_bots < FEW_BOTS:
        bots = "bot has" if n_bots == 1 else "bots have"
        return [f"{n_bots} rated {bots} self-play, too few to judge that by"]
    if found.r is None:
        why = found.level.correlation.reason
        return [f"From self-play there is no correlation over bots{f': {why}' if why else ''}"]
    lead = f"From self-play, the same fits over {n_bots} bots, r is {share(found.r)}"
    return _told(found, lead, None)


def _end(left_out: Evidence, selfplay: Evidence | None) -> str:
    """What may be done with it."""
    if not left_out.beats_chance:
        end = (
            "The numbers do not support using this prediction in place of people’s ratings"
            if selfplay is None
            else "The numbers do not support using this prediction, from self-play either, in place of people’s "
            "ratings"
        )
        if selfplay is not None and selfplay.beats_chance:
            end += ": the r on self-play comes from the same fits, which fail on the conversations they were made from"
        return end
    if not left_out.beats_rivals:
        return "The numbers support no more than the simple count does" + (
            "" if selfplay is None else ", from self-play either"
        )
    end = (
        "The numbers support ranking further bots of the same kind, with the same task and the same sort of "
        "participants"
    )
    if selfplay is not None:
        if not selfplay.beats_chance:
            end += ", from conversations with people but not from self-play"
        elif not selfplay.beats_rivals:
            end += (
                ", from conversations with people; self-play supports no more than a simple count"
            )
        else:
            end += ", from conversations with people and from self-play"
    return (
        f"{end}; they do not support judging single conversations, other kinds of bots, or bots trained to "
        "please the metric"
    )
