"""`evaluate_metrics (--data FILE | --study KEY) --metrics a,b`: agreement.

With `--against COLUMN` each metric is also compared with another one on the same replies: the gain in agreement with
its interval. If a study's participants compare two replies or chats, each metric chooses the one with the better score,
and its choices are listed next to theirs; `--judged FILE.csv` adds a judge's. `--target DIMENSION` selects the rating.
`--scores FILE` also writes the scores of each reply.
`--like grade2020` prints the tables of a paper.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from chatbots.text import quote
from evaluation.agreement.paper_tables import BENCHMARK_PAPERS, paper_tables, print_paper_table
from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.management.base import ConfabCommand, Usage
from webapp.jobs.management.command_line import reply_bar, scoring_arguments, study_named
from webapp.jobs.management.commands.selfplay import split_names
from webapp.jobs.selectors.metrics import language_name
from webapp.ratings.paired_comparisons import study_judged, study_judgements, study_pair_chats, study_pair_items
from webapp.ratings.services import without_argument, without_option
from webapp.studies.protocols.base import get_protocol
from webapp.transfer.exporters.base import ExportColumn
from webapp.transfer.writers import FORMATS, Format, write_file

if TYPE_CHECKING:
    from evaluation.agreement.metric_agreement import JudgedReplies, MetricAgreement
    from evaluation.data.items import ChatPair, ReplyItem
    from evaluation.data.result_tables import NamedTable
    from webapp.studies.models import Study

_READ_FOR_LANGUAGE = 500
"""Number of replies read to detect a file's language."""


class Command(ConfabCommand):
    help = "Correlate turn-level metrics with human scores of single replies."
    _tables: Sequence[tuple[str, NamedTable]] = ()

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument(
            "--data", type=Path, metavar="FILE", help=".jsonl or .jsonl.gz with one rated reply per line"
        )
        source.add_argument(
            "--study",
            metavar="KEY",
            help=(
                "study whose rated replies are used: its items, annotated replies and votes, or the pairs that "
                "participants compared"
            ),
        )
        parser.add_argument(
            "--judged",
            type=Path,
            metavar="FILE.csv",
            help="for a study that compares pairs: the output of judge_pairs, to show next to the metrics",
        )
        parser.add_argument(
            "--against",
            default="",
            metavar="COLUMN",
            help="metric or column to compare each metric with, on the same replies",
        )
        parser.add_argument(
            "--max-over-raters",
            action="store_true",
            help=(
                "also print the best correlation with any single rater, as in PONE's paper, and Human (mean) and (max)"
            ),
        )
        parser.add_argument(
            "--scores",
            type=Path,
            metavar="FILE",
            help="also write the scores of each reply to this .csv, .jsonl or .parquet file",
        )
        parser.add_argument(
            "--like",
            choices=BENCHMARK_PAPERS,
            default="",
            help="print the tables of this paper, with the published values; the JSON does not change",
        )
        without_argument(parser)
        parser.add_argument("--include-synthetic", action="store_true")
        scoring_arguments(
            parser,
            metrics="metrics, or single columns of metrics",
            target="rating dimension to compare with (default: the only one, else `overall`, else the first)",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        from evaluation.agreement.metric_agreement import judge
        from evaluation.metrics.text_cache import TextCache
        from webapp.bots.selectors import text_store

        metric_names = split_names(options["metrics"])
        if not metric_names:
            raise Usage("--metrics is empty; name at least one metric")
        scores_format = None if options["scores"] is None else _scores_format(options["scores"])
        if options["study"] is not None and get_protocol(study := study_named(options["study"])).compares_pairs:
            of_replies = ("against", "max_over_raters", "scores", "like")
            if option := next((name for name in of_replies if options[name]), None):
                raise Usage(
                    f"--{option.replace('_', '-')} needs scores of single replies; this study compares pairs; remove it"
                )
            return self._compare_choices(study, metric_names, options)
        if options["judged"] is not None:
            raise Usage("--judged needs a --study in which participants compare two replies or two chats")
        judgements = self._judgements(options)
        target = judgements.target(options["target"])  # without any, the error lists the lines
        for line in judgements.lines:
            self.note(f"skipped: {line}")
        if not options["target"] and len(judgements.targets) > 1:
            other_targets = ", ".join(name for name in judgements.targets if name != target)
            self.note(f"compared with human scores of {quote(target)}; --target selects another: {other_targets}")
        agreements = judge(
            judgements,
            metric_names,
            target=target,
            against=options["against"],
            by_best_rater=options["max_over_raters"],
            shared=TextCache(options["device"], store=text_store()),
            progress=reply_bar,
        )
        for name, agreement in agreements.items():
            if agreement.unavailable:
                self.note(f"{name} is skipped: {agreement.unavailable}")
        if all(agreement.unavailable for agreement in agreements.values()):
            raise CommandError("none of the metrics can be computed here")
        if scores_format is not None:
            if options["study"] is not None:
                record(DOWNLOAD, study, file="scores")
            self._write_scores(options["scores"], scores_format, judgements, agreements)
        self._note_languages(judgements, [name for name, agreement in agreements.items() if agreement.columns])
        if options["like"]:
            title = options["data"].name if options["data"] is not None else options["study"]
            self._tables = paper_tables(options["like"], title, judgements, agreements)
        return {name: agreement.to_json() for name, agreement in agreements.items()}

    def _write_scores(
        self, path: Path, scores_format: Format, judgements: JudgedReplies, agreements: dict[str, MetricAgreement]
    ) -> None:
        from evaluation.agreement.reply_scores import ReplyScores

        scores = ReplyScores.from_agreements(judgements, agreements)
        columns = [ExportColumn(*column) for column in scores.columns]
        n = write_file(path, scores_format, columns, scores.rows())
        self.note(f"scores of {n:,} replies are in {path}")

    def _note_languages(self, judgements: JudgedReplies, metric_names: Sequence[str]) -> None:
        """List the metrics that are not valid for a data set's language."""
        from evaluation.data.languages import holds_for, languages_of_sets
        from evaluation.metrics.registry import metric_and_columns

        items = judgements.items[:: max(1, len(judgements.items) // _READ_FOR_LANGUAGE)]
        for source, code in languages_of_sets((item.source, [*item.context, item.response]) for item in items).items():
            metrics = {name: metric_and_columns(name)[0] for name in metric_names}
            unsuitable = [
                name for name, metric in metrics.items() if not holds_for(getattr(metric, "languages", None), code)
            ]
            if unsuitable:
                self.note(
                    f"the replies{f' of {source}' if source else ''} appear to be in {language_name(code)}, for "
                    f"which these metrics are not valid: {', '.join(unsuitable)}"
                )

    def _compare_choices(self, study: Study, metric_names: list[str], options: dict[str, Any]) -> dict[str, Any]:
        from evaluation.agreement.llm_judge import judged_file_read
        from evaluation.agreement.preference_benchmark import choose, judge_everywhere
        from evaluation.metrics.text_cache import TextCache
        from webapp.bots.selectors import text_store

        selection: dict[str, Any] = {
            "include_synthetic": options["include_synthetic"],
            "excluded_flags": without_option([study], options["without"]),
        }
        people = study_judgements(study, **selection)
        if people is None or not len(people):
            raise CommandError(f"{study.key} has no comparisons of replies or chats yet")
        items: list[ReplyItem] | list[ChatPair] = list(study_pair_items(study))
        items = items or list(study_pair_chats(study, **selection))
        choices = choose(
            people,
            items,
            metric_names,
            question=options["target"],
            shared=TextCache(options["device"], store=text_store()),
            progress=reply_bar,
        )
        if options["judged"] is not None:
            questions = [options["target"] or people.leading]
            [judge] = judge_everywhere(people, judged_file_read(options["judged"]), questions).values()
            choices[judge.name] = judge
        if all(choice.unavailable for choice in choices.values()):
            raise CommandError("none of the metrics can be computed here")
        return {name: choice.to_json() for name, choice in choices.items()}

    def _judgements(self, options: dict[str, Any]) -> JudgedReplies:
        from evaluation.agreement.metric_agreement import judgements_of, judgements_read

        if options["study"] is None:
            if options["without"] or options["include_synthetic"]:
                raise Usage("--without and --include-synthetic need --study: a file has no flags")
            return judgements_read(options["data"])
        study = study_named(options["study"])
        return judgements_of(
            study_judged(
                study,
                include_synthetic=options["include_synthetic"],
                without=without_option([study], options["without"]),
            )
        )

    def present(self, result: dict[str, Any]) -> None:
        from evaluation.agreement.agreement_table import agreements_printed
        from evaluation.agreement.preference_benchmark import choices_printed

        if any("n_pairs" in row for row in result.values()):
            self.stdout.write(choices_printed(result))
            return
        if self._tables:
            self.stdout.write("\n".join(print_paper_table(name, table) for name, table in self._tables))
            return
        self.stdout.write(agreements_printed(result))


def _scores_format(path: Path) -> Format:
    """Return the format by a file's ending.

    Raises:
        Usage: the ending is unknown, or there is no such folder.
    """
    for known_format in FORMATS:
        if path.name.lower().endswith(f".{known_format}"):
            if not path.parent.is_dir():
                raise Usage(f"--scores: there is no folder {path.parent}; create it first")
            return known_format
    raise Usage(f"--scores {path} must end in {', '.join(f'.{known_format}' for known_format in FORMATS)}")
