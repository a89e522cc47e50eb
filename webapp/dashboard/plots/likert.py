"""Share of each answer as stacked bars, centred on the middle of the scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.plots.lettering import NAME_PX, plain, shorten, text_width
from evaluation.plots.marks import bot_shape, mark_link
from evaluation.plots.svg import drawing, group, line, rect, text
from evaluation.printing import figure
from evaluation.ratings import Dimension
from webapp.dashboard import counts
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table, Variant
from webapp.ratings.bots import BotInfo


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution of the answers for a bot; `counts` and addresses in `steps` follow the scale."""

    bot: BotInfo
    counts: list[int]
    mean: float | None
    href: str = ""
    steps: Sequence[str] = ()

    @property
    def n(self) -> int:
        """Answers given."""
        return sum(self.counts)


def step_class(i: int, n_steps: int) -> str:
    """Return one of nine diverging colours for step i of n."""
    if n_steps < 2:
        return "div-5"
    if n_steps == 7:
        return f"div-{[1, 2, 3, 5, 7, 8, 9][i]}"
    return f"div-{1 + round(i / (n_steps - 1) * 8)}"


def spread_figure(
    spreads: Sequence[Spread], dimension: Dimension, steps: Sequence[float]
) -> Figure:
    """Draw one row for each bot, centred on the middle step of the scale."""
    n = sum(spread.n for spread in spreads)
    return Figure(
        id="spread",
        title="How the answers spread",
        method=f"Share of each answer to “{dimension.title.lower()}”, in %, centred on the middle of the scale. "
        f"{counts.ratings(n)}.",
        wide=_draw(spreads, dimension, steps, 554, css="plot-wide"),
        narrow=[Variant("", _draw(spreads, dimension, steps, 298, css=""))],
        table=Table(
            [
                Header("Bot"),
                *[Header(plain(step), numeric=True) for step in steps],
                Header("Mean", numeric=True),
                Header("n", numeric=True),
            ],
            [
                [
                    Cell(
                        spread.bot.title,
                        spread.href,
                        slot=spread.bot.slot,
                        hollow=spread.bot.is_control,
                    ),
                    *[
                        Cell(f"{100 * count / spread.n:.0f} %" if spread.n else "–")
                        for count in spread.counts
                    ],
                    Cell(figure(spread.mean), why="" if spread.n else "no rating yet"),
                    Cell(str(spread.n)),
                ]
                for spread in spreads
            ],
        ),
    )


def _draw(
    spreads: Sequence[Spread],
    dimension: Dimension,
    steps: Sequence[float],
    width: float,
    *,
    css: str,
) -> Markup:
    row, n_steps = 33.8, len(steps)
    longest = max((text_width(spread.bot.title) for spread in spreads), default=60)
    names = min(longest + 34, NAME_PX + 34 if css else width * 0.32)
    left, right = names, width - 56
    shares = [[c / s.n if s.n else 0.0 for c in s.counts] for s in spreads]
    below = max((_below(share) for share in shares), default=0.5)
    above = max((sum(share) - _below(share) for share in shares), default=0.5)
    unit = (right - left) / max(below + above, 0.2)
    centre = left + below * unit
    bottom = row * len(spreads) + 4
    parts: list[object] = [line(centre, 0, centre, bottom, class_="grid")]
    for i, (spread, share) in enumerate(zip(spreads, shares, strict=True)):
        y = i * row + row / 2
        parts.append(bot_shape(10, y, spread.bot.slot, hollow=spread.bot.is_control))
        parts.append(text(24, y + 4.5, shorten(spread.bot.title, names - 26), class_="name"))
        if not spread.n:
            parts.append(text(centre, y + 4.5, "no ratings yet", class_="tick middle"))
            continue
        x = centre - _below(share) * unit
        for k, value in enumerate(share):
            if not value:
                continue
            wide = value * unit
            css_class = step_class(k, n_steps)
            says = (
                f"{spread.bot.title}\n"
                + f"{plain(steps[k])}: {spread.counts[k]} of {spread.n}, {100 * value:.0f} %"
            )
            parts.append(
                mark_link(
                    spread.steps[k] if spread.steps else "",
                    says,
                    rect(x, y - 12.5, max(wide - 0.8, 0.8), 25, class_=f"step {css_class}"),
                    text(
                        x + wide / 2, y + 4.5, f"{100 * value:.0f}", class_=f"step-text {css_class}"
                    )
                    if wide > 24
                    else None,
                )
            )
            x += wide
        parts.append(text(width - 2, y + 4.5, figure(spread.mean), class_="value end"))
    parts.append(_legend(dimension, steps, left, right, bottom + 14))
    parts.append(text(width - 2, bottom + 26, "mean", class_="tick end"))
    name = f"Share of each answer to {dimension.title.lower()} for {counts.bots(len(spreads))}."
    return drawing(width, bottom + 52, *parts, name=name, interactive=True, class_=css or None)


def _below(share: Sequence[float]) -> float:
    """Return the share left of the centre: that of the lower steps and half of the middle one."""
    half, odd = divmod(len(share), 2)
    return sum(share[:half]) + (share[half] / 2 if odd else 0)


def _legend(
    dimension: Dimension, steps: Sequence[float], left: float, right: float, y: float
) -> Markup:
    box = min(31.0, (right - left) * 0.55 / len(steps))
    low_width = text_width(dimension.low_label, 12)
    x0 = max(left, (left + right) / 2 - box * len(steps) / 2 - 20)
    x0 = max(x0, left + min(low_width, 70) - 20)
    parts = [
        text(x0 - 8, y + 11, shorten(dimension.low_label, x0 - 10, 12), class_="tick end"),
        text(
            x0 + box * len(steps) + 8,
            y + 11,
            shorten(dimension.high_label, right - x0 - box * len(steps), 12),
            class_="tick",
        ),
    ]
    for i, step in enumerate(steps):
        x = x0 + i * box
        parts.append(rect(x, y, box - 0.8, 14, class_=f"step {step_class(i, len(steps))}"))
        if len(steps) <= 7 or i in (0, len(steps) - 1):
            parts.append(text(x + box / 2, y + 30, plain(step), class_="tick middle"))
    return group(*parts)
