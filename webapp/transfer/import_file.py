"""Import of a file, and six sample conversations to try it.

The first pass examines the file and the second stores it, both in constant memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from chatbots import Turn
from chatbots.compressed_files import is_zip
from chatbots.text import quote
from evaluation.analysis.directions import opposed_dimensions
from evaluation.data.formats.base import Note, Record, Skipped, skip_mixed_control, without_clashes
from evaluation.data.formats.csv_columns import CsvColumns, mapped_format
from evaluation.data.formats.jsonl import JsonRecords, inspect_records
from evaluation.data.formats.mapping import FileMapping, guess_speakers
from evaluation.data.formats.record_formats import count_formats
from evaluation.data.formats.scales import FileScales, Scale
from evaluation.data.formats.table_rows import csv_rows
from evaluation.data.formats.text_files import is_xlsx
from evaluation.data.package import data_file_of, package_open
from evaluation.data.ratings import rater_named
from evaluation.number_format import share
from webapp.core.errors import Refused
from webapp.results.cache import request_analysis
from webapp.studies.bot_columns import controls_mark
from webapp.studies.models import Study
from webapp.transfer.import_mappings import imported_file_add
from webapp.transfer.package.import_package import ImportReport, Progress, package_check, package_import
from webapp.transfer.package.row_checks import BATCH
from webapp.transfer.services import language_checked, records_store, scales_known, study_for_import, unfinished_import

_CORRELATED = 20_000
"""Maximum number of conversations over which questions are correlated."""
_BOTS = ("sample-curious", "sample-curt")
_SAID: list[list[tuple[str, str, str]]] = [
    # the participant's message, and the replies of both chatbots
    [
        ("I finally planted tomatoes on my balcony.", "Lovely! How many plants did you put out?", "Tomatoes are red."),
        (
            "Three. I worry about the wind, though.",
            "Tie them to a stick each, then a storm does them little harm. Is it windy where you live?",
            "Wind is moving air.",
        ),
        (
            "Very. I live on the ninth floor.",
            "Then a heavy pot helps as well. What a view you must have from up there!",
            "I live on the ninth floor too.",
        ),
    ],
    [
        ("I lost my keys again this morning.", "Oh no, were you late because of that?", "Keys open doors."),
        (
            "Half an hour, and my boss was not amused.",
            "That is no good start to a day. Where did they turn up in the end?",
            "I do not know.",
        ),
        (
            "In the fridge, of all places.",
            "At least they kept fresh! A hook beside the door has saved me from that.",
            "Keys open doors.",
        ),
    ],
    [
        (
            "My train was two hours late and I missed the concert.",
            "I am sorry, you must have looked forward to it for weeks.",
            "Trains run on rails.",
        ),
        (
            "I had. My sister gave me the ticket.",
            "What a pity for both of you. Do they play anywhere near you again?",
            "What is a sister?",
        ),
        ("Next year perhaps.", "Then I keep my fingers crossed for next year, and for the trains.", "Perhaps."),
    ],
]


def conversations_sample() -> list[Record]:
    """Return the sample as import records, one per chatbot and conversation."""
    return [
        Record(
            line=number,
            dialogue_id=f"example-{number}-{bot}",
            bot=bot,
            turns=tuple(
                turn for message, *answers in talk for turn in (Turn("human", message), Turn("bot", answers[which]))
            ),
        )
        for number, talk in enumerate(_SAID, start=1)
        for which, bot in enumerate(_BOTS)
    ]


PREVIEW_RECORDS, PREVIEW_ROWS = 20_000, 50_000
"""Numbers of records, and of CSV rows, that a preview reads."""
_FIRST, _LISTED = 5, 200


@dataclass(frozen=True, slots=True)
class ImportChoices:
    """Researcher's decisions about an import file.

    Attributes:
        scales: scales of its questions; otherwise the observed extremes are used, which do not limit intervals.
        language: ISO 639 code of all conversations; without it metrics detect the language.
        mapping: how the file is read: roles of columns and speakers, the bot, additional fields.
        reversed, higher: questions on which a high answer is a bad one, or a good one, in addition to those that the
            study knows.
        labels: words at the lowest and the highest answer of a question.
        controls: bots that are deliberately bad; None: as marked in the file.
        licence, source: licence of the file, and where it comes from.
    """

    scales: FileScales = field(default_factory=FileScales)
    language: str = ""
    mapping: FileMapping = field(default_factory=FileMapping)
    reversed: Collection[str] = ()
    labels: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    controls: Collection[str] | None = None
    higher: Collection[str] = ()
    licence: str = ""
    source: str = ""

    def with_saved(self) -> ImportChoices:
        """Return the choices with the scales and directions of the mapping, where there are no others."""
        saved = self.mapping.questions
        scales = {} if self.scales.default else {key: row["scale"] for key, row in saved.items() if row.get("scale")}
        directed = {*self.reversed, *self.higher}
        directions = {key: row.get("reversed") for key, row in saved.items() if key not in directed}
        return replace(
            self,
            scales=FileScales(self.scales.default, {**FileScales.read(scales).by_question, **self.scales.by_question}),
            reversed=[*self.reversed, *(key for key, is_reversed in directions.items() if is_reversed)],
            higher=[*self.higher, *(key for key, is_reversed in directions.items() if is_reversed is False)],
        )


@dataclass
class FileContents:
    """Result of the first pass over a file.

    Attributes:
        bots: number of conversations by bot; controls: bots of degraded conversations.
        real: bots of other conversations, which are no controls.
        seen: smallest and largest value of every dimension within the given scales.
        questions: dimensions of all answers, on the scales given or not.
        first: the first records; left_out: the first invalid ones.
        notes: guesses made, and unused columns.
        is_cut: True if the pass stopped before the end of the file.
        sums: by bot and conversation, the sum and the number of the answers to each question, of the first
            conversations.
        losses: what the import leaves out, by format.
        speakers: role of each speaker's name in the file.
        fields: single values that the import drops unless they are chosen, with an example each.
    """

    format_title: str = ""
    bots: Counter[str] = field(default_factory=Counter)
    controls: set[str] = field(default_factory=set)
    real: set[str] = field(default_factory=set)
    raters: set[str] = field(default_factory=set)
    seen: dict[str, Scale] = field(default_factory=dict)
    questions: set[str] = field(default_factory=set)
    n_records: int = 0
    n_ratings: int = 0
    first: list[Record] = field(default_factory=list)
    left_out: list[Skipped] = field(default_factory=list)
    n_left_out: int = 0
    is_cut: bool = False
    notes: list[str] = field(default_factory=list)
    sums: dict[tuple[str, str], dict[str, tuple[float, int]]] = field(default_factory=dict)
    losses: dict[str, str] = field(default_factory=dict)
    speakers: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def opposed(self) -> dict[str, float]:
        """Questions whose answers contradict those to the others.

        Each has its correlation over conversations.
        """
        means = {}
        for key, (low, high) in self.seen.items():
            pairs = (answers.get(key) for answers in self.sums.values())
            means[key] = np.array([math.nan if pair is None else pair[0] / pair[1] for pair in pairs])
            means[key] = (means[key] - low) / ((high - low) or 1.0)
        return opposed_dimensions(means)

    @property
    def n_conversations(self) -> int:
        """Number of conversations with their texts."""
        return self.bots.total()

    def add(self, item: Record | Skipped | Note, scales: FileScales) -> None:
        """Count a record."""
        if isinstance(item, Note):
            self.notes.append(item.text)
            return
        if isinstance(item, Skipped):
            self.n_left_out += 1
            if len(self.left_out) < _LISTED:
                self.left_out.append(item)
            return
        self.n_records += 1
        self.n_ratings += len(item.ratings)
        if len(self.first) < _FIRST:
            self.first.append(item)
        if not item.ratings_only:
            self.bots[item.bot] += 1
            (self.controls if item.is_control else self.real).add(item.bot)
        self.questions.update(key for rating in item.ratings for key in rating.answers)
        self.raters.update(name for rating in item.ratings if (name := rater_named(rating.rater)) is not None)
        for rating in scales.within(item)[0].ratings:
            for key, value in rating.answers.items():
                low, high = self.seen.get(key, (value, value))
                self.seen[key] = (min(low, value), max(high, value))
                if (chat_key := (item.bot, item.dialogue_id)) in self.sums or len(self.sums) < _CORRELATED:
                    total, n = self.sums.setdefault(chat_key, {}).get(key, (0.0, 0))
                    self.sums[chat_key][key] = (total + value, n + 1)


def import_preview(path: Path, mapping: FileMapping | None = None) -> FileContents:
    """Read the beginning of a file without storing anything.

    Formats, speakers and fields are those of the whole file.

    Raises:
        OSError, ValueError: as `import_conversations`.
    """
    if is_zip(path) and not is_xlsx(path):
        with data_file_of(path) as data_file:
            return package_contents(path) if data_file is None else import_preview(data_file, mapping)
    mapping = mapping or FileMapping()
    file_format = mapped_format(path, mapping)
    rest: Iterator[object] | None = None
    if isinstance(file_format, CsvColumns):
        records = without_clashes(file_format.read(path, PREVIEW_ROWS))
        rest = islice(csv_rows(path), PREVIEW_ROWS, None)
    else:
        records = without_clashes(file_format.read(path))
    contents = _look(islice(records, PREVIEW_RECORDS), FileScales(), None)
    contents.format_title = file_format.title
    contents.losses = {file_format.title: getattr(file_format, "loses", "")}
    if isinstance(file_format, CsvColumns):
        contents.speakers = file_format.speakers(path)
    elif isinstance(file_format, JsonRecords):
        inspection = inspect_records(path)
        contents.format_title = count_formats(inspection.formats) or contents.format_title
        contents.losses = dict(inspection.losses)
        contents.speakers = {name: "" for name in inspection.speakers if name not in ("human", "bot")}
        contents.speakers |= {**guess_speakers(inspection.speakers), **mapping.speakers}
        contents.fields = dict(inspection.fields)
    contents.is_cut = next(rest or records, None) is not None
    return contents


def package_contents(path: Path) -> FileContents:
    """Count the contents of a data package.

    Raises:
        PackageError: it is damaged, or not a package.
    """
    contents = FileContents("Data package of a study")
    with package_open(path) as package:
        package_check(package)
        bots = {row["bot_version"]: row["bot"] for row in package.rows("bots")}
        for row in package.rows("conversations"):
            contents.bots[bots.get(row["bot_version"], row["bot_version"])] += 1
        for row in package.rows("ratings"):
            contents.n_ratings += 1
            contents.raters.add(row.get("participant", ""))
    contents.n_records = contents.n_conversations + contents.n_ratings
    return contents


def import_conversations(
    path: Path,
    *,
    study_key: str,
    choices: ImportChoices | None = None,
    scale: FileScales | Scale | Mapping[str, Scale] | None = None,
    language: str = "",
    progress: Progress | None = None,
    name: str = "",
) -> ImportReport:
    """Import a file into the study, creating it if needed (idempotent).

    Args:
        path: file in a format of `formats/`, a zip of one, or a data package, which recreates its study.
        choices: of the researcher; None: `scale` and `language` alone.
        scale: of all dimensions, or by dimension, under "" that of all others. An answer beyond its scale is left out
            and reported.
        language: as in `ImportChoices`.
        name: original name of an upload; empty: that of the file.
        progress: called with ("reading" or "storing", records so far).

    Raises:
        OSError, ValueError: the file cannot be opened, or is in no known format; or a scale is invalid.
        Refused: see `study_for_import` and `language_checked`.
    """
    requested = choices or ImportChoices(FileScales.read(scale), language)
    chosen = requested.with_saved()
    language, scales = language_checked(chosen.language), chosen.scales
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if is_zip(path) and not is_xlsx(path):
        with data_file_of(path) as data_file:
            if data_file is not None:
                return import_conversations(
                    data_file, study_key=study_key, choices=requested, progress=progress, name=name or path.name
                )
        if scales:
            raise ValueError("a data package contains its scales; leave out the scale")
        if language:
            raise ValueError("a data package contains its language; leave out the language")
        return package_import(path, study_key=study_key, progress=progress)
    file_format = mapped_format(path, chosen.mapping)
    report = ImportReport()
    study: Study | None = Study.objects.filter(key=study_key).first()
    stored: set[str] = set()
    if study is not None and study.is_imported:
        stored = set(study.rubric.dimensions.values_list("key", flat=True))
        known = scales_known(study, scales)
    else:
        known = scales
    # Clashes are reported while storing; here they would only cost another store of all keys.
    contents = _look(file_format.read(path), known, progress)
    report.notes = contents.notes
    if not contents.n_records and not contents.n_left_out:
        raise ValueError(
            f"{path.name} contains no conversation or rating: {'; '.join(contents.notes) or 'it is empty'}"
        )
    requested.scales.check_questions(contents.questions | stored)
    directed = [*requested.reversed, *requested.higher]
    if beyond := [key for key in directed if key not in contents.questions | stored]:
        raise ValueError(f"there is no question {quote(beyond[0])} to set a direction for")
    if conflicting_keys := set(requested.reversed) & set(requested.higher):
        raise ValueError(f"question {quote(min(conflicting_keys))} cannot have both directions")
    if study is None and contents.n_records and not contents.bots:
        raise Refused(
            "ratings_only",
            "The file contains ratings without their conversations. Import the messages into the same study first",
        )
    if contents.n_records and (study is None or contents.bots or contents.seen):
        study = study_for_import(key=study_key, bots=contents.bots, seen=contents.seen, scales=scales)
    if study is not None and study.is_imported:
        imported_file_add(
            study=study,
            name=name or path.name,
            licence=chosen.licence,
            source=chosen.source,
            mapping=chosen.mapping,
            losses=getattr(file_format, "losses", None) or {file_format.title: getattr(file_format, "loses", "")},
        )
        _choices_store(study, chosen, contents)
        report.notes += _direction_questions(study, contents)
    with unfinished_import(study) if study is not None and study.is_imported else nullcontext():
        for batch in _batches(without_clashes(file_format.read(path)), BATCH):
            good = []
            for item in batch:
                if isinstance(item, Note):
                    continue
                report.n_read += 1
                if isinstance(item, Skipped):
                    report.skip(item)
                elif item.is_control and item.bot in contents.real:
                    report.skip(skip_mixed_control(item))
                else:
                    report.n_good += 1
                    record, off_scale = known.within(item)
                    good.append(record)
                    for answer in off_scale:
                        report.skip(answer)
            if good and study is not None:
                added = records_store(study=study, records=good, language=language)
                report.conversations += added.conversations
                report.ratings += added.ratings
                report.n_good -= len({refused.line for refused in added.skipped})
                for refused in added.skipped:
                    report.skip(refused)
            if progress is not None:
                progress("storing", report.n_read)
    if report.ratings and study is not None:
        request_analysis(study)
    return report


def _choices_store(study: Study, chosen: ImportChoices, contents: FileContents) -> None:
    """Store controls and the questions' directions and labels.

    Existing decisions are never reverted.
    """
    marked = contents.controls - contents.real if chosen.controls is None else contents.bots.keys() & chosen.controls
    if marked:
        controls_mark(study=study, bots=marked)
    dimensions = study.rubric.dimensions
    dimensions.filter(key__in=chosen.reversed).update(reversed=True)
    dimensions.filter(key__in=chosen.higher).update(reversed=False)
    for key, (low, high) in chosen.labels.items():
        dimensions.filter(key=key).update(low_label=low, high_label=high)


def _direction_questions(study: Study, contents: FileContents) -> list[str]:
    """Return a note per question of unknown direction that contradicts the others."""
    opposed = contents.opposed
    if not opposed:
        return []
    unknown = set(study.rubric.dimensions.filter(reversed=None).values_list("key", flat=True))
    return [
        f"{quote(key)} correlates {share(r)} with the other questions. If low answers are better, set its direction "
        f"with --lower {key}, --higher {key} or in the study's settings; until then, high answers count as better"
        for key, r in opposed.items()
        if key in unknown
    ]


def _look(items: Iterable[Record | Skipped | Note], scales: FileScales, progress: Progress | None) -> FileContents:
    contents = FileContents()
    for n, item in enumerate(items, start=1):
        if progress is not None and n % BATCH == 0:
            progress("reading", n)
        contents.add(item, scales)
    return contents


def _batches(items: Iterable[Record | Skipped | Note], size: int) -> Iterator[list[Record | Skipped | Note]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
