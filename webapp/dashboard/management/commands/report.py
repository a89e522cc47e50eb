"""`report --study KEY --output FILE.html`: a study's report as one file.

`report --study KEY --json` prints the results that the page is made of; `--like ghandeharioun2019` uses the layout of
that paper. `report --like grade2020 --output FILE.html` puts the newest benchmarks of metrics into the layout of one of
the other papers; with `--study` only that study's.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from chatbots.text import quote
from evaluation.agreement.paper_tables import BENCHMARK_PAPERS
from evaluation.analysis.formula_model import KINDS
from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.management.base import ConfabCommand, Usage
from webapp.dashboard.render import report_html
from webapp.insights.report_benchmark import benchmark_report
from webapp.insights.report_document import CHANGES_SECTION, with_changes
from webapp.insights.report_files import report_before, report_state
from webapp.insights.report_paper import LIKE, paper_report
from webapp.insights.report_sections import pair_report, report_of, report_steps
from webapp.jobs.management.command_line import study_named
from webapp.jobs.selectors.selfplay import run_by_id
from webapp.ratings.selectors import study_bots
from webapp.ratings.services import without_argument, without_option
from webapp.results.cache import AnalysisKey, stored_now
from webapp.results.compute import PARTS, hybrid_json, parts_of
from webapp.results.formula_models import model_params, study_model
from webapp.results.item_results import study_pairs
from webapp.results.study_data import study_data, study_frame
from webapp.studies.bot_columns import bot_columns_read
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol


class Command(ConfabCommand):
    help = "Write the complete analysis of a study as one self-contained page."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--study", default="", metavar="KEY", help="required unless --like names a benchmark layout"
        )
        parser.add_argument(
            "--output", type=Path, metavar="FILE.html", help="the page; if missing, --json prints all results"
        )
        parser.add_argument(
            "--bots",
            type=Path,
            metavar="FILE.csv",
            help="table of bots (bot,perplexity,corpus,control …) to use instead of the stored one",
        )
        parser.add_argument("--run", type=int, metavar="ID", help="self-play run to compare with the ratings")
        parser.add_argument(
            "--turned", default="", metavar="a,b", help="negatively worded, reversed dimensions, for the rater filters"
        )
        parser.add_argument(
            "--like",
            choices=(*LIKE, *BENCHMARK_PAPERS),
            default="",
            help="render the tables and figures of this paper, with the published values",
        )
        parser.add_argument(
            "--sections", default="", metavar="a,b", help="only these sections of the page, such as ratings,hybrid"
        )
        parser.add_argument(
            "--formula", default="", metavar="FORMULA", help="also fit this model: 'y ~ bot * scenario + (1|rater)'"
        )
        parser.add_argument("--kind", choices=KINDS, default="linear", help="kind of the model (default: linear)")
        parser.add_argument("--include-synthetic", action="store_true")
        without_argument(parser)

    def run(self, **options: Any) -> dict[str, Any]:
        if options["like"] in BENCHMARK_PAPERS:
            return self._of_benchmarks(**options)
        if not options["study"]:
            raise Usage("--study is missing; name the study to report")
        study = study_named(options["study"])
        output: Path | None = options["output"]
        if output is None and not options["json"]:
            raise Usage("use --output FILE.html to write a page, or --json to print the results")
        if output is None and (options["like"] or options["sections"]):
            raise Usage("--like and --sections need a page; add --output FILE.html")
        if options["formula"] and (options["like"] or get_protocol(study).compares_pairs):
            reason = "--like has its own tables" if options["like"] else f"study {study.key} compares pairs"
            raise Usage(f"--formula models ratings, and {reason}; remove it")
        if output is not None:
            _writable(output)
        record(DOWNLOAD, study, file="report")
        run = run_by_id(options["run"]) if options["run"] is not None else None
        table: Path | None = options["bots"]
        bot_table = None
        if table is not None:
            bot_table = bot_columns_read(table.read_bytes(), list(study_bots(study)), table.name)
        counted_work: dict[str, Any] = {
            "include_synthetic": options["include_synthetic"],
            "without": without_option([study], options["without"]),
        }
        data = study_data(
            study,
            **counted_work,
            bot_table=bot_table,
            turned=[name.strip() for name in options["turned"].split(",") if name.strip()],
        )
        if data is None and get_protocol(study).compares_pairs:
            return self._of_pairs(study, output, counted_work, options["sections"])
        if data is None:
            raise LookupError(f"study {study.key} has no ratings yet, so there is nothing to report")
        is_usual = run is None and bot_table is None and not data.turned
        model = model_params(study, options["formula"], options["kind"]) if options["formula"] else None

        @cache
        def result(part: str) -> Any:
            part_model = model if part == "formula" else None
            stored = stored_now(AnalysisKey(study, part, **counted_work, model=part_model)) if is_usual else None
            if stored is not None:
                return stored.result
            return study_model(data, part_model) if part_model else PARTS[part].make(data, run)

        if output is None:
            parts = [*parts_of(study), *(["formula"] if model else [])]
            results = {part: result(part).to_json() for part in self.progress(parts)}
            return {"study": study.key, **results, "hybrid": hybrid_json(study, counted_work["without"])}
        frame = study_frame(study, data.facts, **counted_work)
        if options["like"]:
            document = paper_report(frame, result)
            section_ids = _sections(options["sections"], [chapter.id for chapter in document.chapters])
            output.write_text(report_html(document.chosen(section_ids)), encoding="utf-8")
            return {"file": str(output)}
        steps = list(report_steps(frame, result, formula=model is not None))
        before = None
        if is_usual:
            before = report_before(study, report_state(study, **counted_work).digest, **counted_work)
        names = [step.id for step in steps] + ([CHANGES_SECTION] if before else [])
        section_ids = _sections(options["sections"], names)
        chosen = [step for step in steps if step.id in section_ids]
        sections = [step.make() for step in self.progress(chosen, label="Report")]
        document = report_of(frame, result, sections)
        if CHANGES_SECTION in section_ids:
            document = with_changes(document, before)
        output.write_text(report_html(document), encoding="utf-8")
        return {"file": str(output)}

    def _of_benchmarks(self, **options: Any) -> dict[str, Any]:
        """Write the newest benchmarks in the layout of a paper."""
        output: Path | None = options["output"]
        if output is None:
            raise Usage("--like needs a page; add --output FILE.html")
        for name in ("bots", "run", "turned", "formula", "include_synthetic", "without"):
            if options[name]:
                raise Usage(f"--{name.replace('_', '-')} is for reports of ratings; remove it")
        _writable(output)
        studies = [study_named(options["study"])] if options["study"] else None
        record(DOWNLOAD, studies[0] if studies else None, file="report")
        document = benchmark_report(options["like"], studies)
        section_ids = _sections(options["sections"], [chapter.id for chapter in document.chapters])
        output.write_text(report_html(document.chosen(section_ids)), encoding="utf-8")
        return {"file": str(output)}

    def _of_pairs(
        self, study: Study, output: Path | None, counted_work: dict[str, Any], sections: str
    ) -> dict[str, Any]:
        """Write or return the report of a study with paired comparisons."""
        report = pair_report(study, **counted_work)
        if report is None:
            raise LookupError(f"study {study.key} has no judgements yet, so there is nothing to report")
        if output is not None:
            section_ids = _sections(sections, [chapter.id for chapter in report.chapters])
            output.write_text(report_html(report.chosen(section_ids)), encoding="utf-8")
            return {"file": str(output)}
        pairs = study_pairs(study, **counted_work)
        return {
            "study": study.key,
            "pairs": pairs.results.to_json() if pairs.results else None,
            "beside": pairs.compared_study.key if pairs.compared_study else None,
            "one_turn": pairs.compared.to_json() if pairs.compared else None,
        }

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(f"The report was written to {result['file']}")


def _sections(requested: str, known: Sequence[str]) -> list[str]:
    """Return the requested sections; all by default.

    Raises:
        LookupError: a name is unknown; the error lists the known ones.
    """
    names = [name.strip() for name in requested.split(",") if name.strip()]
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise LookupError(f"the report has no section {quote(unknown)}; it has {', '.join(known)}")
    return names or list(known)


def _writable(output: Path) -> None:
    """Check that a file can be written to a path.

    Raises:
        LookupError: if not; the error says what to do.
    """
    if not output.resolve().parent.is_dir():
        raise LookupError(f"there is no folder {output.resolve().parent}")
    if output.is_dir():
        raise LookupError(f"{output} is a folder; specify a file, such as {output / 'report.html'}")
