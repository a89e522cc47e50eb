"""Every bot against every other: differences of means as a square, coloured where they can be put in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from evaluation.stats.compare import Comparison
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table, Variant
from webapp.dashboard.plots.marks import bot_shape, mark_link
from webapp.dashboard.plots.svg import drawing, rect, text
from webapp.dashboard.plots.words import figure, probability, shorten, span, text_width
from webapp.ratings.summary import BotInfo

Pair = tuple[str, str]


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
    """Row minus column.

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
            why = comparison.reason or ""
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
    return Figure(
        "differences",
        title,
        method,
        _draw(bots, pairs, most, digits, 720, css="plot-wide"),
        [Variant("", _draw(bots, pairs, most, digits, 298, css=""))],
        Table(headers, rows),
        note,
        note_lead,
    )


def _of(pairs: Mapping[Pair, Comparison], a: str, b: str) -> tuple[Comparison, int] | None:
    """The comparison of two bots, and the sign that makes it a − b."""
    if (a, b) in pairs:
        return pairs[a, b], 1
    return (pairs[b, a], -1) if (b, a) in pairs else None


def _ends(found: Comparison, sign: int) -> tuple[float | None, float | None]:
    if found.low is None or found.high is None:
        return None, None
    return (found.low, found.high) if sign > 0 else (-found.high, -found.low)


def _p(value: float | None) -> str:
    return probability(value).removeprefix("p ").removeprefix("= ")


def _draw(
    bots: Sequence[BotInfo],
    pairs: Mapping[Pair, Comparison],
    most: float,
    digits: int,
    width: float,
    *,
    css: str,
) -> SafeString:
    names = min(max((text_width(bot.title) for bot in bots), default=60) + 36, width * 0.4)
    cell = min((width - names) / max(len(bots), 1), 62)
    high = min(cell, 34.0)
    top = 26.0
    widest = text_width(figure(-most, digits), 13)
    parts: list[object] = []
    for i, bot in enumerate(bots):
        y = top + i * high
        parts += [
            bot_shape(names + (i + 0.5) * cell, 12, bot.slot, hollow=bot.is_control),
            bot_shape(10, y + high / 2, bot.slot, hollow=bot.is_control),
            text(24, y + high / 2 + 4.5, shorten(bot.title, names - 30), class_="name"),
        ]
        for j, other in enumerate(bots):
            x = names + j * cell
            if i == j:
                parts.append(rect(x + 1, y + 1, cell - 2, high - 2, rx=5, class_="cell-self"))
                continue
            found = _of(pairs, bot.bot_id, other.bot_id)
            if found is None:
                continue
            comparison, sign = found
            gap = None if comparison.difference is None else sign * comparison.difference
            shade = "div-none"
            if gap is not None and comparison.ordered:
                # From the middle outwards: an order that holds is never the colour of none.
                shade = f"div-{5 + (1 if gap > 0 else -1) * max(1, round(4 * abs(gap) / most))}"
            says = f"{bot.title} − {other.title}\n{figure(gap, digits)} "
            says += (
                f"{span(*_ends(comparison, sign), digits)}\n{_('Holm')} {probability(comparison.p_holm)}"
                if comparison.p is not None
                else comparison.reason or ""
            )
            parts.append(
                mark_link(
                    None,
                    says,
                    rect(x + 1, y + 1, cell - 2, high - 2, rx=5, class_=f"step {shade}"),
                    text(
                        x + cell / 2,
                        y + high / 2 + 4.5,
                        figure(gap, digits),
                        class_=f"step-text {shade}",
                    )
                    if cell > widest + 2
                    else None,
                )
            )
    name = _("Differences between the means of {n} bots, row minus column.").format(n=len(bots))
    return drawing(
        width, top + len(bots) * high + 6, *parts, name=name, interactive=True, class_=css or None
    )
