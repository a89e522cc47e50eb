"""`make_links --study KEY --number N`."""

from __future__ import annotations

import csv
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.db import transaction

from chatbots.text import quote
from webapp.core.errors import Refused
from webapp.core.management.base import ConfabCommand
from webapp.core.processes import server_address
from webapp.studies.models import Study
from webapp.studies.recruitment.links import link_table, links_make
from webapp.studies.selectors import study_by_key


class Command(ConfabCommand):
    help = "Create a list of one-time links, one per participant, and write it as CSV."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", required=True, metavar="KEY")
        parser.add_argument("--number", type=int, required=True, metavar="N", help="of links")
        parser.add_argument("--output", type=Path, required=True, metavar="FILE.csv")
        parser.add_argument("--label", default="", help="purpose of the links")
        parser.add_argument("--days", type=int, help="days until the links expire (default: never)")
        parser.add_argument(
            "--address", metavar="URL", help="public address of this server (default: the server running here)"
        )

    def run(self, **options: Any) -> dict[str, Any]:
        try:
            study = study_by_key(options["study"])
        except Study.DoesNotExist:
            raise Refused("not_found", f"there is no study {quote(options['study'])}") from None
        path: Path = options["output"]
        address = options["address"] or server_address()
        link = f"{address.rstrip('/')}/s/{study.key}/"
        with transaction.atomic():  # do not create links that cannot be written
            batch = links_make(study=study, n=options["number"], label=options["label"], days=options["days"])
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(link_table(study, link, batch))
        return {"links": options["number"], "list": batch, "file": str(path)}

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(f"{result['links']} links were written to {result['file']}.")
