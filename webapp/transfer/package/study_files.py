"""Files of a study in its data package: every version that was run, its items, and the consent texts."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from typing import IO, cast

from django.db.models import Exists, OuterRef, Q

from webapp.studies.models import ConsentText, Study, StudyVersion, Task
from webapp.studies.study_file import (
    StudyFile,
    items_lines,
    items_name,
    study_file_of,
    study_file_text,
    without_codes,
)
from webapp.studies.terms import AGREED
from webapp.transfer.exporters.base import ExportOptions
from webapp.transfer.exporters.participants import participants_included
from webapp.transfer.package.archive import File

NEWEST = "study/study.yaml"
BOT_COLUMNS = "study/bot_columns.json"
"""What the researchers' own table says of the bots."""


def version_path(number: int) -> str:
    """Return the path of a version of the study in the zip."""
    return f"study/version-{number}.yaml"


def versions_run(study: Study) -> list[StudyVersion]:
    """Return the versions that participants consented to or worked by, and the newest, in their order."""
    worked = Task.objects.filter(version=OuterRef("pk"))
    run = Q(frozen_at__isnull=False) | Exists(worked) | Q(pk=study.version_id)
    return list(study.versions.filter(run).select_related("rubric").order_by("number"))


def study_files(study: Study, options: ExportOptions) -> Iterator[File]:
    """Yield the study's files; completion codes are in them only where private data are requested."""
    yield File.of(NEWEST, _text(study_file_of(study), options))
    for version in versions_run(study):
        yield File.of(version_path(version.number), _text(study_file_of(study, version), options))
    if study.bot_columns:
        table = json.dumps(study.bot_columns, ensure_ascii=False, indent=1, sort_keys=True)
        yield File.of(BOT_COLUMNS, table + "\n")
    file = study_file_of(study)
    if isinstance(file.items, str):
        yield _items(study)
    agreed = participants_included(study, options).exclude(consent=None).values("consent")
    for consent in ConsentText.objects.filter(pk__in=agreed).order_by("pk"):
        yield File.of(f"texts/{consent.digest}.md", _consent(consent))
        exact = json.dumps(consent.texts, ensure_ascii=False, indent=1, sort_keys=True)
        yield File.of(f"texts/{consent.digest}.json", exact + "\n")


def _text(file: StudyFile, options: ExportOptions) -> str:
    return study_file_text(file if options.include_private else without_codes(file))


def _items(study: Study) -> File:
    file = cast(IO[bytes], tempfile.TemporaryFile())  # noqa: SIM115
    for line in items_lines(study):
        file.write(line.encode("utf-8"))
    n_bytes = file.tell()
    file.seek(0)
    return File(f"study/{items_name(study)}", n_bytes, _closing(file))


def _closing(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        yield from iter(lambda: file.read(256 * 1024), b"")


def _consent(consent: ConsentText) -> str:
    parts = [f"# What people agreed to (version {consent.digest})\n"]
    for name in AGREED:
        value = consent.texts.get(name)
        parts.append(
            f"\n## {name.replace('_', ' ').capitalize()}\n\n{'' if value is None else value}\n"
        )
    return "".join(parts)
