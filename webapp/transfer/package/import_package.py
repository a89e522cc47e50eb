"""Import of a data package, and the report of an import.

The study is imported with its participants, bots, conversations, turns, ratings and metrics, in constant memory.
The report counts new rows and those left out, for packages and for other files.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from django.db import transaction

from chatbots.text import quote
from chatbots.trace import read_trace
from chatbots.validation import values_read
from evaluation.analysis.error_spans import ErrorSpan
from evaluation.data.formats.base import Skipped, condition_read
from evaluation.data.package import Package, package_open
from evaluation.number_format import pluralise
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.core.clock import database_now
from webapp.core.column_bounds import check_rows
from webapp.core.errors import Refused
from webapp.studies.models import Study, StudyVersion
from webapp.studies.protocols.base import protocols
from webapp.studies.protocols.criteria import CRITERIA
from webapp.studies.questions import BETWEEN_CHOICES, Option, Question
from webapp.studies.reply_marks import SPANS, STEPS
from webapp.studies.rubrics import post_task_questions
from webapp.studies.sittings import SITTING
from webapp.transfer.package.import_annotations import metrics_named, metrics_read, notes_read
from webapp.transfer.package.import_checks import beside_read
from webapp.transfer.package.import_rows import (
    ReadConversation,
    ReadPerson,
    ReadRating,
    ReadTurn,
    conversations_store,
    people_store,
    ratings_store,
    rows_without_owner,
    turns_store,
)
from webapp.transfer.package.row_checks import BATCH, read_whole_number, row_error, store_rows
from webapp.transfer.package.study_files import (
    Codebook,
    bots_make,
    codebook_read,
    consents_make,
    package_check,
    study_make,
)
from webapp.transfer.services import language_checked, unfinished_import

MAX_REPORTED = 10_000

Progress = Callable[[str, int], None]


@dataclass
class ImportReport:
    """Result of an import: numbers of new rows, and skipped ones.

    Attributes:
        items: None for a file of conversations.
        unchanged: items that were already present.
        n_good: records that could be read, new or not.
        notes: guesses about the file, and unused columns.
    """

    conversations: int = 0
    ratings: int = 0
    items: int | None = None
    unchanged: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    n_skipped: int = 0
    n_read: int = 0
    n_good: int = 0
    notes: list[str] = field(default_factory=list)

    def skip(self, skipped: Skipped) -> None:
        """Record a skipped record; beyond `MAX_REPORTED` only count it."""
        self.n_skipped += 1
        if self.n_skipped <= MAX_REPORTED:
            self.skipped.append(skipped)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> ImportReport:
        """Return the report that `as_dict` wrote."""
        return cls(
            conversations=stored.get("conversations", 0),
            ratings=stored.get("ratings", 0),
            items=stored.get("items"),
            unchanged=stored.get("unchanged", 0),
            skipped=[Skipped(item["line"], item["reason"]) for item in stored["skipped"]],
            n_skipped=stored.get("n_skipped", len(stored["skipped"])),
            n_good=stored.get("n_good", 1),
            notes=stored.get("notes", []),
        )

    def as_dict(self) -> dict[str, object]:
        """Return the JSON of `import_conversations`."""
        listed = sorted(self.skipped, key=lambda item: item.line)
        rest = self.n_skipped - len(listed)
        if rest:
            listed.append(Skipped(listed[-1].line, f"and {rest} more after this line"))
        return {
            "conversations": self.conversations,
            "ratings": self.ratings,
            **({"n_skipped": self.n_skipped} if rest else {}),
            "skipped": [{"line": item.line, "reason": item.reason} for item in listed],
            **({"notes": self.notes} if self.notes else {}),
        }


_STATES = {"completed", "failed", "ended", "excluded"}
T = TypeVar("T")
R = TypeVar("R")


def _extra_numbers() -> list[str]:
    """Return the names of all numbers that a protocol can store besides the rubric's questions."""
    return [extra.name for protocol in protocols for extra in protocol.extra_answers if extra.type != "json"]


def package_import(path: Path, *, study_key: str, progress: Progress | None = None) -> ImportReport:
    """Import a data package as a study (idempotent).

    Args:
        progress: called with "storing" and the number of stored rows.

    Raises:
        PackageError: the file is not a package, is damaged, or has an invalid row; with the table and the line.
        Refused: another study already has this key.
    """
    with package_open(path) as package:
        package_check(package)
        reading = _Reading(package, study_key, progress or (lambda stage, n: None))
        return reading.read()


class _Reading:
    """Import of one package."""

    def __init__(self, package: Package, key: str, progress: Progress) -> None:
        self.package = package
        self.progress = progress
        self.report = ImportReport()
        self.codebook: Codebook = codebook_read(package)
        with transaction.atomic():
            versions = study_make(package=package, key=key, codebook=self.codebook).values()
            self.asked_before = {
                question.key: question for version in versions for question in version.values.questions
            }
            self.asked_after = {
                question.key: question for version in versions for question in post_task_questions(version)
            }
            transaction.set_rollback(True)  # the study is created after all rows were checked
        self._check_rows()
        self.versions: Mapping[int, StudyVersion] = study_make(package=package, key=key, codebook=self.codebook)
        self.study = Study.objects.get(key=key)

    def read(self) -> ImportReport:
        """Store everything; the study is marked incomplete until then."""
        with unfinished_import(self.study):
            return self._store_all()

    def _check_rows(self) -> None:
        """Check that values of the largest tables fit their columns.

        This happens before anything is stored.

        Raises:
            PackageError: a value does not fit; with the table and the row.
        """
        readers: dict[str, Callable[[Mapping[str, str]], Any]] = {
            "participants": self._person,
            "conversations": _conversation,
            "turns": _turn,
            "ratings": lambda row: self._rating(row, frozenset()),
        }
        for table, read in readers.items():
            for number, record in enumerate(self._read_rows(table, read), start=1):
                try:
                    check_rows(rows_without_owner(record))
                except ValueError as error:
                    raise row_error(table, number, error) from None

    def _store_all(self) -> ImportReport:
        """Store everything, referenced tables first."""
        package, study = self.package, self.study
        consents = consents_make(package=package)
        bots = bots_make(rows=package.rows("bots"))
        self._store(
            "participants",
            self._person,
            lambda people: people_store(study=study, people=people, consents=consents, versions=self.versions),
        )
        for n_chats in self._store("conversations", _conversation, lambda batch: self._store_chats(batch, bots)):
            self.report.conversations += n_chats
        for stored in self._store("turns", _turn, lambda batch: turns_store(study=study, batch=batch)):
            self._tell("data/turns.csv", stored.left_out)
        if n_drawn := sum(bool(row.get("probability")) for row in package.rows("ratings")):
            self.report.notes.append(
                f"{pluralise(n_drawn, 'rating')} of items drawn with a judge’s help: their probabilities and the "
                "judge’s scores are not stored, so all ratings count equally here. The package still has the columns "
                "probability and helper."
            )
        apart = self._set_apart()
        for stored in self._store(
            "ratings",
            lambda row: self._rating(row, apart),
            lambda batch: ratings_store(study=study, batch=batch, versions=self.versions),
        ):
            self.report.ratings += stored.n_new
            self._tell("data/ratings.csv", stored.left_out)
        for part in beside_read(study=study, package=package, versions=self.versions):
            self._tell("checks, reports or filter labels", part.left_out)
            self._count(part.n_new)
        for part in notes_read(study=study, package=package):
            self._tell("data/reader_notes.csv", part.left_out)
            self._count(part.n_new)
        metrics = metrics_named(package)
        for n_rows in metrics_read(study=study, package=package, metrics=metrics):
            self._count(n_rows)
        return self.report

    def _store_chats(self, chats: Sequence[ReadConversation], bots: Mapping[str, BotVersion]) -> int:
        unknown = next((chat for chat in chats if chat.bot_version not in bots), None)
        if unknown is not None:
            raise ValueError(f"bot_version {quote(unknown.bot_version)} is not in data/bots.csv")
        return conversations_store(study=self.study, batch=chats, bots=bots)

    def _store(
        self, table: str, read_row: Callable[[Mapping[str, str]], T], store: Callable[[Sequence[T]], R]
    ) -> list[R]:
        """Store a table in batches; return the results."""
        results, number = [], 1
        for batch in self._batches(table, read_row):
            results.append(store_rows(table, number, batch, store))
            number += len(batch)
        return results

    def _count(self, n_rows: int) -> None:
        self.report.n_read += n_rows
        self.progress("storing", self.report.n_read)

    def _batches(self, table: str, read_row: Callable[[Mapping[str, str]], T]) -> Iterator[list[T]]:
        """Yield a table's converted rows in batches."""
        rows = self._read_rows(table, read_row)
        while batch := list(itertools.islice(rows, BATCH)):
            self.report.n_read += len(batch)
            self.report.n_good += len(batch)
            yield batch
            self.progress("storing", self.report.n_read)

    def _read_rows(self, table: str, read_row: Callable[[Mapping[str, str]], T]) -> Iterator[T]:
        for number, row in enumerate(self.package.rows(table), start=1):
            try:
                record = read_row(row)
            except (LookupError, ValueError, TypeError, RecursionError, OverflowError) as error:
                raise row_error(table, number, error) from None
            yield record

    def _tell(self, table: str, left_out: Iterable[tuple[str, str]]) -> None:
        for name, reason in left_out:
            self.report.skip(Skipped(self.report.n_read, f"{table}, {name}: {reason}"))

    def _set_apart(self) -> frozenset[str]:
        """Return the participants who missed an attention check.

        They are few: packages include their work on request only.
        """
        return frozenset(
            row["participant"]
            for row in self.package.rows("participants")
            if "failed_check" in row.get("outcome", "").split()
        )

    def _is_rated(self, column: str) -> bool:
        """Return True if a column has ratings.

        It has a scale and does not check attention.
        """
        question = self.asked_after.get(self.codebook.after[column])
        return column in self.codebook.scales and (question is None or question.is_rated)

    def _person(self, row: Mapping[str, str]) -> ReadPerson:
        answers = {
            key: _answer(self.asked_before[key], row[column])
            for column, key in self.codebook.before.items()
            if row[column] and key in self.asked_before
        }
        return ReadPerson(
            name=row["participant"],
            is_synthetic=row["is_synthetic"] == "true",
            entered_at=_time(row["entered_at"]),
            consented_at=_time(row["consented_at"]),
            consent=row["consent_version"],
            answers=answers,
            language=_language(row.get("language", "")),  # packages of earlier releases have none
        )

    def _rating(self, row: Mapping[str, str], apart: frozenset[str]) -> ReadRating:
        target = row["target"]
        about = {
            "conversation": (row["conversation"],),
            "turn": (row["conversation"],),
            "item": (row["item"],),
            "pair": (row["first"], row["second"]),
        }.get(target)
        if about is None:
            raise ValueError(f"target {quote(target)} is unknown")
        answers = {
            key: self._on_scale(column, _number(row[column]))
            for column, key in self.codebook.after.items()
            if row[column] and self._is_rated(column)
        }
        answers |= {
            name: _number(row[name]) for name in _extra_numbers() if row.get(name) and name not in self.codebook.after
        }
        other_answers = {
            key: row[column] if column in self.codebook.scales else _answer(self.asked_after[key], row[column])
            for column, key in self.codebook.after.items()
            if row[column] and not self._is_rated(column) and key in self.asked_after
        }
        if row.get(SPANS):
            other_answers[SPANS] = [asdict(ErrorSpan(**span)) for span in json.loads(row[SPANS])]
        if row.get(CRITERIA) and CRITERIA not in self.codebook.after:
            other_answers[CRITERIA] = values_read(list[Literal[0, 1]], json.loads(row[CRITERIA]), path=CRITERIA)
        if row.get(STEPS):
            other_answers[STEPS] = values_read(list[list[Option]], json.loads(row[STEPS]), path=STEPS)
        return ReadRating(
            number=row["rating"],
            target=target,
            about=about,
            turn=_read_optional_number(row["turn"]),
            rater=row["rater"],
            task=row["task"],
            version=_read_optional_number(row["version"]),
            answers=answers,
            other_answers=other_answers,
            comment=row["comment"],
            submitted_at=_time(row["submitted_at"]) or database_now(),
            is_set_apart=row["rater"] in apart,
        )

    def _on_scale(self, column: str, answer: float) -> float:
        low, high = self.codebook.scales[column]
        if not low <= answer <= high:
            raise ValueError(f"{column} is {answer:g}, but its scale goes from {low:g} to {high:g}")
        return answer


def _conversation(row: Mapping[str, str]) -> ReadConversation:
    state = row["state"]
    return ReadConversation(
        name=row["conversation"],
        bot_version=row["bot_version"],
        person=row["participant"],
        # Open ones are closed here, because no participant continues them.
        state=state if state in _STATES else Conversation.State.ENDED,
        seed=read_whole_number(row["seed"]),
        n_exchanges=read_whole_number(row["n_exchanges"]),
        is_synthetic=row["is_synthetic"] == "true",
        created_at=_time(row["created_at"]),
        ended_at=_time(row["ended_at"]),
        language=_language(row.get("language", "")),  # packages of earlier releases have none
        condition=condition_read(row),
        sitting=_sitting(row.get(SITTING, "")),
    )


def _sitting(key: str) -> str:
    if key and not re.fullmatch("[A-Za-z0-9_]{1,40}", key):
        raise ValueError(f"{SITTING} is {quote(key)}; use letters, digits and _, at most 40")
    return key


def _language(code: str) -> str:
    try:
        return language_checked(code)
    except Refused as refused:
        raise ValueError(refused.message) from None


def _turn(row: Mapping[str, str]) -> ReadTurn:
    if row["speaker"] not in ("human", "bot"):
        raise ValueError(f"speaker is {quote(row['speaker'])}; it must be human or bot")
    vote = read_whole_number(row["vote"] or "0")
    if vote not in (-1, 0, 1) or (vote and row["speaker"] == "human"):
        raise ValueError(f"vote is {vote}; it must be -1, 0 or 1, and 0 on a human turn")
    return ReadTurn(
        conversation=row["conversation"],
        index=read_whole_number(row["turn"]),
        created_at=_time(row["created_at"]),
        values={
            "speaker": row["speaker"],
            "text": row["text"],
            "vote": vote,
            "latency_ms": _read_optional_number(row["latency_ms"]),
            "tokens_in": _read_optional_number(row["tokens_in"]),
            "tokens_out": _read_optional_number(row["tokens_out"]),
            "tokens_estimated": row["tokens_estimated"] == "true",
            "cost": float(row["cost"]) if row["cost"] else None,
            "answered_by": row["answered_by"],
            # Packages of earlier releases have none.
            "trace": [step.model_dump() for step in read_trace(json.loads(row.get("trace") or "[]"))],
            "goes_on": {"true": True, "false": False}.get(row.get("goes_on", "")),
            "is_refused": row["speaker"] == "human" and row.get("refused") == "true",
            "rejected_params": _texts(row.get("rejected_params") or "[]"),
        },
    )


def _texts(cell: str) -> list[str]:
    values = json.loads(cell)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"rejected_params is {quote(cell)}; it must be a list of texts")
    return values


def _answer(question: Question, cell: str) -> Any:
    if question.kind == "scale":
        return int(float(cell))
    return cell.split(BETWEEN_CHOICES) if question.kind == "choices" else cell


def _number(cell: str) -> float:
    value = json.loads(cell)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{quote(cell)} is not a number")
    if not abs(value) < math.inf:
        raise ValueError(f"{quote(cell)} is not a finite number")
    return value


def _read_optional_number(cell: str) -> int | None:
    return read_whole_number(cell) if cell else None


def _time(cell: str) -> datetime | None:
    if not cell:
        return None
    timestamp = datetime.fromisoformat(cell)
    return timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=UTC)
