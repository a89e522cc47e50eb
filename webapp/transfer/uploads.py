"""Files that were uploaded for an import, which workers share."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from webapp.runs.models import UNFINISHED, Job
from webapp.studies.models import Study


def uploads_forget(studies: Collection[int]) -> None:
    """Remove files whose import into these studies came to nothing: somebody was erased, and may stand in them.

    An import that was done has removed its file, and one that is under way will.
    """
    keys = Study.objects.filter(pk__in=studies).values_list("key", flat=True)
    jobs = Job.objects.filter(kind="import", payload__study__in=list(keys))
    for job in jobs.exclude(state__in=UNFINISHED):
        if job.payload.get("is_upload"):
            Path(job.payload["file"]).unlink(missing_ok=True)
