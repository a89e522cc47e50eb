"""Files of jobs: exports to download, and uploads to import.

They are stored in the data folder, which web processes and workers share. They contain participants' texts, so other
users of the machine cannot read them; exports are removed after `EXPORTS_KEPT`, and at once when a participant of their
study is erased.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.utils.translation import gettext as _

from chatbots.text import error_text, sanitise
from evaluation.data.package import PackageError, data_file_of
from webapp.core.audit_trail import EXPORT, EXPORT_ORDER, AuditAction, record
from webapp.core.errors import Refused
from webapp.core.project_disk import disk_demand, disk_keep
from webapp.core.project_scope import USUAL_PROJECT, project_of_new_rows
from webapp.core.rights import Right
from webapp.core.whole_files import whole_file
from webapp.jobs.models import UNFINISHED, Job, State
from webapp.jobs.services.jobs import job_cancel, job_create
from webapp.studies.models import Study
from webapp.transfer.exporters.base import ExportOptions, Source, exporter_counts, exporter_get, exporters
from webapp.transfer.package.tables import package_rights

if TYPE_CHECKING:
    from django.contrib.auth.models import User

PACKAGE = "package"
"""Value for the whole data package, which is a zip, instead of a table."""
DATASET = "dataset"
"""Value for a public data set, which `publish` writes to a folder."""
LARGE_EXPORT = 50_000
"""Number of rows above which a worker creates the file instead of a direct download."""
EXPORTS_KEPT = timedelta(days=3)
UPLOADS_KEPT = timedelta(days=1)
"""Uploads that no job is to read are removed after this time."""
_LISTED = 20


def export_size(table_name: str, study: Study, options: ExportOptions) -> int:
    """Estimate a table's rows; by default, the number of messages.

    For a data package, the sum over its main tables.

    Raises:
        UnknownName: there is no such table.
    """
    if table_name == PACKAGE:
        return sum(exporter_counts(study, options).values())
    exporter = exporter_get(table_name)
    if getattr(exporter, "is_small", False):
        return 0
    counting: Any = exporter if hasattr(exporter, "count") else exporter_get("messages")
    return int(counting.count(study, options))


def export_title(table_name: str) -> str:
    """Return an export's title on pages."""
    return _("Data package") if table_name == PACKAGE else exporter_get(table_name).title


def export_rights(table_name: str, options: ExportOptions) -> set[Right]:
    """Return the rights needed for a file, including private data if requested."""
    if table_name == PACKAGE:
        return package_rights(options)
    exporter = exporter_get(table_name)
    rights = {getattr(exporter, "right", Right.READ)}
    if options.include_private:
        rights |= {Right.PRIVATE} | ({Right.PAY} if getattr(exporter, "has_codes", False) else set())
    return rights


def export_record(
    source: Source, table_name: str, file_format: str, options: ExportOptions, action: AuditAction = EXPORT
) -> None:
    """Record in the audit log that a table or package is exported."""
    record(
        action,
        source,
        table=table_name,
        format=file_format,
        private=options.include_private,
        synthetic=options.include_synthetic,
        failed=options.include_failed,
        images=options.include_images,
        redacted=options.is_redacted,
        searched=bool(options.search),
        excluded_flags=len(options.without),
    )


def export_options(job: Job) -> ExportOptions:
    """Return the options of an export that a worker makes."""
    names = {field.name for field in fields(ExportOptions)}
    return ExportOptions(**{name: value for name, value in job.payload.items() if name in names})


def export_make(*, study: Study, payload: dict[str, Any], created_by: User | None = None) -> Job:
    """Return the job that exports a table, reusing a running one.

    Args:
        payload: as `kinds.exporting.ExportAsked` has it.

    Raises:
        Refused: `bad_payload` or `unknown_name`.
    """
    files_expire()
    with transaction.atomic():
        Study.objects.select_for_update(of=("self",)).get(pk=study.pk)
        under_way = Job.objects.filter(kind="export", study=study, payload=payload, state__in=UNFINISHED).first()
        if under_way is not None:
            return under_way
        job = job_create(kind="export", payload=payload, study=study, created_by=created_by)
        export_record(study, job.payload["what"], job.payload["format"], export_options(job), EXPORT_ORDER)
        return job


def export_folder() -> Path:
    """Return the exports folder, created with owner-only access."""
    folder = Path(settings.DATA_DIR) / "exports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def export_path(job: Job) -> Path:
    """Return the path of a finished job's file."""
    return export_folder() / f"export-{job.pk}.{job.payload['format']}"


_JOB_FILE = re.compile(r"\.?(?:export|report)-(\d+)\.")


def project_exports(project: str) -> list[Path]:
    """Return the files of exports and reports that jobs of the project have made or are writing."""
    paths = {path: int(match[1]) for path in export_folder().iterdir() if (match := _JOB_FILE.match(path.name))}
    jobs = Job.everywhere.filter(pk__in={*paths.values()}, project=project)
    own_jobs = set(jobs.values_list("pk", flat=True))
    return [path for path, pk in paths.items() if pk in own_jobs]


def exports_of(study: Study) -> list[Job]:
    """Return a study's newest exports.

    They are running, have failed, or still have a file.
    """
    newest = Job.objects.filter(kind="export", study=study).select_related("study")[:_LISTED]
    return [
        job
        for job in newest
        if (
            job.payload["what"] in exporters or job.payload["what"] == PACKAGE
        )  # otherwise its plug-in is not installed here
        and (job.state != State.DONE or export_path(job).is_file())
    ]


UNFINISHED_KEPT = timedelta(hours=1)
"""Age at which unfinished files must belong to a killed process."""


def is_unfinished(file: Path) -> bool:
    """Return True for a file that is incomplete.

    It is still being written, or was left by a killed process.
    """
    return file.suffix == ".part"


def files_expire() -> int:
    """Remove old exports, unused uploads and leftovers; return the number."""
    waiting = Job.everywhere.filter(kind="import", state__in=(*UNFINISHED, State.INTERRUPTED))
    awaited_files = set(waiting.values_list("payload__file", flat=True))
    n_removed = 0
    for folder, lifetime in ((export_folder(), EXPORTS_KEPT), (upload_folder(USUAL_PROJECT), UPLOADS_KEPT)):
        too_old = time.time() - lifetime.total_seconds()
        for file in (path for path in folder.rglob("*") if path.is_file()):
            with suppress(FileNotFoundError):  # another process was faster
                is_left = is_unfinished(file) and file.stat().st_mtime < time.time() - UNFINISHED_KEPT.total_seconds()
                if is_left or (file.stat().st_mtime < too_old and str(file) not in awaited_files):
                    file.unlink()
                    n_removed += 1
    return n_removed


def exports_forget(studies: Collection[int]) -> None:
    """Remove these studies' exports and stop running ones, after an erasure."""
    for job in Job.objects.filter(kind="export", study__in=studies):
        if not job.is_over:
            job_cancel(job=job)
        export_path(job).unlink(missing_ok=True)
        for unfinished in export_folder().glob(f".{export_path(job).stem}.*"):  # left by a killed process
            unfinished.unlink(missing_ok=True)


def upload_folder(project: str | None = None) -> Path:
    """Return the folder of a project's uploads, created with owner-only access.

    Args:
        project: key of the project; None: the active one.
    """
    folder = Path(settings.DATA_DIR) / "imports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (key := project or project_of_new_rows()) != USUAL_PROJECT:
        folder /= key
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def project_uploads(project: str) -> list[Path]:
    """Return a project's uploads that wait for their import."""
    return [path for path in upload_folder(project).iterdir() if path.is_file()]


UPLOAD_ENDINGS = (".jsonl.gz", ".jsonl", ".json", ".csv.gz", ".csv", ".tsv", ".xlsx", ".parquet", ".zip")


def upload_keep(upload: UploadedFile, user: User) -> str:
    """Store an upload for its owner's next steps; return its stored name.

    The only data file of a zip is stored instead of the zip.

    Raises:
        Refused: as `upload_write`.
    """
    upload_filename = sanitise(upload.name or "", 200)
    stem = re.sub(r"[^\w.]+", "_", upload_filename.removesuffix(upload_ending(upload_filename)))[:50]
    path = upload_write(upload, upload_folder(), f"{user.pk}-{uuid4().hex}-{stem}")
    if path.suffix != ".zip":
        return path.name
    with suppress(PackageError), data_file_of(path) as data_file:  # the preview shows the error
        if data_file is not None:
            disk_demand(data_file.stat().st_size)
            target = path.with_name(path.name.removesuffix(".zip") + upload_ending(data_file.name).lower())
            shutil.move(data_file, target)
            path.unlink()
            disk_keep(target)
            return target.name
    return path.name


def upload_name(path: Path) -> str:
    """Return the original file name of an upload."""
    return path.name.split("-", 2)[-1]


def upload_ending(name: str) -> str:
    """Return the ending in `UPLOAD_ENDINGS` of a file name.

    Raises:
        Refused: `bad_file`.
    """
    ending = next((known_ending for known_ending in UPLOAD_ENDINGS if name.lower().endswith(known_ending)), None)
    if ending is None:
        raise Refused(
            "bad_file",
            _("The file is called {name}. Its name must end in {endings}.").format(
                name=name, endings=", ".join(UPLOAD_ENDINGS)
            ),
        )
    return name[-len(ending) :]


def is_upload_name(name: str) -> bool:
    """Return True if `upload_keep` may have given this name."""
    return re.fullmatch(r"\d+-[0-9a-f]{32}-[\w.]{0,70}", name) is not None


def upload_kept(name: str, user: User) -> Path | None:
    """Return a user's upload; None if expired, imported or someone else's."""
    path = upload_folder() / name
    return path if name.startswith(f"{user.pk}-") and path.is_file() else None


def upload_job(name: str, user: User) -> Job | None:
    """Return the job that imports a user's upload, or has imported it."""
    file = str(upload_folder() / name)
    return Job.objects.filter(kind="import", created_by=user, payload__file=file).first()


def upload_import(*, path: Path, name: str, study: str, created_by: User, enqueue: bool = True, **choices: Any) -> Job:
    """Return the job that imports an upload, one per upload.

    Args:
        path: path of the upload, which the job removes.
        name: its original name.
        study: key of the study to import into, created if needed.
        choices: further fields of `ImportParams`.

    Raises:
        Refused: as the job's kind.
    """
    payload = {"file": str(path), "name": sanitise(name, 200), "study": study, "is_upload": True, **choices}
    with transaction.atomic():
        get_user_model().objects.select_for_update().get(pk=created_by.pk)
        if (job := upload_job(path.name, created_by)) is not None:
            return job
        return job_create(kind="import", payload=payload, created_by=created_by, enqueue=enqueue)


@contextmanager
def upload_errors(path: Path, name: str) -> Iterator[None]:
    """Refuse an unreadable upload, naming it by its original name.

    Args:
        path: its temporary path, which messages would mention.

    Raises:
        Refused: `bad_file`.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        message = error_text(error).replace(str(path), name).replace(path.name, name)
        raise Refused("bad_file", message) from error


def upload_write(upload: UploadedFile, folder: Path, name: str) -> Path:
    """Write an upload as `name` with its own ending; return the path.

    Raises:
        Refused: `bad_file`: its ending is none of `UPLOAD_ENDINGS`; `too_large`; `disk_full`; `project_disk_full`.
    """
    ending = upload_ending(upload.name or "").lower()
    if (upload.size or 0) > settings.CONFAB_UPLOAD_LIMIT_MB * 1_048_576:
        raise Refused(
            "too_large",
            _("The file has {size} MB; the maximum is {most} MB.").format(
                size=(upload.size or 0) // 1_048_576, most=settings.CONFAB_UPLOAD_LIMIT_MB
            ),
        )
    disk_demand(upload.size or 0)
    path = folder / f"{name}{ending}"
    with whole_file(path) as handle:
        for chunk in upload.chunks():
            handle.write(chunk)
    disk_keep(path)
    return path


def uploads_forget(studies: Collection[int]) -> None:
    """Remove files of failed imports into these studies, after an erasure.

    The files may contain the participant. Finished imports have removed their file, and running ones will.
    """
    keys = Study.objects.filter(pk__in=studies).values_list("key", flat=True)
    jobs = Job.objects.filter(kind="import", payload__study__in=list(keys))
    for job in jobs.exclude(state__in=UNFINISHED):
        if job.payload.get("is_upload"):
            Path(job.payload["file"]).unlink(missing_ok=True)
