"""`erase --study KEY (--participant ID | --external-id ID)`."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from webapp.core.management.base import ConfabCommand, Usage
from webapp.studies.erasure import participants_erase
from webapp.studies.models import Participant, Study
from webapp.studies.selectors import study_by_key


class Command(ConfabCommand):
    help = "Remove a person's messages, votes, ratings and ids from a study. There is no way back."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", required=True, metavar="KEY")
        who = parser.add_mutually_exclusive_group(required=True)
        who.add_argument("--participant", type=UUID, metavar="ID", help="the id in exports")
        who.add_argument(
            "--external-id", metavar="ID", help="the id on the recruitment platform, or in a file"
        )

    def run(self, **options: Any) -> dict[str, Any]:
        if options["external_id"] == "":
            raise Usage("--external-id is empty; people without one are named by --participant")
        try:
            study = study_by_key(options["study"])
        except Study.DoesNotExist:
            raise LookupError(f"there is no study {options['study']!r}") from None
        if options["participant"]:
            asked = f"with the id {options['participant']}"
            found = Participant.objects.filter(study=study, pk=options["participant"])
        else:
            asked = f"whom a platform calls {options['external_id']!r}"
            found = Participant.objects.filter(
                study=study, platform_ids__external_id=options["external_id"]
            )
        if not found.exists():
            raise LookupError(f"study {study.key!r} has no participant {asked}")
        return {"removed": participants_erase(participants=found, notes=True)}

    def present(self, result: dict[str, Any]) -> None:
        for table, n in result["removed"].items():
            self.stdout.write(f"{n:>8} {table}")
