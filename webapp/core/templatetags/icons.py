"""`{% icon "name" %}`: icons as inline SVG, on a grid of 24 units.

Icons are decoration: they are hidden from screen readers, and the words are next to them.
"""

from __future__ import annotations

import difflib

from django import template
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

# Outlines, stroked in the colour of the text. Names describe the drawing, not its use.
_OUTLINES = {
    "check": '<path d="M4.5 12.5 9.5 17.5 19.5 6.5"/>',
    "cross": '<path d="M6 6l12 12M18 6 6 18"/>',
    "plus": '<path d="M12 5v14M5 12h14"/>',
    "minus": '<path d="M5 12h14"/>',
    "arrow-end": '<path class="flip" d="M4 12h16M14 6l6 6-6 6"/>',
    "arrow-start": '<path class="flip" d="M20 12H4M10 6l-6 6 6 6"/>',
    "arrow-up": '<path d="M12 20V4M6 10l6-6 6 6"/>',
    "arrow-down": '<path d="M12 4v16M6 14l6 6 6-6"/>',
    "chevron-down": '<path d="M6 9l6 6 6-6"/>',
    "warning": '<path d="M12 3.5 22 20.5H2z"/><path d="M12 10v5M12 17.6v.2"/>',
    "info": '<circle cx="12" cy="12" r="9"/><path d="M12 11v6M12 7.4v.2"/>',
    "help": '<circle cx="12" cy="12" r="9"/><path d="M9.5 9.5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8M12 16.8v.2"/>',
    "clock": '<circle cx="12" cy="12" r="9"/><path d="M12 7v5l3 2"/>',
    "thumb-up": '<path d="M7.5 10.5v9.5H4v-9.5zM7.5 11l4-7.5c1.5 0 2.5 1 2.5 2.5v3.5h4.2a1.8 1.8 0 0 1'
    ' 1.8 2.1l-1.1 6.6a1.8 1.8 0 0 1-1.8 1.5H7.5"/>',
    "thumb-down": '<path d="M16.5 13.5V4H20v9.5zM16.5 13l-4 7.5c-1.5 0-2.5-1-2.5-2.5v-3.5H5.8'
    'a1.8 1.8 0 0 1-1.8-2.1l1.1-6.6a1.8 1.8 0 0 1 1.8-1.5h9.6"/>',
    "chat": '<path d="M7 4h10a3 3 0 0 1 3 3v7a3 3 0 0 1-3 3h-6l-4.5 4v-4.1A3 3 0 0 1 4 14V7a3 3 0 0 1 3-3z"/>',
    "list": '<rect x="4" y="5" width="16" height="14" rx="2.5"/><path d="M8 10h8M8 14h5"/>',
    "image": '<rect x="4" y="5" width="16" height="14" rx="2.5"/><circle cx="9" cy="10" r="1.5"/>'
    '<path d="M6 18l6-6 6 6"/>',
    "wifi": '<path d="M4 10a12 12 0 0 1 16 0M7.5 13.5a7 7 0 0 1 9 0M12 17.5v.2"/>',
    "copy": '<rect x="9" y="9" width="11" height="11" rx="2"/>'
    '<path d="M15 9V6a2 2 0 0 0-2-2H6a2 2 0 0 0-2 2v7a2 2 0 0 0 2 2h3"/>',
    "bot": '<rect x="4" y="9" width="16" height="11" rx="3"/><path d="M12 9V5M9 14v1M15 14v1M12 4.5v.2"/>',
    "home": '<path d="M4 11 12 4l8 7v9h-5.5v-5.5h-5V20H4z"/>',
    "repeat": '<path d="M20 11a8 8 0 0 0-14-4.5L4 8.5M4 4v4.5h4.5M4 13a8 8 0 0 0 14 4.5l2-2M20 20v-4.5h-4.5"/>',
    "download": '<path d="M12 4v11M7 10.5l5 5 5-5M5 20h14"/>',
    "upload": '<path d="M12 16V5M7 9.5l5-5 5 5M5 20h14"/>',
    "book": '<path d="M12 6c-2-1.5-5-2-8-2v14c3 0 6 .5 8 2 2-1.5 5-2 8-2V4c-3 0-6 .5-8 2zM12 6v14"/>',
    "people": '<circle cx="9" cy="8" r="3.5"/><path d="M2.5 20a6.5 6.5 0 0 1 13 0M16 5a3.5 3.5 0 0 1 0 6.5M18 '
    '14.5a6 6 0 0 1 3.5 5.5"/>',
    "chart": '<path d="M4 4v16h16M8 16v-4M12.5 16V8M17 16v-6"/>',
    "pause": '<path d="M9 5v14M15 5v14"/>',
    "play": '<path d="M7 4.5v15l12-7.5z"/>',
    "flag": '<path d="M5.5 21V4M5.5 4.5h12l-2.5 4 2.5 4h-12"/>',
    "search": '<circle cx="10.5" cy="10.5" r="6"/><path d="M15 15l5.5 5.5"/>',
    "stop": '<rect x="6" y="6" width="12" height="12" rx="2"/>',
    "external": '<path d="M13 5h6v6M19 5l-9 9M17 14v4a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2V9a2 2 0 0 1 2-2h4"/>',
    "star": '<path d="M12 3.8l2.6 5.4 5.9.8-4.3 4.1 1 5.9-5.2-2.9L6.8 20l1-5.9L3.5 10l5.9-.8z"/>',
    "tag": '<path d="M4 4h7.5L20 12.5 12.5 20 4 11.5z"/><circle cx="8.3" cy="8.3" r="1.3"/>',
    "sliders": '<path d="M4 8h10M18 8h2M4 16h2M10 16h10"/><circle cx="16" cy="8" r="2"/><circle cx="8" cy="16" r="2"/>',
    "gear": '<circle cx="12" cy="12" r="3.2"/><path d="M12 3v3M12 18v3M3 12h3M18 12h3M5.6 5.6l2.2 2.2M16.2 16.2l2.2 2.2'
    'M18.4 5.6l-2.2 2.2M7.8 16.2l-2.2 2.2"/><circle cx="12" cy="12" r="6.5"/>',
    "leave": '<path class="flip" d="M14 4H7a2 2 0 0 0-2 2v12a2 2 0 0 0 2 2h7M10 12h11M17 8l4 4-4 4"/>',
}
_FILLED = {
    "brand": '<path d="M7 3.2h6.5a5 5 0 0 1 5 5v1a5 5 0 0 1-5 5H8.2l-3.4 3v-3.6A5 5 0 0 1 2 9.2v-1a5 5 0 0 1 5-5z"/>'
    '<path d="M20 10.2a4.6 4.6 0 0 1 .2 7.7V21l-2.8-2.4H13.5a4.6 4.6 0 0 1-3.4-1.5"'
    ' fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"/>'
}


@register.simple_tag
def icon(name: str) -> SafeString:
    """Return the inline SVG of this name.

    Raises:
        ValueError: there is no icon of this name; the message has the nearest ones.
    """
    if name in _FILLED:
        body, kind = _FILLED[name], "icon icon-filled"
    elif name in _OUTLINES:
        body, kind = _OUTLINES[name], "icon"
    else:
        near = difflib.get_close_matches(name, [*_OUTLINES, *_FILLED], n=3, cutoff=0.3)
        raise ValueError(f"no icon is called {name!r}; the nearest are {', '.join(near) or 'none'}")
    svg = f'<svg class="{kind}" viewBox="0 0 24 24" aria-hidden="true" focusable="false">{body}</svg>'
    return mark_safe(svg)  # noqa: S308  constant text of this module
