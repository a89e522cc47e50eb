"""Lifecycle of a study: demo, import, datasheet, archiving and deletion.

Archived studies are hidden in lists; deletion includes the participants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction

from chatbots.text import quote
from chatbots.validation import Mistake, ValuesError
from evaluation.analysis.levels import NEW_STUDIES
from evaluation.data.formats.base import Skipped
from webapp.bots.selectors import bot_available_ids
from webapp.core.audit_trail import ITEMS_ADD, STUDY_ARCHIVE, STUDY_CHANGE, STUDY_DELETE, record
from webapp.core.clock import database_now
from webapp.studies.attention_checks import answers_beyond
from webapp.studies.models import ClosedBy, Item, Participant, Study
from webapp.studies.plans import plan_freeze
from webapp.studies.privacy import erasure_counts, erasure_kinds, participants_erase, studies_gone
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.rubrics import post_task_questions, rubric_create, scales_of
from webapp.studies.selectors import study_key_free
from webapp.studies.services import study_create
from webapp.studies.settings import StudyValues
from webapp.studies.study_file import (
    EXAMPLE_BOTS,
    FileItem,
    StudyFile,
    items_name,
    items_of_file,
    parts_of,
    study_example,
    study_file_of,
    study_file_parts,
    study_file_plain,
)
from webapp.studies.validation import RESERVED_KEYS, study_errors
from webapp.studies.validation.sections import as_mistakes
from webapp.studies.versions import SettingChange, names_diff, study_store, values_diff

_DEMO_TALKER = "smollm2"


def demo_study_ensure() -> Study:
    """Create the study `demo` if it does not exist.

    It has the bots of every installation, and the pretrained talker if that is installed.
    """
    study = Study.objects.filter(key="demo").first()
    return study or study_create(
        key="demo",
        name="Demo: bots to compare",
        title="Chat with a chatbot",
        bots=EXAMPLE_BOTS + bot_available_ids([_DEMO_TALKER]),
        state=Study.State.COLLECTING,
        min_exchanges=3,
        max_exchanges=15,
        organisation="the administrator of this server",
    )


DEMO_PAPER_KEY = "demo-paper"
_PAPER_BOTS = [f"{model}{ei}-demo" for model in ("hred", "vhred", "vhcr") for ei in ("", "-ei")]


def demo_paper_study_ensure() -> Study:
    """Create the study `demo-paper`, with the main paper's architectures.

    It has three architectures, each plain and with EI.

    It stays a draft until one of its bots is installed, then starts collecting. A state set by a researcher is kept.
    """
    study = Study.objects.filter(key=DEMO_PAPER_KEY).first() or study_create(
        key=DEMO_PAPER_KEY,
        name="Demo: the paper's models, plain and with EI",
        title="Chat with a chatbot",
        bots=_PAPER_BOTS,
        min_exchanges=3,
        max_exchanges=15,
        organisation="the administrator of this server",
    )
    if study.state == Study.State.DRAFT and bot_available_ids(study.bots):
        # Use installed bots only: an edit would be refused for the others.
        with transaction.atomic():
            record(STUDY_CHANGE, study, before=study.state, state=Study.State.COLLECTING)
            study.state = Study.State.COLLECTING
            study.save(update_fields=["state", "updated_at"])
            plan_freeze(study=study)
    return study


def study_close(*, study: Study, reason: ClosedBy) -> bool:
    """Close an open study by its own rule; False if it is no longer open."""
    now = database_now()
    is_open = Study.objects.filter(pk=study.pk, state=Study.State.COLLECTING)
    with transaction.atomic():
        is_closed = bool(is_open.update(state=Study.State.ENDED, closed_by=reason, ended_at=now, updated_at=now))
        if is_closed:
            record(STUDY_CHANGE, study, before=Study.State.COLLECTING, state=Study.State.ENDED)
    return is_closed


@dataclass(frozen=True, slots=True)
class DeletedData:
    """One kind of data that is deleted with a study."""

    title: str
    n: int


def study_archive(*, study: Study, is_archived: bool) -> Study:
    """Archive a study, which hides it from lists, or restore it.

    Its data do not change.

    Raises:
        ValidationError: the study is collecting.
    """
    if is_archived and study.state == Study.State.COLLECTING:
        raise ValidationError("The study is open to participants. Pause or close it first.")
    study.archived_at = database_now() if is_archived else None
    with transaction.atomic():
        study.save(update_fields=["archived_at", "updated_at"])
        record(STUDY_ARCHIVE, study, is_archived=is_archived)
    return study


def study_participants(study: Study) -> Any:
    """Return the study's participants, without scripted ones."""
    return study.participants.filter(is_synthetic=False)


def study_loss(study: Study) -> list[DeletedData]:
    """Return the number of rows that deleting the study deletes, by kind.

    Kinds without rows are left out.
    """
    kinds = erasure_kinds()
    counts = erasure_counts(Participant.objects.filter(study=study))
    losses = [DeletedData(str(kinds[table].title), n) for table, n in counts.items()]
    losses += [DeletedData("versions", study.versions.count()), DeletedData("items", study.items.count())]
    return [loss for loss in losses if loss.n]


def study_delete(*, study: Study, typed_key: str = "") -> list[DeletedData]:
    """Delete a study with all its data.

    Returns the deleted kinds and amounts.

    Args:
        typed_key: the study's key, which the user must type to delete participants' data.

    Raises:
        ValidationError: if the study is collecting, or contains participants' data and the key is wrong.
    """
    if study.state == Study.State.COLLECTING:
        raise ValidationError("The study is open to participants. Pause or close it first.")
    if typed_key != study.key and (study.is_imported or study_participants(study).exists()):
        raise ValidationError(
            f"The study contains participants’ data. Type its key, {study.key}, to delete it, not “{typed_key}”."
        )
    with transaction.atomic():
        lost = study_loss(study)
        record(STUDY_DELETE, study, participants=study_participants(study).count())
        participants_erase(participants=Participant.objects.filter(study=study))
        studies_gone([study.pk])
        study.delete()
    return lost


MOST_DATASHEET_CHARS = 5000


def datasheet_store(*, study: Study, answers: Mapping[str, str]) -> Study:
    """Store answers by question.

    An empty one deletes the earlier answer, others stay unchanged.
    """
    with transaction.atomic():
        current = Study.objects.select_for_update(of=("self",)).get(pk=study.pk)
        datasheet = {**current.datasheet, **{key: text.strip()[:MOST_DATASHEET_CHARS] for key, text in answers.items()}}
        datasheet = {key: datasheet[key] for key in sorted(datasheet) if datasheet[key]}
        # Not by save(): data did not change, so no result must be recomputed.
        Study.objects.filter(pk=study.pk).update(datasheet=datasheet)
    study.datasheet = datasheet
    return study


_BATCH = 500
_OWN = ("name", "protocol", "rule", "seed")


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of importing a study's file.

    Attributes:
        study: as it is stored now.
        is_new: True if no study with its key existed.
        changes: differences from the study as it was stored before.
        n_items: number of new items.
    """

    study: Study
    is_new: bool
    changes: list[SettingChange]
    n_items: int


def study_read(text: str | bytes, *, key: str = "", opens: bool = False) -> StudyFile:
    """Read a study's file and report all errors at once.

    Errors of its parts are reported together with the visible errors of the whole.

    Args:
        key: key in place of the file's.
        opens: True if the study is to collect, which has more conditions.

    Raises:
        ValuesError: with all errors, each with its path in the file.
    """
    plain = study_file_plain(text)
    file, mistakes = study_file_parts({**plain, "key": key} if key else plain)
    if file is not None and mistakes:
        paths = [mistake.path for mistake in mistakes]
        before = Study.objects.filter(key=file.key).first()
        study_mistakes = _wrong_as_whole(before, file, opens, parts_of(paths))
        mistakes += [mistake for mistake in study_mistakes if mistake.path not in paths]
    if file is None or mistakes:
        raise ValuesError(mistakes)
    return file


def draft_create(
    *,
    protocol: str,
    name: str,
    key: str = "",
    bots: Sequence[str] = (),
    language: str = "en",
    author: str = "",
    **texts: str,
) -> Study:
    """Make a draft with the protocol's default texts and questions.

    Args:
        key: key of the study; empty to derive it from the name.
        texts: other values of the study's texts, such as `organisation` and `contact`.

    Raises:
        ValuesError: the study cannot be made, with the reasons.
    """
    example = study_example(protocol, language)
    own: dict[str, Any] = {
        "key": key or study_key_free(name, RESERVED_KEYS),
        "name": name[:200],
        "bots": tuple(bots),
        "items": (),
    }
    # A form that the researcher adds stands alone unless they choose otherwise.
    own["texts"] = example.texts.model_copy(update={"consent_layout": "form", **texts})
    return study_import(file=example.model_copy(update=own), author=author).study


def judging_study_create(
    *,
    protocol: str,
    name: str,
    chats: Sequence[UUID] = (),
    of_study: str = "",
    of_run: int | None = None,
    language: str = "en",
    author: str = "",
    **texts: str,
) -> Study:
    """Make the draft of a study in which people judge these conversations.

    Args:
        protocol: name of a protocol that gives stored conversations.
        chats: their ids, `MOST_CHOSEN` at most; empty for all of the source.
        texts: as in `draft_create`.
        of_study, of_run: source of the conversations, one of them.

    Raises:
        ValuesError: the study cannot be made, with the reasons.
    """
    file = study_example(protocol, language)
    source: dict[str, Any]
    sections: dict[str, Any]
    if protocols.get(protocol).compares_dialogues:
        source = {"dialogues_of": of_study, "dialogues_run": of_run, "dialogues_chosen": tuple(map(str, chats))}
        sections = {"dialogues": file.dialogues.model_copy(update=source)}
    else:
        source = {"conversations_of": of_study, "conversations_run": of_run}
        source |= {"conversations_chosen": tuple(map(str, chats))}
        sections = {"marking": file.marking.model_copy(update=source)}
    own: dict[str, Any] = {"key": study_key_free(name, RESERVED_KEYS), "name": name[:200], "bots": (), "items": ()}
    own["texts"] = file.texts.model_copy(update=texts)
    return study_import(file=file.model_copy(update={**own, **sections}), author=author).study


def study_import(*, file: StudyFile, folder: Path | None = None, opens: bool = False, author: str = "") -> Imported:
    """Store the study of a file.

    A new study becomes a draft; otherwise the study with its key is changed.

    If participants have agreed to it, it gets a new version, as with every edit. After an error nothing is stored.

    Args:
        folder: folder of the study's file, which may name a file of items next to it; None if there can be none.
        opens: True to let the study collect.
        author: name of the user who imports it.

    Raises:
        ValuesError: with all errors, each with its path in the file.
    """
    with transaction.atomic():
        before = Study.objects.select_for_update(of=("self",), no_key=True).filter(key=file.key).first()
        file = _with_level(file, before)
        changes = study_changes(before, file) if before else []
        study = before or Study(key=file.key)
        _check(before, file, opens)
        for name in _OWN:
            setattr(study, name, getattr(file, name))
        study = _stored(study, file, author)
        report = items_import(study=study, lines=_items(study, file, folder))
        if report.skipped:
            raise ValuesError(
                [
                    Mistake("items", f"items: line {skipped_line.line}: {skipped_line.reason}")
                    for skipped_line in report.skipped
                ]
            )
        if opens and study.state != Study.State.COLLECTING:
            study.state = Study.State.COLLECTING
            study = _stored(study, file, author)
    return Imported(study, before is None, changes, report.items)


def _with_level(file: StudyFile, before: Study | None) -> StudyFile:
    """Fill in the confidence level if the file names none.

    An existing study keeps its level; a new one gets that of `NEW_STUDIES`.
    """
    if "level" in file.quotas.model_fields_set:
        return file
    level = NEW_STUDIES if before is None else before.values.quotas.level
    return file.model_copy(update={"quotas": file.quotas.model_copy(update={"level": level})})


def study_changes(study: Study, file: StudyFile) -> list[SettingChange]:
    """Return the changes that importing the file would make.

    Items are not compared.
    """
    stored, file = study_file_of(study), _with_level(file, study)
    fields = [{name: getattr(source, name) for name in _OWN} for source in (stored, file)]
    return [*names_diff(fields[0], fields[1]), *values_diff(stored.values, file.values)]


def _values(study: Study, file: StudyFile) -> StudyValues:
    """Return the values to store.

    A study whose rubric equals the file's keeps it.
    """
    values = file.values
    version = study.version
    if version is None or version.values.after or post_task_questions(version) != values.after:
        return values
    return values.model_copy(update={"after": ()})


def _check(before: Study | None, file: StudyFile, opens: bool) -> None:
    if mistakes := _wrong_as_whole(before, file, opens):
        raise ValuesError(mistakes)


def _wrong_as_whole(before: Study | None, file: StudyFile, opens: bool, unread: Collection[str] = ()) -> list[Mistake]:
    study = Study(
        pk=before.pk if before else None,
        state=Study.State.COLLECTING if opens else before.state if before else Study.State.DRAFT,
        key=file.key,
        **{name: getattr(file, name) for name in _OWN},
    )
    errors = study_errors(before=before, study=study, values=file.values, rubric=None, unread=unread)
    if file.items or "items" in unread:
        errors.pop("state", None)  # items are stored before the study opens
    return [mistake for mistake in as_mistakes(errors) if not parts_of([mistake.path]) & set(unread)]


def _stored(study: Study, file: StudyFile, author: str) -> Study:
    values = _values(study, file)
    rubric = None
    if study.version is None and not values.after:  # questions missing from the file are not asked
        rubric = rubric_create(name=file.key, dimensions=[])
    try:
        return study_store(study=study, values=values, rubric=rubric, author=author)
    except ValidationError as error:
        errors = {name: " ".join(words) for name, words in error.message_dict.items()}
        raise ValuesError(as_mistakes(errors)) from None


def _items(study: Study, file: StudyFile, folder: Path | None) -> Iterable[tuple[int, FileItem] | Skipped]:
    if not isinstance(file.items, str):
        return enumerate(file.items, start=1)
    name = file.items
    is_there = folder is not None and Path(name).name == name and (folder / name).is_file()
    if not is_there and name == items_name(study) and study.items.exists():
        return ()  # the study's own rubric, already stored here
    if folder is None:
        raise _items_wrong(f"names the file {quote(name)}, which cannot be read here; write the items into this file")
    if Path(name).name != name:
        raise _items_wrong(f"is {quote(name)}; it must be the name of a file in the study file's folder")
    if not (folder / name).is_file():
        raise _items_wrong(f"names the file {quote(name)}, which is not in the study file's folder")
    return items_of_file(folder / name)


def _items_wrong(words: str) -> ValuesError:
    return ValuesError([Mistake("items", f"items {words}")])


NO_GOLD = "gold: this study cannot have gold items; leave gold out"
NO_CRITERIA = 'criteria is missing; in this study every item needs some, as [{"text": "…", "points": 5}]'


@dataclass
class ItemsReport:
    """Result of importing a file of items.

    Attributes:
        items: new ones that were stored.
        unchanged: lines whose item is already present with the same texts.
        skipped: skipped lines, each with its reason.
    """

    items: int = 0
    unchanged: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        skipped = [{"line": line.line, "reason": line.reason} for line in self.skipped]
        return {"items": self.items, "unchanged": self.unchanged, "skipped": skipped}


def items_import(
    *, study: Study, lines: Iterable[tuple[int, FileItem] | Skipped], origin: Mapping[str, str] | None = None
) -> ItemsReport:
    """Store the items that the study does not have yet; idempotent.

    Stored items never change: an item of the same name with other texts is skipped and reported, since participants
    may have judged it.

    Args:
        lines: items with their numbers, as `items_of_file` reads them.
        origin: the return value of `origin_of_file`, which groups items without a data set into one set.
    """
    report = ItemsReport()
    scales = scales_of(study.values, study.rubric)
    needs_criteria = get_protocol(study).needs_criteria
    lines = iter(lines)
    while batch := list(islice(lines, _BATCH)):
        rows: list[Item] = []
        first: dict[str, int] = {}
        keys = [line[1].id for line in batch if not isinstance(line, Skipped)]
        with transaction.atomic():
            known = {item.key: FileItem.from_row(item) for item in study.items.filter(key__in=keys)}
            for line in batch:
                if isinstance(line, Skipped):
                    report.skipped.append(line)
                    continue
                number, item = line
                if wrong := answers_beyond(item.gold, scales):
                    report.skipped.append(Skipped(number, f"gold: {wrong}"))
                elif needs_criteria and (item.gold or not item.criteria):
                    report.skipped.append(Skipped(number, NO_GOLD if item.gold else NO_CRITERIA))
                elif item.id not in known:
                    known[item.id], first[item.id] = item, number
                    row = item.to_row(study)
                    row.origin = dict(origin or {})
                    rows.append(row)
                elif known[item.id] == item:
                    report.unchanged += 1
                else:
                    location = f"line {first[item.id]}" if item.id in first else "the study"
                    reason = f"id {quote(item.id)} is already in {location} with different texts"
                    report.skipped.append(Skipped(number, reason))
            Item.objects.bulk_create(rows, ignore_conflicts=True)
            if rows:
                record(ITEMS_ADD, study, items=len(rows))
        report.items += len(rows)
    return report
