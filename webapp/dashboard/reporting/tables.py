r"""Tables as text to paste: LaTeX with booktabs, and Markdown.

Both write what the page shows, digit for digit; all digits are in the CSV (`webapp/dashboard/csvs.py`). Why a cell is
empty stands below the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from webapp.dashboard.plots.figure import Table

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
    # After \\ these two would be read as options of the line's end.
    "[": r"{[}",
    "*": r"{*}",
    # Signs that LaTeX's first engine, pdfTeX, does not know as they are.
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
    "→": r"$\rightarrow$",
    "↔": r"$\leftrightarrow$",
    "²": r"\textsuperscript{2}",
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
    """Return text with everything escaped that LaTeX would read as a command."""
    return _BLANKS.sub(" ", text).translate(_TO_LATEX)


def markdown_text(text: str) -> str:
    """Return text with everything escaped that Markdown would read as a mark."""
    return _BLANKS.sub(" ", text).translate(_TO_MARKDOWN)


def table_latex(table: Table, *, caption: str, label: str) -> str:
    """Return the table in LaTeX, ready for a paper that uses the package booktabs.

    Args:
        label: for `\\ref`; what is neither letter, digit nor a hyphen is left out of it.
    """
    columns = "".join("r" if header.numeric else "l" for header in table.headers)
    kept = re.sub(r"[^A-Za-z0-9-]+", "-", label).strip("-")
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(caption)}}}",
        rf"\label{{tab:{kept}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(latex_text(header.text) for header in table.headers) + r" \\",
        r"\midrule",
        *(" & ".join(latex_text(cell.text) for cell in row) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {latex_text(why)}" for why in _reasons(table)),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def table_markdown(table: Table, *, caption: str) -> str:
    """Return the table in Markdown as GitHub and Pandoc read it, its caption before it."""
    rule = ["---:" if header.numeric else ":---" for header in table.headers]
    lines = [
        f"**{markdown_text(caption)}**",
        "",
        _line(markdown_text(header.text) for header in table.headers),
        _line(rule),
        *(_line(markdown_text(cell.text) for cell in row) for row in table.rows),
    ]
    if reasons := _reasons(table):
        lines += ["", *(f"- {markdown_text(why)}" for why in reasons)]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _reasons(table: Table) -> list[str]:
    """Return the reasons for empty cells, each once with its rows and columns."""
    found: dict[str, list[str]] = {}
    for row in table.lined:
        for header, cell in row:
            if cell.why:
                where = row[0][1].text if cell is row[0][1] else f"{row[0][1].text}, {header.text}"
                found.setdefault(cell.why, []).append(where)
    return [f"{'; '.join(where)}: {why}" for why, where in found.items()]
