"""`erase --study KEY …` or `erase --due`: erase participants' data.

The study needs one of --participant ID, --external-id ID, --people, --ids and --texts.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from chatbots.text import quote, sanitise_id
from webapp.core.management.base import ConfabCommand, Usage
from webapp.studies.models import Erasure, Participant, Study
from webapp.studies.privacy import erasure_counts, participants_erase
from webapp.studies.privacy.retention import ids_erase, retention_due, retention_run, texts_counts, texts_erase
from webapp.studies.selectors import study_by_key

_NOT_TOUCHED = (
    "Their data in Confab's data folder have been deleted, too: exports, packages, reports, results, uploads. Not "
    "deleted: downloaded files and files written by --output, lines in logs, PostgreSQL's own files until its next "
    "vacuum, and backups. This installation has these backups:"
)


class Command(ConfabCommand):
    help = (
        "Erase a participant, everyone, recruitment ids or texts from a study, or everything due for retention in "
        "all studies. This cannot be undone; backups and downloaded files are not erased."
    )

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", metavar="KEY")
        target = parser.add_mutually_exclusive_group(required=True)
        target.add_argument("--participant", type=UUID, metavar="ID", help="the participant's id in exports")
        target.add_argument(
            "--external-id", metavar="ID", help="the participant's id on the recruitment platform, or in a file"
        )
        target.add_argument("--people", action="store_true", help="all participants of the study")
        target.add_argument(
            "--ids", action="store_true", help="the recruitment ids of all participants; their work is kept"
        )
        target.add_argument(
            "--texts", action="store_true", help="messages, replies, comments and answers in words; ratings are kept"
        )
        target.add_argument("--due", action="store_true", help="everything that is due for retention in all studies")
        parser.add_argument("--dry-run", action="store_true", help="count what would be erased, without erasing it")

    def run(self, **options: Any) -> dict[str, Any]:
        is_dry = options["dry_run"]
        if options["due"]:
            if options["study"]:
                raise Usage("--due covers all studies; leave --study out")
            return self._due(is_dry)
        if not options["study"]:
            raise Usage("--study is missing; name the study to erase from")
        if options["external_id"] == "":
            raise Usage("--external-id is empty; use --participant for participants without one")
        try:
            study = study_by_key(options["study"])
        except Study.DoesNotExist:
            raise LookupError(f"there is no study {quote(options['study'])}") from None
        if options["texts"]:
            removed = texts_counts(study) if is_dry else texts_erase(study=study)
            return {"removed": removed, "dry_run": is_dry}
        people = Participant.objects.filter(study=study)
        if options["ids"]:
            people = people.filter(platform_ids__isnull=False)
            if is_dry:
                return {"removed": {"platform_ids": people.count()}, "dry_run": True}
            return {"removed": ids_erase(people=people, kind=Erasure.Kind.ASKED), "dry_run": False}
        participants = self._people(study, options)
        if is_dry:
            return {"removed": erasure_counts(participants), "dry_run": True}
        return {"removed": participants_erase(participants=participants, notes=True), "dry_run": False}

    def _people(self, study: Study, options: dict[str, Any]) -> Any:
        people = Participant.objects.filter(study=study)
        if options["people"]:
            return people
        if options["participant"]:
            description = f"with the id {options['participant']}"
            participants = people.filter(pk=options["participant"])
        else:
            description = f"with the recruitment id {quote(options['external_id'])}"
            participants = people.filter(
                platform_ids__external_id__in={options["external_id"], sanitise_id(options["external_id"])}
            )
        if not participants.exists():
            raise LookupError(f"study {quote(study.key)} has no participant {description}")
        return participants

    def _due(self, is_dry: bool) -> dict[str, Any]:
        done = retention_due() if is_dry else retention_run()
        removed = Counter[str]()
        for _study, _kind, counts in done:
            removed.update(counts)
        return {
            "removed": dict(removed),
            "dry_run": is_dry,
            "studies": [{"study": study.key, "what": kind, "removed": counts} for study, kind, counts in done],
        }

    def present(self, result: dict[str, Any]) -> None:
        if result["dry_run"]:
            self.stdout.write("Nothing was erased. This would be erased:")
        for erasure in result.get("studies", ()):
            self.stdout.write(f"{erasure['study']}: {erasure['what']}")
        for table, n in result["removed"].items():
            self.stdout.write(f"{n:>8} {table}")
        if not result["removed"]:
            self.stdout.write("There is nothing to erase.")
        elif not result["dry_run"]:
            self.stdout.write(_NOT_TOUCHED)
            for path in sorted((Path(settings.DATA_DIR) / "backups").glob("*")):
                self.stdout.write(f"  {path}")
