"""Every bot against every other: differences of means as a square, coloured where they can be put in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from django.utils.translation import gettext as _
from markupsafe import Markup

from evaluation.plots.lettering import NAME_PX, shorten, text_width
from evaluation.plots.marks import bot_shape, mark_link
from evaluation.plots.svg import drawing, rect, text
from evaluation.printing import figure, probability, span
from evaluation.stats.compare import Comparison
from webapp.dashboard import counts
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table, Variant
from webapp.dashboard.wording.reasons import said
from webapp.ratings.bots import BotInfo

Pair = tuple[str, str]
WIDE, NARROW = 720.0, 298.0
NUMBER_PX = 13.0
"""Font size of the numbers in the cells, as the style sheet has it."""


def differences_figure(
    bots: Sequence[BotInfo],
    pairs: Mapping[Pair, Comparison],
    verdicts: Mapping[Pair, str],
    *,
    digits: int,
    title: str,
    method: str,
    level: float,
    note: str = "",
    note_lead: str = "",
) -> Figure:
    """Draw the differences between bots, row minus column.

    Args:
        bots: best first; those without a comparison show why.
        pairs: by the bots' ids, in the order of `Comparison`.
        verdicts: a sentence for each pair.
        digits: after the point.
        level: of the intervals.
    """
    most = max((abs(c.difference) for c in pairs.values() if c.difference is not None), default=1.0)
    headers = [
        Header(_("Pair")),
        Header(_("Difference"), numeric=True),
        Header(f"{round(level * 100)} %", numeric=True),
        Header("p", numeric=True),
        Header(_("p, Holm"), numeric=True),
        Header(_("In words")),
    ]
    titles = {bot.bot_id: bot.title for bot in bots}
    rows = []
    for i, bot in enumerate(bots):
        for other in bots[i + 1 :]:
            found = _of(pairs, bot.bot_id, other.bot_id)
            if found is None:
                continue
            comparison, sign = found
            low, high = _ends(comparison, sign)
            gap = None if comparison.difference is None else sign * comparison.difference
            why = said(comparison.reason)
            rows.append(
                [
                    Cell(f"{titles[bot.bot_id]} − {titles[other.bot_id]}"),
                    Cell(figure(gap, digits), why=why if gap is None else "", raw=(gap,)),
                    Cell(span(low, high, digits), why=why if low is None else "", raw=(low, high)),
                    Cell(_p(comparison.p), why=why, raw=(comparison.p,)),
                    Cell(_p(comparison.p_holm), why=why, raw=(comparison.p_holm,)),
                    Cell(verdicts.get((comparison.a, comparison.b), "")),
                ]
            )
    draw = partial(_draw, pairs=pairs, most=most, digits=digits)
    return Figure(
        "differences",
        title,
        method,
        draw(bots, bots, WIDE, css="plot-wide"),
        _narrow(bots, draw, digits, most),
        Table(headers, rows),
        note,
        note_lead,
    )


def _narrow(
    bots: Sequence[BotInfo], draw: Callable[..., Markup], digits: int, most: float
) -> list[Variant]:
    """Make the drawings for narrow pages: the square where its numbers fit, else one column for each bot."""
    names = _names_width(bots, NARROW)
    if (NARROW - names) / max(len(bots), 1) >= _least_cell(digits, most):
        return [Variant("", draw(bots, bots, NARROW, css=""))]
    return [
        Variant(
            _("less {bot}").format(bot=bot.title),
            draw([other for other in bots if other != bot], [bot], NARROW, css=""),
        )
        for bot in bots
    ]


def _of(pairs: Mapping[Pair, Comparison], a: str, b: str) -> tuple[Comparison, int] | None:
    """Return the comparison of two bots, and the sign that makes it a − b."""
    if (a, b) in pairs:
        return pairs[a, b], 1
    return (pairs[b, a], -1) if (b, a) in pairs else None


def _ends(found: Comparison, sign: int) -> tuple[float | None, float | None]:
    if found.low is None or found.high is None:
        return None, None
    return (found.low, found.high) if sign > 0 else (-found.high, -found.low)


def _p(value: float | None) -> str:
    return probability(value).removeprefix("p ").removeprefix("= ")


def _names_width(bots: Sequence[BotInfo], width: float) -> float:
    """Return the pixels for the names before the rows; wide drawings cut no name below 24 letters."""
    longest = max((text_width(bot.title) for bot in bots), default=60)
    return min(longest + 36, max(width * 0.3, NAME_PX + 36) if width >= WIDE else width * 0.5)


def _least_cell(digits: int, most: float) -> float:
    """Return the width in pixels that a cell needs for its number."""
    return text_width(figure(-most, digits), NUMBER_PX) + 6


def _draw(
    rows: Sequence[BotInfo],
    columns: Sequence[BotInfo],
    least_width: float,
    *,
    pairs: Mapping[Pair, Comparison],
    most: float,
    digits: int,
    css: str,
) -> Markup:
    """Draw the differences of the rows' bots less the columns' bots, each with its number.

    The drawing grows beyond `least_width` where many bots need it; the page scales it down or scrolls.
    """
    names = _names_width([*rows, *columns], least_width)
    cell = max(min((least_width - names) / max(len(columns), 1), 62), _least_cell(digits, most))
    high = min(max(cell, 24.0), 34.0)
    top = 28.0
    parts: list[object] = [
        bot_shape(names + (j + 0.5) * cell, 13, other.slot, hollow=other.is_control)
        for j, other in enumerate(columns)
    ]
    if len(columns) == 1:
        beside = names + cell
        name_there = shorten(columns[0].title, least_width - beside - 4)
        parts.append(text(beside, 17.5, name_there, class_="name"))
    for i, bot in enumerate(rows):
        y = top + i * high
        parts += [
            bot_shape(10, y + high / 2, bot.slot, hollow=bot.is_control),
            text(24, y + high / 2 + 4.5, shorten(bot.title, names - 30), class_="name"),
        ]
        for j, other in enumerate(columns):
            x = names + j * cell
            if bot == other:
                parts.append(rect(x + 1, y + 1, cell - 2, high - 2, rx=5, class_="cell-self"))
                continue
            found = _of(pairs, bot.bot_id, other.bot_id)
            if found is not None:
                box = (x, y, cell, high)
                parts.append(_cell(bot, other, *found, box=box, most=most, digits=digits))
    name = _("Differences between the means of {bots}, row minus column.").format(
        bots=counts.bots(len({bot.bot_id for bot in [*rows, *columns]}))
    )
    width = max(least_width, names + len(columns) * cell)
    if width > WIDE:
        css += " plot-grown"
    return drawing(
        width,
        top + len(rows) * high + 6,
        *parts,
        name=name,
        interactive=True,
        class_=css or None,
    )


def _cell(
    bot: BotInfo,
    other: BotInfo,
    comparison: Comparison,
    sign: int,
    *,
    box: tuple[float, float, float, float],
    most: float,
    digits: int,
) -> Markup:
    """Draw one difference; `box` is left, top, width and height in pixels."""
    x, y, wide, high = box
    gap = None if comparison.difference is None else sign * comparison.difference
    shade = "div-none"
    if gap is not None and comparison.ordered:
        # From the middle outwards: an order that holds is never the colour of none.
        shade = f"div-{5 + (1 if gap > 0 else -1) * max(1, round(4 * abs(gap) / most))}"
    says = f"{bot.title} − {other.title}\n{figure(gap, digits)} "
    says += (
        f"{span(*_ends(comparison, sign), digits)}\n{_('Holm')} {probability(comparison.p_holm)}"
        if comparison.p is not None
        else said(comparison.reason)
    )
    middle = (x + wide / 2, y + high / 2 + 4.5)
    return mark_link(
        None,
        says,
        rect(x + 1, y + 1, wide - 2, high - 2, rx=5, class_=f"step {shade}"),
        text(*middle, figure(gap, digits), class_=f"step-text {shade}"),
    )
