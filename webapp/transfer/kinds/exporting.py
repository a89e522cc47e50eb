"""Exports of a table, or of a data package, that is too large to be made while a browser waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from django.utils.translation import gettext_lazy as _

from chatbots.outside import Many, Values
from chatbots.registry import UnknownName
from webapp.core.errors import Refused
from webapp.results.flags import flags_now
from webapp.runs.kinds.base import Kind, ShardPlan, Work, register_kind
from webapp.runs.models import Job
from webapp.transfer.exporters.base import ExportOptions, exporter_get
from webapp.transfer.exports import PACKAGE, export_path, export_size
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.writers import Format, Row, whole_file, write_file


class ExportAsked(Values):
    """A table of the job's study, or its data package, in a format, with what is asked for beyond the usual
    (`ExportOptions`).
    """

    what: str
    format: Format | Literal["zip"]
    include_synthetic: bool = False
    include_failed: bool = False
    include_private: bool = False
    without: Many[str] = ()
    search: str = ""

    def options(self) -> ExportOptions:
        """Return the export's options."""
        return ExportOptions(**self.model_dump(exclude={"what", "format"}))


@register_kind
class Export(Kind[Job, ExportAsked]):
    """A table as a file in the data folder, in constant memory; the result has its rows and bytes."""

    name = "export"
    title = _("Export")
    Payload = ExportAsked

    def job_title(self, job: Job) -> str:
        if job.payload["what"] == PACKAGE:
            return str(_("Data package"))
        return str(_("Export of {table}")).format(table=job.payload["what"])

    def check(self, asked: ExportAsked) -> None:
        if asked.what != PACKAGE:
            try:
                exporter_get(asked.what)
            except UnknownName as error:
                raise Refused("unknown_name", str(error)) from None
        if (asked.what == PACKAGE) != (asked.format == "zip"):
            raise Refused(
                "bad_payload",
                f"{asked.what} as {asked.format} cannot be: a data package is a zip, and a table none",
            )

    def plan(self, job: Job, asked: ExportAsked) -> Iterable[ShardPlan]:
        assert job.study is not None
        n_rows = export_size(asked.what, job.study, asked.options())
        return [ShardPlan(n_total=max(n_rows, 1))]

    def slice(self, work: Work[Job, ExportAsked]) -> dict[str, int]:
        job, asked = work.job, work.asked
        assert job.study is not None
        if asked.without:
            flags_now(job.study, exact=True)
        path = export_path(job)
        n_rows = (_package if asked.what == PACKAGE else _table)(work, path)
        path.chmod(0o600)
        try:
            work.beat(n_rows, n_rows, now=True)
        except BaseException:  # stopped, perhaps since a participant in it was erased
            path.unlink(missing_ok=True)
            raise
        return {"rows": n_rows, "bytes": path.stat().st_size}


def _table(work: Work[Job, ExportAsked], path: Path) -> int:
    """Write the table, and return its rows."""
    study, asked = work.job.study, work.asked
    assert study is not None
    exporter, options = exporter_get(asked.what), asked.options()

    def told(rows: Iterable[Row]) -> Iterator[Row]:
        for n, row in enumerate(rows):
            if n % 100 == 0:
                work.beat(n)
            yield row

    assert asked.format != "zip", "checked before there was a job"
    columns = exporter.columns(study, options)
    return write_file(path, asked.format, columns, told(exporter.rows(study, options)))


def _package(work: Work[Job, ExportAsked], path: Path) -> int:
    """Write the data package, and return the rows of all its tables."""
    study, n_rows = work.job.study, 0
    assert study is not None

    def told(n: int) -> None:
        nonlocal n_rows
        n_rows = n
        work.beat(n)

    with whole_file(path) as file:
        for piece in package_pieces(study, work.asked.options(), told=told):
            file.write(piece)
            work.beat(n_rows)
    return n_rows
