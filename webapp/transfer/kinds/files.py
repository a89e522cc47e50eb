"""Jobs for large files: exports of tables and data packages, and imports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext_lazy as _

from chatbots.registry import UnknownName
from chatbots.text import quote
from chatbots.validation import InputModel, Many, Number
from evaluation.data.formats.base import Skipped
from evaluation.data.formats.csv_roles import role_named
from evaluation.data.formats.mapping import FileMapping
from evaluation.data.formats.scales import FileScales
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.core.project_disk import disk_keep
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job
from webapp.results.refresh import refresh_flags
from webapp.studies.items import origin_of_file
from webapp.studies.lifecycle import items_import
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol
from webapp.studies.selectors import study_by_key
from webapp.studies.study_file import FileItem, items_of_file
from webapp.transfer.exporters.base import ExportOptions, exporter_get, rows_of_table
from webapp.transfer.import_file import ImportChoices, import_conversations
from webapp.transfer.import_scores import scores_import, scores_target
from webapp.transfer.job_files import PACKAGE, export_path, export_size, upload_errors
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.package.import_package import MAX_REPORTED
from webapp.transfer.services import language_checked
from webapp.transfer.writers import Format, Row, whole_file, write_file


class ExportParams(InputModel):
    """Parameters of an export: a table or the data package, and options."""

    what: str
    format: Format | Literal["zip"]
    include_synthetic: bool = False
    include_failed: bool = False
    include_private: bool = False
    without: Many[str] = ()
    search: str = ""
    include_images: bool = False
    is_redacted: bool = False

    def options(self) -> ExportOptions:
        """Return the export's options."""
        return ExportOptions(**self.model_dump(exclude={"what", "format"}))


@register_kind
class ExportJob(JobKind[Job, ExportParams]):
    """Job that writes a table to a file, in constant memory.

    The result has its numbers of rows and bytes.
    """

    name = "export"
    title = _("Export")
    writes_files = True
    Payload = ExportParams

    def job_title(self, job: Job) -> str:
        if job.payload["what"] == PACKAGE:
            return str(_("Data package"))
        return str(_("Export of {table}")).format(table=job.payload["what"])

    def check(self, params: ExportParams) -> None:
        if params.what != PACKAGE:
            try:
                exporter_get(params.what)
            except UnknownName as error:
                raise Refused("unknown_name", str(error)) from None
        if (params.what == PACKAGE) != (params.format == "zip"):
            raise Refused(
                "bad_payload",
                f"{params.what} cannot be exported as {params.format}: data packages are zip files, tables are not",
            )

    def plan(self, job: Job, params: ExportParams) -> Iterable[ShardPlan]:
        assert job.study is not None
        n_rows = export_size(params.what, job.study, params.options())
        return [ShardPlan(n_total=max(n_rows, 1))]

    def slice(self, work: ShardWork[Job, ExportParams]) -> dict[str, int]:
        job, params = work.job, work.params
        assert job.study is not None
        if params.without:
            refresh_flags(job.study, exact=True)
        path = export_path(job)
        n_rows = (_package if params.what == PACKAGE else _table)(work, path)
        path.chmod(0o600)
        disk_keep(path, project=job.project_id)
        try:
            work.beat(n_rows, n_rows, now=True)
        except BaseException:  # stopped, possibly because a participant in it was erased
            path.unlink(missing_ok=True)
            raise
        return {"rows": n_rows, "bytes": path.stat().st_size}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        n, n_bytes = result["rows"], result["bytes"]
        rows = plural(n, "1 row", "%(n)d rows") % {"n": n}
        return [f"The file has {rows} and {filesizeformat(n_bytes)}."]


def _table(work: ShardWork[Job, ExportParams], path: Path) -> int:
    """Write the table, and return its rows."""
    study, params = work.job.study, work.params
    assert study is not None
    exporter, options = exporter_get(params.what), params.options()

    def report_rows(rows: Iterable[Row]) -> Iterator[Row]:
        for n, row in enumerate(rows):
            if n % 100 == 0:
                work.beat(n)
            yield row

    assert params.format != "zip", "validated when the job was created"
    columns = exporter.columns(study, options)
    return write_file(path, params.format, columns, report_rows(rows_of_table(exporter, study, options)))


def _package(work: ShardWork[Job, ExportParams], path: Path) -> int:
    """Write the data package, and return the rows of all its tables."""
    study, n_rows = work.job.study, 0
    assert study is not None

    def report_rows(n: int) -> None:
        nonlocal n_rows
        n_rows = n
        work.beat(n)

    with whole_file(path) as file:
        for piece in package_pieces(study, work.params.options(), report_rows=report_rows):
            file.write(piece)
            work.beat(n_rows)
    return n_rows


class ImportParams(InputModel):
    """Parameters of an import: a file, and its study.

    Workers must be able to read the file.

    Attributes:
        name: original name of an upload; empty: that of the file.
        language: language of all conversations; empty: detected.
        scales: scales of all and of single dimensions, as for `--scale`; none: as observed in the file.
        scale: lowest and highest value of all dimensions, as in jobs of earlier versions.
        is_upload: whether the file is a copy for this job, to be deleted afterwards.
        items: whether the file contains items to rate, for an existing study.
        scores: whether the file contains scores of other programs, for an existing study or self-play run.
        run: id of the self-play run that gets the scores; the study's key is empty then.
        lower: metrics of which lower scores are better.
        reversed, higher, labels, controls, licence, source: as in `ImportChoices`.
        columns, speakers, bot, keep, questions: as in `FileMapping`.
    """

    file: str
    study: str
    name: str = ""
    scale: Many[Number] = ()
    scales: Many[str] = ()
    language: str = ""
    is_upload: bool = False
    items: bool = False
    scores: bool = False
    run: int | None = None
    lower: Many[str] = ()
    columns: dict[str, str] | None = None
    reversed: Many[str] = ()
    higher: Many[str] = ()
    labels: dict[str, Many[str]] = {}
    controls: Many[str] | None = None
    speakers: dict[str, str] = {}
    bot: str = ""
    keep: Many[str] = ()
    questions: dict[str, dict[str, Any]] = {}
    licence: str = ""
    source: str = ""

    def choices(self) -> ImportChoices:
        """Return the researcher's decisions.

        Raises:
            ValueError: a scale or the role of a column or speaker is invalid.
        """
        scales = FileScales.parse(self.scales)
        if self.scale:
            scales = FileScales.read((self.scale[0], self.scale[1]))
        if unknown := [role for role in (self.columns or {}).values() if role_named(role) is None]:
            raise ValueError(f"a column cannot have the role {quote(unknown[0])}")
        labels = {key: (low, high) for key, (low, high) in self.labels.items()}
        mapping = FileMapping(self.columns, self.speakers, self.bot, self.keep, self.questions)
        return ImportChoices(
            *(scales, self.language, mapping, self.reversed, labels, self.controls, self.higher),
            licence=self.licence,
            source=self.source,
        )


@register_kind
class ImportJob(JobKind[Job, ImportParams]):
    """Job that imports a file; its result is the import report."""

    name = "import"
    title = _("Import")
    Payload = ImportParams

    def job_title(self, job: Job) -> str:
        run = job.payload.get("run")
        return str(_("Import into {study}")).format(study=job.payload["study"] or _("run {id}").format(id=run))

    def check(self, params: ImportParams) -> None:
        if not Path(params.file).is_file():
            raise Refused("no_file", f"there is no file {params.file}")
        if params.scores:
            scores_target(params.study, params.run)
        elif not re.fullmatch(r"[-a-zA-Z0-9_]{1,60}", params.study):
            raise Refused("bad_key", "the study key must consist of letters, digits, - and _, at most 60 of them")
        if params.items:
            study = Study.objects.filter(key=params.study).first()
            if study is None or not get_protocol(study).judges_items:
                raise Refused("not_found", f"there is no study {quote(params.study)} whose participants rate items")
        language_checked(params.language)
        if len(params.scale) not in (0, 2):
            raise Refused("bad_scale", f"a scale has two ends, not {len(params.scale)}")
        try:
            params.choices()
        except ValueError as error:
            raise Refused("bad_scale", str(error)) from None

    def slice(self, work: ShardWork[Job, ImportParams]) -> dict[str, Any]:
        params, n_read = work.params, 0

        def progress(stage: str, n: int) -> None:
            nonlocal n_read
            n_read = max(n_read, n)
            work.beat(n if stage == "storing" else 0, n_read)

        path = Path(params.file)
        name = params.name or path.name
        with upload_errors(path, name):
            if params.items:
                return _items(work, path, name)
            if params.scores:
                study, run = scores_target(params.study, params.run)
                origin: dict[str, Any] = {"lower": params.lower, "licence": params.licence, "source": params.source}
                progress_of_values = partial(work.beat, now=True)
                return scores_import(
                    path, study=study, run=run, name=name, progress=progress_of_values, **origin
                ).as_dict()
            report = import_conversations(
                path, study_key=params.study, choices=params.choices(), progress=progress, name=name
            )
        return report.as_dict()

    def finish(self, work: ShardWork[Job, ImportParams], results: Sequence[Any]) -> Any:
        # Only after the report is stored: a job resumed after a kill needs the file again.
        if work.params.is_upload:
            Path(work.params.file).unlink(missing_ok=True)
        return super().finish(work, results)

    def describe_result(self, job: Job, result: Any) -> list[str]:
        if "metrics" in result:
            return _describe_scores(result)
        names = ("items",) if "items" in result else ("conversations", "ratings")
        sentences = [f"New {' and '.join(f'{name}: {result.get(name, 0)}' for name in names)}."]
        if n := job.n_skipped:
            sentences.append(plural(n, "1 record was skipped.", "%(n)d records were skipped.") % {"n": n})
        return sentences


def _describe_scores(result: Any) -> list[str]:
    sentences = [
        _("{title}: {new} new, {replaced} replaced and {unchanged} unchanged values.").format(**counts)
        for counts in result["metrics"].values()
    ]
    for counts in result["metrics"].values():
        if n := counts["without"]:
            without = plural(n, "1 conversation or item", "%(n)d conversations or items") % {"n": n}
            sentences.append(_("{title} has no value for {without}.").format(title=counts["title"], without=without))
        if n := counts["missing"]:
            rows = plural(n, "1 row of the file has", "%(n)d rows of the file have") % {"n": n}
            sentences.append(_("{rows} no value of {title}.").format(title=counts["title"], rows=rows))
    if n := result["n_skipped"]:
        sentences.append(plural(n, "1 row was skipped.", "%(n)d rows were skipped.") % {"n": n})
    return [str(sentence) for sentence in sentences]


def _items(work: ShardWork[Job, ImportParams], path: Path, name: str) -> dict[str, Any]:
    """Store a file's items, and return the report.

    The report names the first `MAX_REPORTED` skipped lines.
    """
    study = study_by_key(work.params.study)

    def read_lines() -> Iterator[tuple[int, FileItem] | Skipped]:
        for n, line in enumerate(items_of_file(path), start=1):
            work.beat(n, n)
            yield line

    report = items_import(study=study, lines=read_lines(), origin=origin_of_file(study, name, path))
    n_skipped, report.skipped = len(report.skipped), report.skipped[:MAX_REPORTED]
    return {**report.as_dict(), "n_skipped": n_skipped}
