"""Programs in a data package that load its tables: for pandas, for R and for SPSS.

Each names every column with its type and, where its values have words, these words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from webapp.transfer.exporters.base import ExportColumn
from webapp.transfer.package.metadata import plain
from webapp.transfer.package.tables import WrittenTable

_RESERVED = {"ALL", "AND", "BY", "EQ", "GE", "GT", "LE", "LT", "NE", "NOT", "OR", "TO", "WITH"}
_RESERVED |= {"COMMENT", "DEFINE", "DOCUMENT", "REMARK"}
"""The first are words of SPSS; at the others a command begins that takes the next lines as its text."""
_WIDEST = 32767
"""Bytes of the longest text that SPSS holds."""
_LABEL_BYTES = 120
_TITLE_BYTES = 200


def load_py(tables: Iterable[WrittenTable]) -> str:
    """Return `load.py`."""
    lines = ["TABLES = {"]
    for one in tables:
        lines.append(f"    {one.table.name!r}: {{")
        for column in one.table.columns:
            labels = {plain(value): words for value, words in column.labels}
            lines.append(f"        {column.name!r}: ({column.type!r}, {labels!r}),")
        lines.append("    },")
    return _PY.replace("TABLES = {}", "\n".join([*lines, "}"]))


_PY = '''"""Loads the tables of this data package into pandas: `from load import load; tables = load()`.

Texts with a fixed set of values become categories, times are UTC, an empty cell is missing, and a leading apostrophe
that keeps spreadsheets from running a text as a formula is taken away. The words at the points of a scale are in
`tables["ratings"].attrs["labels"]`, by column, and codebook.json says all else about every column.
"""

import json
import re
from pathlib import Path

import pandas as pd

# {table: {column: (type, {value: words})}}
TABLES = {}
_APOSTROPHE = re.compile(r"'(?='*[=+\\-@\\t\\r\\n\\uff1d\\uff0b\\uff0d\\uff20])")


def load(folder=Path(__file__).parent):
    """Return {name of the table: DataFrame}."""
    return {name: load_table(name, folder) for name in TABLES}


def load_table(name, folder=Path(__file__).parent):
    """Return one table."""
    cells = pd.read_csv(Path(folder) / "data" / f"{name}.csv", dtype=str, keep_default_na=False, encoding="utf-8")
    columns = TABLES[name].items()
    table = pd.DataFrame({column: _typed(cells[column], kind, labels) for column, (kind, labels) in columns})
    table.attrs["labels"] = {column: labels for column, (_kind, labels) in columns if labels}
    return table


def _typed(cells, kind, labels):
    if kind in ("text", "json"):
        cells = cells.map(lambda cell: _APOSTROPHE.sub("", cell, count=1) if cell.startswith("'") else cell)
    given = cells.mask(cells == "")
    if kind == "integer":
        return pd.to_numeric(given).astype("Int64")
    if kind == "number":
        return given.astype("float64")
    if kind == "boolean":
        return given.map({"true": True, "false": False}).astype("boolean")
    if kind == "time":
        return pd.to_datetime(given, utc=True, format="ISO8601")
    if kind == "json":
        return given.map(json.loads, na_action="ignore")
    return given.astype(pd.CategoricalDtype(list(labels)) if labels else "string")


if __name__ == "__main__":
    for name, table in load().items():
        print(f"{name}: {len(table)} rows, {len(table.columns)} columns")
'''


def load_r(tables: Iterable[WrittenTable]) -> str:
    """Return `load.R`."""
    parts = [_R]
    for one in tables:
        name = one.table.name
        parts.append(f"\n{name} <- confab_table({_r(name)})\n")
        for column in one.table.columns:
            cell = f"{name}[[{_r(column.name)}]]"
            parts.append(f"{cell} <- {_r_typed(column, cell)}\n")
            parts.append(f'attr({cell}, "label") <- {_r(column.description)}\n')
            if column.labels and column.type != "text":
                points = ", ".join(f"{_r(words)} = {value:g}" for value, words in column.labels)
                parts.append(f'attr({cell}, "labels") <- c({points})\n')
    return "".join(parts)


_R = r"""# Loads the tables of this data package into R, with base R alone: source("load.R", encoding = "UTF-8") here.
# Texts with a fixed set of values become factors, times are UTC, an empty cell is NA, and a leading apostrophe that
# keeps spreadsheets from running a text as a formula is taken away. attr(x, "label") says what a column holds,
# attr(x, "labels") which words stand at the points of a scale. JSON stays text, and R reads every line end as \n.

confab_table <- function(name) {
  read.csv(file.path("data", paste0(name, ".csv")), colClasses = "character", na.strings = "",
           encoding = "UTF-8", check.names = FALSE)
}
confab_text <- function(x) sub("^'(?='*[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20])", "", x, perl = TRUE)
confab_time <- function(x) as.POSIXct(x, format = "%Y-%m-%dT%H:%M:%OS", tz = "UTC")
"""


def _r_typed(column: ExportColumn, cell: str) -> str:
    if column.type in ("integer", "number"):
        return f"as.numeric({cell})"
    if column.type == "boolean":
        return f'{cell} == "true"'
    if column.type == "time":
        return f"confab_time({cell})"
    if column.type == "text" and column.labels:
        levels = ", ".join(_r(value) for value, _words in column.labels)
        words = ", ".join(_r(words) for _value, words in column.labels)
        return f"factor(confab_text({cell}), levels = c({levels}), labels = c({words}))"
    return f"confab_text({cell})"


def _r(text: Any) -> str:
    """Return a text as R writes it."""
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def load_sps(tables: Iterable[WrittenTable]) -> str:
    """Return `load.sps`."""
    return "".join([_SPS, *(_sps_table(one) for one in tables)])


_SPS = """* Encoding: UTF-8.
* Loads the tables of this data package into SPSS, each as a data set and a .sav file.
* First make this folder the working directory: CD 'path of the folder'.
* The tables in spss/ are those in data/ with each cell on one line, which SPSS needs, \
and times (UTC) as SPSS writes them.
* A leading apostrophe that keeps spreadsheets from running a text as a formula is taken away.
* Empty cells of numbers, times and truth values are system-missing, those of texts user-missing.
* SPSS holds at most 32767 bytes of a text: what is longer is cut there, not in data/.
SET DECIMAL=DOT.
"""
_NO_YES = ((0, "No"), (1, "Yes"))
_RUN = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters that a spreadsheet would run, as in `evaluation.formats.tables`; SPSS reads no tab."""


def _sps_table(written: WrittenTable) -> str:
    name, columns = written.table.name, written.table.columns
    variables = sps_names(columns)
    lines = [
        "",
        "GET DATA",
        "  /TYPE=TXT",
        f"  /FILE='spss/{name}.csv'",
        "  /ENCODING='UTF8'",
        "  /DELCASE=LINE",
        '  /DELIMITERS=","',
        "  /QUALIFIER='\"'",
        "  /ARRANGEMENT=DELIMITED",
        "  /FIRSTCASE=2",
        "  /VARIABLES=",
    ]
    for variable, column, width in zip(variables, columns, written.widths, strict=True):
        lines.append(f"    {variable} {_sps_format(column, width)}")
    lines[-1] += "."
    lines += [f"DATASET NAME {name}.", "VARIABLE LABELS"]
    for variable, column in zip(variables, columns, strict=True):
        lines += [f"  {variable}", f"    {_sps(column.description, _TITLE_BYTES)}"]
    lines[-1] += "."
    texts = [v for v, c in zip(variables, columns, strict=True) if c.type in ("text", "json")]
    for variable, is_escaped in zip(variables, written.escaped, strict=True):
        if is_escaped:
            lines += _sps_unescaped(variable)
    labelled = [
        (variable, column, labels)
        for variable, column in zip(variables, columns, strict=True)
        if (labels := _NO_YES if column.type == "boolean" else column.labels)
    ]
    if labelled:
        lines.append("VALUE LABELS")
        for number, (variable, column, labels) in enumerate(labelled):
            lines.append(f"  {'/' if number else ''}{variable}")
            for value, words in labels:
                shown = _sps(value, _LABEL_BYTES) if column.type == "text" else f"{value:g}"
                lines.append(f"    {shown} {_sps(words, _LABEL_BYTES)}")
        lines[-1] += "."
    if texts:
        lines += ["MISSING VALUES", *(f"  {variable}" for variable in texts), "  (' ')."]
    numbers = [v for v, c in zip(variables, columns, strict=True) if c.type == "number"]
    if numbers:
        lines += ["FORMATS", *(f"  {variable}" for variable in numbers), "  (F12.4)."]
    lines += [f"SAVE OUTFILE='{name}.sav'.", ""]
    return "\n".join(lines)


def sps_names(columns: Sequence[ExportColumn]) -> list[str]:
    """Return the columns' names as SPSS takes them: no reserved word, at most 64 bytes, no two equal."""
    found: list[str] = []
    taken: set[str] = set()
    for column in columns:
        name = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in column.name)
        if name.upper() in _RESERVED or not name[:1].isalpha():
            name = f"v_{name}"
        name = stem = name[:60].rstrip("._") or "v"
        number = 2
        while name.upper() in taken:
            name = f"{stem}_{number}"
            number += 1
        taken.add(name.upper())
        found.append(name)
    return found


def _sps_unescaped(variable: str) -> list[str]:
    """Return a command that takes the apostrophe from texts that begin with one, where a formula follows."""
    text = f'LTRIM({variable}, "\'")'
    begins = [f'    INDEX({text}, "{character}")' for character in _RUN]
    return [
        f'IF (SUBSTR({variable}, 1, 1) = "\'" AND ANY(1,',
        ",\n".join(begins) + "))",
        f"  {variable} = SUBSTR({variable}, 2).",
    ]


def _sps_format(column: ExportColumn, width: int) -> str:
    if column.type in ("integer", "number"):
        return "F20.0"  # what has a point keeps it; places that are not written are not made up
    if column.type == "boolean":
        return "F1.0"
    if column.type == "time":
        return "DATETIME24.3"
    labelled = [len(str(value).encode("utf-8")) for value, _words in column.labels]
    return f"A{min(max(width, *labelled, 8), _WIDEST)}"


def _sps(text: Any, most: int) -> str:
    """Return a text as SPSS writes it, cut to so many bytes."""
    line = " ".join(str(text).split())
    while len(line.encode("utf-8")) > most:
        line = line[:-1]
    return "'" + line.replace("'", "''") + "'"
