"""`list_bots [--remote [ID]]`: all registered bots, or public checkpoints."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from chatbots.remote_models import remote_get, remote_list
from webapp.bots.selectors import bot_entry_list
from webapp.core.management.base import ConfabCommand


class Command(ConfabCommand):
    help = "List all registered bots, with the reason if one is not available."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--remote",
            nargs="?",
            const="",
            metavar="ID",
            help="list public checkpoints that can be added, or print the bots.yaml entry of one; downloads nothing",
        )

    def run(self, **options: Any) -> list[dict[str, Any]]:
        self._remote = options["remote"]
        entries = bot_entry_list()
        if self._remote is not None:
            added = {entry.id for entry in entries}
            models = [remote_get(self._remote)] if self._remote else remote_list()
            return [
                {
                    "id": model.id,
                    "name": model.name,
                    "model": model.model,
                    "licence": model.licence,
                    "parameters": model.parameters,
                    "download_mb": model.download_mb,
                    "about": model.about,
                    "added": model.id in added,
                    "entry": model.entry,
                }
                for model in models
            ]
        return [
            {
                "id": entry.id,
                "name": entry.name,
                "kind": entry.kind,
                "available": entry.is_offered,
                "reason": entry.reason or (entry.trouble if entry.is_set_aside else None),
            }
            for entry in entries
        ]

    def present(self, result: list[dict[str, Any]]) -> None:
        width = max((len(entry["id"]) for entry in result), default=0)
        if self._remote is not None:
            for entry in result:
                added = ", added" if entry["added"] else ""
                self.stdout.write(
                    f"{entry['id']:{width}}  {entry['model']} ({entry['parameters']} parameters, "
                    f"{entry['licence']}, {entry['download_mb']} MB to download{added})"
                )
                self.stdout.write(f"{'':{width}}  {entry['about']}")
            if self._remote:
                self.stdout.write(f"\nIn {settings.CONFAB_BOTS}:\n")
                self.stdout.write(remote_get(self._remote).snippet)
            else:
                self.stdout.write(
                    "Add one on the dashboard's page Bots, or print its entry for bots.yaml with "
                    f"`{settings.CONFAB_PROGRAM} list_bots --remote ID`."
                )
            return
        for entry in result:
            state = "available" if entry["available"] else f"not available: {entry['reason']}"
            self.stdout.write(f"{entry['id']:{width}}  {entry['kind']:12} {state}")
