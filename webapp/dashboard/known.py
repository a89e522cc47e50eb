"""Results of a study so far: the leading bot, controls, and undecided pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from evaluation.analysis.leaderboard import Place, leaderboard
from evaluation.printing import digits_for, figure, span
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
                _("{n} of {pairs}").format(n=n_close, pairs=counts.pairs(board.n_pairs)),
                ngettext(
                    "of bots is too close to order.", "of bots are too close to order.", n_close
                ),
                _("Compare them"),
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
            _("{bot} leads").format(bot=title),
            _("by {by}: {mean}, ahead of every other bot.").format(by=by, mean=mean)
            if len(ranked) > 1
            else _("by {by}: {mean}.").format(by=by, mean=mean),
        )
    names = (
        listed([frame.title(bot) for bot in close])
        if len(close) <= _NAMED
        else counts.bots(len(close))
    )
    return Known(
        "info",
        _("Nobody leads alone."),
        _("By {by} {bot} is rated best, mean {mean}; {names} may be as good.").format(
            by=by, bot=title, mean=mean, names=names
        ),
    )


def _controls(frame: StudyFrame, ranked: list[Place], controls: list[Place]) -> Known:
    """Compose the line on whether control bots, made to be bad, are rated last."""
    worst = min(place.compared_mean for place in ranked)
    above = [place.bot for place in controls if place.compared_mean >= worst]
    if above:
        return Known(
            "warn",
            _("{bots} did not come last.").format(bots=listed([frame.title(bot) for bot in above])),
            _("A control is made to be bad: read what people saw before you trust the rest."),
        )
    names = listed([frame.title(place.bot) for place in controls])
    others = {place.bot for place in ranked}
    close = sum(len(others & set(place.too_close)) for place in controls)
    if close:
        return Known(
            "info",
            ngettext(
                "{bots} (a control) is rated last, but not surely.",
                "{bots} (controls) are rated last, but not surely.",
                len(controls),
            ).format(bots=names),
            ngettext(
                "{n} of {pairs} with another bot is too close to order.",
                "{n} of {pairs} with another bot are too close to order.",
                close,
            ).format(n=close, pairs=counts.pairs(len(controls) * len(ranked))),
        )
    if len(controls) == 1:
        return Known(
            "good", _("{bot} is last").format(bot=names), _("(a control), as it should be.")
        )
    return Known(
        "good", _("{bots} are last").format(bots=names), _("(controls), as they should be.")
    )
