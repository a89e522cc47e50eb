"""Files of the study itself in its data package, written and imported.

Every version that was run, its items, its bots, and the consent texts.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from chatbots import Identity
from chatbots.text import quote
from chatbots.validation import ValuesError
from evaluation.data.package import DESCRIPTOR, Package, PackageError, left_out_of
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.core.column_bounds import check_rows
from webapp.core.errors import Refused
from webapp.studies.bot_columns import BotColumns
from webapp.studies.lifecycle import datasheet_store, study_import
from webapp.studies.models import ConsentText, Dimension, Rubric, Study, StudyVersion, Task
from webapp.studies.models.participants import IMPORT_PLATFORM
from webapp.studies.privacy import AGREED_KEYS, terms_digest
from webapp.studies.study_file import (
    FileItem,
    StudyFile,
    items_lines,
    items_name,
    study_file_made,
    study_file_of,
    study_file_plain,
    study_file_text,
    without_codes,
)
from webapp.studies.versions import version_freeze
from webapp.transfer.datasheet_questions import key_of
from webapp.transfer.exporters.base import ExportOptions
from webapp.transfer.exporters.participants import participants_included
from webapp.transfer.package.metadata import PACKAGE_FORMAT
from webapp.transfer.package.tables import File
from webapp.transfer.redaction.redactor import Redactor

NEWEST = "study/study.yaml"
BOT_COLUMNS = "study/bot_columns.json"
"""File with the researchers' own table of bots."""


def version_path(number: int) -> str:
    """Return the path of a version of the study in the zip."""
    return f"study/version-{number}.yaml"


def versions_run(study: Study) -> list[StudyVersion]:
    """Return the versions used by participants, and the newest, in order."""
    worked = Task.objects.filter(version=OuterRef("pk"))
    run = Q(frozen_at__isnull=False) | Exists(worked) | Q(pk=study.version_id)
    return list(study.versions.filter(run).select_related("rubric").order_by("number"))


def study_files(study: Study, options: ExportOptions) -> Iterator[File]:
    """Yield the study's files; completion codes only with private data."""
    redactor = Redactor(study) if options.is_redacted else None
    yield File.from_text(NEWEST, _text(study_file_of(study), options, redactor))
    for version in versions_run(study):
        yield File.from_text(version_path(version.number), _text(study_file_of(study, version), options, redactor))
    if study.bot_columns:
        table = json.dumps(study.bot_columns, ensure_ascii=False, indent=1, sort_keys=True)
        yield File.from_text(BOT_COLUMNS, table + "\n")
    file = study_file_of(study)
    if isinstance(file.items, str):
        yield _items(study, redactor)
    agreed = participants_included(study, options).exclude(consent=None).values("consent")
    for consent in ConsentText.objects.filter(pk__in=agreed).order_by("pk"):
        yield File.from_text(f"texts/{consent.digest}.md", _consent(consent))
        exact = json.dumps(consent.texts, ensure_ascii=False, indent=1, sort_keys=True)
        yield File.from_text(f"texts/{consent.digest}.json", exact + "\n")


def _text(file: StudyFile, options: ExportOptions, redactor: Redactor | None) -> str:
    if redactor is not None and not isinstance(file.items, str):
        items = tuple(FileItem.model_validate(redactor.redact_value(item.to_plain())) for item in file.items)
        file = file.model_copy(update={"items": items})
    return study_file_text(file if options.include_private else without_codes(file))


def _items(study: Study, redactor: Redactor | None) -> File:
    file = cast(IO[bytes], tempfile.TemporaryFile())  # noqa: SIM115
    for line in items_lines(study):
        if redactor is not None:
            line = json.dumps(redactor.redact_value(json.loads(line)), ensure_ascii=False) + "\n"
        file.write(line.encode("utf-8"))
    n_bytes = file.tell()
    file.seek(0)
    return File(f"study/{items_name(study)}", n_bytes, _closing(file))


def _closing(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        yield from iter(lambda: file.read(256 * 1024), b"")


def _consent(consent: ConsentText) -> str:
    parts = [f"# Texts that participants agreed to (version {consent.digest})\n"]
    for name in AGREED_KEYS:
        value = consent.texts.get(name)
        parts.append(f"\n## {name.replace('_', ' ').capitalize()}\n\n{'' if value is None else value}\n")
    return "".join(parts)


_TEXTS = re.compile(r"texts/([0-9a-f]{1,32})\.json")
_VERSION = re.compile(r"study/version-(\d{1,9})\.yaml")


@dataclass(frozen=True, slots=True)
class Codebook:
    """Parts of a package's codebook needed for the import.

    Attributes:
        before, after: key of the question before or after the task, by column.
        scales: ends of the scale, by column of ratings.
        inferred: columns of ratings whose scale was inferred from the data.
    """

    before: Mapping[str, str]
    after: Mapping[str, str]
    scales: Mapping[str, tuple[float, float]]
    inferred: frozenset[str] = frozenset()


def codebook_read(package: Package) -> Codebook:
    """Return the package's codebook.

    Raises:
        PackageError: it is missing or invalid.
    """
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    scales: dict[str, tuple[float, float]] = {}
    inferred: set[str] = set()
    try:
        for entry in package.json("codebook.json")["columns"]:
            if entry["table"] == "participants" and entry["asked"] == "before":
                before[entry["column"]] = str(entry["question_key"])
            elif entry["table"] == "ratings" and entry["asked"] == "after":
                after[entry["column"]] = str(entry["question_key"])
                if entry.get("scale_inferred"):
                    inferred.add(entry["column"])
                if entry["low"] is not None:
                    scales[entry["column"]] = (float(entry["low"]), float(entry["high"]))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, PackageError):
            raise
        raise PackageError(f"codebook.json lacks required information: {error}") from None
    return Codebook(before, after, scales, frozenset(inferred))


def package_check(package: Package) -> None:
    """Refuse a package that is damaged or from an incompatible later version.

    Raises:
        PackageError: with the first changed files, or the missing tables.
    """
    made_as = package.json("versions.json")
    number = made_as.get("package") if isinstance(made_as, dict) else None
    if number != PACKAGE_FORMAT:
        raise PackageError(
            f"versions.json has package format {quote(number)}; this Confab reads format {PACKAGE_FORMAT}"
        )
    if missing := left_out_of(package.json(DESCRIPTOR)):
        raise PackageError(
            f"the package lacks {', '.join(missing)}, because its creator did not have the right to see them; only "
            "a complete package can restore a study"
        )
    checked = package.check()
    if not checked.is_whole:
        wrong = [
            *(f"{name} has changed" for name in checked.changed),
            *(f"{name} is missing" for name in checked.missing),
            *(f"{name} does not belong to it" for name in checked.extra),
        ]
        remainder = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise PackageError(f"the package has been changed: {', '.join(wrong[:5])}{remainder}")


def study_make(*, package: Package, key: str, codebook: Codebook) -> dict[int, StudyVersion]:
    """Create or find the package's study; return its versions by old number.

    Raises:
        Refused: `not_from_package`: another study has the key.
        ValuesError: with all errors in a file of the study.
    """
    numbers = sorted(int(m[1]) for path in package.paths if (m := _VERSION.fullmatch(path)))
    if not numbers:
        raise PackageError(f"{package.name} contains no version of its study")
    with transaction.atomic(), tempfile.TemporaryDirectory(prefix="confab-") as folder:
        _items_beside(package, Path(folder))
        files = [_file(package, f"study/version-{number}.yaml", key) for number in numbers]
        known = Study.objects.select_for_update(of=("self",)).filter(key=key).first()
        if known is not None:
            _check_own(known, _file(package, NEWEST, key))
            stored_versions = list(known.versions.order_by("number").select_related("rubric"))
            return dict(zip(numbers, stored_versions[-len(numbers) :], strict=False))
        versions: dict[int, StudyVersion] = {}
        for number, file in zip(numbers, files, strict=True):
            study = study_import(file=file, folder=Path(folder)).study
            versions[number] = version_freeze(version=study.version)
        _finish(study, package, codebook)
        return versions


def _finish(study: Study, package: Package, codebook: Codebook) -> None:
    """Set data outside the study's file: state, test, bot table and scales."""
    stored = package.json("versions.json").get("study")
    facts = stored if isinstance(stored, dict) else {}
    columns = package.json(BOT_COLUMNS) if BOT_COLUMNS in package.paths else {}
    try:
        table = BotColumns.from_json(columns).to_json() if columns else {}
    except (AttributeError, TypeError, ValueError):
        raise PackageError(f"{BOT_COLUMNS} is not a table of bots") from None
    Study.objects.filter(pk=study.pk).update(
        state=Study.State.ENDED,
        is_imported=bool(facts.get("is_imported")),
        is_sequential=facts.get("test") == "always",
        bot_columns=table,
    )
    datasheet_store(study=study, answers=_datasheet(package))
    for column in codebook.inferred:
        rows = Dimension.objects.filter(rubric__study_versions__study=study, key=codebook.after[column])
        Rubric.objects.filter(dimensions__in=rows).update(scale_inferred=True)
        rows.update(scale_inferred=True)
    for column, (low, high) in codebook.scales.items():
        if not (low.is_integer() and high.is_integer()):
            rows = Dimension.objects.filter(rubric__study_versions__study=study, key=codebook.after[column])
            rows.update(low=low, high=high)


def _datasheet(package: Package) -> dict[str, str]:
    """Return the researchers' answers in the datasheet, by question key."""
    if "heds.json" not in package.paths:
        return {}
    try:
        return {
            key_of(str(answer["number"]), answer["criterion"] or ""): str(answer["from_researchers"])
            for answer in package.json("heds.json")["answers"]
            if answer["from_researchers"]
        }
    except (KeyError, TypeError) as error:
        raise PackageError(f"heds.json lacks required information: {error}") from None


def _file(package: Package, path: str, key: str) -> StudyFile:
    try:
        file = study_file_made({**study_file_plain(package.text(path)), "key": key})
    except ValuesError as error:
        mistakes_text = "; ".join(str(mistake) for mistake in error.mistakes)
        raise PackageError(f"{path}: {mistakes_text}") from None
    # Set even if empty, so that a study of an earlier version keeps its levels.
    return file.model_copy(update={"quotas": file.quotas.model_copy(update={"level": file.quotas.level})})


def _items_beside(package: Package, folder: Path) -> None:
    for path in map(PurePosixPath, package.paths):
        if path.parent == PurePosixPath("study") and path.name.endswith(".items.jsonl"):
            (folder / path.name).write_text(package.text(str(path)), encoding="utf-8")


def _check_own(study: Study, file: StudyFile) -> None:
    """Refuse a study that was not created from this package."""
    chats = study.conversations.exclude(source=Conversation.Source.IMPORT)
    people = study.participants.exclude(platform=IMPORT_PLATFORM)
    same = study_file_of(study).values == file.values and study.protocol == file.protocol
    if not same or chats.exists() or people.exists():
        raise Refused(
            "not_from_package",
            f"study {quote(study.key)} already exists and was not made from this package; import it under another key",
        )


def bots_make(*, rows: Iterable[Mapping[str, str]]) -> dict[str, BotVersion]:
    """Store missing bot identities; return all of them by key.

    Raises:
        PackageError: a row's key does not match its identity.
    """
    bots: dict[str, BotVersion] = {}
    for number, row in enumerate(rows, start=1):
        key, bot_id = row["bot_version"], row["bot"]
        try:
            settings = json.loads(row["settings"])
            is_it = Identity(bot_id, row["version"], settings).key == key
        except (ValueError, TypeError):
            is_it = False
        if not is_it:
            raise PackageError(
                f"data/bots.csv, row {number}: {quote(key)} is not the key of bot {quote(bot_id)} with these settings"
            )
        defaults = {
            "bot_id": bot_id,
            "title": row["title"],
            "kind": row["kind"],
            "version": row["version"],
            "params": settings,
            "is_control": row["is_control"] == "true",
        }
        try:
            check_rows([BotVersion(key=key, **defaults)])
        except ValueError as error:
            raise PackageError(f"data/bots.csv, row {number}: {error}") from None
        bots[key], _ = BotVersion.objects.get_or_create(key=key, defaults=defaults)
    return bots


def consents_make(*, package: Package) -> dict[str, ConsentText]:
    """Store the consent texts; return them by digest.

    Raises:
        PackageError: a text does not match the digest in its name.
    """
    consents: dict[str, ConsentText] = {}
    for path in package.paths:
        if (match := _TEXTS.fullmatch(path)) is None:
            continue
        texts = package.json(path)
        if not isinstance(texts, dict) or terms_digest(texts) != match[1]:
            raise PackageError(f"{path} does not contain the texts with that digest")
        consents[match[1]], _ = ConsentText.objects.get_or_create(digest=match[1], defaults={"texts": texts})
    return consents
