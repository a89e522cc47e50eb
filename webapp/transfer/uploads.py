"""Files that are uploaded for an import, which workers share."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _

from chatbots.storable import error_text, storable
from evaluation.formats.scales import Scales
from webapp.core.errors import Refused
from webapp.runs.models import UNFINISHED, Job
from webapp.runs.services.jobs import job_create
from webapp.studies.models import Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

UPLOAD_ENDINGS = (".jsonl.gz", ".jsonl", ".csv", ".zip")


def upload_import(
    *,
    upload: UploadedFile,
    study: str,
    scale: Scales | None = None,
    language: str = "",
    created_by: User | None = None,
) -> Job:
    """Write an upload into the data folder, which the workers share, and return the job that imports it.

    Args:
        study: key of the study that it goes into; made if there is none.
        scale, language: as `import_conversations`.

    Raises:
        Refused: `bad_file` by its name, `too_large`, or what the job's kind refuses.
    """
    folder = Path(settings.DATA_DIR) / "imports"
    folder.mkdir(parents=True, exist_ok=True)
    path = upload_write(upload, folder, uuid4().hex)
    try:
        return job_create(
            kind="import",
            payload={
                "file": str(path),
                "name": storable(upload.name or "", 200),
                "study": study,
                "scales": scale.texts() if scale else [],
                "language": language,
                "is_upload": True,
            },
            created_by=created_by,
        )
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def upload_errors(path: Path, name: str) -> Iterator[None]:
    """Refuse an upload that cannot be read, by the name that the person gave it.

    Args:
        path: where it lies meanwhile, which messages name.

    Raises:
        Refused: `bad_file`.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        told = error_text(error).replace(str(path), name).replace(path.name, name)
        raise Refused("bad_file", told) from error


def upload_write(upload: UploadedFile, folder: Path, name: str) -> Path:
    """Write an upload as `name` with its own ending, and return where it lies.

    Raises:
        Refused: `bad_file`: its ending is none of `UPLOAD_ENDINGS`; `too_large`.
    """
    given = upload.name or ""
    ending = next((one for one in UPLOAD_ENDINGS if given.lower().endswith(one)), None)
    if ending is None:
        raise Refused(
            "bad_file",
            _("The file is called {name}; it must end in {endings}.").format(
                name=given, endings=", ".join(UPLOAD_ENDINGS)
            ),
        )
    if (upload.size or 0) > settings.CONFAB_UPLOAD_LIMIT_MB * 1_048_576:
        raise Refused(
            "too_large",
            _("The file has {size} MB; the most is {most} MB.").format(
                size=(upload.size or 0) // 1_048_576, most=settings.CONFAB_UPLOAD_LIMIT_MB
            ),
        )
    path = folder / f"{name}{ending}"
    with path.open("wb") as handle:
        for chunk in upload.chunks():
            handle.write(chunk)
    return path


def uploads_forget(studies: Collection[int]) -> None:
    """Remove files whose import into these studies failed: a participant was erased, and may stand in them.

    An import that was done has removed its file, and one that is under way will.
    """
    keys = Study.objects.filter(pk__in=studies).values_list("key", flat=True)
    jobs = Job.objects.filter(kind="import", payload__study__in=list(keys))
    for job in jobs.exclude(state__in=UNFINISHED):
        if job.payload.get("is_upload"):
            Path(job.payload["file"]).unlink(missing_ok=True)
