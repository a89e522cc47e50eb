"""Rules that every style sheet keeps."""

from __future__ import annotations

import re

from tests.documents import ROOT

RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
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
