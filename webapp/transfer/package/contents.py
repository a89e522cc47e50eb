"""Files of a study's data package, in their order, and its `README.md`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from chatbots.registry import title_of
from webapp.core.rights import Right
from webapp.jobs.selectors.metrics import language_name, study_languages
from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.rubrics import post_task_questions
from webapp.transfer.datasheet import datasheet_json, datasheet_md, datasheet_of
from webapp.transfer.exporters.base import ExportOptions
from webapp.transfer.package.loaders import load_py, load_r, load_sps
from webapp.transfer.package.metadata import (
    codebook_csv,
    codebook_json,
    codebook_of,
    data_as_of,
    descriptor_json,
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

LICENCE = "[To be chosen by the researchers, for example CC BY 4.0. Until then the data may not be used.]"


def readme_text(
    study: Study,
    tables: Sequence[WrittenTable],
    options: ExportOptions,
    versions: dict[str, Any],
    tables_left_out: Mapping[str, str],
) -> str:
    """Return the package's README: its purpose, its size, and how to load it.

    Args:
        tables_left_out: each with the right that it asks for.
    """
    return (
        "\n\n".join(
            [
                f"# {study.name}",
                _what(study, versions),
                "## What is in it",
                _table(
                    ("table", "rows", "what it holds"),
                    [
                        (f"[{one.table.name}]({one.table.path})", f"{one.n_rows:,}", one.table.description)
                        for one in sorted(tables, key=lambda one: one.table.name)
                    ],
                ),
                _files(options, tables_left_out),
                "## What people were asked",
                _asked(study),
                "## Languages",
                _languages(study),
                "## How to load it",
                _LOADING,
                "## People",
                _people(options),
                "## Licence",
                LICENCE,
            ]
        )
        + "\n"
    )


def _what(study: Study, versions: dict[str, Any]) -> str:
    made = versions["confab"]
    release = made["version"] + (f" (commit {made['commit']})" if made["commit"] else "")
    texts = study.values.texts
    by = f" It was run by {texts.organisation}." if texts.organisation else ""
    return (
        f"Data of the study “{study.name}” (`{study.key}`), version {study.version.number}. "
        f"Protocol: {title_of(protocols, study.protocol)}.{by} The data are as of {versions['data']['as_of']}; "
        f"they were exported with Confab {release}."
    )


def _files(options: ExportOptions, tables_left_out: Mapping[str, str]) -> str:
    left_out = [
        f"the table `{name}`, for the requester does not have the right `{right}`"
        for name, right in tables_left_out.items()
    ]
    if not options.include_synthetic:
        left_out.append("what scripted participants did in rehearsals")
    if not options.include_failed:
        left_out.append("chats that a chatbot broke, and work of people who missed an attention check")
    if not options.include_private:
        left_out.append("ids that recruitment platforms gave to people, and completion codes")
    said = f"Left out: {'; '.join(left_out)}; what people withdrew." if left_out else ""
    return (
        "`codebook.csv` and `codebook.json` say of every column what it holds: its type, unit, the words of its "
        "values, whether a high answer is a good one, why a cell may be empty, and which question of which version "
        "was asked. `study/` has the study as a file, every version that was run; `texts/` what people agreed to; "
        "`heds.md` and `heds.json` the human evaluation datasheet; `versions.json` what made the data; `SHA256SUMS` "
        f"the digests of all files (`sha256sum --check SHA256SUMS`, or `confab verify` with the zip). {said}"
    ).strip()


def _asked(study: Study) -> str:
    rows = []
    for question in post_task_questions(study.version):
        scale = f"{question.low} to {question.high}" if question.kind == "scale" else question.kind
        rows.append((f"`{question.key}`", question.title, scale, "yes" if question.reversed else ""))
    if not rows:
        return "Nothing was asked after a task."
    return _table(("column", "question", "scale", "reversed"), rows)


def _languages(study: Study) -> str:
    said = f"The study speaks {language_name(study.values.texts.language)}."
    found = study_languages(study)
    if not found:
        return f"{said} In which languages people wrote was not measured."
    ordered = sorted(found, key=lambda code: (-found[code], code))
    return f"{said} Found in the conversations: {', '.join(map(language_name, ordered))}."


_LOADING = """- pandas: `python load.py`, or `from load import load; tables = load()`
- R: `source("load.R", encoding = "UTF-8")` in this folder
- SPSS: make this folder the working directory and run `load.sps`
- Confab: `confab.read("this.zip")` in a notebook; `confab import this.zip --study KEY` makes the study again
- any tool that reads [Data Package](https://datapackage.org): `datapackage.json`

Texts that a spreadsheet would run as formulas have an apostrophe before them, which the loaders take away. Times are
UTC. An empty cell is a missing value."""


def _people(options: ExportOptions) -> str:
    said = (
        "People have pseudonyms, the same in all tables and in every package of this study. "
        "Texts are as people wrote them: read them for names and other personal details before you publish."
    )
    if options.include_private:
        return f"**This package holds ids of people on recruitment platforms. Do not publish it.** {said}"
    return said


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


Told = Callable[[int], None]


def package_pieces(
    study: Study, options: ExportOptions, *, rights: Collection[Right] = tuple(Right), told: Told = lambda n_rows: None
) -> Iterator[bytes]:
    """Yield a study's data package in pieces; the same data are always the same bytes.

    Args:
        rights: of whoever reads it; it says which tables were left out for want of another one.
        told: called now and then with how many rows of all tables are in.
    """
    ledger = Ledger()
    yield from zip_pieces(_package_files(study, options, rights, ledger, told), ledger)


def _package_files(
    study: Study, options: ExportOptions, rights: Collection[Right], ledger: Ledger, told: Told
) -> Iterator[File]:
    as_of = data_as_of(study)
    versions = versions_of(study, options, as_of=as_of)
    written: list[WrittenTable] = []
    left_out = tables_left_out(rights)
    for table in packaged_tables(study, options, rights):
        before = sum(done.n_rows for done in written)
        one, files = table_files(table, study, options, told=_after(before, told))
        written.append(one)
        told(before + one.n_rows)
        yield from files
    yield from study_files(study, options)
    codebook = codebook_of(study, written)
    yield File.of("codebook.csv", codebook_csv(codebook))
    yield File.of("codebook.json", codebook_json(codebook))
    yield File.of("datapackage.json", descriptor_json(study, written, ledger.files, as_of=as_of, left_out=left_out))
    yield File.of("load.py", load_py(written))
    yield File.of("load.R", load_r(written))
    yield File.of("load.sps", load_sps(written))
    entries = datasheet_of(study)
    yield File.of("heds.md", datasheet_md(study, entries))
    yield File.of("heds.json", datasheet_json(study, entries))
    yield File.of("versions.json", versions_json(versions))
    yield File.of("README.md", readme_text(study, written, options, versions, left_out))


def _after(n_rows: int, told: Told) -> Told:
    """Return a callback that reports a table's rows on top of those of the tables before it."""
    return lambda n: told(n_rows + n)
