"""`rehearse --study KEY --people N`: fill a study with scripted participants."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser
from typing import Any

import httpx
from tqdm import tqdm

from chatbots.text import quote
from webapp.core.errors import Refused
from webapp.core.management.base import ConfabCommand, whole_number
from webapp.core.processes import server_address
from webapp.participant.simulated import ScriptedVisit, rehearse
from webapp.participant.simulated.answers import script_in
from webapp.studies.models import Study
from webapp.studies.selectors import rehearsal_token, study_by_key


class Command(ConfabCommand):
    help = (
        "Send scripted participants through a study on a running server. They are marked synthetic and excluded "
        "from fits and exports unless included explicitly."
    )

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", required=True, help="key of the study")
        parser.add_argument("--people", type=whole_number(1), default=12, help="number of participants")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--url", default=None, help="address of the server (default: the server running here)")

    def run(self, **options: Any) -> dict[str, Any]:
        url = options["url"] or server_address()
        try:
            study = study_by_key(options["study"])
        except Study.DoesNotExist:
            raise Refused("not_found", f"there is no study {quote(options['study'])}") from None
        try:
            answer = httpx.get(f"{url}/healthz", timeout=10)
            if answer.has_redirect_location and answer.headers["Location"].startswith("https:"):
                raise Refused(
                    "no_server",
                    f"{url} redirects to {answer.headers['Location']}: this server expects a TLS proxy; use the "
                    "proxy's address, such as --url https://confab.example.org",
                )
        except httpx.HTTPError as error:
            raise Refused("no_server", f"no server answers at {url} ({error}); start it with `make run`") from None
        with tqdm(total=options["people"], file=sys.stderr, disable=not sys.stderr.isatty()) as bar:
            results = asyncio.run(
                rehearse(
                    base_url=url,
                    study_key=study.key,
                    rehearsal_token=rehearsal_token(study),
                    script=script_in(study.values.texts.language),
                    n_people=options["people"],
                    seed=options["seed"],
                    on_played=lambda _played: bar.update() and None,
                )
            )
        played = [result for result in results if isinstance(result, ScriptedVisit)]
        failures = [str(result) for result in results if not isinstance(result, ScriptedVisit)]
        if not played:
            raise Refused("none_played", f"no participant reached the end: {failures[0]}")
        return {
            "study": study.key,
            "people": len(results),
            "done": len(played),
            "exchanges": sum(result.n_exchanges for result in played),
            "pages": sum(result.n_pages for result in played),
            "failed": failures,
        }
