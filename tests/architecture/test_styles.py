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
    counts = Counter(
        name
        for sheet in sorted(ROOT.glob("webapp/*/static/**/*.css"))
        for name in COLOUR.findall(sheet.read_text(encoding="utf-8"))
    )
    assert len(counts) > 50
    assert [name for name, times in counts.items() if times > 1] == []


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


OTHER_BUTTONS = {
    "build-card",  # presets with a hint
    "chip",  # tags
    "help-button",  # of the participants' header
    "new-reply",
    "ranking-handle",
    "send",
    "visually-hidden",
    "vote",
}
"""Classes of buttons that are neither named by their words alone nor part of a form's row of buttons."""


def templates(*apps: str) -> dict[str, str]:
    return {
        path.relative_to(ROOT / f"webapp/{app}/templates/{app}").as_posix(): path.read_text(encoding="utf-8")
        for app in apps
        for path in sorted(ROOT.glob(f"webapp/{app}/templates/**/*.html"))
    }


def test_there_is_one_kind_of_button() -> None:
    """Buttons, and the heads of menus, have the class `button`; underlined words are links."""
    loose, n_buttons = [], 0
    for name, text in templates("dashboard", "participant").items():
        for attributes in re.findall(r"<button\b([^>]*)>", text):
            n_buttons += 1
            classes = re.search(r'class="([^"]*)"', attributes)
            names = set(re.split(r"[\s{]", classes[1])) if classes else set()
            if not names & {"button", *OTHER_BUTTONS} and not re.search("disabled hidden|role=.tab", attributes):
                loose.append(f"{name}: {attributes}")
        for menu, summary in re.findall(r"<details class=\"([^\"]*)\" data-closes[^>]*>\s*<summary([^>]*)>", text):
            loose += [] if "side-menu" in menu or 'class="button' in summary else [f"{name}: {menu}"]
    assert n_buttons > 250
    assert not loose, loose
    everything = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("webapp/*/static/**/*.css"))
    assert "button-link" not in everything


def test_the_dashboard_has_one_kind_of_tab() -> None:
    """Links to pages and parts come from `_tabs.html`; the sidebar, the guide and the builder's steps are no tabs."""
    marks_current = {
        name
        for name, text in templates("dashboard").items()
        if re.search(r"<nav\b(?:(?!</nav>).)*aria-current", text, re.DOTALL)
    }
    assert marks_current == {"_tabs.html", "_nav.html", "guide.html", "builder/step.html"}
    assert sum("_tabs.html" in text for text in templates("dashboard").values()) > 9
    styled = {
        part
        for sheet in sorted(ROOT.glob("webapp/dashboard/static/**/*.css"))
        for selector, _body in RULE.findall(sheet.read_text(encoding="utf-8"))
        for part in re.findall(r"([.\w-]*)[ :has(]*\[aria-current", selector)
    }
    assert styled - {""} == {".tabs", ".side-nav", ".build-steps", ".bench-row", ".bench-pick"}
