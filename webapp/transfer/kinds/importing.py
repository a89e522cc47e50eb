"""Imports of a file that is too large to be read while a browser waits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.utils.translation import gettext_lazy as _

from chatbots.outside import Many, Number, Values
from evaluation.formats.scales import Scales
from webapp.core.errors import Refused
from webapp.runs.kinds.base import Kind, Work, register_kind
from webapp.runs.models import Job
from webapp.transfer.jobs import import_conversations
from webapp.transfer.services import language_checked
from webapp.transfer.uploads import upload_errors


class ImportAsked(Values):
    """A file that every worker of the queue can read, and the study it goes into.

    Attributes:
        name: that the person gave an upload; empty: that of the file.
        language: of all conversations; empty: told by their words.
        scales: of all dimensions and of single ones, as `--scale` of the command has them; none: as seen in the file.
        scale: lowest and highest value of all dimensions, as jobs of earlier versions have it.
        is_upload: the file is a copy made for this job, which goes when that is done.
    """

    file: str
    study: str
    name: str = ""
    scale: Many[Number] = ()
    scales: Many[str] = ()
    language: str = ""
    is_upload: bool = False


@register_kind
class Import(Kind[Job, ImportAsked]):
    """Conversations and ratings of a file; the result is the report of `import_conversations`."""

    name = "import"
    title = _("Import")
    Payload = ImportAsked

    def job_title(self, job: Job) -> str:
        return str(_("Import into {study}")).format(study=job.payload["study"])

    def check(self, asked: ImportAsked) -> None:
        if not Path(asked.file).is_file():
            raise Refused("no_file", f"there is no file {asked.file}")
        if not re.fullmatch(r"[-a-zA-Z0-9_]{1,60}", asked.study):
            raise Refused(
                "bad_key", "the study key must be letters, digits, - and _, at most 60 of them"
            )
        language_checked(asked.language)
        if len(asked.scale) not in (0, 2):
            raise Refused("bad_scale", f"a scale has two ends, not {len(asked.scale)}")
        try:
            Scales.parse(asked.scales)
        except ValueError as error:
            raise Refused("bad_scale", str(error)) from None

    def slice(self, work: Work[Job, ImportAsked]) -> dict[str, Any]:
        asked, n_read = work.asked, 0

        def progress(what: str, n: int) -> None:
            nonlocal n_read
            n_read = max(n_read, n)
            work.beat(n if what == "storing" else 0, n_read)

        scales = Scales.parse(asked.scales)
        if asked.scale:
            scales = Scales.read((asked.scale[0], asked.scale[1]))
        path = Path(asked.file)
        with upload_errors(path, asked.name or path.name):
            report = import_conversations(
                path,
                study_key=asked.study,
                scale=scales,
                language=asked.language,
                progress=progress,
            )
        return report.as_dict()

    def finish(self, work: Work[Job, ImportAsked], results: Sequence[Any]) -> Any:
        # Only now that the report is stored: a worker killed before would look for the file again.
        if work.asked.is_upload:
            Path(work.asked.file).unlink(missing_ok=True)
        return super().finish(work, results)
