"""Saved mappings of import files, by name and project, and the record of imported files."""

from __future__ import annotations

from django.db.models import QuerySet

from chatbots.text import quote, sanitise
from evaluation.data.formats.mapping import FileMapping
from webapp.core.errors import Refused
from webapp.studies.models import Study
from webapp.transfer.models import ImportedFile, ImportMapping


def saved_mappings() -> list[str]:
    """Return the names of the project's mappings."""
    return list(ImportMapping.objects.values_list("name", flat=True))


def get_mapping(name: str) -> FileMapping:
    """Return a saved mapping.

    Raises:
        Refused: `not_found`.
    """
    row = ImportMapping.objects.filter(name=name).first()
    if row is None:
        names = ", ".join(map(quote, saved_mappings())) or "none"
        raise Refused("not_found", f"there is no mapping {quote(name)}; saved mappings: {names}")
    return FileMapping.from_dict(row.mapping)


def mapping_save(name: str, mapping: FileMapping) -> None:
    """Save a mapping under a name, replacing an earlier one."""
    ImportMapping.objects.update_or_create(name=sanitise(name, 80), defaults={"mapping": mapping.as_dict()})


def imported_file_add(*, study: Study, name: str, licence: str, source: str, mapping: FileMapping) -> None:
    """Record the origin of a file that was imported into a study; repeated imports are recorded once."""
    origin = {"licence": sanitise(licence, 200), "source": sanitise(source, 500), "mapping": mapping.as_dict()}
    ImportedFile.objects.update_or_create(study=study, name=sanitise(name, 200), defaults=origin)


def imported_files(study: Study) -> QuerySet[ImportedFile]:
    """Return the files imported into a study, with licence and source."""
    return study.imported_files.all()
