"""Exports of a table that is too large to be made while a browser waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.utils.translation import gettext_lazy as _

from chatbots.outside import Values
from chatbots.registry import UnknownName
from webapp.core.errors import Refused
from webapp.runs.kinds.base import Kind, ShardPlan, Work, register_kind
from webapp.runs.models import Job
from webapp.transfer.exporters.base import ExportOptions, exporter_get
from webapp.transfer.exports import export_path, export_size
from webapp.transfer.writers import Format, Row, write_file


class ExportAsked(Values):
    """A table of the job's study, in a format, with what is asked for beyond the usual (`ExportOptions`)."""

    what: str
    format: Format
    include_synthetic: bool = False
    include_failed: bool = False
    include_private: bool = False

    def options(self) -> ExportOptions:
        """Return what to include."""
        return ExportOptions(**self.model_dump(exclude={"what", "format"}))


@register_kind
class Export(Kind[Job, ExportAsked]):
    """A table as a file in the data folder, in constant memory; the result has its rows and bytes."""

    name = "export"
    title = _("Export")
    Payload = ExportAsked

    def job_title(self, job: Job) -> str:
        return str(_("Export of {table}")).format(table=job.payload["what"])

    def check(self, asked: ExportAsked) -> None:
        try:
            exporter_get(asked.what)
        except UnknownName as error:
            raise Refused("unknown_name", str(error)) from None

    def plan(self, job: Job, asked: ExportAsked) -> Iterable[ShardPlan]:
        assert job.study is not None
        n_rows = export_size(exporter_get(asked.what), job.study, asked.options())
        return [ShardPlan(n_total=max(n_rows, 1))]

    def slice(self, work: Work[Job, ExportAsked]) -> dict[str, int]:
        job, asked = work.job, work.asked
        assert job.study is not None
        exporter, options = exporter_get(asked.what), asked.options()
        path = export_path(job)

        def told(rows: Iterable[Row]) -> Iterator[Row]:
            for n, row in enumerate(rows):
                if n % 100 == 0:
                    work.beat(n)
                yield row

        columns = exporter.columns(job.study, options)
        n_rows = write_file(path, asked.format, columns, told(exporter.rows(job.study, options)))
        path.chmod(0o600)
        try:
            work.beat(n_rows, n_rows, now=True)
        except BaseException:  # stopped, perhaps since somebody who stands in it was erased
            path.unlink(missing_ok=True)
            raise
        return {"rows": n_rows, "bytes": path.stat().st_size}
