"""Files that workers make of large tables and data packages: asked for, found again, and removed.

They lie in the data folder, which web processes and workers share, and hold what people said. So nobody else on the
machine may read them, and they go after `KEPT`, and at once when a person of their study is erased.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from webapp.core.rights import Right
from webapp.runs.models import UNFINISHED, Job, State
from webapp.runs.services.jobs import job_cancel, job_create
from webapp.studies.models import Study
from webapp.transfer.exporters.base import (
    ExportOptions,
    exporter_counts,
    exporter_get,
    exporters,
)
from webapp.transfer.package.tables import package_rights

if TYPE_CHECKING:
    from django.contrib.auth.models import User

PACKAGE = "package"
"""What is asked for where it is no table but the whole data package, which is a zip."""
LARGE = 50_000
"""A table of more rows is no download of a few seconds: a worker makes its file."""
KEPT = timedelta(days=3)
_LISTED = 20


def export_size(what: str, study: Study, options: ExportOptions) -> int:
    """Return about how many rows a table has; of one that does not count them, the study's messages.

    Of a data package it is how many its main tables have together.

    Raises:
        UnknownName: there is no such table.
    """
    if what == PACKAGE:
        return sum(exporter_counts(study, options).values())
    exporter = exporter_get(what)
    if getattr(exporter, "is_small", False):
        return 0
    counting: Any = exporter if hasattr(exporter, "count") else exporter_get("messages")
    return int(counting.count(study, options))


def export_title(what: str) -> str:
    """Return an export's title on pages."""
    return _("Data package") if what == PACKAGE else exporter_get(what).title


def export_rights(what: str, options: ExportOptions) -> set[Right]:
    """Return the rights that a file needs: its table's, and that to private data where they are requested."""
    if what == PACKAGE:
        return package_rights(options)
    exporter = exporter_get(what)
    own = {getattr(exporter, "right", Right.READ)}
    if options.include_private:
        own |= {Right.PRIVATE} | ({Right.PAY} if getattr(exporter, "has_codes", False) else set())
    return own


def export_make(*, study: Study, asked: dict[str, Any], created_by: User | None = None) -> Job:
    """Return the job that makes a file of a table, asking for it unless one like it is under way.

    Args:
        asked: as `kinds.exporting.ExportAsked` has it.

    Raises:
        Refused: `bad_payload` or `unknown_name`.
    """
    exports_expire()
    with transaction.atomic():
        Study.objects.select_for_update(of=("self",)).get(pk=study.pk)
        under_way = Job.objects.filter(
            kind="export", study=study, payload=asked, state__in=UNFINISHED
        ).first()
        if under_way is not None:
            return under_way
        return job_create(kind="export", payload=asked, study=study, created_by=created_by)


def export_folder() -> Path:
    """Return the folder of the files, made for its owner alone if need be."""
    folder = Path(settings.DATA_DIR) / "exports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def export_path(job: Job) -> Path:
    """Return the path of a job's file once it is made."""
    return export_folder() / f"export-{job.pk}.{job.payload['format']}"


def exports_of(study: Study) -> list[Job]:
    """Return the newest exports of a study that are under way, came to nothing, or whose file is still there."""
    newest = Job.objects.filter(kind="export", study=study).select_related("study")[:_LISTED]
    return [
        job
        for job in newest
        if (
            job.payload["what"] in exporters or job.payload["what"] == PACKAGE
        )  # else of a plug-in that is not installed here
        and (job.state != State.DONE or export_path(job).is_file())
    ]


def exports_expire() -> int:
    """Remove files that were made longer ago than `KEPT`, and what killed processes left. Returns how many."""
    too_old = time.time() - KEPT.total_seconds()
    n_removed = 0
    for file in export_folder().iterdir():
        try:
            if file.stat().st_mtime < too_old:
                file.unlink()
                n_removed += 1
        except FileNotFoundError:  # another process was faster
            continue
    return n_removed


def exports_forget(studies: Collection[int]) -> None:
    """Remove all files made of these studies, and stop those under way: a participant was erased."""
    for job in Job.objects.filter(kind="export", study__in=studies):
        if not job.is_over:
            job_cancel(job=job)
        export_path(job).unlink(missing_ok=True)
