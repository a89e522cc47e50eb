"""The files of a study's data package, in the order in which they are packed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from webapp.core.rights import Right
from webapp.studies.models import Study
from webapp.transfer.datasheet.filling import datasheet_of
from webapp.transfer.datasheet.writing import datasheet_json, datasheet_md
from webapp.transfer.exporters.base import ExportOptions
from webapp.transfer.package.archive import File, Ledger, zip_pieces
from webapp.transfer.package.codebook import codebook_csv, codebook_json, codebook_of
from webapp.transfer.package.descriptor import descriptor_json
from webapp.transfer.package.loaders import load_py, load_r, load_sps
from webapp.transfer.package.readme import readme_text
from webapp.transfer.package.study_files import study_files
from webapp.transfer.package.tables import (
    WrittenTable,
    packaged_tables,
    table_files,
    tables_left_out,
)
from webapp.transfer.package.versions import data_as_of, versions_json, versions_of

Told = Callable[[int], None]


def package_pieces(
    study: Study,
    options: ExportOptions,
    *,
    rights: Collection[Right] = tuple(Right),
    told: Told = lambda n_rows: None,
) -> Iterator[bytes]:
    """Yield a study's data package in pieces; the same data are always the same bytes.

    Args:
        rights: of whoever reads it; it says which tables were left out for want of another one.
        told: called now and then with how many rows of all tables are in.
    """
    ledger = Ledger()
    yield from zip_pieces(_files(study, options, rights, ledger, told), ledger)


def _files(
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
    yield File.of(
        "datapackage.json",
        descriptor_json(study, written, ledger.files, as_of=as_of, left_out=left_out),
    )
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
