"""Rules that every style sheet keeps."""

import re
from collections import Counter

from tests.documents import ROOT

RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
COLOUR = re.compile(r"(--[\w-]+):[^;{}]*(?:#[0-9a-f]{3,8}\b|rgb\()")
SCROLLS = re.compile(r"overflow(?:-[xy])?:\s*(?:auto|scroll)")


def test_every_scroller_holds_its_absolute_children() -> None:
    """Visually hidden text is absolute: without a positioned scroller it lengthens the document."""
    loose, n_scrollers = [], 0
    for sheet in sorted(ROOT.glob("webapp/*/static/**/*.css")):
        for selector, body in RULE.findall(sheet.read_text(encoding="utf-8")):
            name = " ".join(selector.rpartition("*/")[2].split())
            if SCROLLS.search(body) and name != "dialog":  # browsers position a dialog
                n_scrollers += 1
                loose += [] if "position:" in body else [f"{sheet.name}: {name}"]
    assert n_scrollers > 15
    assert not loose, loose


def test_every_colour_stands_once() -> None:
    """The value of a colour on dark pages stands beside its value on light ones, not in a block of its own."""
    named = Counter(
        name
        for sheet in sorted(ROOT.glob("webapp/*/static/**/*.css"))
        for name in COLOUR.findall(sheet.read_text(encoding="utf-8"))
    )
    assert len(named) > 50
    assert [name for name, times in named.items() if times > 1] == []


def test_the_dashboard_has_one_fold_and_one_search_box() -> None:
    """Details are folds with one chevron, or menus (`data-closes`); searches are in a `search-box`."""
    marked = [
        " ".join(selector.rpartition("*/")[2].split())
        for sheet in sorted(ROOT.glob("webapp/dashboard/static/**/*.css"))
        for selector, body in RULE.findall(sheet.read_text(encoding="utf-8"))
        if re.search(r"summary(::(before|after|marker))", selector) and "content" in body
    ]
    assert marked == [":is(.dash-main, .report) details:not([data-closes]) > summary::before"]
    loose, n_boxes = [], 0
    for template in sorted(ROOT.glob("webapp/dashboard/templates/**/*.html")):
        text = template.read_text(encoding="utf-8")
        for box in re.finditer(r'type="search"', text):
            n_boxes += 1
            if 'class="search-box"' not in text[max(0, box.start() - 250) : box.start()]:
                loose.append(template.name)
    assert n_boxes >= 3
    assert not loose
