"""`report --study KEY --output FILE.html`: the whole analysis of a study as one self-contained page.

`report --study KEY --json` prints the results that the page is made of.
"""

from __future__ import annotations

from argparse import ArgumentParser
from functools import cache
from pathlib import Path
from typing import Any

from webapp.core.management.base import ConfabCommand, Usage
from webapp.dashboard.report import pair_report, report_html, report_of, report_steps
from webapp.quality.arguments import without_argument, without_asked
from webapp.ratings.bots import study_bots
from webapp.ratings.pairs import compares_pairs
from webapp.results.making import PARTS, hybrid_json
from webapp.results.pairs import study_pairs
from webapp.results.stored import Question, stored_now
from webapp.results.study_data import study_data, study_frame
from webapp.runs.management.studies import study_named
from webapp.runs.selectors.selfplay import run_by_id
from webapp.studies.bot_columns import bot_columns_read
from webapp.studies.models import Study


class Command(ConfabCommand):
    help = "Write the whole analysis of a study as one self-contained page."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", required=True, metavar="KEY")
        parser.add_argument(
            "--output",
            type=Path,
            metavar="FILE.html",
            help="the page; without it --json prints all results",
        )
        parser.add_argument(
            "--bots",
            type=Path,
            metavar="FILE.csv",
            help="what is known of the bots (bot,perplexity,corpus,control …) instead of the stored table",
        )
        parser.add_argument(
            "--run", type=int, metavar="ID", help="self-play run to set against the ratings"
        )
        parser.add_argument(
            "--turned",
            default="",
            metavar="a,b",
            help="dimensions worded negatively and turned round, for the rater filters",
        )
        parser.add_argument("--include-synthetic", action="store_true")
        without_argument(parser)

    def run(self, **options: Any) -> dict[str, Any]:
        study = study_named(options["study"])
        output: Path | None = options["output"]
        if output is None and not options["json"]:
            raise Usage("name the page by --output FILE.html, or ask for the results by --json")
        if output is not None:
            _writable(output)
        run = run_by_id(options["run"]) if options["run"] is not None else None
        table: Path | None = options["bots"]
        own = None
        if table is not None:
            own = bot_columns_read(table.read_bytes(), list(study_bots(study)), table.name)
        counted: dict[str, Any] = {
            "include_synthetic": options["include_synthetic"],
            "without": without_asked([study], options["without"]),
        }
        data = study_data(
            study,
            **counted,
            own=own,
            turned=[name.strip() for name in options["turned"].split(",") if name.strip()],
        )
        if data is None and compares_pairs(study):
            return self._of_pairs(study, output, counted)
        if data is None:
            raise LookupError(
                f"study {study.key} has no ratings yet, so there is nothing to report"
            )
        is_usual = run is None and own is None and not data.turned

        @cache
        def result(part: str) -> Any:
            question = Question(study, part, **counted)
            stored = stored_now(question) if is_usual else None
            return PARTS[part].make(data, run) if stored is None else stored.result

        if output is None:
            found = {part: result(part).to_json() for part in self.progress(list(PARTS))}
            return {"study": study.key, **found, "hybrid": hybrid_json(study, counted["without"])}
        frame = study_frame(study, data.facts, **counted)
        steps = list(report_steps(frame, result))
        sections = [make() for _title, make in self.progress(steps, what="Report")]
        page = report_html(report_of(frame, result, sections))
        output.write_text(page, encoding="utf-8")
        return {"file": str(output)}

    def _of_pairs(
        self, study: Study, output: Path | None, counted: dict[str, Any]
    ) -> dict[str, Any]:
        """Write or return the report of a study whose people compare pairs."""
        report = pair_report(study, **counted)
        if report is None:
            raise LookupError(
                f"study {study.key} has no judgements yet, so there is nothing to report"
            )
        if output is not None:
            output.write_text(report_html(report), encoding="utf-8")
            return {"file": str(output)}
        found = study_pairs(study, **counted)
        return {
            "study": study.key,
            "pairs": found.results.to_json() if found.results else None,
            "beside": found.other.key if found.other else None,
            "one_turn": found.compared.to_json() if found.compared else None,
        }

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(f"The report is in {result['file']}")


def _writable(output: Path) -> None:
    """Refuse a place where no file can be written.

    Raises:
        LookupError: with what would be right.
    """
    if not output.resolve().parent.is_dir():
        raise LookupError(f"there is no folder {output.resolve().parent}")
    if output.is_dir():
        raise LookupError(f"{output} is a folder; name a file, such as {output / 'report.html'}")
