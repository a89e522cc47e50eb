"""Importing a file: one pass that looks what is in it, one that stores it, in constant memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from evaluation.formats.base import (
    FileFormat,
    Record,
    Skipped,
    skip_mixed_control,
    without_clashes,
)
from evaluation.formats.recognition import format_for
from webapp.core.errors import Refused
from webapp.studies.models import Study
from webapp.studies.services import controls_mark
from webapp.transfer.package.reading import package_import
from webapp.transfer.report import ImportReport, Progress
from webapp.transfer.services import Scale, language_checked, records_store, study_for_import

BATCH = 500


@dataclass(frozen=True, slots=True)
class Contents:
    """What the first pass found.

    Attributes:
        bots: of all conversations; controls: those of degraded conversations.
        real: bots of other conversations, which are no controls.
        seen: smallest and largest value of every dimension.
    """

    bots: frozenset[str]
    seen: dict[str, Scale]
    n_records: int
    controls: frozenset[str] = frozenset()
    real: frozenset[str] = frozenset()


def import_conversations(
    path: Path,
    *,
    study_key: str,
    scale: Scale | None = None,
    language: str = "",
    progress: Progress | None = None,
) -> ImportReport:
    """Load a file into the study, made if there is none. Done again, it adds nothing.

    Args:
        path: in one of the formats of `formats/`, or a data package, which makes its study again.
        scale: of all dimensions; without it the smallest and largest values seen make each one's.
        language: of all conversations, as a code of ISO 639; without it metrics tell it by the words of each.
        progress: called with ("reading" or "storing", records so far).

    Raises:
        OSError, ValueError: the file cannot be opened, or is in no known format.
        Refused: see `study_for_import` and `language_checked`.
    """
    language = language_checked(language)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if zipfile.is_zipfile(path):
        if scale is not None:
            raise ValueError("a data package knows its scales; leave out the scale")
        if language:
            raise ValueError("a data package knows its language; leave out the language")
        return package_import(path, study_key=study_key, progress=progress)
    file_format = format_for(path)
    contents = _look(_records(file_format, path, scale), progress)
    report = ImportReport()
    study: Study | None = Study.objects.filter(key=study_key).first()
    if study is None and contents.n_records and not contents.bots:
        raise Refused(
            "ratings_only",
            f"{path.name} holds ratings without their conversations; import those first "
            "(chatrecords.csv), into the same study",
        )
    if contents.n_records and (study is None or contents.bots or contents.seen):
        study = study_for_import(key=study_key, bots=contents.bots, seen=contents.seen, scale=scale)
    if study is not None and study.is_imported and (marked := contents.controls - contents.real):
        controls_mark(study=study, bots=marked)
    for batch in _batches(_records(file_format, path, scale), BATCH):
        good = []
        for item in batch:
            report.n_read += 1
            if isinstance(item, Skipped):
                report.skip(item)
            elif item.is_control and item.bot in contents.real:
                report.skip(skip_mixed_control(item))
            else:
                good.append(item)
        if good and study is not None:
            stored = records_store(study=study, records=good, language=language)
            report.conversations += stored.conversations
            report.ratings += stored.ratings
            for skipped in stored.skipped:
                report.skip(skipped)
        if progress is not None:
            progress("storing", report.n_read)
    return report


def _look(items: Iterable[Record | Skipped], progress: Progress | None) -> Contents:
    bots: dict[bool, set[str]] = {True: set(), False: set()}
    seen: dict[str, Scale] = {}
    n_records = 0
    for n, item in enumerate(items, start=1):
        if progress is not None and n % BATCH == 0:
            progress("reading", n)
        if isinstance(item, Skipped):
            continue
        n_records += 1
        if not item.ratings_only:
            bots[item.is_control].add(item.bot)
        for rating in item.ratings:
            for key, value in rating.answers.items():
                low, high = seen.get(key, (value, value))
                seen[key] = (min(low, value), max(high, value))
    controls, real = frozenset(bots[True]), frozenset(bots[False])
    return Contents(controls | real, seen, n_records, controls, real)


def _records(
    file_format: FileFormat, path: Path, scale: Scale | None
) -> Iterator[Record | Skipped]:
    """Yield the file's records; with a scale, those with an answer beyond it are skipped."""
    for item in without_clashes(file_format.read(path)):
        beyond = _beyond(item, scale) if isinstance(item, Record) and scale else None
        yield beyond or item


def _beyond(record: Record, scale: Scale) -> Skipped | None:
    for i, rating in enumerate(record.ratings):
        for key, value in rating.answers.items():
            if not scale[0] <= value <= scale[1]:
                return Skipped(
                    record.line,
                    f"ratings[{i}].{key} is {value:g}, which is not on the scale "
                    f"from {scale[0]:g} to {scale[1]:g}",
                )
    return None


def _batches(items: Iterable[Record | Skipped], size: int) -> Iterator[list[Record | Skipped]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
