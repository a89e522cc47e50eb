"""Import of stars, tags and notes of a data package.

No author is imported: the same user name elsewhere may belong to another person.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from chatbots.storable import quote
from evaluation.package import Package, PackageError
from webapp.core.errors import Refused
from webapp.reading.models import Note
from webapp.reading.services import note_checked, tag_checked
from webapp.studies.models import Study
from webapp.transfer.package.beside_reading import time_of
from webapp.transfer.package.storing import Stored, conversations_named

BATCH = 500
TABLE = "reader_notes"
Row = Mapping[str, str]


def notes_read(*, study: Study, package: Package) -> Iterator[Stored]:
    """Store what readers left and is not there yet; packages of earlier releases have no such table.

    Stars and tags are known by their words, notes by when they were written: retention may have emptied theirs.
    Yields what became of each batch.

    Raises:
        PackageError: a row is of no kind that Confab knows, or says what no reader could have left.
    """
    if TABLE not in package.tables():
        return
    rows = enumerate(package.rows(TABLE), start=1)
    while batch := list(itertools.islice(rows, BATCH)):
        with transaction.atomic():
            yield _store(study, batch)


def _store(study: Study, batch: Sequence[tuple[int, Row]]) -> Stored:
    stored = Stored()
    ids = conversations_named(study, {row.get("conversation", "") for _number, row in batch})
    read: dict[tuple[Any, ...], Note] = {}
    for number, row in batch:
        note = _note(number, row)
        if row["conversation"] in ids:
            note.conversation_id = ids[row["conversation"]]
            read.setdefault(_name(note), note)
        else:
            where = f"conversation {quote(row['conversation'])}"
            stored.left_out.append((where, f"a {note.kind} is at it, and it is not in the package"))
    there = {_name(note) for note in Note.objects.filter(conversation__in=ids.values())}
    new = {name: note for name, note in read.items() if name not in there}
    written_at = [note.created_at for note in new.values()]
    Note.objects.bulk_create(new.values())  # which gives them today's time
    for note, at in zip(new.values(), written_at, strict=True):
        note.created_at = at
    Note.objects.bulk_update(new.values(), ["created_at"], batch_size=200)
    stored.n_new = len(new)
    return stored


def _note(number: int, row: Row) -> Note:
    """Return the note of a row of the table, at no conversation yet."""
    where = f"data/{TABLE}.csv, row {number}"
    missing = {"conversation", "kind", "text", "created_at"} - row.keys()
    if missing:
        raise PackageError(f"{where}: there is no column {quote(min(missing))}")
    kind, text = row["kind"], row["text"]
    try:
        if kind not in Note.Kind.values:
            raise ValueError(
                f"kind {quote(kind)} is none that Confab knows; it must be star, tag or note"
            )
        if kind == Note.Kind.TAG:
            text = tag_checked(text)
        elif kind == Note.Kind.NOTE and text:  # empty where a retention has emptied it
            text = note_checked(text)
        at = time_of(row["created_at"]) or timezone.now()
    except (ValueError, Refused) as error:
        raise PackageError(f"{where}: {error}") from None
    return Note(kind=kind, text="" if kind == Note.Kind.STAR else text, created_at=at)


def _name(note: Note) -> tuple[Any, ...]:
    """Return the fields that identify a star, tag or note."""
    own = note.created_at if note.kind == Note.Kind.NOTE else note.text
    return note.conversation_id, note.kind, own
