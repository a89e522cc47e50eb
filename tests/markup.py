"""HTML as a browser shows it, whatever the layout of the template."""

import re

_RULES = (
    (re.compile(r"\s+"), " "),
    (re.compile(r"> <"), "><"),
    (re.compile(r"(<\w[^<>]*>) "), r"\1"),
    (re.compile(r" (</|>)"), r"\1"),
)


def flat(html: str) -> str:
    """Make each run of whitespace one blank, with none between tags or at the ends of an element."""
    for pattern, short in _RULES:
        html = pattern.sub(short, html)
    return html
