"""Import of a file, and six sample conversations to try it.

A first pass examines the file, a second stores it, in constant memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from chatbots import Turn
from chatbots.compressed_files import is_zip
from evaluation.formats.base import Record, Skipped, skip_mixed_control, without_clashes
from evaluation.formats.scales import FileScales, Scale
from evaluation.formats.text_files import format_for
from webapp.core.errors import Refused
from webapp.studies.bot_columns import controls_mark
from webapp.studies.models import Study
from webapp.transfer.package.import_package import ImportReport, Progress, package_import
from webapp.transfer.services import language_checked, records_store, scales_known, study_for_import

_BOTS = ("sample-curious", "sample-curt")
_SAID: list[list[tuple[str, str, str]]] = [
    # what the person said, and what each of the two chatbots answered to it
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
    """Return the conversations as an import reads them: each chatbot in every talk."""
    return [
        Record(
            line=number,
            dialogue_id=f"example-{number}-{bot}",
            bot=bot,
            turns=tuple(turn for said, *answers in talk for turn in (Turn("human", said), Turn("bot", answers[which]))),
        )
        for number, talk in enumerate(_SAID, start=1)
        for which, bot in enumerate(_BOTS)
    ]


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
    scale: FileScales | Scale | Mapping[str, Scale] | None = None,
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
    language, scales = language_checked(language), FileScales.read(scale)
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
        study = study_for_import(key=study_key, bots=contents.bots, seen=contents.seen, scales=scales)
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


def _look(items: Iterable[Record | Skipped], scales: FileScales, progress: Progress | None) -> Contents:
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
