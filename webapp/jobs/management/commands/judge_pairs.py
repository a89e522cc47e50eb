"""`judge_pairs (--data FILE | --study KEY) [--judge NAME] [--max-requests N] [--output FILE.csv]`.

`--json` prints `{"judge", "n", "n_requests", "refused", "unanswered", "trouble", "kinds", "position_bias", "changed",
"length_bias", "left_out", "people"}`; for a study, `people` has by question the agreement of its choices with
participants' choices on the same pairs, and the correlation of theirs with length.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from webapp.core.management.base import ConfabCommand, whole_number
from webapp.jobs.management.command_line import study_named
from webapp.ratings.paired_comparisons import study_judgements, study_pair_chats, study_pair_items


class Command(ConfabCommand):
    help = "Ask a language model which of two replies or chats is better, for each pair in both orders."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument(
            "--data",
            type=Path,
            metavar="FILE",
            help=".jsonl or .jsonl.gz, one pair per line: response, model, second_response, second_model",
        )
        source.add_argument("--study", metavar="KEY", help="study whose pairs of replies or compared chats are used")
        parser.add_argument("--judge", default="judge", metavar="NAME", help="metric of kind judge (see metrics.yaml)")
        parser.add_argument(
            "--max-requests",
            type=whole_number(2),
            help="maximum number of requests in this run, two for each pair (default: the judge's own limit)",
        )
        parser.add_argument(
            "--output",
            type=Path,
            metavar="FILE.csv",
            help="output with one row per pair, readable by confab.rank; pairs already in this file are skipped",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        from evaluation.agreement.llm_judge import NO_SECOND, JudgedFile, in_batches
        from evaluation.data.items import ChatPair, ReplyItem
        from evaluation.metrics.judge import CHATS_PROMPT, PAIR_PROMPT, JudgeMetric
        from evaluation.metrics.registry import metric_get

        judge = metric_get(options["judge"])
        if not isinstance(judge, JudgeMetric):
            raise CommandError(f"{options['judge']} is not a metric of kind judge")
        if reason := judge.unavailable_reason():
            raise CommandError(f"{judge.name} is not available: {reason}")
        judge = judge.fresh(options["max_requests"])
        items: dict[str, ReplyItem | ChatPair] = {}
        left_out: Counter[str] = Counter()
        for item in self._items(options, left_out):
            if isinstance(item, ReplyItem) and item.second_response is None:
                left_out[NO_SECOND] += 1
            elif item.key in items:
                left_out["another pair has the same id"] += 1
            else:
                items[item.key] = item
        if not items:
            raise CommandError("there are no pairs of replies or chats to judge")
        output: Path | None = options["output"]
        of_chats = any(isinstance(item, ChatPair) for item in items.values())
        prompt = CHATS_PROMPT if of_chats else PAIR_PROMPT
        file = JudgedFile(output, judge, prompt=prompt) if output is not None else None
        if file is None:
            self.note("the judgements are not saved; use --output to save them")
        known = [judged_pair for judged_pair in file.known if judged_pair.item in items] if file is not None else []
        judgements = in_batches(
            judge, list(items.values()), known, file.keep if file is not None else lambda pairs: None
        )
        return {
            **judgements.to_json(),
            "left_out": dict(left_out),
            "people": self._compare_with_people(options["study"], judgements.pairs),
        }

    def _compare_with_people(self, key: str | None, pairs: Sequence[Any]) -> dict[str, Any]:
        """Return the judge's agreement with the participants by question.

        {} without any.
        """
        from evaluation.agreement.preference_benchmark import compare_choices, judge_chosen, people_length_bias

        people = study_judgements(study_named(key)) if key is not None else None
        if people is None or not len(people):
            return {}
        chosen = judge_chosen(pairs)
        return {
            question: {
                **compare_choices(people, chosen, question).to_json(),
                "length": people_length_bias(people, pairs, question).to_json(),
            }
            for question in people.titles
        }

    def _items(self, options: dict[str, Any], left_out: Counter[str]) -> Iterator[Any]:
        from evaluation.data.formats.base import Skipped
        from evaluation.data.items import items_read

        if options["study"] is not None:
            study = study_named(options["study"])
            yield from list(study_pair_items(study)) or study_pair_chats(study)
            return
        for record in items_read(options["data"]):
            if isinstance(record, Skipped):
                self.note(f"skipped: line {record.line}: {record.reason}")
                left_out["the line is not an item"] += 1
            else:
                yield record.item

    def present(self, result: dict[str, Any]) -> None:
        from evaluation.number_format import figure, percent, share, span

        position, changed, length = (result[name] for name in ("position_bias", "changed", "length_bias"))

        def format_interval(estimate: dict[str, Any]) -> str:
            return span(*(estimate["ci95"] or (None, None)), shares=True)

        write = self.stdout.write
        write(
            f"{result['judge']}: {result['n']} pairs judged in both orders, {result['n_requests']} requests in this run"
        )
        for kind, n in result["kinds"].items():
            write(f"{n} pairs: {kind}")
        write(
            f"position bias (preference for the first position, −.5 to .5): {share(position['value'])} "
            f"{format_interval(position)}"
        )
        write(f"preference changed when the order was swapped: {percent(changed['value'])} {format_interval(changed)}")
        correlation = "undefined" if length["r"] is None else figure(length["r"])
        write(f"correlation of preference with greater length (Spearman): {correlation} {format_interval(length)}")
        for question, agreement in result["people"].items():
            length = agreement["length"]
            correlation = "undefined" if length["r"] is None else figure(length["r"])
            write(
                f"correlation of the human {question} with greater length (Spearman): {correlation} "
                f"{format_interval(length)}"
            )
        if result["people"]:
            from evaluation.agreement.preference_benchmark import choices_printed

            for agreement in result["people"].values():
                write(choices_printed({result["judge"]: agreement}))
        if result["refused"]:
            write(f"{result['refused']} pairs were not judged: the limit was reached, or a whole batch got no answer")
        if result["unanswered"]:
            write(f"{result['unanswered']} pairs got no answer: {result['trouble']}")
        for reason, n in result["left_out"].items():
            write(f"skipped {n} × {reason}")
