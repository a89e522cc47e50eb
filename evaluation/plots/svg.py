"""A tiny builder of SVG elements that escapes everything it is given."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup, escape

# Not allowed in XML, and of no use to anybody: a downloaded figure must stay readable.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def number(value: float) -> str:
    """Write a coordinate, in pixels, with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


def el(tag: str, *children: object, **attributes: Any) -> Markup:
    """Make one element.

    Args:
        tag: its name.
        children: elements made by `el`, or text, which is escaped. None is left out.
        attributes: `class_` stands for `class`, other underscores for hyphens; None is left out,
            True gives the bare name.
    """
    parts = [f"<{tag}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {name}")
            continue
        text = (
            number(value)
            if isinstance(value, int | float)
            else escape(_CONTROL.sub("", str(value)))
        )
        parts.append(f' {name}="{text}"')
    parts.append(">")
    parts.extend(_child(child) for child in children if child is not None)
    parts.append(f"</{tag}>")
    return Markup("".join(parts))  # noqa: S704 - every part is escaped above


def _child(child: object) -> str:
    if isinstance(child, Markup):
        return child
    return escape(_CONTROL.sub("", str(child)))


def group(*children: object, **attributes: Any) -> Markup:
    """Make a `<g>`, which groups elements."""
    return el("g", *children, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: Any) -> Markup:
    """Make a straight line."""
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def rect(x: float, y: float, width: float, height: float, **attributes: Any) -> Markup:
    """Make a rectangle; `rx` rounds its corners."""
    return el("rect", x=x, y=y, width=max(width, 0), height=height, **attributes)


def text(x: float, y: float, content: object, **attributes: Any) -> Markup:
    """Make a text on one line, `y` at its baseline."""
    return el("text", content, x=x, y=y, **attributes)


def drawing(
    width: float, height: float, *children: object, name: str, interactive: bool, **attributes: Any
) -> Markup:
    """Make the outer `<svg>`.

    A drawing whose marks are links is a group of named links, not one image: as an image its marks
    would be hidden from screen readers although the keyboard reaches them.
    """
    return el(
        "svg",
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="group" if interactive else "img",
        aria_label=name,
        aria_roledescription="plot" if interactive else None,
        **attributes,
    )
