"""A report's document as HTML: one file that loads nothing, and the same body within pages."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from webapp.dashboard.csvs import table_csv
from webapp.dashboard.plots.figure import Table
from webapp.dashboard.reporting.document import Chapter, Document, Part
from webapp.dashboard.reporting.tables import table_latex, table_markdown

_STYLES = ("core/confab.css", "dashboard/dashboard.css", "dashboard/report.css")
_SCRIPT = "dashboard/report.js"
LONG = 80
"""Tables with more rows stay folded in print; their CSV is in the file."""
SHORT = 16
"""Tables with at most so many rows stand open."""


@dataclass(frozen=True, slots=True)
class Text:
    """A table in a form to take away: what it is called, its file and the whole of it as an address."""

    title: str
    file: str
    href: str
    is_copied: bool = True


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure or table as the report lays it out."""

    part: Part
    study: str

    @property
    def caption(self) -> str:
        """Label and title in one line, as LaTeX's caption has it without the label."""
        return f"{self.part.title}. {self.part.method}".strip()

    @property
    def table(self) -> Table:
        """Its numbers."""
        return self.part.table

    @property
    def is_open(self) -> bool:
        """True if the table is shown unfolded."""
        return self.part.drawing is None and len(self.table.rows) <= SHORT

    @property
    def is_long(self) -> bool:
        """True if the table stays folded in print."""
        return len(self.table.rows) > LONG

    @property
    def wide(self) -> SafeString:
        """The drawing for wide columns, as a picture."""
        return still(self.part.drawing.wide if self.part.drawing else "")

    @property
    def narrow(self) -> list[tuple[str, SafeString]]:
        """The drawings for narrow columns with their titles."""
        found = self.part.drawing.narrow if self.part.drawing else ()
        return [(title, still(svg)) for title, svg in found]

    @property
    def texts(self) -> list[Text]:
        """The table as LaTeX, Markdown and CSV."""
        name = f"{self.study}-{self.part.id}"
        latex = table_latex(self.table, caption=self.caption, label=name)
        return [
            Text("LaTeX", f"{name}.tex", _address(latex, "application/x-tex")),
            Text(
                "Markdown",
                f"{name}.md",
                _address(table_markdown(self.table, caption=self.caption), "text/markdown"),
            ),
            Text(
                "CSV", f"{name}.csv", _address("\ufeff" + table_csv(self.table), "text/csv"), False
            ),
        ]


def _address(text: str, kind: str) -> str:
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def numbered(document: Document) -> Document:
    """Return the report with its figures and tables numbered as they stand, but for those with a label of their own."""
    n_figures = n_tables = 0
    chapters: list[Chapter] = []
    for chapter in document.chapters:
        parts = []
        for part in chapter.parts:
            label = part.label
            if not label and part.drawing is not None:
                n_figures += 1
                label = f"Figure {n_figures}"
            elif not label:
                n_tables += 1
                label = f"Table {n_tables}"
            parts.append(replace(part, label=label))
        chapters.append(replace(chapter, parts=tuple(parts)))
    return replace(document, chapters=tuple(chapters))


def body_context(document: Document, *, level: int = 1) -> dict[str, Any]:
    """Return the context of `_report_body.html`.

    Args:
        level: level of its heading.
    """
    shown = numbered(document)
    return {
        "report": shown,
        "levels": (level, level + 1, level + 2),
        "chapters": [
            (chapter, [Shown(part, document.study) for part in chapter.parts])
            for chapter in shown.chapters
        ],
    }


@lru_cache(maxsize=8)
def body_html(document: Document, sections: tuple[str, ...], level: int) -> SafeString:
    """Return the body of the report with these sections, or all, for a page around it; kept while it is asked for."""
    context = body_context(document.chosen(sections), level=level)
    return mark_safe(render_to_string("dashboard/_report_body.html", context))  # noqa: S308


def report_html(document: Document) -> str:
    """Return the report as one file of HTML that loads nothing from outside."""
    style = "\n".join(_read(name) for name in _STYLES)
    script = _read(_SCRIPT)
    return render_to_string(
        "dashboard/report_file.html",
        {
            **body_context(document),
            "style": mark_safe(style),  # noqa: S308 - our own file
            "script": mark_safe(script),  # noqa: S308 - our own file
            "policy": f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
            "img-src data:",
        },
    )


_MARK = re.compile(r' (?:tabindex="0"|role="img"|aria-label="[^"]*")')


def still(svg: str) -> SafeString:
    """Prepare a drawing for a page without a script: one picture with a name, its marks out of the tab order."""
    head, found, rest = svg.partition(">")
    head = head.replace('role="group"', 'role="img"').replace(' aria-roledescription="plot"', "")
    rest = _MARK.sub("", rest)
    return mark_safe(head + found + rest)  # noqa: S308 - made by the plots, which escape


def _read(name: str) -> str:
    path = finders.find(name)
    if not isinstance(path, str):
        raise FileNotFoundError(f"the static file {name} is missing from this installation")
    return Path(path).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
