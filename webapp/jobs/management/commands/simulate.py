"""`simulate [STUDY] --participant NAME …`: simulate participants.

`--json` prints the same as `selfplay --json`, with a row of `pairs` for each participant and bot.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from chatbots.participants.profiles import profiles_read
from webapp.core.management.base import Usage, whole_number
from webapp.jobs.management.command_line import study_named
from webapp.jobs.management.commands.selfplay import Command as SelfPlayCommand
from webapp.jobs.management.commands.selfplay import split_names
from webapp.jobs.models import SelfPlayRun
from webapp.jobs.services.selfplay import N_CONVERSATIONS
from webapp.jobs.services.simulation import simulation_create


class Command(SelfPlayCommand):
    help = "Let simulated participants chat with bots, on Celery workers or in this process."
    name = "simulate"

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "study",
            nargs="?",
            metavar="STUDY",
            help="study whose participants are simulated; without it, --bots is required",
        )
        parser.add_argument(
            "--participant",
            action="append",
            default=[],
            metavar="NAME",
            help="simulated participant, such as retrieval; repeatable",
        )
        parser.add_argument("--bots", metavar="A,B", help="bot ids (default: the study's bots)")
        parser.add_argument(
            "--conversations",
            type=whole_number(1),
            default=N_CONVERSATIONS,
            help="number of conversations per participant and bot",
        )
        parser.add_argument(
            "--exchanges",
            type=whole_number(1),
            metavar="N",
            help="exchanges per conversation (default: as in the participants' chats)",
        )
        parser.add_argument("--may-leave", action="store_true", help="allow participants to leave early")
        parser.add_argument(
            "--profiles", type=Path, metavar="FILE", help="file of personas, goals and moods to draw from"
        )
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--max-cost", type=float, metavar="X", help="cost limit of the run")
        parser.add_argument(
            "--metrics",
            default="",
            metavar="a,b",
            help="metrics to compute afterwards (default: those computed by default)",
        )
        parser.add_argument("--name", default="")
        parser.add_argument("--run", type=int, metavar="ID", help="continue this run")
        parser.add_argument("--inline", action="store_true", help="without Celery")
        parser.add_argument("--no-wait", action="store_true", help="do not wait for the run to finish")

    def new_run(self, options: dict[str, Any]) -> SelfPlayRun:
        if not options["participant"] or not (options["study"] or options["bots"]):
            raise Usage("name a participant, such as --participant scripted, and either a study or --bots")
        return simulation_create(
            study=study_named(options["study"]) if options["study"] else None,
            participants=options["participant"],
            bots=split_names(options["bots"] or ""),
            n_conversations=options["conversations"],
            n_exchanges=options["exchanges"],
            may_leave=options["may_leave"],
            profiles=profiles_read(options["profiles"]) if options["profiles"] else (),
            seed=options["seed"],
            max_cost=options["max_cost"],
            metrics=split_names(options["metrics"]),
            name=options["name"],
            enqueue=not options["inline"],
        )
