"""Disk space of projects, and its limit.

It includes files of jobs, exports, uploads and benchmarks.

Apps register the folders that they write to. A file counts as long as it exists. It is checked before it is written, if
its size is known, and again afterwards, so that several processes cannot exceed the limit together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from webapp.core.errors import Refused
from webapp.core.models import Project
from webapp.core.project_scope import project_of_new_rows

MB = 1_048_576
FOLDERS: dict[str, Callable[[str], Iterable[Path]]] = {}
"""By title, functions that return all files of the project with this key."""


def disk_register(title: str, files: Callable[[str], Iterable[Path]]) -> None:
    """Register a kind of files that count towards the project's limit."""
    FOLDERS[title] = files


def disk_use(project: str) -> dict[str, int]:
    """Return the bytes of each kind of files of a project."""
    return {title: sum(_size(path) for path in files(project)) for title, files in FOLDERS.items()}


def disk_demand(n_bytes: int = 0, *, project: str | None = None) -> None:
    """Refuse another file, or more of one, if the project's limit is reached.

    Args:
        n_bytes: size of a file that is not written yet; 0 if it is written or its size is unknown.
        project: key of the project; None: the active one.

    Raises:
        Refused: `project_disk_full`.
    """
    key = project or project_of_new_rows()
    limit_mb = _limit_mb(key)
    if limit_mb is not None and (n_used := sum(disk_use(key).values())) + max(n_bytes, 1) > limit_mb * MB:
        raise _refusal(n_used, n_bytes, limit_mb)


def disk_keep(path: Path, *, project: str | None = None) -> None:
    """Delete a newly written file if the project now exceeds its limit.

    Raises:
        Refused: `project_disk_full`.
    """
    key = project or project_of_new_rows()
    limit_mb = _limit_mb(key)
    if limit_mb is not None and (n_used := sum(disk_use(key).values())) > limit_mb * MB:
        n_bytes = _size(path)
        path.unlink(missing_ok=True)
        raise _refusal(n_used - n_bytes, n_bytes, limit_mb)


def _limit_mb(project: str) -> int | None:
    return Project.objects.filter(key=project).values_list("disk_limit_mb", flat=True).first()


def _refusal(n_used: int, n_bytes: int, limit_mb: int) -> Refused:
    needed = f", and this needs {_in_mb(n_bytes)} MB" if n_bytes else ""
    return Refused(
        "project_disk_full",
        f"The files of this project take {_in_mb(n_used)} of {limit_mb} MB{needed}. Delete files of the benchmark, "
        "wait until exports and uploads expire, or ask an administrator of the server for a higher limit.",
    )


def _in_mb(n_bytes: int) -> str:
    return f"{n_bytes / MB:.3g}" if n_bytes < 100 * MB else f"{n_bytes / MB:.0f}"


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):  # removed meanwhile
        return path.stat().st_size
    return 0
