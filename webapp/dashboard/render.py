"""Rendering of tables and reports: CSV, LaTeX, Markdown, and HTML.

LaTeX (with booktabs) and Markdown have the digits of the page; reasons for empty cells are printed below the table. CSV
has all digits, intervals in two columns, and reasons next to missing values. The HTML of a report is one file that
loads nothing; pages contain the same body.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from evaluation.data.formats.tables import escape_cell
from evaluation.data.result_tables import Cell, PageTable
from webapp.insights.report_document import Document, ReportPart


def table_csv(table: PageTable) -> str:
    """Write the table as CSV, with a header and CRLF line ends.

    A column whose cells have two numbers becomes two, "low" and "high". A column with reasons is followed by a column
    of them.
    """
    widths = [max((len(row[i].raw) for row in table.rows), default=0) for i in range(len(table.headers))]
    reasons = [any(row[i].reason for row in table.rows) for i in range(len(table.headers))]
    header: list[str] = []
    for i, column in enumerate(table.headers):
        if widths[i] < 2:
            header.append(column.text)
        else:
            header += [f"{column.text} {end}" for end in ("low", "high")]
        if reasons[i]:
            header.append(f"{column.text} reason")
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([escape_cell(cell) for cell in header])
    for row in table.rows:
        cells: list[object] = []
        for i, cell in enumerate(row):
            cells += _cells(cell, widths[i])
            if reasons[i]:
                cells.append(escape_cell(cell.reason))
        writer.writerow(cells)
    return out.getvalue()


def _cells(cell: Cell, width: int) -> list[object]:
    if width == 0:
        return [escape_cell("" if cell.text == "–" else cell.text)]
    # A cell may have fewer numbers than others of its column: none at all, or one instead of two.
    raw = [*cell.raw, None, None][: max(width, 1)]
    return [_digits(value) for value in raw]


def _digits(value: float | None) -> str:
    """Write a number with all its digits; counts stay whole."""
    if value is None or not math.isfinite(value):
        return ""
    return str(value) if isinstance(value, int) else repr(float(value))


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # After \\, LaTeX reads these two as options of the line's end.
    "[": r"{[}",
    "*": r"{*}",
    # Characters that pdfTeX, LaTeX's first engine, cannot print directly.
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
    "→": r"$\rightarrow$",
    "↔": r"$\leftrightarrow$",
    "¹": r"\textsuperscript{1}",
    "²": r"\textsuperscript{2}",
    "³": r"\textsuperscript{3}",
    "⁴": r"\textsuperscript{4}",
    "⁵": r"\textsuperscript{5}",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "η": r"$\eta$",
    "κ": r"$\kappa$",
    "λ": r"$\lambda$",
    "ρ": r"$\rho$",
    "σ": r"$\sigma$",
    "τ": r"$\tau$",
    "χ": r"$\chi$",
    "Δ": r"$\Delta$",
    "✓": r"$\checkmark$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "’": "'",
    "‘": "`",
    "“": "``",
    "”": "''",
    "\u00a0": "~",
    "\u202f": r"\,",
    "\u2009": r"\,",
}
_TO_LATEX = str.maketrans(_LATEX)
_TO_MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]<>#|~"})
_BLANKS = re.compile(r"\s*[\r\n]+\s*")


def latex_text(text: str) -> str:
    """Escape everything that LaTeX would read as a command."""
    return _BLANKS.sub(" ", text).translate(_TO_LATEX)


def markdown_text(text: str) -> str:
    """Escape everything that Markdown would read as markup."""
    return _BLANKS.sub(" ", text).translate(_TO_MARKDOWN)


def table_latex(table: PageTable, *, caption: str, label: str) -> str:
    """Return the table in LaTeX, for papers that use booktabs.

    Args:
        label: for `\\ref`; only letters, digits and hyphens are kept.
    """
    columns = "".join("r" if header.numeric else "l" for header in table.headers)
    clean_label = re.sub(r"[^A-Za-z0-9-]+", "-", label).strip("-")
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(caption)}}}",
        rf"\label{{tab:{clean_label}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(latex_text(header.text) for header in table.headers) + r" \\",
        r"\midrule",
        *(" & ".join(latex_text(cell.text) for cell in row) + r" \\" for row in table.printed_rows),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {latex_text(reason)}" for reason in _reasons(table)),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def table_markdown(table: PageTable, *, caption: str) -> str:
    """Return the table in GitHub's or Pandoc's Markdown, after its caption."""
    rule = ["---:" if header.numeric else ":---" for header in table.headers]
    lines = [
        f"**{markdown_text(caption)}**",
        "",
        _line(markdown_text(header.text) for header in table.headers),
        _line(rule),
        *(_line(markdown_text(cell.text) for cell in row) for row in table.printed_rows),
    ]
    if reasons := _reasons(table):
        lines += ["", *(f"- {markdown_text(reason)}" for reason in reasons)]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _reasons(table: PageTable) -> list[str]:
    """Return the footnotes, or the reasons for empty cells with their rows and columns.

    Each reason is listed once.
    """
    if table.has_footnotes:
        return table.footnotes
    places_by_reason: dict[str, list[str]] = {}
    for row in table.lined:
        for header, cell in row:
            if cell.reason:
                place = row[0][1].text if cell is row[0][1] else f"{row[0][1].text}, {header.text}"
                places_by_reason.setdefault(cell.reason, []).append(place)
    return [f"{'; '.join(places)}: {reason}" for reason, places in places_by_reason.items()]


_STYLES = ("core/confab.css", "dashboard/dashboard.css", "dashboard/report.css")
_SCRIPT = "dashboard/report.js"
LONG = 80
"""Tables with more rows stay folded in print; the file includes them as CSV."""
SHORT = 16
"""Maximum number of rows of a table that is unfolded at first."""


@dataclass(frozen=True, slots=True)
class Text:
    """Table in a form to download: title, file name, and content as a data URL."""

    title: str
    file: str
    href: str
    is_copied: bool = True


@dataclass(frozen=True, slots=True)
class LaidOutPart:
    """Figure or table in the layout of the report.

    Attributes:
        source: key of the study, or name of the paper's layout; begins the names of files.
    """

    part: ReportPart
    source: str

    @property
    def caption(self) -> str:
        """Label and title in one line; for LaTeX, without the label."""
        title = self.part.title if self.part.title.endswith(("?", "!", ".")) else f"{self.part.title}."
        return f"{title} {self.part.method}".strip()

    @property
    def table(self) -> PageTable:
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
        drawings = self.part.drawing.narrow if self.part.drawing else ()
        return [(title, still(svg)) for title, svg in drawings]

    @property
    def texts(self) -> list[Text]:
        """The table as LaTeX, Markdown and CSV."""
        name = f"{self.source}-{self.part.id}"
        latex = table_latex(self.table, caption=self.caption, label=name)
        return [
            Text("LaTeX", f"{name}.tex", _address(latex, "application/x-tex")),
            Text("Markdown", f"{name}.md", _address(table_markdown(self.table, caption=self.caption), "text/markdown")),
            Text("CSV", f"{name}.csv", _address("\ufeff" + table_csv(self.table), "text/csv"), False),
        ]


def _address(text: str, kind: str) -> str:
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def numbered(document: Document) -> Document:
    """Return the report with numbered figures and tables.

    Those with a label of their own keep it.
    """
    counts: Counter[str] = Counter()

    def labelled(part: ReportPart) -> ReportPart:
        if part.label:
            return part
        kind = "Table" if part.drawing is None else "Figure"
        counts[kind] += 1
        return replace(part, label=f"{kind} {counts[kind]}")

    chapters = [replace(chapter, parts=tuple(map(labelled, chapter.parts))) for chapter in document.chapters]
    return replace(document, chapters=tuple(chapters))


def body_context(document: Document, *, level: int = 1) -> dict[str, Any]:
    """Return the context of `_report_body.html`.

    Args:
        level: level of its heading.
    """
    report, source = numbered(document), document.study or document.like
    return {
        "report": report,
        "levels": (level, level + 1, level + 2),
        "chapters": [(chapter, [LaidOutPart(part, source) for part in chapter.parts]) for chapter in report.chapters],
    }


@lru_cache(maxsize=8)
def body_html(document: Document, sections: tuple[str, ...], level: int) -> SafeString:
    """Return the body of the report for a page, cached.

    It has these sections, or all.
    """
    context = body_context(document.chosen(sections), level=level)
    return mark_safe(render_to_string("dashboard/_report_body.html", context))  # noqa: S308


def report_html(document: Document) -> str:
    """Return the report as one HTML file that loads nothing."""
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
    """Prepare a drawing for a page without scripts.

    It becomes one named picture, with its marks out of the tab order.
    """
    head, bracket, rest = svg.partition(">")
    head = head.replace('role="group"', 'role="img"').replace(' aria-roledescription="plot"', "")
    rest = _MARK.sub("", rest)
    return mark_safe(head + bracket + rest)  # noqa: S308 - made by the plots, which escape


def _read(name: str) -> str:
    path = finders.find(name)
    if not isinstance(path, str):
        raise FileNotFoundError(f"the static file {name} is missing from this installation")
    return Path(path).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
