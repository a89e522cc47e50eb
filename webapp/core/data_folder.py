"""Identity of the data folder, to detect machines that do not share it.

The folder has a file with a random id, and the database stores the id of its folder. Exports, imports, images and
erasure work only if every process has the same folder.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from django.conf import settings

from webapp.core.models import Installation

FOLDER_DIFFERS = (
    "the data folder {folder} does not belong to this database: exports and imports of other machines are missing "
    "here, and data in this folder are not erased. Mount the shared folder. If the folder was replaced on purpose, "
    "run `upgrade --adopt-data-folder`"
)


def read_folder_id() -> str:
    """Return the id of the data folder; create it if missing."""
    path = _id_path()
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        pass
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    unfinished.write_text(uuid.uuid4().hex, encoding="utf-8")
    try:
        path.hardlink_to(unfinished)  # the first of several processes wins
    except FileExistsError:
        pass
    finally:
        unfinished.unlink()
    return path.read_text(encoding="utf-8").strip()


def is_database_folder(folder_id: str) -> bool:
    """Return True if the database's folder has this id.

    A database without a folder adopts this one.
    """
    installation = Installation.load()
    if not installation.data_folder_id:
        adopt_folder(folder_id, only_if_none=True)
        installation.refresh_from_db()
    return installation.data_folder_id == folder_id


def adopt_folder(folder_id: str, *, only_if_none: bool = False) -> None:
    """Store the folder's id as that of the database's data folder."""
    Installation.load()
    rows = Installation.objects.filter(data_folder_id="") if only_if_none else Installation.objects.all()
    rows.update(data_folder_id=folder_id)


def _id_path() -> Path:
    return Path(settings.DATA_DIR) / "data-folder-id.txt"
