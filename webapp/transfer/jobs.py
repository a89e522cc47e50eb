"""Importing a file: one pass that looks what is in it, one that stores it, in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from chatbots.archives import is_zip
from evaluation.formats.base import (
    Record,
    Skipped,
    skip_mixed_control,
    without_clashes,
)
from evaluation.formats.recognition import format_for
from evaluation.formats.scales import Scale, Scales
from webapp.core.errors import Refused
from webapp.studies.bot_columns import controls_mark
from webapp.studies.models import Study
from webapp.transfer.package.reading import package_import
from webapp.transfer.report import ImportReport, Progress
from webapp.transfer.services import (
    language_checked,
    records_store,
    scales_known,
    study_for_import,
)

BATCH = 500


@dataclass(frozen=True, slots=True)
class Contents:
    """Result of the first pass over a file.

    Attributes:
        bots: of all conversations; controls: those of degraded conversations.
        real: bots of other conversations, which are no controls.
        seen: smallest and largest value of every dimension, on the scales given.
        questions: dimensions of all answers, on the scales given or not.
    """

    bots: frozenset[str]
    seen: dict[str, Scale]
    n_records: int
    questions: frozenset[str]
    controls: frozenset[str] = frozenset()
    real: frozenset[str] = frozenset()


def import_conversations(
    path: Path,
    *,
    study_key: str,
    scale: Scales | Scale | Mapping[str, Scale] | None = None,
    language: str = "",
    progress: Progress | None = None,
) -> ImportReport:
    """Load a file into the study, made if there is none. Done again, it adds nothing.

    Args:
        path: in one of the formats of `formats/`, or a data package, which makes its study again.
        scale: of all dimensions, or by dimension, under "" that of all others. An answer beyond its scale is left out
            and reported. Without a scale, the smallest and largest values seen stand in, which bound no interval.
        language: of all conversations, as a code of ISO 639; without it metrics tell it by the words of each.
        progress: called with ("reading" or "storing", records so far).

    Raises:
        OSError, ValueError: the file cannot be opened, or is in no known format; or a scale is none.
        Refused: see `study_for_import` and `language_checked`.
    """
    language, scales = language_checked(language), Scales.read(scale)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if is_zip(path):
        if scales:
            raise ValueError("a data package knows its scales; leave out the scale")
        if language:
            raise ValueError("a data package knows its language; leave out the language")
        return package_import(path, study_key=study_key, progress=progress)
    file_format = format_for(path)
    report = ImportReport()
    study: Study | None = Study.objects.filter(key=study_key).first()
    stored: set[str] = set()
    if study is not None and study.is_imported:
        stored = set(study.rubric.dimensions.values_list("key", flat=True))
        known = scales_known(study, scales)
    else:
        known = scales
    contents = _look(without_clashes(file_format.read(path)), known, progress)
    scales.check_questions(contents.questions | stored)
    if study is None and contents.n_records and not contents.bots:
        raise Refused(
            "ratings_only",
            f"{path.name} holds ratings without their conversations; import those first "
            "(chatrecords.csv), into the same study",
        )
    if contents.n_records and (study is None or contents.bots or contents.seen):
        study = study_for_import(
            key=study_key, bots=contents.bots, seen=contents.seen, scales=scales
        )
    if study is not None and study.is_imported and (marked := contents.controls - contents.real):
        controls_mark(study=study, bots=marked)
    for batch in _batches(without_clashes(file_format.read(path)), BATCH):
        good = []
        for item in batch:
            report.n_read += 1
            if isinstance(item, Skipped):
                report.skip(item)
            elif item.is_control and item.bot in contents.real:
                report.skip(skip_mixed_control(item))
            else:
                record, beyond = known.within(item)
                good.append(record)
                for skipped in beyond:
                    report.skip(skipped)
        if good and study is not None:
            added = records_store(study=study, records=good, language=language)
            report.conversations += added.conversations
            report.ratings += added.ratings
            for skipped in added.skipped:
                report.skip(skipped)
        if progress is not None:
            progress("storing", report.n_read)
    return report


def _look(items: Iterable[Record | Skipped], scales: Scales, progress: Progress | None) -> Contents:
    questions: set[str] = set()
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
        questions.update(key for rating in item.ratings for key in rating.answers)
        for rating in scales.within(item)[0].ratings:
            for key, value in rating.answers.items():
                low, high = seen.get(key, (value, value))
                seen[key] = (min(low, value), max(high, value))
    controls, real = frozenset(bots[True]), frozenset(bots[False])
    return Contents(controls | real, seen, n_records, frozenset(questions), controls, real)


def _batches(items: Iterable[Record | Skipped], size: int) -> Iterator[list[Record | Skipped]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
