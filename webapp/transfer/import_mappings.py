"""Saved mappings of import files, by name and project, and the record of imported files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.db import transaction
from django.db.models import QuerySet

from chatbots.text import quote, sanitise
from evaluation.data.formats.mapping import FileMapping
from webapp.core.audit_trail import MAPPING_SAVE, record
from webapp.core.errors import Refused
from webapp.core.project_scope import project_of_new_rows
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
    with transaction.atomic():
        row, _is_new = ImportMapping.objects.update_or_create(
            name=sanitise(name, 80), project_id=project_of_new_rows(), defaults={"mapping": mapping.as_dict()}
        )
        record(MAPPING_SAVE, row)


def imported_file_add(
    *, study: Study, name: str, licence: str, source: str, mapping: FileMapping, losses: Mapping[str, str]
) -> None:
    """Record the origin of a file that was imported into a study; repeated imports are recorded once.

    Args:
        losses: what the import left out, by format.
    """
    origin = {"licence": sanitise(licence, 200), "source": sanitise(source, 500), "mapping": mapping.as_dict()}
    origin["losses"] = {title: words for title, words in losses.items() if words}
    ImportedFile.objects.update_or_create(study=study, name=sanitise(name, 200), defaults=origin)


def imported_files(study: Study, name: str = "") -> QuerySet[ImportedFile]:
    """Return the files imported into a study, with licence and source.

    Args:
        name: only the file with this name.
    """
    files = study.imported_files.all()
    return files.filter(name=name) if name else files


_NOT_FREE = re.compile(
    r"\b(no redistribution|not (be )?redistribut\w*|non[- ]?redistribut\w*|all rights reserved|proprietary|"
    r"confidential|internal use|(research|academic) (use )?only|personal use|no licen[cs]e)\b|"
    r"\bnd\b|\bno[- ]?deriv",
    re.IGNORECASE,
)
_FREE = re.compile(
    r"\b(cc[- ]?0|cc[- ]by|creative commons|odc[- ]?by|odbl|pddl|public domain|mit|apache|bsd|cdla)\b", re.IGNORECASE
)


def check_licences(study: Study, licence: str) -> bool:
    """Check that no licence of imported data forbids publication under another one.

    Returns:
        True if the licences of all imported files are known to allow it.

    Raises:
        Refused: `not_redistributable`, with the file and its licence.
    """
    files = list(imported_files(study))
    for file in files:
        words = file.licence.lower()
        is_nc = bool(re.search(r"\bnc\b|non[- ]?commercial", words))
        is_alike = bool(re.search(r"\bsa\b|share[- ]?alike", words))
        keeps_terms = "sa" in licence and is_nc == ("nc" in licence)
        if _NOT_FREE.search(words):
            problem = "does not allow redistribution"
        elif is_nc and "nc" not in licence:
            problem = "allows non-commercial use only"
        elif (is_alike and not keeps_terms) or ("odbl" in words and licence != "odbl"):
            problem = "demands the same licence (share alike)"
        else:
            continue
        raise Refused(
            "not_redistributable",
            f"the licence of the imported file {quote(file.name)}, {quote(file.licence)}, {problem}, so the study "
            f"cannot be published under {licence}. If the licence is wrong, import the file again with the right one",
        )
    data_files = [file for file in files if "metrics" not in file.mapping]  # not files of scores alone
    return bool(data_files) and all(_FREE.search(file.licence) for file in files)
