"""Files of a study's data package: README, and programs that load tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from chatbots.registry import title_of
from webapp.conversations.images import image_files
from webapp.core.rights import Right
from webapp.jobs.selectors.metrics import language_name, languages_named, study_languages
from webapp.studies.models import Study
from webapp.studies.plans import plan_json
from webapp.studies.protocols.base import protocols
from webapp.studies.rubrics import post_task_questions
from webapp.transfer.datasheet import datasheet_json, datasheet_md, datasheet_of
from webapp.transfer.exporters.base import ExportColumn, ExportOptions, conversations_included
from webapp.transfer.package.metadata import (
    codebook_csv,
    codebook_json,
    codebook_of,
    data_as_of,
    descriptor_json,
    plain,
    versions_json,
    versions_of,
)
from webapp.transfer.package.study_files import study_files
from webapp.transfer.package.tables import (
    File,
    Ledger,
    WrittenTable,
    packaged_tables,
    table_files,
    tables_left_out,
    zip_pieces,
)
from webapp.transfer.redaction.review import summarise_redaction

_RESERVED = {"ALL", "AND", "BY", "EQ", "GE", "GT", "LE", "LT", "NE", "NOT", "OR", "TO", "WITH"}
_RESERVED |= {"COMMENT", "DEFINE", "DOCUMENT", "REMARK"}
"""The first are words of SPSS; at the others a command begins that takes the next lines as its text."""
_WIDEST = 32767
"""Maximum size of a text in SPSS, in bytes."""
_LABEL_BYTES = 120
_TITLE_BYTES = 200


def load_py(tables: Iterable[WrittenTable]) -> str:
    """Return `load.py`."""
    lines = ["TABLES = {"]
    for written in tables:
        lines.append(f"    {written.table.name!r}: {{")
        for column in written.table.columns:
            labels = {plain(value): words for value, words in column.labels}
            lines.append(f"        {column.name!r}: ({column.type!r}, {labels!r}),")
        lines.append("    },")
    return _PY.replace("TABLES = {}", "\n".join([*lines, "}"]))


_PY = '''"""Loads the tables of this data package into pandas: `from load import load; tables = load()`.

Texts with a fixed set of values become categories, times are UTC, an empty cell is missing, and a leading apostrophe
that keeps spreadsheets from running a text as a formula is removed. The words at the points of a scale are in
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
    for written in tables:
        name = written.table.name
        parts.append(f"\n{name} <- confab_table({_r(name)})\n")
        for column in written.table.columns:
            cell = f"{name}[[{_r(column.name)}]]"
            parts.append(f"{cell} <- {_r_typed(column, cell)}\n")
            parts.append(f'attr({cell}, "label") <- {_r(column.description)}\n')
            if column.labels and column.type != "text":
                points = ", ".join(f"{_r(words)} = {value:g}" for value, words in column.labels)
                parts.append(f'attr({cell}, "labels") <- c({points})\n')
    return "".join(parts)


_R = r"""# Loads the tables of this data package into R, with base R alone: source("load.R", encoding = "UTF-8") here.
# Texts with a fixed set of values become factors, times are UTC, an empty cell is NA, and a leading apostrophe that
# keeps spreadsheets from running a text as a formula is removed. attr(x, "label") says what a column holds,
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
    return "".join([_SPS, *(_sps_table(written) for written in tables)])


_SPS = """* Encoding: UTF-8.
* Loads the tables of this data package into SPSS, each as a data set and a .sav file.
* First make this folder the working directory: CD 'path of the folder'.
* The tables in spss/ are those in data/ with each cell on one line, which SPSS needs, \
and times (UTC) as SPSS writes them.
* A leading apostrophe that keeps spreadsheets from running a text as a formula is removed.
* Empty cells of numbers, times and truth values are system-missing, those of texts user-missing.
* SPSS holds at most 32767 bytes of a text: what is longer is cut there, not in data/.
SET DECIMAL=DOT.
"""
_NO_YES = ((0, "No"), (1, "Yes"))
_RUN = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters that a spreadsheet would run, as in `evaluation.data.formats.tables`; SPSS reads no tab."""


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
                value_text = _sps(value, _LABEL_BYTES) if column.type == "text" else f"{value:g}"
                lines.append(f"    {value_text} {_sps(words, _LABEL_BYTES)}")
        lines[-1] += "."
    if texts:
        lines += ["MISSING VALUES", *(f"  {variable}" for variable in texts), "  (' ')."]
    numbers = [v for v, c in zip(variables, columns, strict=True) if c.type == "number"]
    if numbers:
        lines += ["FORMATS", *(f"  {variable}" for variable in numbers), "  (F12.4)."]
    lines += [f"SAVE OUTFILE='{name}.sav'.", ""]
    return "\n".join(lines)


def sps_names(columns: Sequence[ExportColumn]) -> list[str]:
    """Return valid SPSS column names: unreserved, unique, at most 64 bytes."""
    names: list[str] = []
    used_names: set[str] = set()
    for column in columns:
        name = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in column.name)
        if name.upper() in _RESERVED or not name[:1].isalpha():
            name = f"v_{name}"
        name = stem = name[:60].rstrip("._") or "v"
        number = 2
        while name.upper() in used_names:
            name = f"{stem}_{number}"
            number += 1
        used_names.add(name.upper())
        names.append(name)
    return names


def _sps_unescaped(variable: str) -> list[str]:
    """Return a command that removes escaping apostrophes from texts.

    These are the ones before a formula.
    """
    text = f'LTRIM({variable}, "\'")'
    begins = [f'    INDEX({text}, "{character}")' for character in _RUN]
    return [
        f'IF (SUBSTR({variable}, 1, 1) = "\'" AND ANY(1,',
        ",\n".join(begins) + "))",
        f"  {variable} = SUBSTR({variable}, 2).",
    ]


def _sps_format(column: ExportColumn, width: int) -> str:
    if column.type in ("integer", "number"):
        return "F20.0"  # numbers with a decimal point keep it, without added digits
    if column.type == "boolean":
        return "F1.0"
    if column.type == "time":
        return "DATETIME24.3"
    labelled = [len(str(value).encode("utf-8")) for value, _words in column.labels]
    return f"A{min(max(width, *labelled, 8), _WIDEST)}"


def _sps(text: Any, limit: int) -> str:
    """Return a text as SPSS writes it, cut to so many bytes."""
    line = " ".join(str(text).split())
    while len(line.encode("utf-8")) > limit:
        line = line[:-1]
    return "'" + line.replace("'", "''") + "'"


LICENCE = "[To be chosen by the researchers, for example CC BY 4.0. Until then the data may not be used.]"


def readme_text(
    study: Study,
    tables: Sequence[WrittenTable],
    options: ExportOptions,
    versions: dict[str, Any],
    tables_left_out: Mapping[str, str],
) -> str:
    """Return the package's README: purpose, size, and how to load it.

    Args:
        tables_left_out: each with the right it needs.
    """
    return (
        "\n\n".join(
            [
                f"# {study.name}",
                _describe_study(study, versions),
                "## Contents",
                _table(
                    ("table", "rows", "content"),
                    [
                        (
                            f"[{written.table.name}]({written.table.path})",
                            f"{written.n_rows:,}",
                            written.table.description,
                        )
                        for written in sorted(tables, key=lambda written: written.table.name)
                    ],
                ),
                _files(study, options, tables_left_out),
                "## Questions",
                _describe_questions(study),
                "## Languages",
                _languages(study),
                "## Loading the data",
                _LOADING,
                "## People",
                _people(study, options),
                "## Licence",
                LICENCE,
            ]
        )
        + "\n"
    )


def _describe_study(study: Study, versions: dict[str, Any]) -> str:
    confab_version = versions["confab"]
    release = confab_version["version"] + (f" (commit {confab_version['commit']})" if confab_version["commit"] else "")
    texts = study.values.texts
    organiser_text = f" It was run by {texts.organisation}." if texts.organisation else ""
    return (
        f"Data of the study “{study.name}” (`{study.key}`), version {study.version.number}. Protocol: "
        f"{title_of(protocols, study.protocol)}.{organiser_text} The data were exported as of "
        f"{versions['data']['as_of']} with Confab {release}."
    )


def _files(study: Study, options: ExportOptions, tables_left_out: Mapping[str, str]) -> str:
    left_out = [
        f"the table `{name}`, because the requester does not have the right `{right}`"
        for name, right in tables_left_out.items()
    ]
    if not options.include_synthetic:
        left_out.append("scripted participants in rehearsals")
    if not options.include_failed:
        left_out.append("chats in which a chatbot failed, and work of participants who missed an attention check")
    if study.values.chat.images and not options.include_images:
        left_out.append("images sent by participants")
    if not options.include_private:
        left_out.append(
            "participants' ids on recruitment platforms, completion codes, and answers to the questions before the "
            "task, apart from the coarsened columns `group_…` of the table `participants`"
        )
    omissions_text = f"Not included: {'; '.join(left_out)}; withdrawn data." if left_out else ""
    return (
        "`codebook.csv` and `codebook.json` describe every column: type, unit, labels of its values, direction, "
        "reasons for empty cells, and the question and version it belongs to. `study/` contains the study file of "
        "every version used; `texts/` the texts that participants agreed to; `heds.md` and `heds.json` the human "
        "evaluation datasheet; `plan.json` the plan when the study opened, and `plan-2.json` … later changes "
        "of it; `versions.json` the software that produced the data; `SHA256SUMS` the digests of all "
        f"files (check with `sha256sum --check SHA256SUMS`, or with `confab verify` and the zip). {omissions_text}"
    ).strip()


def _describe_questions(study: Study) -> str:
    rows = []
    for question in post_task_questions(study.version):
        scale = f"{question.low} to {question.high}" if question.kind == "scale" else question.kind
        rows.append((f"`{question.key}`", question.title, scale, "yes" if question.reversed else ""))
    if not rows:
        return "No questions were asked after the task."
    return _table(("column", "question", "scale", "reversed"), rows)


def _languages(study: Study) -> str:
    study_text = f"The study pages are in {languages_named(study.values.texts.offered)}."
    language_counts = study_languages(study)
    if not language_counts:
        return f"{study_text} The languages of the conversations were not measured."
    ordered = sorted(language_counts, key=lambda code: (-language_counts[code], code))
    return f"{study_text} Languages detected in the conversations: {', '.join(map(language_name, ordered))}."


_LOADING = """- pandas: `python load.py`, or `from load import load; tables = load()`
- R: `source("load.R", encoding = "UTF-8")` in this folder
- SPSS: make this folder the working directory and run `load.sps`
- Confab: `confab.read("this.zip")` in a notebook; `confab import this.zip --study KEY` makes the study again
- any tool that reads [Data Package](https://datapackage.org): `datapackage.json`

Texts that a spreadsheet would run as formulas have an apostrophe before them, which the loaders take away. Times are
UTC. An empty cell is a missing value."""


def _people(study: Study, options: ExportOptions) -> str:
    text = "Participants have pseudonyms, the same in all tables and in every package of this study. "
    if options.is_redacted:
        summary = summarise_redaction(study)
        text += "Personal data in texts are replaced by placeholders, the same for equal values. "
        text += summary.describe() if summary else "They were found by rules only; nobody reviewed them."
    else:
        text += "Texts are unedited: check them for names and other personal data before you publish."
    if options.include_images and not options.is_redacted:
        text += " `images/` contains the participants' images: check every image before you publish."
    if options.include_private:
        return (
            "**This package contains participants' ids on recruitment platforms and their answers before the task. Do "
            f"not publish it.** {text}"
        )
    return text


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


RowCallback = Callable[[int], None]


def package_pieces(
    study: Study,
    options: ExportOptions,
    *,
    rights: Collection[Right] = tuple(Right),
    report_rows: RowCallback = lambda n_rows: None,
) -> Iterator[bytes]:
    """Yield a study's data package in pieces.

    The same data always give the same bytes.

    Args:
        rights: rights of the reader; the README lists tables left out for missing rights.
        report_rows: called regularly with the number of rows packed so far.
    """
    ledger = Ledger()
    yield from zip_pieces(_package_files(study, options, rights, ledger, report_rows), ledger)


def _package_files(
    study: Study, options: ExportOptions, rights: Collection[Right], ledger: Ledger, report_rows: RowCallback
) -> Iterator[File]:
    as_of = data_as_of(study)
    versions = versions_of(study, options, as_of=as_of)
    written: list[WrittenTable] = []
    left_out = tables_left_out(rights)
    for table in packaged_tables(study, options, rights):
        before = sum(done.n_rows for done in written)
        written_table, files = table_files(table, study, options, report_rows=_after(before, report_rows))
        written.append(written_table)
        report_rows(before + written_table.n_rows)
        yield from files
    yield from study_files(study, options)
    if options.include_images and not options.is_redacted:
        for name, data in image_files(conversations_included(study, options)):
            yield File(f"images/{name}", len(data), (data,))
    codebook = codebook_of(study, written)
    yield File.from_text("codebook.csv", codebook_csv(codebook))
    yield File.from_text("codebook.json", codebook_json(codebook))
    yield File.from_text(
        "datapackage.json", descriptor_json(study, written, ledger.files, as_of=as_of, left_out=left_out)
    )
    yield File.from_text("load.py", load_py(written))
    yield File.from_text("load.R", load_r(written))
    yield File.from_text("load.sps", load_sps(written))
    for plan in study.plans.all():
        yield File.from_text("plan.json" if plan.number == 1 else f"plan-{plan.number}.json", plan_json(plan.document))
    entries = datasheet_of(study)
    yield File.from_text("heds.md", datasheet_md(study, entries))
    yield File.from_text("heds.json", datasheet_json(study, entries))
    yield File.from_text("versions.json", versions_json(versions))
    yield File.from_text("README.md", readme_text(study, written, options, versions, left_out))


def _after(n_rows: int, report_rows: RowCallback) -> RowCallback:
    """Return a callback that adds a table's rows to those of earlier ones."""
    return lambda n: report_rows(n_rows + n)
