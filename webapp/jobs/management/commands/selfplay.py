"""`selfplay --bots A,B [--study KEY] …`: let bots converse.

`--json` prints `{"run", "bots": {ID: {"conversations", "turns"}}}`. With `--pairs all` a bot's numbers cover all
conversations in which it answers, and `"pairs": [{"first", "bot", "conversations", "turns"}]` has a row per pair: the
bot that begins, and the one that answers.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings

from webapp.core.management.base import ConfabCommand, Usage, whole_number
from webapp.jobs import queue
from webapp.jobs.management.command_line import follow_job, study_named
from webapp.jobs.models import SelfPlayRun
from webapp.jobs.selectors.selfplay import PAIRS, run_by_id, selfplay_by_pair, selfplay_summary
from webapp.jobs.services.jobs import job_restart, job_settle
from webapp.jobs.services.selfplay import N_CONVERSATIONS, N_TURNS, run_create


class Command(ConfabCommand):
    help = "Let bots converse with themselves or each other, on Celery workers or in this process."
    name = "selfplay"

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--bots", metavar="A,B", help="bot ids (see list_bots)")
        parser.add_argument(
            "--study", metavar="KEY", help="study whose reply filters are applied; without --bots, its bots converse"
        )
        parser.add_argument(
            "--pairs",
            choices=PAIRS,
            default="self",
            help="self: each bot with itself; all: also every pair of bots, with each of the two starting",
        )
        parser.add_argument(
            "--conversations",
            type=whole_number(1),
            default=N_CONVERSATIONS,
            help="number of conversations per bot or pair",
        )
        parser.add_argument("--turns", type=whole_number(1), default=N_TURNS, help="per conversation")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--openers", type=Path, metavar="FILE", help="opening messages, one per line")
        parser.add_argument("--metrics", default="", metavar="a,b", help="metrics to compute afterwards")
        parser.add_argument("--name", default="")
        parser.add_argument("--run", type=int, metavar="ID", help="continue this run")
        parser.add_argument("--inline", action="store_true", help="without Celery")
        parser.add_argument("--no-wait", action="store_true", help="do not wait for the run to finish")

    def run(self, **options: Any) -> dict[str, Any]:
        is_new = options["bots"] is not None or options["study"] is not None
        if is_new == (options["run"] is not None):
            raise Usage("give --bots or --study for a new run, or --run to continue one")
        if options["inline"] and options["no_wait"]:
            raise Usage("--inline and --no-wait exclude each other")
        inline = options["inline"]
        run = self._goes_on(options["run"], inline) if options["run"] else self.new_run(options)
        label, unit = str(run).capitalize(), "conversations"
        if not options["no_wait"]:
            run = follow_job(
                run,
                label=label,
                unit=unit,
                note=self.note,
                go_on=(
                    f"{label} is still running; follow it in the dashboard or with `{settings.CONFAB_PROGRAM} "
                    f"{self.name} --run {run.pk}`"
                ),
                inline=inline,
            )
        return self._result(run)

    def new_run(self, options: dict[str, Any]) -> SelfPlayRun:
        """Create the run that the options describe."""
        openers: list[str] = []
        if options["openers"]:
            lines = options["openers"].read_text(encoding="utf-8").splitlines()
            openers = [line.strip() for line in lines if line.strip()]
            if not openers:
                raise Usage(f"{options['openers']} is empty; write one opening message per line")
        study = None if options["study"] is None else study_named(options["study"])
        bot_ids = split_names(options["bots"] or "")
        return run_create(
            bots=bot_ids or (study.bots if study is not None else []),
            study=study,
            pairs=options["pairs"],
            n_conversations=options["conversations"],
            n_turns=options["turns"],
            seed=options["seed"],
            openers=openers,
            metrics=split_names(options["metrics"]),
            name=options["name"],
            enqueue=not options["inline"],
        )

    def _goes_on(self, run_id: int, inline: bool) -> SelfPlayRun:
        run = job_settle(job=run_by_id(run_id))
        if run.can_go_on:
            run = job_restart(job=run, enqueue=not inline)
        elif not run.is_over and not inline:
            queue.send(run)
        return run

    def _result(self, run: SelfPlayRun) -> dict[str, Any]:
        played = selfplay_by_pair(run)
        for pair, counts in played.items():
            if counts.failed:
                n = f"{counts.failed} conversation{'' if counts.failed == 1 else 's'}"
                self.note(f"{n} of {pair} failed: {counts.error}")
        bots = {
            bot_id: {"conversations": counts.conversations, "turns": counts.turns}
            for bot_id, counts in selfplay_summary(run).items()
        }
        result: dict[str, Any] = {"run": run.pk, "bots": bots}
        if len(played) > len(bots) or run.is_simulated:
            result["pairs"] = [
                {"first": pair.first, "bot": pair.bot_id, "conversations": counts.conversations, "turns": counts.turns}
                for pair, counts in played.items()
            ]
        return result

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(f"Run {result['run']}")
        rows = result.get("pairs") or [{"bot": bot_id, **counts} for bot_id, counts in result["bots"].items()]
        for row in rows:
            first = row.get("first", row["bot"])
            speakers = row["bot"] if first == row["bot"] else f"{first} with {row['bot']}"
            self.stdout.write(f"  {speakers}: {row['conversations']} conversations, {row['turns']} turns")


def split_names(text: str) -> list[str]:
    """Split a text into the names between its commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
