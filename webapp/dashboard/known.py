"""Results of a study so far: the leading bot, controls, and undecided pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from evaluation.analysis.leaderboard import Place, leaderboard
from evaluation.printing import digits_for, figure, span
from webapp.core.speaking import plural
from webapp.dashboard import counts
from webapp.dashboard.wording.sections import listed
from webapp.results.study_data import StudyFrame

_NAMED = 4
"""More bots than these are counted and not named."""


@dataclass(frozen=True, slots=True)
class Known:
    """One line: bold words, the rest, and where to see more; `tone` is good, warn or info."""

    tone: str
    lead: str
    rest: str
    action: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class KnownSoFar:
    """The lines, and how many pairs of bots can be told apart by what bots are ranked by."""

    lines: list[Known]
    n_told_apart: int
    n_pairs: int
    by: str


def known_so_far(frame: StudyFrame, result: Any) -> KnownSoFar | None:
    """Summarise the comparisons, or return None if no two bots could be compared.

    Args:
        result: `StudyComparisons`.
    """
    board = leaderboard(result.means, result.compared)
    ranked = [place for place in board.places if not place.is_control]
    if not ranked or not board.n_pairs:
        return None
    by = frame.headline.title.lower()
    compare = reverse("dashboard:study_compare", args=[frame.study.key])
    lines = [_leading(frame, ranked, by)]
    controls = [place for place in board.places if place.is_control]
    if controls:
        lines.append(_controls(frame, ranked, controls))
    n_close = board.n_pairs - board.n_told_apart
    if n_close:
        lines.append(
            Known(
                "info",
                f"{n_close} of {counts.pairs(board.n_pairs)}",
                plural(
                    n_close, "of bots is too close to order.", "of bots are too close to order."
                ),
                "Compare them",
                compare,
            )
        )
    return KnownSoFar(lines, board.n_told_apart, board.n_pairs, by)


def _leading(frame: StudyFrame, ranked: list[Place], by: str) -> Known:
    first = ranked[0]
    digits = digits_for(frame.headline.low, frame.headline.high)
    mean = f"{figure(first.mean.mean, digits)} {span(first.mean.low, first.mean.high, digits)}"
    close = [bot for bot in first.too_close if not frame.bots[bot].is_control]
    title = frame.title(first.bot)
    if not close:
        return Known(
            "good",
            f"{title} leads",
            f"by {by}: {mean}, ahead of every other bot."
            if len(ranked) > 1
            else f"by {by}: {mean}.",
        )
    names = (
        listed([frame.title(bot) for bot in close])
        if len(close) <= _NAMED
        else counts.bots(len(close))
    )
    return Known(
        "info",
        "Nobody leads alone.",
        f"By {by} {title} is rated best, mean {mean}; {names} may be as good.",
    )


def _controls(frame: StudyFrame, ranked: list[Place], controls: list[Place]) -> Known:
    """Compose the line on whether control bots, made to be bad, are rated last."""
    worst = min(place.compared_mean for place in ranked)
    above = [place.bot for place in controls if place.compared_mean >= worst]
    if above:
        return Known(
            "warn",
            f"{listed([frame.title(bot) for bot in above])} did not come last.",
            "A control is made to be bad: read what people saw before you trust the rest.",
        )
    names = listed([frame.title(place.bot) for place in controls])
    others = {place.bot for place in ranked}
    close = sum(len(others & set(place.too_close)) for place in controls)
    if close:
        return Known(
            "info",
            plural(
                len(controls),
                "{bots} (a control) is rated last, but not surely.",
                "{bots} (controls) are rated last, but not surely.",
            ).format(bots=names),
            plural(
                close,
                "{n} of {pairs} with another bot is too close to order.",
                "{n} of {pairs} with another bot are too close to order.",
            ).format(n=close, pairs=counts.pairs(len(controls) * len(ranked))),
        )
    if len(controls) == 1:
        return Known("good", f"{names} is last", "(a control), as it should be.")
    return Known("good", f"{names} are last", "(controls), as they should be.")
