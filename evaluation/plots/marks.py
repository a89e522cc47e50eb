"""Marks shared by all figures: bot shapes, mean crosses and links."""

from __future__ import annotations

import math

from markupsafe import Markup

from evaluation.plots.svg import el, group, line, number, rect, text

N_SHAPES = 8
"""Number of colour indices with their own shape."""
NUMBERED = 100
"""Offset of tile numbers: colour indices above this have numbered tiles, so that all marks of many bots look alike."""
N_COLOURS = 16
"""Number of colour indices with their own colour; later tiles are grey."""
TILE = 18.0
"""Side of a tile in pixels, the minimum for a legible number."""


def slots_of(n: int) -> range:
    """Return colour indices for n bots: shapes, or tiles if too many."""
    first = 1 if n <= N_SHAPES else NUMBERED + 1
    return range(first, first + n)


def bot_number(slot: int) -> int:
    """Return the number on a slot's tile, from 1."""
    return slot - NUMBERED if slot > NUMBERED else slot


def slot_class(slot: int) -> str:
    """Return the CSS class of a bot's colour.

    Slot 0 is for bots outside the study.
    """
    slot = bot_number(slot)
    if slot < 1:
        return "bot-none"
    return f"bot-{slot}" if slot <= N_COLOURS else "bot-many"


def _polygon(x: float, y: float, radii: list[float], start: float) -> str:
    points = []
    for i, radius in enumerate(radii):
        angle = start + i * 2 * math.pi / len(radii)
        points.append(f"{number(x + radius * math.cos(angle))},{number(y + radius * math.sin(angle))}")
    return " ".join(points)


def bot_shape(x: float, y: float, slot: int, *, r: float = 5.5, hollow: bool = False) -> Markup:
    """Draw a bot's mark centred on (x, y).

    A slot has the same mark in every figure of a study.

    Args:
        r: radius in pixels of the shapes of slots 1 to 8; the tiles of other slots have a fixed size.
    """
    if slot > N_SHAPES:
        return _tile(x, y, slot, hollow=hollow)
    classes = f"bot {slot_class(slot)}" + (" hollow" if hollow else "")
    if slot == 2:
        return rect(x - r * 0.86, y - r * 0.86, r * 1.72, r * 1.72, class_=classes)
    if slot == 6:
        arm = r * 0.36
        path = (
            f"M{number(x - arm)},{number(y - r)}h{number(2 * arm)}v{number(r - arm)}h{number(r - arm)}"
            f"v{number(2 * arm)}h{number(arm - r)}v{number(r - arm)}h{number(-2 * arm)}"
            f"v{number(arm - r)}h{number(arm - r)}v{number(-2 * arm)}h{number(r - arm)}z"
        )
        return el("path", d=path, class_=classes)
    up = -math.pi / 2
    polygons = {
        3: ([r * 1.12] * 3, up),
        4: ([r * 1.18] * 4, up),
        5: ([r * 1.12] * 3, -up),
        7: ([r * 1.08] * 6, 0.0),
        8: ([r * 1.25, r * 0.55] * 5, up),
    }
    if slot in polygons:
        radii, start = polygons[slot]
        # Triangles are centred at half their height, not at their centre of mass.
        shift = {3: r * 0.2, 5: -r * 0.2}.get(slot, 0.0)
        return el("polygon", points=_polygon(x, y + shift, radii, start), class_=classes)
    return el("circle", cx=x, cy=y, r=r, class_=classes)


def _tile(x: float, y: float, slot: int, *, hollow: bool) -> Markup:
    """Draw a rounded square with the bot's number."""
    # A hollow tile's border is inside the square, so that both kinds have the same size.
    inset = 1.0 if hollow else 0.0
    side = TILE - 2 * inset
    classes = f"bot tile {slot_class(slot)}" + (" hollow" if hollow else "")
    return group(
        rect(x - side / 2, y - side / 2, side, side, rx=5 - inset),
        text(x, y + 4, bot_number(slot), class_="tile-number", text_anchor="middle"),
        class_=classes,
    )


def cross_mark(
    x: float, y: float, x_span: tuple[float, float] | None, y_span: tuple[float, float] | None, slot: int
) -> Markup:
    """Draw two crossing interval lines; arguments in pixels."""
    classes = f"whisker {slot_class(slot)}"
    return group(
        line(x_span[0], y, x_span[1], y, class_=classes) if x_span else None,
        line(x, y_span[0], x, y_span[1], class_=classes) if y_span else None,
    )


def mark_link(href: str | None, says: str, *children: object) -> Markup:
    """Make a mark with a tooltip and an optional link to `href`.

    The `<title>` is the fallback without JavaScript; the plots script moves it into its own tooltip.
    """
    title = el("title", says)
    if href:
        return el("a", title, *children, href=href, class_="mark", aria_label=says)
    return group(title, *children, class_="mark", tabindex=0, role="img", aria_label=says)


def bot_icon(slot: int, *, hollow: bool = False) -> Markup:
    """Draw a bot's mark as a small picture for tables and lists."""
    is_tile = slot > N_SHAPES
    side = TILE if is_tile else 16.0
    return el(
        "svg",
        bot_shape(side / 2, side / 2, slot, r=5.5, hollow=hollow),
        viewBox=f"0 0 {side:g} {side:g}",
        width=side,
        height=side,
        class_="bot-icon bot-icon-tile" if is_tile else "bot-icon",
        aria_hidden="true",
    )
